//! `quorlock doctor`: what is wrong with the listed nodes, or will be in a fault, and what to do about it.

use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_client_rules::address::Endpoint;
use quorlock_client_rules::inspection::findings::{self, Examined, Finding, Severity};
use serde_json::{Value, json};

use super::disk;
use super::nodes::{ListedNode, Nodes};
use super::remedies::{describe_all, value};
use super::status::verdict;
use crate::clusters::{NodeList, heading, of_cluster};
use crate::exit_code::{FAILED, Failure, NO_QUORUM};
use crate::lock_options::NodeOptions;
use crate::no_quorum;
use crate::output::{Format, remark};
use crate::runtime;

/// Arguments of `quorlock doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Ask no nodes: measure syncs in this directory, and say whether its disk may keep what it acknowledges
    ///
    /// A file is written there, synced some hundred times and removed.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["nodes", "nodes_file"])]
    dir: Option<PathBuf>,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Examines the nodes. The exit code says whether something is to be done.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    if let Some(directory) = &arguments.dir {
        return disk::examine(directory, format);
    }
    let clusters = arguments.nodes.clusters()?;
    let mut worst = Health::Well;
    for (at, list) in clusters.all().iter().enumerate() {
        let unnamed = (at == 0 && clusters.are_unnamed()).then(unnamed);
        worst = worst.max(examine(arguments, list, unnamed, format)?);
    }
    Ok(match worst {
        Health::Well => ExitCode::SUCCESS,
        Health::Found => ExitCode::from(FAILED),
        Health::NoQuorum => ExitCode::from(NO_QUORUM),
    })
}

/// What a cluster came to, the worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Well,
    Found,
    NoQuorum,
}

/// Examines the nodes of a cluster. What was found in the list itself comes last.
fn examine(
    arguments: &Arguments,
    list: &NodeList,
    in_list: Option<Finding>,
    format: Format,
) -> Result<Health, Failure> {
    runtime::block_on(async {
        let mut nodes = Nodes::connect(&arguments.nodes, list).await?;
        let settings = nodes.settings(&DIRECTIVES).await;
        let view = nodes.view();
        let examined = nodes.all.iter().zip(settings).map(examined);
        let examined: Vec<Examined> = examined.collect();
        let mut found = findings::examine(&examined, &view);
        found.extend(in_list);
        let verdict = verdict(&view);
        let labels = nodes.labels();
        let mut lines = describe_all(&found, &labels);
        if lines.is_empty() {
            lines.push("nothing was found".to_owned());
        }
        lines.push(verdict.clone());
        let values: Vec<Value> = found.iter().map(|one| value(one, &labels)).collect();
        let value = json!({
            "votes": view.votes, "quorum": view.quorum, "can_lock": view.has_quorum(), "verdict": verdict,
            "findings": values,
        });
        let text = format!("{}{}", heading(list), lines.join("\n"));
        format.answer(&text, &of_cluster(value, list))?;
        if !view.has_quorum() {
            if let Some(how) = no_quorum::how_to_start(labels.into_iter()) {
                remark(how);
            }
            return Ok(Health::NoQuorum);
        }
        Ok(
            match found.iter().any(|one| one.severity != Severity::Note) {
                true => Health::Found,
                false => Health::Well,
            },
        )
    })
}

fn unnamed() -> Finding {
    Finding {
        severity: Severity::Warning,
        node: None,
        kind: "unnamed-clusters",
        what: "the clusters of the list have no names, so their addresses decide which locks each has: a node that is replaced moves \
               locks to other clusters, and then they have two holders"
            .to_owned(),
        remedy: "name the clusters in all lists: east=a,b,c;west=d,e,f. Names move locks once, so stop all clients for it",
    }
}

fn examined((node, settings): (&ListedNode, Vec<(String, String)>)) -> Examined {
    let host = match &node.endpoint {
        Endpoint::Tcp { host, .. } => Some(host.clone()),
        _ => None,
    };
    let asked = node.asked.as_ref();
    Examined {
        address: node.label.clone(),
        host,
        fails_over: node.endpoint.fails_over(),
        facts: asked.map(|asked| asked.facts.clone()).map_err(Clone::clone),
        ahead_ms: asked.ok().and_then(|asked| asked.ahead_ms),
        settings,
    }
}

/// What is asked for with CONFIG GET, where the user may.
const DIRECTIVES: [&str; 3] = ["appendfsync", "first-start", "restart-delay"];

const EXAMPLES: &str = "\
Examples:
  quorlock doctor
  quorlock doctor --dir /var/lib/quorlock   the disk of this machine, and no node
  quorlock doctor --json | jq -r '.findings[] | .kind'

A problem keeps a node from voting, or lets a lock have two holders. A warning costs something in a fault. A
note is good to know.

Ends with 0 if there are no problems and no warnings, with 1 if there are some, and with 69 if no majority of
the nodes votes.";
