//! What replies wait for, command by command, without threads or disks.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::control::{Boot, Durability, Record, Start};
use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::{Caller, Command, Engine, EngineOptions, NodeTime, Reply};
use quorlock_persistence::{LogIdentity, LogOptions, MemoryDisk, Recovery};

use crate::clock::{Clock, SettableClock};
use crate::node::core::{Core, Phase, Rules, Wait};
use crate::node::time::Timekeeper;

fn core(durability: Durability) -> (Core, SettableClock) {
    let clock = SettableClock::new();
    let start = Start {
        incarnation: 1,
        boot: Boot::default(),
        place: 0,
        durability,
        base: NodeTime::from_nanos(clock.raw_ns()),
        raw_ns: clock.raw_ns(),
        wall_us: clock.wall_us(),
        boottime_ns: clock.boottime_ns(),
        pending: None,
        cap_ns: 60_000_000_000,
    };
    let rules = Rules {
        no_ttl_is_synced: true,
        answers_loading: false,
        node_id: String::new(),
        advice: "",
    };
    let disk = Arc::new(MemoryDisk::new());
    let identity = LogIdentity {
        node_id: [1; 20],
        boot_id: [0; 16],
        incarnation: 1,
    };
    let recovery = Recovery::read(disk, &LogOptions::default()).unwrap();
    let log = recovery.into_log(identity).unwrap();
    let engine = Engine::new(EngineOptions::default());
    let time = Timekeeper::new(&start, 10_000);
    (
        Core::new(
            engine,
            log.appender,
            time,
            Phase::Serving,
            LiveMode::new(&start),
            rules,
        ),
        clock,
    )
}

fn ask(core: &mut Core, clock: &SettableClock, words: &str) -> (Reply, Wait) {
    let arguments: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let command = Command::parse(&arguments).unwrap();
    let mut wait = Wait::default();
    let now = core.now(clock);
    let reply = core.execute(now, &Caller::default(), &command, &mut wait);
    (reply, wait)
}

#[test]
fn a_grant_under_a_raise_that_is_not_synced_waits_for_it_also_if_another_made_it() {
    for durability in [Durability::Everysec, Durability::No, Durability::Volatile] {
        let (mut core, clock) = core(durability);
        let (_, first) = ask(&mut core, &clock, "SET a token NX PX 30000");
        assert!(first.synced > 0, "the raise is synced before the grant");
        let (_, second) = ask(&mut core, &clock, "SET b token NX PX 20000");
        assert_eq!(second.synced, first.synced, "{durability:?}");
        let (_, reader) = ask(&mut core, &clock, "GET a");
        assert_eq!(reader.synced, first.synced, "{durability:?}");
    }
}

#[test]
fn what_was_granted_under_an_older_raise_is_revealed_only_after_that_one() {
    let (mut core, clock) = core(Durability::Everysec);
    let (_, first) = ask(&mut core, &clock, "SET a token NX PX 10000");
    let (_, second) = ask(&mut core, &clock, "SET b token NX PX 30000");
    assert!(second.synced > first.synced);
    let (_, reader) = ask(&mut core, &clock, "GET a");
    assert!(reader.synced >= first.synced);
    assert!(
        reader.synced < second.synced,
        "the later raise is not its business"
    );
}

#[test]
fn a_reentered_lock_is_covered_for_the_time_it_has_left() {
    let (mut core, clock) = core(Durability::Everysec);
    ask(&mut core, &clock, "HSET lock owner 1");
    ask(&mut core, &clock, "PEXPIRE lock 50000");
    core.promise.sink();
    core.promise.sink();
    assert_eq!(core.promise.on_record_ns, 0);
    let (_, wait) = ask(&mut core, &clock, "HINCRBY lock owner 1");
    assert_eq!(core.promise.on_record_ns, 50_000_000_000);
    assert!(wait.synced > 0);
}

