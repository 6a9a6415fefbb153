//! `quorlock page`: what it says of nodes that are far away, or that do not list their locks.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use quorlock_testkit::{Connection, Process};
use serde_json::Value;

use crate::relay::relay;
use crate::run::{addresses, cluster};
use crate::shell::Shell;

/// Half of a round trip of 550 ms.
const FAR: Duration = Duration::from_millis(275);

/// What a page that is opened now has to show of these nodes.
fn look(shell: &Shell, nodes: &[String]) -> Value {
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
    serde_json::from_str(body).unwrap()
}

fn far_away(nodes: &[String]) -> Vec<String> {
    nodes.iter().map(|node| relay(node, FAR)).collect()
}

fn ask(node: &str, words: &[&str]) {
    let reply = Connection::open(node).unwrap().ask(words).unwrap();
    let reply = reply.to_string();
    assert!(!reply.starts_with('-'), "{reply}");
}

/// A login and one question take 1.1 s.
#[test]
fn a_page_shows_nodes_far_away_with_their_round_trip() {
    let shell = cluster();
    let look = look(&shell, &far_away(&addresses(&shell)));
    let shown = look["nodes"].as_array().unwrap();
    assert_eq!(shown.len(), 3, "{look}");
    for node in shown {
        assert_eq!(node["state"], "serving", "{look}");
        assert!(node["round_trip_us"].as_u64().unwrap() >= 550_000, "{look}");
    }
}

/// Each name is a batch of its own: to look at all of them takes 16 s.
#[test]
fn a_look_that_would_take_too_long_says_so_in_time() {
    let shell = cluster();
    let nodes = addresses(&shell);
    for number in 0..30 {
        let name = format!("{number}{}", "x".repeat(40_000));
        for node in &nodes {
            ask(node, &["SET", &name, "token", "NX", "PX", "600000"]);
        }
    }
    let look = look(&shell, &far_away(&nodes));
    let why = look["error"].as_str().unwrap_or_default();
    assert!(
        why.contains("too far away"),
        "{why:?}, {} locks",
        look["locks"]
    );
}

#[test]
fn a_page_says_that_locks_may_be_missing_where_no_majority_of_the_nodes_lists_them() {
    let shell = cluster();
    let nodes = addresses(&shell);
    shell.succeed(&["acquire", "a", "--nodes", &nodes.join(","), "--ttl", "10m"]);
    for (count, is_listed) in [(0, true), (1, true), (2, false), (3, false)] {
        for node in nodes.iter().take(count) {
            ask(node, &["ACL", "SETUSER", "default", "-lock.list"]);
        }
        let look = look(&shell, &nodes);
        assert_eq!(look["can_lock"], true, "{count}: {look}");
        assert_eq!(look["listed"], is_listed, "{count}: {look}");
        assert_eq!(look["complete"], is_listed, "{count}: {look}");
        if is_listed {
            assert_eq!(look["locks"][0]["state"], "held", "{count}: {look}");
        }
    }
}
