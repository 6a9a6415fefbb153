//! What replies wait for, command by command, without threads or disks.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::control::{Boot, Ceiling, ControlRecord, Durability, Start};
use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::{Caller, Command, Engine, EngineOptions, NodeTime, Reply};
use quorlock_persistence::{LogIdentity, LogOptions, MemoryDisk, Position, Preparer, Recovery};

use crate::clock::{Clock, SettableClock};
use crate::core::executor::room::KEPT_BACK_BYTES;
use crate::core::executor::{Executor, Phase, Rules, Unlogged};
use crate::core::time::Timekeeper;
use crate::core::wait::DurabilityWait;

pub(super) fn executor(durability: Durability) -> (Executor, SettableClock) {
    let (executor, clock, _) = core_with_log(durability, &LogOptions::default());
    (executor, clock)
}

pub(super) fn core_with_log(
    durability: Durability,
    sizes: &LogOptions,
) -> (Executor, SettableClock, Preparer) {
    core_on(&MemoryDisk::new(), durability, sizes)
}

pub(super) fn core_on(
    disk: &MemoryDisk,
    durability: Durability,
    sizes: &LogOptions,
) -> (Executor, SettableClock, Preparer) {
    let clock = SettableClock::new();
    let start = Start {
        incarnation: 1,
        boot: Boot::default(),
        fingerprint: 0,
        durability,
        base: NodeTime::from_nanos(clock.raw().as_nanos()),
        raw: clock.raw(),
        wall_us: clock.wall_us(),
        boottime: clock.boottime(),
        pending: None,
        cap_ns: 60_000_000_000,
        ceiling: Ceiling::NONE,
    };
    let rules = Rules {
        no_ttl_is_synced: true,
        writes_direct: true,
        answers_loading: false,
        node_id: "ab".to_owned(),
        advice: "",
    };
    let identity = LogIdentity {
        node_id: [1; 20],
        boot_id: [0; 16],
        incarnation: 1,
    };
    let recovery = Recovery::read(Arc::new(disk.clone()), sizes).unwrap();
    let log = recovery.into_log(identity).unwrap();
    let engine = Engine::new(EngineOptions::default());
    let time = Timekeeper::new(&start, 10_000);
    (
        Executor::new(
            engine,
            log.appender,
            time,
            Phase::Serving,
            LiveMode::new(&start),
            rules,
        ),
        clock,
        log.preparer,
    )
}

/// A log whose first segment holds little beside what is kept back, and no other is made ahead.
pub(super) const SMALL: LogOptions = LogOptions {
    first_segment_bytes: KEPT_BACK_BYTES + (16 << 10),
    segment_bytes: 1 << 20,
    frame_bytes_max: 8 << 20,
    reserve_bytes: 4096,
    allows_direct: false,
    writes_direct: false,
    expected_node: None,
};

pub(super) fn ask(
    executor: &mut Executor,
    clock: &SettableClock,
    words: &str,
) -> (Reply, DurabilityWait) {
    let arguments: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let command = Command::parse(&arguments).unwrap();
    let mut wait = DurabilityWait::default();
    let now = executor.time.read(clock);
    let reply = executor.execute(now, &Caller::default(), &command, &mut wait);
    let reply = reply.unwrap();
    (reply, wait)
}

#[test]
fn a_grant_under_a_raise_that_is_not_synced_waits_for_it_also_if_another_made_it() {
    for durability in [Durability::Everysec, Durability::No, Durability::Volatile] {
        let (mut executor, clock) = executor(durability);
        let (_, first) = ask(&mut executor, &clock, "SET a token NX PX 30000");
        assert!(
            first.synced > Position::ZERO,
            "the raise is synced before the grant"
        );
        let (_, second) = ask(&mut executor, &clock, "SET b token NX PX 20000");
        assert_eq!(second.synced, first.synced, "{durability:?}");
        let (_, reader) = ask(&mut executor, &clock, "GET a");
        assert_eq!(reader.synced, first.synced, "{durability:?}");
    }
}

#[test]
fn what_was_granted_under_an_older_raise_is_revealed_only_after_that_one() {
    let (mut executor, clock) = executor(Durability::Everysec);
    let (_, first) = ask(&mut executor, &clock, "SET a token NX PX 10000");
    let (_, second) = ask(&mut executor, &clock, "SET b token NX PX 30000");
    assert!(second.synced > first.synced);
    let (_, reader) = ask(&mut executor, &clock, "GET a");
    assert!(reader.synced >= first.synced);
    assert!(
        reader.synced < second.synced,
        "the later raise is not its business"
    );
}