#[test]
fn a_script_with_a_deadline_beyond_the_cap_promises_its_shorter_ones_too() {
    let (mut core, clock) = core(Durability::Everysec);
    let script = "redis.call('set',KEYS[1],'t','px',30000)\
                  redis.call('set',KEYS[2],'t','px',3600000)";
    let arguments: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"2", b"short", b"long"];
    let command = Command::parse(&arguments).unwrap();
    let mut wait = Wait::default();
    let now = core.now(&clock);
    let reply = core.execute(now, &Caller::default(), &command, &mut wait);
    assert_eq!(reply, Reply::Nil);
    assert_eq!(core.promise.on_record_ns, 30_000_000_000);
}

#[test]
fn a_weaker_reply_waits_for_the_record_of_its_mode_and_a_stronger_one_for_itself() {
    let cap = Duration::from_secs(60);
    let (mut core, clock) = core(Durability::Always);
    ask(&mut core, &clock, "SET raises token NX PX 20000");
    let (_, strong) = ask(&mut core, &clock, "SET a token NX PX 20000");
    let now = core.now(&clock).node;
    let record = core.change_mode(now, Durability::No, cap);
    let (_, weak) = ask(&mut core, &clock, "SET b token NX PX 10000");
    assert_eq!(
        weak.synced, record,
        "its own write may be lost, the mode not"
    );
    assert!(weak.written > record);
    // Also a connection that only looks, at what the stronger mode has not synced yet.
    let (_, reader) = ask(&mut core, &clock, "GET a");
    assert_eq!(reader.synced, strong.synced);
    let (_, reader) = ask(&mut core, &clock, "GET b");
    assert_eq!(reader.synced, record);
    // Back again: everything from here on is synced, and so is what is revealed of before.
    core.change_mode(now, Durability::Always, cap);
    let (_, strong) = ask(&mut core, &clock, "SET c token NX PX 10000");
    assert!(strong.synced > weak.written);
    let (_, reader) = ask(&mut core, &clock, "GET b");
    assert_eq!(reader.synced, weak.written);
}

#[test]
fn a_raised_cap_is_on_record_before_a_grant_that_rests_on_it() {
    let (mut core, clock) = core(Durability::Everysec);
    let now = core.now(&clock).node;
    let record = core.change_mode(now, Durability::Everysec, Duration::from_secs(600));
    let (_, wait) = ask(&mut core, &clock, "SET a token NX PX 500000");
    assert!(wait.synced > record, "the promise follows the cap");
    assert_eq!(core.promise.on_record_ns, 500_000_000_000);
    let (_, wait) = ask(&mut core, &clock, "SET b token");
    assert_eq!(wait.synced, wait.position(), "no delay covers it");
}

#[test]
fn the_sizes_of_the_databases_wait_for_the_writes_that_they_reveal() {
    for durability in [
        Durability::Always,
        Durability::Everysec,
        Durability::No,
        Durability::Volatile,
    ] {
        let (mut core, clock) = core(durability);
        assert_eq!(core.sample().wait, Wait::default(), "{durability:?}");
        let mut keys = 0;
        for words in [
            "SET raises token NX PX 20000",
            "SET covered token NX PX 10000",
            "SET forever token NX",
            "SET covered-too token NX PX 10000",
        ] {
            keys += 1;
            let (_, wait) = ask(&mut core, &clock, words);
            let sample = core.sample();
            assert_eq!(sample.counts[0].keys, keys, "{words}");
            assert!(
                sample.wait.written >= wait.written,
                "{durability:?} {words}"
            );
            assert!(sample.wait.synced >= wait.synced, "{durability:?} {words}");
        }
        // A tick and a look change nothing that a count reveals.
        let before = core.sample();
        let now = core.now(&clock).node;
        core.append(now, &Record::Tick);
        ask(&mut core, &clock, "GET covered");
        assert_eq!(core.sample(), before, "{durability:?}");
    }
}
