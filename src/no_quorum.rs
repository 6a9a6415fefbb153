//! What to do where too few nodes vote: whether a wait can come to anything, and what can be done.
//!
//! A wait ends only if so many nodes cannot come back by themselves that the others are no majority:
//! they refuse this client by their settings, or they are the nodes of a local cluster that is down.
//! Nodes that are away for any other reason are waited for.

use quorlock_client::{Cause, NodeAnswer, NodeReport};

use crate::cluster::current;
use crate::exit_code::{Failure, NO_QUORUM};
use crate::output::shell_word;

/// The failure of an attempt that no wait can cure.
pub(crate) fn incurable(name: &str, needed: usize, nodes: &[NodeReport]) -> Option<Failure> {
    let count = nodes.len();
    let is_blocked = |without: usize| without + needed > count;
    let refusals: Vec<&Cause> = without_vote(nodes)
        .map(|(_, cause)| cause)
        .filter(|cause| cause.is_permanent())
        .collect();
    if is_blocked(refusals.len()) {
        let mut remedies: Vec<&str> = refusals.iter().map(|cause| remedy(cause)).collect();
        remedies.sort_unstable();
        remedies.dedup();
        let all_logins = refusals
            .iter()
            .all(|cause| matches!(cause, Cause::LoginRefused(_)));
        let what = if all_logins {
            "refuse the login"
        } else {
            "do not vote, which no wait changes"
        };
        return Some(
            Failure::new(
                NO_QUORUM,
                format!(
                    "no quorum for '{name}': {} of {count} nodes {what}, and {needed} must vote; \
                     not acquired{}",
                    refusals.len(),
                    causes(nodes)
                ),
            )
            .remedy(remedies.join("\n")),
        );
    }
    let away = without_vote(nodes).map(|(report, cause)| (&*report.node, cause));
    let stopped = stopped(unreachable(away))?;
    is_blocked(stopped.nodes).then(|| {
        Failure::new(
            NO_QUORUM,
            format!("no quorum for '{name}': {}; not acquired", stopped.what),
        )
        .remedy(stopped.remedy)
    })
}

/// How to start the nodes that cannot be reached, where they are those of a local cluster that is down.
pub(crate) fn how_to_start<'a>(unreachable: impl Iterator<Item = &'a str>) -> Option<String> {
    let StoppedCluster { what, remedy, .. } = stopped(unreachable)?;
    Some(format!("{what}: {remedy}"))
}

/// Adds how to start the nodes that are away, where they are those of a local cluster that is down.
pub(crate) fn with_start<'a>(
    failure: Failure,
    away: impl Iterator<Item = (&'a str, &'a Cause)>,
) -> Failure {
    with_start_of(failure, unreachable(away))
}

/// The same for nodes that cannot be reached.
pub(crate) fn with_start_of<'a>(
    failure: Failure,
    unreachable: impl Iterator<Item = &'a str>,
) -> Failure {
    let Some(how) = how_to_start(unreachable) else {
        return failure;
    };
    let all = format!("{how}\n{}", failure.remedy);
    failure.remedy(all.trim_end())
}

/// The nodes that did not vote, and why, as far as that is known.
pub(crate) fn without_vote(nodes: &[NodeReport]) -> impl Iterator<Item = (&NodeReport, &Cause)> {
    nodes.iter().filter_map(|report| match &report.answer {
        NodeAnswer::Not(Cause::NotWaitedFor | Cause::NotConnected) => None,
        NodeAnswer::Not(cause) => Some((report, cause)),
        _ => None,
    })
}

/// The same, each on a line of its own below what introduces them.
pub(crate) fn causes(nodes: &[NodeReport]) -> String {
    without_vote(nodes)
        .map(|(report, cause)| format!("\n  {}: {cause}", report.node))
        .collect()
}

/// A local cluster that is down.
struct StoppedCluster {
    /// How many of the nodes that are away are its.
    nodes: usize,
    what: String,
    remedy: String,
}

/// The local cluster to which nodes that are away belong, if it is down.
fn stopped<'a>(away: impl Iterator<Item = &'a str>) -> Option<StoppedCluster> {
    let away: Vec<&str> = away.collect();
    if away.is_empty() {
        return None;
    }
    let (directory, nodes) = current::stopped()?;
    let its = away
        .iter()
        .filter(|node| nodes.iter().any(|url| url == *node));
    let its = its.count();
    let shown = directory.display();
    (its > 0).then(|| StoppedCluster {
        nodes: its,
        what: format!("the cluster in {shown} is down"),
        remedy: format!(
            "start it with: quorlock cluster up --dir {}",
            shell_word(shown)
        ),
    })
}

fn unreachable<'a>(
    away: impl Iterator<Item = (&'a str, &'a Cause)>,
) -> impl Iterator<Item = &'a str> {
    away.filter(|(_, cause)| matches!(cause, Cause::Unreachable(_)))
        .map(|(node, _)| node)
}

/// What to do about a node that refuses this client by its settings.
fn remedy(cause: &Cause) -> &'static str {
    match cause {
        Cause::LoginRefused(_) => {
            "give user and password in the address: redis://user:password@host:port"
        }
        Cause::OtherCluster { .. }
        | Cause::MixedClusters { .. }
        | Cause::OtherSize { .. }
        | Cause::SameNode(_) => {
            "list all nodes of one cluster, each once, in --nodes or QUORLOCK_NODES"
        }
        Cause::Agent => "`INFO nodes` on the agent shows the nodes that it was started with",
        Cause::Unidentified(_) => {
            "allow INFO there, or count votes by address: see --votes-by-address in --help"
        }
        Cause::Unreachable(error) if error.to_string().contains("certificate has expired") => {
            "replace the node's certificate, and send the node SIGHUP"
        }
        Cause::Unreachable(error) if error.to_string().contains("certificate is not valid yet") => {
            "correct the clock of this machine, or wait until the certificate is valid"
        }
        Cause::Unreachable(error) if error.to_string().contains("TLS: ") => {
            "--cacert, --cert, --key and --sni say what TLS is spoken with, or such lines in nodes.conf"
        }
        Cause::Unreachable(_) => {
            "name the port on which the node speaks Redis's protocol: redis:// without TLS, rediss:// with it"
        }
        Cause::WithoutFences => {
            "leave --fence out, upgrade nodes of an earlier version, or list nodes of Quorlock alone"
        }
        Cause::WithoutSharedLocks => {
            "leave --shared out, upgrade nodes of an earlier version, or list nodes of Quorlock alone"
        }
        Cause::NoNextFence { .. } => {
            "leave --fence out: these nodes count no further, and only new ones begin anew"
        }
        Cause::FencesLost => "run `quorlock node sync` with the list of all nodes",
        Cause::Refused(text) if text.contains("restart-delay-max") => {
            "choose a shorter --ttl (with --lock-delay, the sum counts), or raise restart-delay-max on every node"
        }
        _ => "change what the node refuses, or name another: locks need SET, EVAL, SCRIPT and INFO",
    }
}
