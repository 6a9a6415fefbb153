//! `quorlock doctor`: what is wrong with the listed nodes, or will be in a fault, and what to do about it.

use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_client_rules::address::Endpoint;
use quorlock_client_rules::inspection::findings::{self, Examined, Severity};
use serde_json::{Value, json};

use super::disk;
use super::nodes::{ListedNode, Nodes};
use super::remedies::{describe_all, value};
use super::status::verdict;
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
    runtime::block_on(async {
        let mut nodes = Nodes::connect(&arguments.nodes).await?;
        let settings = nodes.settings(&DIRECTIVES).await;
        let view = nodes.view();
        let examined = nodes.all.iter().zip(settings).map(examined);
        let examined: Vec<Examined> = examined.collect();
        let found = findings::examine(&examined, &view);
        let verdict = verdict(&view);
        let labels = nodes.labels();
        let mut lines = describe_all(&found, &labels);
        if lines.is_empty() {
            lines.push("nothing was found".to_owned());
        }
        lines.push(verdict.clone());
        let values: Vec<Value> = found.iter().map(|one| value(one, &labels)).collect();
        format.answer(
            &lines.join("\n"),
            &json!({
                "votes": view.votes, "quorum": view.quorum, "can_lock": view.has_quorum(), "verdict": verdict,
                "findings": values,
            }),
        )?;
        if !view.has_quorum() {
            if let Some(how) = no_quorum::how_to_start(labels.into_iter()) {
                remark(how);
            }
            return Ok(ExitCode::from(NO_QUORUM));
        }
        Ok(
            match found.iter().any(|one| one.severity != Severity::Note) {
                true => ExitCode::from(FAILED),
                false => ExitCode::SUCCESS,
            },
        )
    })
}

fn examined((node, settings): (&ListedNode, Vec<(String, String)>)) -> Examined {
    let host = match &node.endpoint {
        Endpoint::Tcp { host, .. } => Some(host.clone()),
        _ => None,
    };
    let asked = node.asked.as_ref();
    Examined {
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
