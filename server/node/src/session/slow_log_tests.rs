//! What is in the slow log, and where. The clock of these nodes measures nothing: every command takes no time at all.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_persistence::MemoryDisk;

use crate::clock::SettableClock;
use crate::config::Config;
use crate::core::latency::LatencyEvent;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::named_request::NamedRequest;
use crate::session::{Batch, Session};
use crate::start::for_tests;

fn node(slower_than: &str) -> Arc<NodeState> {
    let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
    let mut config = Config::default();
    config
        .set("slowlog-log-slower-than", &[slower_than])
        .unwrap();
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
    preparer.prepare().unwrap();
    node
}

/// Executes requests in one batch.
fn ask(node: &Arc<NodeState>, session: &mut Session, requests: &[&str]) -> String {
    let mut batch = Batch::new(node, node.clock.raw());
    let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
    for request in requests {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        batch.execute(session, &words, &mut wait, &mut replies);
    }
    let reply = replies.single_run().map(<[u8]>::to_vec).unwrap_or_default();
    String::from_utf8(reply).unwrap()
}

/// The requests in the log, the oldest first.
fn logged(node: &NodeState) -> Vec<String> {
    let log = node.slow_log();
    let line = |words: &[Vec<u8>]| String::from_utf8(words.join(&b' ')).unwrap();
    let mut lines: Vec<String> = log.newest(99).map(|one| line(&one.arguments)).collect();
    lines.reverse();
    lines
}

#[test]
fn every_executed_command_is_in_the_log_where_all_are_slow() {
    let node = node("0");
    let mut session = for_tests::session(&node);
    let requests = [
        "SET a 1",
        "GET",
        "NOSUCH",
        "LPUSH a x",
        "CLIENT SETNAME me",
        "EVAL return=redis.call 0",
        "MULTI",
        "GET a",
        "INFO server",
        "EXEC",
        "AUTH me secret",
        "SLOWLOG LEN",
    ];
    ask(&node, &mut session, &requests);
    let expected = [
        "SET a 1",
        "LPUSH a x",
        "CLIENT SETNAME me",
        "EVAL return=redis.call 0",
        "MULTI",
        "GET a",
        "INFO server",
        "AUTH (redacted) (redacted)",
        "SLOWLOG LEN",
    ];
    assert_eq!(logged(&node), expected);
    let names: Vec<String> = {
        let log = node.slow_log();
        log.newest(99).map(|one| one.client_name.clone()).collect()
    };
    assert_eq!(names.iter().filter(|name| *name == "me").count(), 7);
}

/// A command that is short by its nature is timed once in sixteen otherwise.
#[test]
fn no_call_is_left_out_where_all_are_slow_and_none_is_in_it_where_none_is() {
    let node_of_all = node("0");
    let requests = vec!["PING"; 500];
    let mut session = for_tests::session(&node_of_all);
    ask(&node_of_all, &mut session, &requests);
    let last = node_of_all.slow_log().newest(1).map(|one| one.id).next();
    assert_eq!(last, Some(499));
    for threshold in ["-1", "1"] {
        let node = node(threshold);
        let mut session = for_tests::session(&node);
        ask(&node, &mut session, &requests);
        assert_eq!(node.slow_log().len(), 0, "{threshold}");
    }
}

/// People try it out with this.
#[test]
fn a_sleep_is_as_slow_as_it_is_long() {
    let (disk, clock) = (MemoryDisk::new(), Arc::new(SettableClock::new()));
    let mut config = Config::default();
    config.set("enable-debug-command", &["yes"]).unwrap();
    config.set("latency-monitor-threshold", &["100"]).unwrap();
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), clock.clone());
    preparer.prepare().unwrap();
    let mut session = for_tests::session(&node);
    ask(&node, &mut session, &["DEBUG SLEEP 0.009"]);
    assert_eq!(node.slow_log().len(), 0);
    // All requests wait for its end.
    clock.advance(Duration::from_millis(9));
    ask(&node, &mut session, &["DEBUG SLEEP 0.25"]);
    let took_us = node.slow_log().newest(9).map(|one| one.took_us).next();
    assert_eq!(took_us, Some(250_000));
    let noted = node.latency.noted(LatencyEvent::Command).unwrap();
    assert_eq!(noted.max_ms, 250);
}

/// One batch executes what a client sends at once, and its own moment is that of its beginning.
#[test]
fn each_slow_command_has_the_time_of_its_own_end() {
    let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
    let mut config = Config::default();
    config.set("slowlog-log-slower-than", &["0"]).unwrap();
    config.set("latency-monitor-threshold", &["100"]).unwrap();
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
    preparer.prepare().unwrap();
    let session = for_tests::session(&node);
    let (began_raw, began_s) = (node.clock.raw(), node.clock.wall_us() / 1_000_000);
    let mut batch = Batch::new(&node, began_raw);
    batch.executor().unwrap();
    let number = |name: &[u8]| NamedRequest::of(&[name]).counted_as();
    let seconds = Duration::from_secs;
    for took_s in [5, 2] {
        batch.begin_call(number(b"EVAL").unwrap());
        batch.note_slept(seconds(took_s));
        batch.end_call(false);
        batch.note_if_slow(&session, &[b"EVAL"]);
    }
    // EXEC began before its commands, and ends with them.
    batch.begin_call(number(b"EXEC").unwrap());
    let exec = batch.begin_queued(number(b"GET"));
    batch.note_slept(seconds(1));
    batch.end_queued(exec, None);
    batch.note_if_slow(&session, &[b"GET"]);
    batch.note_slept(seconds(1));
    batch.end_call(false);
    batch.note_if_slow(&session, &[b"EXEC"]);
    let log = node.slow_log();
    let ended_s: Vec<u64> = log.newest(9).map(|one| one.unix_s - began_s).collect();
    assert_eq!(ended_s, [8, 7, 5], "the newest first, and none of EXEC");
    for (event, ends) in [
        (LatencyEvent::Command, &[5, 7, 8][..]),
        (LatencyEvent::FastCommand, &[8]),
    ] {
        let noted = node.latency.noted(event).unwrap();
        let ended_ns = noted.samples().map(|it| it.at_raw.nanos_since(began_raw));
        let ended_s: Vec<u64> = ended_ns.map(|ns| ns / 1_000_000_000).collect();
        assert_eq!(ended_s, ends, "{event:?}");
    }
}

#[test]
fn a_threshold_holds_from_the_command_that_sets_it() {
    let node = node("-1");
    let mut session = for_tests::session(&node);
    let requests = [
        "PING",
        "CONFIG SET slowlog-log-slower-than 0",
        "PING",
        "CONFIG SET slowlog-log-slower-than -1",
        "PING",
    ];
    ask(&node, &mut session, &requests);
    let expected = ["CONFIG SET slowlog-log-slower-than 0", "PING"];
    assert_eq!(logged(&node), expected);
    ask(&node, &mut session, &["CONFIG SET slowlog-max-len 1"]);
    assert_eq!(ask(&node, &mut session, &["SLOWLOG LEN"]), ":1\r\n");
    assert_eq!(ask(&node, &mut session, &["SLOWLOG RESET"]), "+OK\r\n");
    assert_eq!(ask(&node, &mut session, &["SLOWLOG GET"]), "*0\r\n");
}
