//! `quorlock status`: what each listed node does, and whether a lock can be taken.

use std::process::ExitCode;

use quorlock_client_rules::inspection::cluster_view::{ClusterView, NodeState};
use quorlock_client_rules::votes::NODES_MAX;
use quorlock_server::show_duration;
use serde_json::{Value, json};

use super::nodes::{ListedNode, Nodes};
use super::{shown, table};
use crate::clusters::{NodeList, heading, of_cluster};
use crate::duration::whole_ms;
use crate::exit_code::{Failure, NO_QUORUM};
use crate::lock_options::NodeOptions;
use crate::no_quorum;
use crate::output::{Format, remark};
use crate::runtime;

/// Arguments of `quorlock status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Shows the nodes. The exit code says whether a majority votes, of each cluster where there are several.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let clusters = arguments.nodes.clusters()?;
    let mut can_lock = true;
    for list in clusters.all() {
        can_lock &= show(arguments, list, format)?;
    }
    Ok(match can_lock {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NO_QUORUM),
    })
}

/// Shows the nodes of a cluster, and returns whether a majority votes.
fn show(arguments: &Arguments, list: &NodeList, format: Format) -> Result<bool, Failure> {
    runtime::block_on(async {
        let nodes = Nodes::connect(&arguments.nodes, list).await?;
        let view = nodes.view();
        let verdict = verdict(&view);
        let rows = nodes.all.iter().zip(&view.states);
        let text = match format {
            Format::Text => {
                let rows: Vec<_> = rows
                    .clone()
                    .map(|(node, state)| row(node, state, &nodes))
                    .collect();
                let heading = heading(list);
                format!("{heading}{}\n{verdict}", table::aligned(&HEADINGS, &rows))
            }
            Format::Json => String::new(),
        };
        let described: Vec<Value> = rows.map(|(node, state)| value(node, state)).collect();
        let value = json!({
            "votes": view.votes, "quorum": view.quorum, "can_lock": view.has_quorum(), "verdict": verdict,
            "nodes": described,
        });
        format.answer(&text, &of_cluster(value, list))?;
        if view.has_quorum() {
            return Ok(true);
        }
        if let Some(how) = no_quorum::how_to_start(nodes.labels().into_iter()) {
            remark(how);
        }
        Ok(false)
    })
}

/// One line about all of them.
pub(super) fn verdict(view: &ClusterView) -> String {
    let (votes, quorum, all) = (view.votes, view.quorum, view.states.len());
    let first = format!("{votes} of {all} nodes vote, a lock needs {quorum}:");
    if !view.has_quorum() {
        let after = match view.quorum_after() {
            Some(left) => format!(
                " for another {}, until restart delays are over",
                show_duration(left)
            ),
            None => String::new(),
        };
        return format!("{first} no lock can be taken{after}");
    }
    match votes - quorum {
        0 if all > 1 => format!("{first} locks can be taken, and no more node may fail"),
        0 => format!("{first} locks can be taken"),
        1 => format!("{first} locks can be taken, and 1 more node may fail"),
        spare => format!("{first} locks can be taken, and {spare} more nodes may fail"),
    }
}

/// What a node does, for people.
pub(super) fn words(state: &NodeState, nodes: &Nodes) -> String {
    match state {
        NodeState::Serving => "serving".to_owned(),
        NodeState::RestartDelay { left } => format!("restart delay, {} left", show_duration(*left)),
        NodeState::Starting => "starting".to_owned(),
        NodeState::LogFails => "cannot write its log: takes no locks".to_owned(),
        NodeState::MemoryFull => "its memory is full: takes no further locks".to_owned(),
        NodeState::Replica => "a replica: takes no locks".to_owned(),
        NodeState::RedisCluster => "a node of Redis Cluster: does not vote".to_owned(),
        NodeState::SameNode(other) => {
            let labels = nodes.labels();
            format!(
                "the same node as {}: votes once",
                labels.get(*other).unwrap_or(&"another")
            )
        }
        NodeState::OtherCluster(cluster) => {
            format!("of the cluster {}: does not vote", shown::words(cluster))
        }
        NodeState::MixedClusters(cluster) => {
            let own = cluster.as_deref().map_or("no cluster".into(), |own| {
                format!("the cluster {}", shown::words(own))
            });
            format!("of {own}, and none has a majority of the list: does not vote")
        }
        NodeState::OtherSize(size) if *size > NODES_MAX => {
            "was removed from its cluster: does not vote".to_owned()
        }
        NodeState::OtherSize(size) => {
            format!(
                "its cluster has {size} nodes, and {} are listed",
                nodes.all.len()
            )
        }
        NodeState::Agent => "an agent and no node: does not vote".to_owned(),
        NodeState::Unidentified => "does not say who it is: does not vote".to_owned(),
        NodeState::Silent(why) => shown::words(why),
    }
}

fn row(node: &ListedNode, state: &NodeState, nodes: &Nodes) -> [String; 7] {
    let dash = || "-".to_owned();
    let asked = node.asked.as_ref().ok();
    let facts = asked.map(|asked| &asked.facts);
    let identity = facts.and_then(|facts| facts.identity.as_ref());
    let sign = |ahead: i128| if ahead > 0 { "+" } else { "" };
    [
        node.label.clone(),
        identity.map_or_else(dash, |identity| shown::token(identity.id.as_bytes())),
        asked.map_or_else(dash, |asked| format!("{} us", asked.round_trip.as_micros())),
        facts
            .and_then(|facts| facts.fsync.as_ref())
            .map_or_else(dash, |fsync| shown::words(fsync)),
        asked
            .and_then(|asked| asked.ahead_ms)
            .map_or_else(dash, |ahead| format!("{}{ahead} ms", sign(ahead))),
        facts.map_or_else(dash, |facts| shown::words(&facts.version)),
        words(state, nodes),
    ]
}

pub(super) fn value(node: &ListedNode, state: &NodeState) -> Value {
    let mut value =
        json!({ "node": node.label, "state": state.name(), "votes": *state == NodeState::Serving });
    match state {
        NodeState::RestartDelay { left } => {
            value["restart_delay_remaining_ms"] = whole_ms(*left).into()
        }
        NodeState::Silent(why) => value["why"] = why.as_str().into(),
        _ => {}
    }
    if let Ok(asked) = &node.asked {
        let facts = &asked.facts;
        let identity = facts.identity.as_ref();
        value["id"] = json!(identity.map(|identity| &*identity.id));
        value["incarnation"] = json!(identity.map(|identity| identity.incarnation));
        value["cluster_id"] = json!(facts.cluster_id.as_deref());
        value["cluster_size"] = json!(facts.cluster_size);
        value["cluster_size_next"] = json!(facts.next_size);
        value["version"] = json!(facts.version);
        value["fsync"] = json!(facts.fsync);
        value["round_trip_us"] = json!(u64::try_from(asked.round_trip.as_micros()).ok());
        value["clock_ahead_ms"] = json!(asked.ahead_ms.and_then(|ahead| i64::try_from(ahead).ok()));
        value["lock_waiters"] = json!(facts.lock_waiters);
    }
    value
}

const HEADINGS: [&str; 7] = [
    "node",
    "id",
    "round trip",
    "fsync",
    "clock",
    "version",
    "state",
];

const EXAMPLES: &str = "\
Examples:
  quorlock status
  quorlock status --json | jq .can_lock

clock is how far the node's wall clock is ahead of this machine's. Locks do not depend on it on Quorlock nodes.

Ends with 0 if a majority of the nodes votes, so that locks can be taken, and with 69 if not.";
