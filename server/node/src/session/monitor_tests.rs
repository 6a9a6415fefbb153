//! What monitors are shown of requests, and in which order.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use quorlock_engine::Reply;
use quorlock_persistence::MemoryDisk;

use crate::clock::SettableClock;
use crate::config::Config;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::{Batch, Session};
use crate::start::for_tests;

fn node() -> Arc<NodeState> {
    let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
    let config = Config::default();
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
    preparer.prepare().unwrap();
    node
}

fn ask(node: &Arc<NodeState>, session: &mut Session, requests: &[&str]) {
    let mut batch = Batch::new(node, node.clock.raw());
    let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
    for request in requests {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        batch.execute(session, &words, &mut wait, &mut replies);
    }
}

/// The lines for worker 0, without times and addresses.
fn shown(node: &NodeState) -> Vec<String> {
    let posts = node.deliveries.take(0);
    let lines = posts.iter().map(|post| {
        let Some(Reply::Status(line)) = post.message.message.push() else {
            panic!("a line");
        };
        let line = String::from_utf8(line.to_vec()).unwrap();
        line.split_once(']').unwrap().1.replace('"', "'")
    });
    lines.collect()
}

#[test]
fn every_executed_request_is_shown_and_no_secret_or_token() {
    let node = node();
    let (mut watching, mut other) = (for_tests::session(&node), for_tests::session(&node));
    ask(&node, &mut other, &["PING"]);
    ask(&node, &mut watching, &["MONITOR"]);
    assert!(shown(&node).is_empty());
    let requests = [
        "SET job-with-a-long-name 0123456789abcdef NX PX 90000",
        "GET",
        "NOSUCH a",
        "CONFIG GET save",
        "AUTH default secret",
        "HELLO AUTH default secret",
        "MULTI",
        "GET k",
        "EXEC",
    ];
    ask(&node, &mut other, &requests);
    let expected = [
        " 'SET' 'job-with-a-long-name' '01234567...' 'NX' 'PX' '90000'",
        " 'AUTH' '(redacted)' '(redacted)'",
        " 'HELLO' 'AUTH' '(redacted)' '(redacted)'",
        " 'MULTI'",
        " 'GET' 'k'",
        " 'EXEC'",
    ];
    assert_eq!(shown(&node), expected);
    ask(&node, &mut watching, &["RESET"]);
    shown(&node);
    ask(&node, &mut other, &["PING"]);
    assert!(shown(&node).is_empty() && !node.monitors.is_any());
}

#[test]
fn who_asks_for_all_is_shown_tokens_and_a_client_that_goes_is_shown_nothing() {
    let node = node();
    let (mut watching, mut other) = (for_tests::session(&node), for_tests::session(&node));
    ask(&node, &mut watching, &["MONITOR FULL"]);
    ask(&node, &mut other, &["SET k 0123456789abcdef"]);
    assert_eq!(shown(&node), [" 'SET' 'k' '0123456789abcdef'"]);
    watching.leave(&node);
    assert!(!node.monitors.is_any());
}

#[test]
fn what_a_script_calls_is_shown_behind_it() {
    let node = node();
    let (mut watching, mut other) = (for_tests::session(&node), for_tests::session(&node));
    ask(&node, &mut watching, &["MONITOR"]);
    ask(
        &node,
        &mut other,
        &["EVAL return(redis.call('get',KEYS[1])) 1 a-long-key-of-it"],
    );
    let lines = shown(&node);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with(" 'EVAL' 'return(r...'"), "{lines:?}");
    assert_eq!(lines[1], " 'get' 'a-long-key-of-it'");
}

/// Planted: calls are noted without a bound, on the script's time and while the engine is locked.
#[test]
fn of_a_script_as_many_calls_are_noted_as_take_little_memory() {
    let node = node();
    let (mut watching, mut other) = (for_tests::session(&node), for_tests::session(&node));
    ask(&node, &mut watching, &["MONITOR"]);
    let calls = "local\ts=string.rep('a',60000)\tfor\ti=1,500\tdo\tredis.call('get',s)\tend";
    ask(&node, &mut other, &[&format!("EVAL {calls} 0")]);
    let bytes: usize = shown(&node).iter().map(String::len).sum();
    assert!((1_000_000..1_200_000).contains(&bytes), "{bytes}");
}
