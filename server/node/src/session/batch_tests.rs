//! What runs while a batch holds the engine, and what does not.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use quorlock_engine::{Flags, all_specs};
use quorlock_persistence::MemoryDisk;

use crate::clock::SettableClock;
use crate::config::Config;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::Batch;
use crate::start::for_tests;

fn node() -> Arc<NodeState> {
    let mut config = Config::default();
    config.set("appendfsync", &["always"]).unwrap();
    let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
    // Nobody else makes the segment ahead, which scripts want.
    preparer.prepare().unwrap();
    node
}

/// CLIENT LIST of ten thousand clients behind a GET kept every other worker from the engine.
#[test]
fn a_command_that_needs_no_engine_and_is_not_brief_lets_go_of_it() {
    let node = node();
    let of_node = || all_specs().filter(|spec| spec.node_command().is_some());
    for spec in of_node() {
        let is_brief = spec.flags.contains(Flags::BRIEF);
        let mut session = for_tests::session(&node);
        let mut batch = Batch::new(&node, node.clock.raw());
        let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
        batch.execute(&mut session, &[b"GET", b"a"], &mut wait, &mut replies);
        assert!(batch.holds_engine(), "a batch executes under one lock");
        let words = usize::from(spec.arity.unsigned_abs());
        let mut arguments: Vec<&[u8]> = vec![b"0"; words];
        arguments[0] = spec.name.as_bytes();
        batch.execute(&mut session, &arguments, &mut wait, &mut replies);
        assert_eq!(batch.holds_engine(), is_brief, "{}", spec.name);
    }
    let brief = || of_node().filter(|spec| spec.flags.contains(Flags::BRIEF));
    for name in ["client", "config", "command", "info", "bgrewriteaof"] {
        assert!(
            brief().all(|spec| spec.name != name),
            "{name} may take long"
        );
    }
}

#[test]
fn a_script_that_says_something_lets_go_of_the_engine_and_another_does_not() {
    let node = node();
    let mut session = for_tests::session(&node);
    let mut batch = Batch::new(&node, node.clock.raw());
    let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
    for (script, holds) in [
        ("return 1", true),
        ("redis.log(redis.LOG_WARNING, 'x') return 1", false),
    ] {
        let arguments: [&[u8]; 3] = [b"EVAL", script.as_bytes(), b"0"];
        batch.execute(&mut session, &arguments, &mut wait, &mut replies);
        assert_eq!(batch.holds_engine(), holds, "{script}");
    }
    assert_eq!(replies.single_run().unwrap(), b":1\r\n:1\r\n");
}

/// Planted: what the last request of a pipeline waits for counts alone.
#[test]
fn the_requests_of_a_pipeline_add_to_what_its_replies_wait_for() {
    let node = node();
    let mut session = for_tests::session(&node);
    let mut batch = Batch::new(&node, node.clock.raw());
    let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
    let set: [&[u8]; 5] = [b"SET", b"a", b"token", b"PX", b"30000"];
    batch.execute(&mut session, &set, &mut wait, &mut replies);
    let after_set = wait;
    assert!(after_set.synced.get() > 0);
    for later in [&[b"GET".as_slice(), b"never"] as &[&[u8]], &[b"PING"]] {
        batch.execute(&mut session, later, &mut wait, &mut replies);
        assert_eq!(wait, after_set, "{later:?}");
    }
}
