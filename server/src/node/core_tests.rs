//! What replies wait for, command by command, without threads or disks.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::control::{Boot, Durability, Record, Start};
use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::{Caller, Command, Engine, EngineOptions, NodeTime, Reply};
use quorlock_persistence::{Identity, MemoryDisk, Options, Preparer, Recovery};

use crate::clock::{Clock, SettableClock};
use crate::node::core::{Core, Phase, Rules, Wait};
use crate::node::time::Timekeeper;

pub(super) fn core(durability: Durability) -> (Core, SettableClock) {
    let (core, clock, _) = core_with_log(durability, &Options::default());
    (core, clock)
}

fn core_with_log(durability: Durability, sizes: &Options) -> (Core, SettableClock, Preparer) {
    let clock = SettableClock::new();
    let start = Start {
        incarnation: 1,
        boot: Boot::default(),
        fingerprint: 0,
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
    let identity = Identity {
        node_id: [1; 20],
        boot_id: [0; 16],
        incarnation: 1,
    };
    let recovery = Recovery::read(disk, sizes).unwrap();
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
        log.preparer,
    )
}

/// A log whose first segment holds little, and no other is made ahead.
const SMALL: Options = Options {
    first_segment_bytes: 16 << 10,
    segment_bytes: 1 << 20,
    frame_bytes_max: 8 << 20,
    reserve_bytes: 4096,
    expected_node: None,
};

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
    core.promise.lower();
    core.promise.lower();
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

#[test]
fn a_wait_goes_as_far_as_its_furthest_part_and_beyond_another_only_where_that_ends() {
    let wait = Wait {
        written: 5,
        synced: 3,
    };
    let beyond = |written, synced| wait.beyond(Wait { written, synced });
    assert_eq!(beyond(4, 2), wait);
    assert_eq!(beyond(5, 3), Wait::default());
    assert_eq!(beyond(6, 2).written, 0);
    assert_eq!(beyond(6, 2).synced, 3);
    assert_eq!(wait.position(), 5);
}

#[test]
fn the_next_key_with_a_deadline_wakes_whoever_asked_once() {
    let (mut core, clock) = core(Durability::Everysec);
    core.wish_for_activity();
    assert!(!core.take_idle_wish(), "there is nothing to expire");
    ask(&mut core, &clock, "SET key value PX 1000");
    assert!(core.take_idle_wish());
    assert!(!core.take_idle_wish(), "nobody has asked again");
}

#[test]
fn a_node_outside_its_service_refuses_keys_and_scripts_and_nothing_else() {
    let (mut core, clock) = core(Durability::Everysec);
    let now = core.now(&clock).node;
    let until = NodeTime::from_nanos(now.as_nanos() + 1_000_000);
    for (phase, code) in [
        (Phase::Waiting(until, "reason"), "RESTARTDELAY node"),
        (Phase::Stopped("reason"), "ERR node"),
    ] {
        core.phase = phase;
        for words in ["GET key", "SET key value", "EVAL return 0"] {
            let (reply, _) = ask(&mut core, &clock, words);
            let Reply::Error(error) = reply else {
                panic!("{words}: {reply:?}");
            };
            assert!(error.to_string().starts_with(code), "{words}: {error}");
        }
        let (reply, _) = ask(&mut core, &clock, "TIME");
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    }
}

#[test]
fn keys_that_no_delay_covers_are_synced_only_where_they_are_logged_and_that_is_asked_for() {
    let hour = "SET hour token PX 3600000";
    let (mut core, clock) = core(Durability::Everysec);
    let (_, wait) = ask(&mut core, &clock, hour);
    assert_eq!(wait.synced, wait.position());
    assert_eq!(core.promise.on_record_ns, 0, "it is synced itself");

    let (mut core, clock) = self::core(Durability::Everysec);
    core.rules.no_ttl_is_synced = false;
    let (_, wait) = ask(&mut core, &clock, "SET forever token");
    assert_eq!(wait.synced, 0);
    let (_, wait) = ask(&mut core, &clock, "GET forever");
    assert_eq!(wait.synced, 0);
    ask(&mut core, &clock, hour);
    assert_eq!(
        core.promise.on_record_ns, 60_000_000_000,
        "at least the cap"
    );

    let (mut core, clock) = self::core(Durability::Volatile);
    let (_, wait) = ask(&mut core, &clock, "SET forever token");
    assert_eq!(wait, Wait::default(), "nothing of it is logged");
    ask(&mut core, &clock, "SET lock token PX 20000");
    assert_eq!(core.promise.on_record_ns, 20_000_000_000);
}