#[test]
fn a_reentered_lock_is_covered_for_the_time_it_has_left() {
    let (mut executor, clock) = executor(Durability::Everysec);
    ask(&mut executor, &clock, "HSET lock owner 1");
    ask(&mut executor, &clock, "PEXPIRE lock 50000");
    executor.ttl_bound.lower();
    executor.ttl_bound.lower();
    assert_eq!(executor.ttl_bound.on_record_ns, 0);
    let (_, wait) = ask(&mut executor, &clock, "HINCRBY lock owner 1");
    assert_eq!(executor.ttl_bound.on_record_ns, 50_000_000_000);
    assert!(wait.synced > Position::ZERO);
}

#[test]
fn a_script_with_a_deadline_beyond_the_cap_raises_the_bound_for_its_shorter_ones_too() {
    let (mut executor, clock) = executor(Durability::Everysec);
    let script = "redis.call('set',KEYS[1],'t','px',30000)\
                  redis.call('set',KEYS[2],'t','px',3600000)";
    let arguments: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"2", b"short", b"long"];
    let command = Command::parse(&arguments).unwrap();
    let mut wait = DurabilityWait::default();
    let now = executor.time.read(&clock);
    let reply = executor.execute(now, &Caller::default(), &command, &mut wait);
    let reply = reply.unwrap();
    assert_eq!(reply, Reply::Nil);
    assert_eq!(executor.ttl_bound.on_record_ns, 30_000_000_000);
}

#[test]
fn a_weaker_reply_waits_for_the_record_of_its_mode_and_a_stronger_one_for_itself() {
    let cap = Duration::from_secs(60);
    let (mut executor, clock) = executor(Durability::Always);
    ask(&mut executor, &clock, "SET raises token NX PX 20000");
    let (_, strong) = ask(&mut executor, &clock, "SET a token NX PX 20000");
    let now = executor.time.read(&clock).node;
    let record = executor.change_mode(now, Durability::No, cap);
    let (_, weak) = ask(&mut executor, &clock, "SET b token NX PX 10000");
    assert_eq!(
        weak.synced, record,
        "its own write may be lost, the mode not"
    );
    assert!(weak.written > record);
    // Also a connection that only looks, at what the stronger mode has not synced yet.
    let (_, reader) = ask(&mut executor, &clock, "GET a");
    assert_eq!(reader.synced, strong.synced);
    let (_, reader) = ask(&mut executor, &clock, "GET b");
    assert_eq!(reader.synced, record);
    // Back again: everything from here on is synced, and so is what is revealed of before.
    executor.change_mode(now, Durability::Always, cap);
    let (_, strong) = ask(&mut executor, &clock, "SET c token NX PX 10000");
    assert!(strong.synced > weak.written);
    let (_, reader) = ask(&mut executor, &clock, "GET b");
    assert_eq!(reader.synced, weak.written);
}

#[test]
fn a_raised_cap_is_on_record_before_a_grant_that_rests_on_it() {
    let (mut executor, clock) = executor(Durability::Everysec);
    let now = executor.time.read(&clock).node;
    let record = executor.change_mode(now, Durability::Everysec, Duration::from_secs(600));
    let (_, wait) = ask(&mut executor, &clock, "SET a token NX PX 500000");
    assert!(wait.synced > record, "the TTL bound follows the cap");
    assert_eq!(executor.ttl_bound.on_record_ns, 500_000_000_000);
    let (_, wait) = ask(&mut executor, &clock, "SET b token");
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
        let (mut executor, clock) = executor(durability);
        assert_eq!(
            executor.sample().wait,
            DurabilityWait::default(),
            "{durability:?}"
        );
        let mut keys = 0;
        for words in [
            "SET raises token NX PX 20000",
            "SET covered token NX PX 10000",
            "SET forever token NX",
            "SET covered-too token NX PX 10000",
        ] {
            keys += 1;
            let (_, wait) = ask(&mut executor, &clock, words);
            let sample = executor.sample();
            assert_eq!(sample.counts[0].keys, keys, "{words}");
            assert!(
                sample.wait.written >= wait.written,
                "{durability:?} {words}"
            );
            assert!(sample.wait.synced >= wait.synced, "{durability:?} {words}");
        }
        // A tick and a look change nothing that a count reveals.
        let before = executor.sample();
        let now = executor.time.read(&clock).node;
        executor.append(now, &ControlRecord::Tick);
        ask(&mut executor, &clock, "GET covered");
        assert_eq!(executor.sample(), before, "{durability:?}");
    }
}

#[test]
fn a_wait_goes_as_far_as_its_furthest_part_and_beyond_another_only_where_that_ends() {
    let until = |written, synced| DurabilityWait {
        written: Position::from_raw(written),
        ..DurabilityWait::until_synced(Position::from_raw(synced))
    };
    let wait = until(5, 3);
    assert_eq!(wait.beyond(until(4, 2)), wait);
    assert_eq!(wait.beyond(until(5, 3)), DurabilityWait::default());
    assert_eq!(wait.beyond(until(6, 2)), until(0, 3));
    assert_eq!(wait.position().get(), 5);
}

