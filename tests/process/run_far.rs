//! Locks whose leases are a few round trips long: what `run`, `acquire` and `extend` make of nodes that are far away, and what a
//! page shows of them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use quorlock_testkit::Process;
use serde_json::Value;

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

/// A login and one question take 1.1 s.
#[test]
fn a_page_shows_nodes_far_away_with_their_round_trip() {
    let shell = cluster();
    let half = Duration::from_millis(275);
    let nodes: Vec<String> = addresses(&shell)
        .iter()
        .map(|node| relay(node, half))
        .collect();
    let nodes = nodes.join(",");
    let mut command = shell.command(&["page", "--port", "0", "--json", "--nodes", &nodes]);
    let mut page = Process::start(&mut command, &shell.file("page.out")).unwrap();
    let line: Value = serde_json::from_str(&page.await_line("\"url\"")).unwrap();
    let url = line["url"].as_str().unwrap();
    let (address, key) = url
        .strip_prefix("http://")
        .unwrap()
        .split_once("/?")
        .unwrap();
    let mut link = TcpStream::connect(address).unwrap();
    write!(
        link,
        "GET /api/v1/cluster?{key} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    link.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let look: Value = serde_json::from_str(body).unwrap();
    let shown = look["nodes"].as_array().unwrap();
    assert_eq!(shown.len(), 3, "{look}");
    for node in shown {
        assert_eq!(node["state"], "serving", "{look}");
        assert!(node["round_trip_us"].as_u64().unwrap() >= 550_000, "{look}");
    }
}
