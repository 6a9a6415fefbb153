//! Locks whose leases are a few round trips long: what `run`, `acquire` and `extend` make of nodes that are far away.

use std::time::Duration;

use crate::relay::relay;
use crate::run::{addresses, cluster};

/// From a request to its answer.
const ROUND_TRIP: Duration = Duration::from_millis(300);

/// Where the nodes of this cluster are found, far away.
fn far_away(shell: &crate::shell::Shell) -> String {
    let nodes = addresses(shell);
    let nodes = nodes.iter().map(|node| relay(node, ROUND_TRIP / 2));
    nodes.collect::<Vec<_>>().join(",")
}

#[test]
fn a_lock_that_could_not_be_renewed_is_not_taken_and_a_longer_ttl_is_named_that_does() {
    let shell = cluster();
    let nodes = far_away(&shell);
    let run = |ttl: &str| {
        let words = [
            "run", "a", "--nodes", &nodes, "--ttl", ttl, "--", "sleep", "3",
        ];
        shell.quorlock(&words)
    };
    // Three round trips: the first renewal would come back when the command must be asked to end.
    let refused = run("900ms");
    assert_eq!(refused.code, Some(69), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("a majority of the nodes takes 3"),
        "{}",
        refused.stderr
    );
    let named = |said: &str| {
        let (_, ttl) = said.rsplit_once("use --ttl ").unwrap();
        ttl.split_once(' ').unwrap().0.to_owned()
    };
    let ttl = named(&refused.stderr);
    let ended = run(&ttl);
    assert_eq!(ended.code, Some(0), "--ttl {ttl}: {}", ended.stderr);
    // Where the machine was busier in between, a longer one is named, and does as well.
    if !ended.stderr.is_empty() {
        let ttl = named(&ended.stderr);
        let ended = run(&ttl);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ttl}");
    }
}

#[test]
fn a_lock_far_away_is_acquired_extended_and_released_with_a_short_ttl() {
    let shell = cluster();
    let nodes = far_away(&shell);
    let nodes = nodes.as_str();
    // Two and a half round trips would be too long for a connect, a login and a vote.
    let token = shell.succeed(&["acquire", "a", "--nodes", nodes, "--ttl", "750ms"]);
    assert_eq!(token.trim().len(), 32);
    let token = shell.succeed(&["acquire", "b", "--nodes", nodes, "--ttl", "3s"]);
    shell.succeed(&[
        "extend",
        "b",
        token.trim(),
        "--nodes",
        nodes,
        "--ttl",
        "750ms",
    ]);
    shell.succeed(&["release", "b", token.trim(), "--nodes", nodes]);
}