#[test]
fn a_key_that_ends_before_the_maintenance_comes_back_wakes_it_once() {
    let (mut executor, clock) = executor(Durability::Everysec);
    let now = executor.time.read(&clock).node;
    executor.sleep_until(now.saturating_add(Duration::from_secs(1)));
    assert!(!executor.take_wake_request(), "there is nothing to expire");
    ask(&mut executor, &clock, "SET long value PX 3600000");
    while executor.reclaim(now, 64) {}
    ask(&mut executor, &clock, "SET later value PX 60000");
    assert!(!executor.take_wake_request(), "it comes back before");
    ask(&mut executor, &clock, "SET key value PX 990");
    assert!(executor.take_wake_request());
    assert!(!executor.take_wake_request(), "nobody has asked again");
}

#[test]
fn a_node_outside_its_service_refuses_keys_and_scripts_and_nothing_else() {
    let (mut executor, clock) = executor(Durability::Everysec);
    let now = executor.time.read(&clock).node;
    let until = NodeTime::from_nanos(now.as_nanos() + 1_000_000);
    for (phase, text) in [
        (
            Phase::Waiting(until, "reason"),
            "RESTARTDELAY 1 ab this node is in its restart delay and serves no locks for another \
             1 ms (reason)",
        ),
        (
            Phase::Stopped("reason"),
            "ERR node ab grants no more: reason",
        ),
    ] {
        executor.phase = phase;
        for words in ["GET key", "SET key value", "EVAL return 0"] {
            let (reply, _) = ask(&mut executor, &clock, words);
            let Reply::Error(error) = reply else {
                panic!("{words}: {reply:?}");
            };
            assert_eq!(error.to_string(), text, "{words}");
        }
        let (reply, _) = ask(&mut executor, &clock, "TIME");
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    }
}

#[test]
fn keys_that_no_delay_covers_are_synced_only_where_they_are_logged_and_that_is_asked_for() {
    let hour = "SET hour token PX 3600000";
    let (mut executor, clock) = executor(Durability::Everysec);
    let (_, wait) = ask(&mut executor, &clock, hour);
    assert_eq!(wait.synced, wait.position());
    assert_eq!(executor.ttl_bound.on_record_ns, 0, "it is synced itself");

    let (mut executor, clock) = self::executor(Durability::Everysec);
    executor.rules.no_ttl_is_synced = false;
    let (_, wait) = ask(&mut executor, &clock, "SET forever token");
    assert_eq!(wait.synced, Position::ZERO);
    let (_, wait) = ask(&mut executor, &clock, "GET forever");
    assert_eq!(wait.synced, Position::ZERO);
    ask(&mut executor, &clock, hour);
    assert_eq!(
        executor.ttl_bound.on_record_ns, 60_000_000_000,
        "at least the cap"
    );

    let (mut executor, clock) = self::executor(Durability::Volatile);
    let (_, wait) = ask(&mut executor, &clock, "SET forever token");
    assert_eq!(wait, DurabilityWait::default(), "nothing of it is logged");
    ask(&mut executor, &clock, "SET lock token PX 20000");
    assert_eq!(executor.ttl_bound.on_record_ns, 20_000_000_000);
}

/// Found from outside: a pipeline of scripts that set a hundred deadlines each was executed under one lock, and paid for a few.
#[test]
fn scripts_that_set_many_deadlines_free_as_many_as_they_set() {
    let (mut executor, clock) = executor(Durability::Volatile);
    let body = "for i=1,400 do redis.call('set',ARGV[1]..i,'v','px',50) end";
    for turn in 0..50 {
        let turn = turn.to_string();
        let words = [b"EVAL", body.as_bytes(), b"0", turn.as_bytes()];
        let command = Command::parse(&words).unwrap();
        let now = executor.time.read(&clock);
        let reply = executor.execute(
            now,
            &Caller::default(),
            &command,
            &mut DurabilityWait::default(),
        );
        let reply = reply.unwrap();
        assert_eq!(reply, Reply::Nil);
        clock.advance(Duration::from_millis(10));
        let keys = executor.engine.count(0).keys;
        assert!(keys <= 4_000, "{keys}, of which at most 2000 live");
    }
}

