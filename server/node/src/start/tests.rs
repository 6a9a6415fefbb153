//! What a start makes of its configuration.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::control::Boot;
use quorlock_engine::restart::{RestartVerdict, Stop};
use quorlock_engine::{BootTime, NodeTime, RawTime};
use quorlock_persistence::MemoryDisk;

use super::assembly::workers;
use super::*;
use crate::clock::{ClientInstant, SettableClock};
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::Batch;
use crate::simulation::Setup;

fn config(directives: &[(&str, &[&str])]) -> Config {
    let mut config = Config::default();
    for (name, words) in directives {
        config.set(name, words).unwrap();
    }
    config
}

/// A clock that goes on by a microsecond whenever the raw one is read.
#[derive(Debug)]
struct ReadClock(SettableClock);

impl Clock for ReadClock {
    fn now(&self) -> ClientInstant {
        self.0.now()
    }

    fn raw(&self) -> RawTime {
        self.0.advance(Duration::from_micros(1));
        self.0.raw()
    }

    fn boottime(&self) -> BootTime {
        self.0.boottime()
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us()
    }

    fn boot(&self) -> Boot {
        self.0.boot()
    }
}

/// Whether the last of the commands is an error on a node with these directives.
fn refuses(directives: &[(&str, &[&str])], commands: &[&[&str]]) -> bool {
    let (disk, clock) = (MemoryDisk::new(), ReadClock(SettableClock::new()));
    let config = config(directives);
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
    // Nobody else makes the segment ahead, which scripts want.
    preparer.prepare().unwrap();
    let mut session = for_tests::session(&node);
    let mut batch = Batch::new(&node, node.clock.raw());
    let mut last = None;
    for words in commands {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
        batch.execute(&mut session, &words, &mut wait, &mut replies);
        last = replies.single_run().map(|reply| reply[0]);
    }
    last == Some(b'-')
}

#[test]
fn the_engine_obeys_the_limits_of_the_configuration() {
    let set: &[&[&str]] = &[&["SET", "key", "value"]];
    assert!(refuses(&[("require-ttl", &["yes"])], set));
    let set: &[&[&str]] = &[&["SET", "key", "value", "PX", "90000"]];
    for (cap, is_refused) in [("80s", true), ("100s", false)] {
        let cap: (&str, &[&str]) = ("restart-delay-max", &[cap]);
        assert_eq!(refuses(&[("require-ttl", &["yes"]), cap], set), is_refused);
    }

    let value = "x".repeat(1 << 19);
    let three: &[&[&str]] = &[&["SET", "k", &value], &["MGET", "k", "k", "k"]];
    assert!(refuses(&[("proto-max-reply-len", &["1mb"])], three));

    let long = format!("return 1 --{}", "x".repeat(70_000));
    for (limit, is_refused) in [("64kb", true), ("70kb", false)] {
        let limit: (&str, &[&str]) = ("script-size-limit", &[limit]);
        assert_eq!(refuses(&[limit], &[&["EVAL", &long, "0"]]), is_refused);
        let load: &[&[&str]] = &[&["SCRIPT", "LOAD", &long]];
        let sum: (&str, &[&str]) = ("script-load-limit", &["64kb"]);
        assert!(refuses(&[limit, sum], load));
    }

    let turns: &[&[&str]] = &[&["EVAL", "for turn = 1, 1000000 do end return 1", "0"]];
    for (limit, is_refused) in [("1ms", true), ("60s", false)] {
        assert_eq!(
            refuses(&[("script-time-limit", &[limit])], turns),
            is_refused
        );
    }
}

#[test]
fn scripts_run_natively_unless_the_configuration_says_otherwise() {
    let runs_natively = |directives: &[(&str, &[&str])]| {
        let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
        let (node, _, _) = for_tests::started(config(directives), Arc::new(disk), Arc::new(clock));
        let executor = node.lock().unwrap();
        executor.engine.runs_scripts_natively()
    };
    assert!(runs_natively(&[]));
    assert!(!runs_natively(&[("script-native", &["no"])]));
}

#[test]
fn what_is_executed_follows_the_configuration() {
    let rules = |name: &str, value: &str| {
        let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
        let config = config(&[(name, &[value])]);
        let (node, _, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
        let executor = node.lock().unwrap();
        (
            executor.rules.no_ttl_is_synced,
            executor.rules.answers_loading,
        )
    };
    assert_eq!(rules("no-ttl-durability", "sync"), (true, false));
    assert_eq!(rules("no-ttl-durability", "as-mode"), (false, false));
    assert_eq!(rules("restart-delay-reply", "loading"), (true, true));
}

#[test]
fn the_log_of_another_node_is_refused_when_it_is_read() {
    let (disk, clock) = (MemoryDisk::new(), Arc::new(SettableClock::new()));
    for_tests::started(Config::default(), Arc::new(disk.clone()), clock.clone());
    NodeIdentity::known([9; 20], &Config::default())
        .write(&disk)
        .unwrap();
    let plan = Setup::new(Config::default()).plan(Arc::new(disk), clock);
    let refused = begin(plan, ListenInfo::NOWHERE).err();
    assert!(matches!(refused, Some(StartError::Log(_))), "{refused:?}");
}

#[test]
fn only_an_unknown_past_has_advice_for_its_operator() {
    let verdict = |cause| RestartVerdict {
        stop: cause,
        delay: Some(quorlock_engine::control::Pending {
            until: NodeTime::ZERO,
            length_ns: 0,
            cause,
        }),
    };
    assert!(advice(&verdict(Stop::Unknown)).contains("quorlock node init DIR"));
    assert_eq!(advice(&verdict(Stop::Unclean)), "");
}

#[test]
fn workers_are_as_many_as_asked_for_or_about_half_the_cores() {
    assert_eq!(workers(3, 64), 3);
    for (cores, expected) in [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4)] {
        assert_eq!(workers(0, cores), expected, "{cores} cores");
    }
}
