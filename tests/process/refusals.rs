//! What `quorlock cluster` refuses to do, and that it names the way out.

use std::fs;
use std::net::TcpListener;

use crate::place::{Ended, Place};

fn refuses(place: &Place, words: &[&str], code: i32, said: &[&str]) {
    let Ended {
        code: ended,
        stdout,
        stderr,
    } = place.quorlock(words);
    assert_eq!(ended, Some(code), "{words:?}\n{stdout}\n{stderr}");
    for part in said {
        assert!(
            stderr.contains(part),
            "{words:?} does not say '{part}':\n{stderr}"
        );
    }
}

#[test]
fn a_running_or_differently_sized_cluster() {
    let mut place = Place::new();
    place.up(&["--nodes", "1", "--base-port", "0"]);
    refuses(
        &place,
        &["cluster", "up"],
        1,
        &["already runs", "quorlock cluster down", "--dir"],
    );
    refuses(
        &place,
        &["cluster", "clean"],
        1,
        &["running", "quorlock cluster down"],
    );
    place.succeed(&["cluster", "down"]);
    refuses(
        &place,
        &["cluster", "up", "--nodes", "3"],
        1,
        &["has 1 nodes, not 3", "clean"],
    );
    refuses(
        &place,
        &["cluster", "up", "--base-port", "4"],
        1,
        &["ports from", "--base-port"],
    );
    refuses(
        &place,
        &["cluster", "kill", "1"],
        1,
        &["not running", "quorlock cluster up"],
    );
}

#[test]
fn a_foreign_directory() {
    let place = Place::new();
    fs::create_dir(place.file("mine")).unwrap();
    fs::write(place.file("mine").join("letter.txt"), "dear").unwrap();
    refuses(
        &place,
        &["cluster", "up", "--dir", "mine"],
        1,
        &["not a cluster", "--dir"],
    );
    assert_eq!(
        fs::read_dir(place.file("mine")).unwrap().count(),
        1,
        "nothing was written"
    );
    refuses(
        &place,
        &["cluster", "clean", "--dir", "mine"],
        1,
        &["no cluster"],
    );
    assert!(place.file("mine").join("letter.txt").exists());
    fs::write(place.file("mine").join("cluster.json"), "{}").unwrap();
    refuses(
        &place,
        &["cluster", "up", "--dir", "mine"],
        1,
        &["not usable", "restore"],
    );
    fs::write(place.file("plain"), "").unwrap();
    refuses(&place, &["cluster", "up", "--dir", "plain"], 1, &["plain"]);
}

#[test]
fn a_taken_port_that_was_asked_for() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let words = ["cluster", "up", "--nodes", "1", "--base-port", &port];
    refuses(
        &place,
        &words,
        1,
        &[&format!("port {port} is taken"), "--base-port"],
    );
}

#[test]
fn a_node_whose_past_is_gone() {
    let mut place = Place::new();
    place.up(&["--nodes", "3", "--base-port", "0"]);
    place.succeed(&["cluster", "down"]);
    fs::remove_dir_all(place.file(".quorlock/dev/node-2")).unwrap();
    refuses(
        &place,
        &["cluster", "up"],
        1,
        &["node 2 was created before", "is gone", "restore", "clean"],
    );
    fs::create_dir(place.file(".quorlock/dev/node-2")).unwrap();
    refuses(
        &place,
        &["cluster", "up"],
        1,
        &["node 2 was created before", "lost its contents", "clean"],
    );
    let identity = |number: u16| place.file(&format!(".quorlock/dev/node-{number}/node.id"));
    fs::copy(identity(1), identity(2)).unwrap();
    refuses(
        &place,
        &["cluster", "up"],
        1,
        &["node 2 was created before", "another node", "clean"],
    );
}

#[test]
fn a_start_whose_nodes_fail_says_why() {
    let mut place = Place::new();
    place.up(&["--nodes", "1", "--base-port", "0"]);
    place.succeed(&["cluster", "down"]);
    let identity = place.file(".quorlock/dev/node-1/node.id");
    let text = fs::read_to_string(&identity).unwrap();
    let id = text.lines().nth(1).unwrap();
    fs::write(&identity, format!("of a version to come\n{id}\n")).unwrap();
    refuses(
        &place,
        &["cluster", "up"],
        1,
        &["node 1 did not start", "node-1.log"],
    );
    refuses(
        &place,
        &["cluster", "up", "--detach"],
        1,
        &["node 1 did not start", "node-1.log"],
    );
}

#[test]
fn no_cluster_at_all() {
    let place = Place::new();
    refuses(
        &place,
        &["cluster", "status"],
        1,
        &["no cluster", "quorlock cluster up"],
    );
    refuses(
        &place,
        &["run", "a", "--", "true"],
        64,
        &["no nodes", "QUORLOCK_NODES", "cluster up"],
    );
    fs::create_dir(place.file(".quorlock")).unwrap();
    fs::write(place.file(".quorlock/current"), "gone\n").unwrap();
    refuses(&place, &["acquire", "a"], 64, &["no nodes"]);
}
