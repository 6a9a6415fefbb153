//! `quorlock doctor`: what is wrong with the listed nodes, or will be in a fault, and what to do about it.

use std::process::ExitCode;

use quorlock_client_rules::address::Endpoint;
use quorlock_client_rules::inspection::findings::{self, Examined, Finding, Severity};
use serde_json::{Value, json};

use super::nodes::{ListedNode, Nodes};
use super::shown;
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
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Examines the nodes. The exit code says whether something is to be done.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
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

/// Each finding on one line, and its remedy on the next. What is found on several nodes is said once.
fn describe_all(found: &[Finding], labels: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, finding) in found.iter().enumerate() {
        let is_same = |other: &Finding| {
            Finding {
                node: None,
                ..other.clone()
            } == Finding {
                node: None,
                ..finding.clone()
            }
        };
        if found[..at].iter().any(is_same) {
            continue;
        }
        let nodes = found[at..]
            .iter()
            .filter(|other| is_same(other))
            .filter_map(|other| labels.get(other.node?));
        let nodes: Vec<&str> = nodes.copied().collect();
        let nodes = match nodes.len() {
            0 => String::new(),
            count if count == labels.len() && count > 1 => format!("each of {count} nodes: "),
            _ => format!("{}: ", nodes.join(", ")),
        };
        let (severity, what) = (finding.severity.name(), shown::words(&finding.what));
        lines.push(format!(
            "{severity:<7}  {nodes}{what}\n         {}",
            finding.remedy
        ));
    }
    lines
}

fn value(finding: &Finding, nodes: &[&str]) -> Value {
    json!({
        "severity": finding.severity.name(),
        "kind": finding.kind,
        "node": finding.node.and_then(|node| nodes.get(node)),
        "what": finding.what,
        "remedy": finding.remedy,
    })
}

/// What is asked for with CONFIG GET, where the user may.
const DIRECTIVES: [&str; 3] = ["appendfsync", "first-start", "restart-delay"];

const EXAMPLES: &str = "\
Examples:
  quorlock doctor
  quorlock doctor --json | jq -r '.findings[] | .kind'

A problem keeps a node from voting, or lets a lock have two holders. A warning costs something in a fault. A
note is good to know.

Ends with 0 if there are no problems and no warnings, with 1 if there are some, and with 69 if no majority of
the nodes votes.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_on_several_nodes_is_said_once() {
        let found = |node, kind| Finding {
            severity: Severity::Note,
            node,
            kind,
            what: format!("{kind} it is"),
            remedy: "mend it",
        };
        let all = [
            found(Some(0), "a"),
            found(Some(1), "a"),
            found(Some(1), "b"),
            found(None, "c"),
        ];
        let lines = describe_all(&all, &["n1", "n2"]);
        assert_eq!(
            lines,
            [
                "note     each of 2 nodes: a it is\n         mend it",
                "note     n2: b it is\n         mend it",
                "note     c it is\n         mend it"
            ]
        );
    }
}
