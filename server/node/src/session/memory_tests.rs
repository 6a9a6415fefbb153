//! MEMORY and DEBUG OBJECT on a node: what is true of its keys, and what waits for them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use quorlock_persistence::MemoryDisk;

use crate::clock::SettableClock;
use crate::config::Config;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::{Batch, Session};
use crate::start::for_tests;

fn node() -> Arc<NodeState> {
    let mut config = Config::default();
    config.set("appendfsync", &["always"]).unwrap();
    config.set("enable-debug-command", &["yes"]).unwrap();
    let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
    preparer.prepare().unwrap();
    node
}

/// The last reply of those to one request, and what it waits for.
fn ask(node: &Arc<NodeState>, session: &mut Session, request: &str) -> (String, DurabilityWait) {
    let mut batch = Batch::new(node, node.clock.raw());
    let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
    let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    batch.execute(session, &words, &mut wait, &mut replies);
    let reply = replies.single_run().map(<[u8]>::to_vec).unwrap_or_default();
    (String::from_utf8(reply).unwrap(), wait)
}

/// A number of MEMORY STATS.
fn stat(page: &str, name: &str) -> u64 {
    let (_, rest) = page.split_once(&format!("\r\n{name}\r\n:")).unwrap();
    rest.split("\r\n").next().unwrap().parse().unwrap()
}

#[test]
fn stats_are_of_the_keys_that_are_there_and_the_peak_stays() {
    let node = node();
    let mut session = for_tests::session(&node);
    let mut ask = |request: &str| ask(&node, &mut session, request).0;
    let value = "x".repeat(1_000);
    ask(&format!("SET a {value}"));
    ask(&format!("SET b {value}"));
    // What is not durable yet is counted by no reply; the bytes are there.
    let page = ask("MEMORY STATS");
    let peak = stat(&page, "peak.allocated");
    assert!((2_000..10_000).contains(&peak), "{page}");
    for name in ["total.allocated", "dataset.bytes"] {
        assert_eq!(stat(&page, name), peak, "{name}");
    }
    assert!(stat(&page, "aof.buffer") > 2_000, "{page}");
    ask("DEL a");
    let page = ask("MEMORY STATS");
    assert_eq!(stat(&page, "peak.allocated"), peak);
    assert!(stat(&page, "total.allocated") < peak - 1_000, "{page}");
    let info = ask("INFO memory");
    assert!(info.contains(&format!("\r\nused_memory_peak:{peak}\r\n")));
}

#[test]
fn what_is_not_about_a_key_is_answered_in_transactions_and_refused_to_scripts() {
    let node = node();
    let mut session = for_tests::session(&node);
    let mut ask = |request: &str| ask(&node, &mut session, request).0;
    ask("SET a 1");
    assert_eq!(ask("MEMORY PURGE"), "+OK\r\n");
    assert!(ask("MEMORY MALLOC-STATS").contains("not supported"));
    assert!(ask("memory Doctor").contains("No memory problem was found"));
    let wrong = "-ERR wrong number of arguments for 'memory|stats' command\r\n";
    assert_eq!(ask("MEMORY STATS x"), wrong);
    assert_eq!(
        ask("MEMORY NOSUCH"),
        "-ERR unknown subcommand 'NOSUCH'. Try MEMORY HELP.\r\n"
    );
    ask("MULTI");
    assert_eq!(ask("MEMORY PURGE"), "+QUEUED\r\n");
    assert_eq!(ask("MEMORY USAGE a"), "+QUEUED\r\n");
    let executed = ask("EXEC");
    assert!(executed.starts_with("*2\r\n+OK\r\n:"), "{executed}");
    let script = "EVAL return=redis.call('memory','purge') 0";
    let refused = ask(&script.replace("return=", "return\t"));
    assert!(refused.contains("not allowed from script"), "{refused}");
}

#[test]
fn debug_object_tells_of_a_key_and_waits_for_what_has_made_it() {
    let node = node();
    let mut session = for_tests::session(&node);
    let mut ask = |request: &str| ask(&node, &mut session, request);
    let (_, made) = ask("SET a token");
    let (reply, wait) = ask("DEBUG OBJECT a");
    let known = " refcount:1 encoding:embstr serializedlength:5 lru:";
    assert!(
        reply.starts_with("+Value at:0x") && reply.contains(known),
        "{reply}"
    );
    assert!(reply.ends_with(" lru_seconds_idle:0\r\n"), "{reply}");
    assert_eq!(wait.synced, made.synced, "it reveals the key");
    assert_eq!(ask("debug object b").0, "-ERR no such key\r\n");
    let wrong =
        "-ERR unknown subcommand or wrong number of arguments for 'OBJECT'. Try DEBUG HELP.\r\n";
    assert_eq!(ask("DEBUG OBJECT").0, wrong);
    ask("MULTI");
    ask("DEBUG OBJECT a");
    let (executed, wait) = ask("EXEC");
    assert!(executed.starts_with("*1\r\n+Value at:0x"), "{executed}");
    assert_eq!(wait.synced, made.synced);
}
