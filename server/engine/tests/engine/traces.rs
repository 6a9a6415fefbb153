//! Golden traces: commands and the replies Redis 7 gives to them.
//!
//! A file under `traces/` holds a command behind `>` and its reply on the next line. A line
//! `@ 1500ms` lets time pass. The replies were taken from redis-server 7.0; where this node
//! differs on purpose, a comment says so.

use std::path::Path;
use std::time::Duration;

use crate::harness::{Node, state_of};

#[test]
fn strings() {
    replay("strings");
}

#[test]
fn counters() {
    replay("counters");
}

#[test]
fn hashes() {
    replay("hashes");
}

#[test]
fn sets() {
    replay("sets");
}

#[test]
fn sorted_sets() {
    replay("sorted_sets");
}

#[test]
fn sorted_set_options() {
    replay("sorted_set_options");
}

#[test]
fn expiry() {
    replay("expiry");
}

#[test]
fn keys() {
    replay("keys");
}

#[test]
fn bitmaps() {
    replay("bitmaps");
}

#[test]
fn sorting() {
    replay("sorting");
}

#[test]
fn databases() {
    replay("databases");
}

fn replay(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/traces")
        .join(name);
    let text = std::fs::read_to_string(path.with_extension("trace")).unwrap();
    let mut node = Node::default();
    let mut lines = text.lines().enumerate();
    let mut commands = 0;
    while let Some((number, line)) = lines.next() {
        if let Some(duration) = line.strip_prefix("@ ") {
            let ms = duration.strip_suffix("ms").unwrap().parse().unwrap();
            node.advance(Duration::from_millis(ms));
        } else if let Some(database) = line.strip_prefix("> SELECT ") {
            node.caller.database = database.parse().unwrap();
            lines.next();
        } else if let Some(command) = line.strip_prefix("> ") {
            let (_, expected) = lines.next().expect("a reply behind each command");
            let reply = node.run(command);
            assert_eq!(reply, expected, "{name}.trace:{}: {command}", number + 1);
            commands += 1;
        } else {
            assert!(
                line.is_empty() || line.starts_with('#'),
                "{name}.trace:{}",
                number + 1
            );
        }
    }
    assert!(commands > 0, "an empty trace proves nothing");
    assert_eq!(
        state_of(&mut node.replayed(), node.now.node),
        node.state(),
        "the log holds the state"
    );
}