#[test]
fn the_last_raise_that_a_log_without_keys_has_room_for_is_to_the_cap() {
    let (mut executor, clock, _) = core_with_log(Durability::Volatile, &SMALL);
    let now = executor.time.read(&clock).node;
    ask(&mut executor, &clock, "SET a token PX 20000");
    while executor.appender.room() >= 1024 {
        assert_eq!(executor.ttl_bound.on_record_ns, 20_000_000_000);
        ask(&mut executor, &clock, "SET a token PX 20000");
        executor.append(now, &ControlRecord::Tick);
    }
    ask(&mut executor, &clock, "SET a token PX 20000");
    assert_eq!(
        executor.ttl_bound.on_record_ns, 20_000_000_000,
        "no raise is needed"
    );
    ask(&mut executor, &clock, "SET a token PX 21000");
    assert_eq!(executor.ttl_bound.on_record_ns, 60_000_000_000);
    // A script may change more than the log has room for: none of it is logged.
    let script = "for i = 1, 100 do redis.call('set', KEYS[1] .. i, ('x'):rep(1000)) end return 0";
    let arguments: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"1", b"key"];
    let command = Command::parse(&arguments).unwrap();
    let moment = executor.time.read(&clock);
    let reply = executor.execute(
        moment,
        &Caller::default(),
        &command,
        &mut DurabilityWait::default(),
    );
    let reply = reply.unwrap();
    assert_eq!(reply, Reply::Integer(0));
}

#[test]
fn the_ttl_bound_falls_with_a_rotation_to_what_was_granted_since_the_last() {
    let (mut executor, clock, mut preparer) = core_with_log(Durability::Everysec, &SMALL);
    let mut bounds = Vec::new();
    ask(&mut executor, &clock, "SET a token PX 30000");
    for rotation in 1..=2 {
        preparer.prepare().unwrap();
        for _ in 0..10_000 {
            if executor.appender.rotations() == rotation {
                break;
            }
            bounds.push(executor.ttl_bound.on_record_ns);
            let value = "x".repeat(4096);
            let set = format!("SET b {value} PX 5000");
            let (reply, _) = ask(&mut executor, &clock, &set);
            assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        }
        bounds.dedup();
    }
    assert_eq!(bounds, [30_000_000_000], "nothing falls between rotations");
    assert_eq!(executor.ttl_bound.on_record_ns, 5_000_000_000);
}

#[test]
fn node_time_goes_with_the_clock_and_a_reply_has_taken_its_length() {
    let (mut executor, clock) = executor(Durability::Everysec);
    let before = executor.time.read(&clock).node;
    clock.advance(Duration::from_secs(1));
    let second = executor.time.read(&clock).node.as_nanos() - before.as_nanos();
    assert_eq!(second, 1_000_000_000);
    ask(
        &mut executor,
        &clock,
        &format!("SET key {}", "x".repeat(100)),
    );
    ask(&mut executor, &clock, "GET key");
    assert!(executor.reply_bytes() >= 100, "{}", executor.reply_bytes());
}

#[test]
fn a_run_without_a_log_knows_how_long_its_crash_would_have_to_be_waited_out() {
    for durability in [Durability::Volatile, Durability::Everysec] {
        let (mut executor, clock) = executor(durability);
        let now = executor.time.read(&clock).node;
        assert_eq!(executor.latest_unlogged(), None);
        ask(&mut executor, &clock, "SET forever token");
        ask(&mut executor, &clock, "SET lock token PX 20000");
        let owed = executor.append_serving(now);
        if durability == Durability::Volatile {
            let latest = now.saturating_add(Duration::from_secs(20));
            assert_eq!(executor.latest_unlogged(), Some(latest));
            assert_eq!(executor.owed_until, latest);
            let expected = Unlogged {
                left_ns: 20_000_000_000,
                without_ttl: 1,
            };
            assert_eq!(owed, expected);
        } else {
            assert_eq!(
                (executor.latest_unlogged(), owed),
                (None, Unlogged::default())
            );
        }
    }
}

/// Found by the crash states: whoever was refused next waited as well, for good.
#[test]
fn a_command_that_is_refused_behind_one_that_waits_is_answered() {
    let disk = MemoryDisk::new();
    let (mut executor, clock, mut preparer) = core_on(&disk, Durability::Everysec, &SMALL);
    disk.set_capacity(Some(0));
    assert!(!preparer.prepare().unwrap());
    let refuse: [fn(&mut Executor); 2] = [
        |executor| executor.phase = Phase::Stopped("it stops"),
        |executor| executor.phase = Phase::Serving,
    ];
    for refuse in refuse {
        executor.phase = Phase::Serving;
        ask(&mut executor, &clock, "BLPOP list 0");
        assert!(executor.wait_limit().is_some(), "it waits");
        refuse(&mut executor);
        // More than there is room for.
        let bytes = usize::try_from(SMALL.first_segment_bytes).expect("a few KiB");
        let long = "x".repeat(bytes);
        let (reply, _) = ask(&mut executor, &clock, &format!("RPUSH list {long}"));
        assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
        assert!(executor.wait_limit().is_none(), "it is told so");
        executor.engine.stop_waiting(0);
    }
}