/// The longest value of SET that a log of this room takes, and HSET's.
#[test]
fn a_command_is_refused_where_what_it_may_write_might_not_fit() {
    let (core, _, mut preparer) = core_with_log(Durability::Everysec, &SMALL);
    let room = usize::try_from(core.appender.room()).unwrap();
    assert!(room < SMALL.first_segment_bytes as usize);
    let lacks = |words: &[&[u8]]| core.lacks_room_for(&Command::parse(words).unwrap());
    let value = vec![b'x'; room];
    // Each argument counts 32 bytes and the key, the whole 1,024.
    let longest = room - 1024 - 3 * (32 + 4) - b"SETkeyx".len();
    assert!(!lacks(&[b"SET", b"keyx", &value[..longest]]));
    assert!(lacks(&[b"SET", b"keyx", &value[..longest + 1]]));
    // HSET writes its key once for a field and its value.
    let longest = room - 1024 - 4 * (32 + 2) - b"HSETkeyxfield".len();
    assert!(!lacks(&[b"HSET", b"keyx", b"field", &value[..longest]]));
    assert!(lacks(&[b"HSET", b"keyx", b"field", &value[..longest + 1]]));
    assert!(!lacks(&[b"GET", &value[..room]]), "it writes nothing");
    assert!(lacks(&[b"EVAL", b"return 0", b"0"]), "it may write 4 MiB");
    let words: [&[u8]; 3] = [b"SET", b"key", &value];
    let long = Command::parse(&words).unwrap();
    let short = Command::parse(&[b"SET", b"key", b"x"]).unwrap();
    assert!(core.waits_for_segment(&long));
    assert!(!core.waits_for_segment(&short));
    preparer.prepare().unwrap();
    assert!(!core.lacks_room_for(&long) && !core.waits_for_segment(&long));

    let (core, _, _) = core_with_log(Durability::Volatile, &SMALL);
    assert!(!core.lacks_room_for(&long), "it is not logged");
}

#[test]
fn the_last_raise_that_a_log_without_keys_has_room_for_is_to_the_cap() {
    let (mut core, clock, _) = core_with_log(Durability::Volatile, &SMALL);
    let now = core.now(&clock).node;
    ask(&mut core, &clock, "SET a token PX 20000");
    while core.appender.room() >= 1024 {
        assert_eq!(core.promise.on_record_ns, 20_000_000_000);
        ask(&mut core, &clock, "SET a token PX 20000");
        core.append(now, &Record::Tick);
    }
    ask(&mut core, &clock, "SET a token PX 20000");
    assert_eq!(
        core.promise.on_record_ns, 20_000_000_000,
        "no raise is needed"
    );
    ask(&mut core, &clock, "SET a token PX 21000");
    assert_eq!(core.promise.on_record_ns, 60_000_000_000);
    // A script may change more than the log has room for: none of it is logged.
    let script = "for i = 1, 100 do redis.call('set', KEYS[1] .. i, ('x'):rep(1000)) end return 0";
    let arguments: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"1", b"key"];
    let command = Command::parse(&arguments).unwrap();
    let moment = core.now(&clock);
    let reply = core.execute(moment, &Caller::default(), &command, &mut Wait::default());
    assert_eq!(reply, Reply::Integer(0));
}

#[test]
fn the_promise_falls_with_a_rotation_to_what_was_granted_since_the_last() {
    let (mut core, clock, mut preparer) = core_with_log(Durability::Everysec, &SMALL);
    let mut promises = Vec::new();
    ask(&mut core, &clock, "SET a token PX 30000");
    for rotation in 1..=2 {
        preparer.prepare().unwrap();
        while core.appender.rotations() < rotation {
            promises.push(core.promise.on_record_ns);
            let value = "x".repeat(4096);
            ask(&mut core, &clock, &format!("SET b {value} PX 5000"));
        }
        promises.dedup();
    }
    assert_eq!(
        promises,
        [30_000_000_000],
        "nothing falls between rotations"
    );
    assert_eq!(core.promise.on_record_ns, 5_000_000_000);
}
