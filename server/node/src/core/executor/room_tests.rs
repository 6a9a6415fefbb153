//! What the log has room for.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use quorlock_engine::control::Durability;
use quorlock_engine::{Caller, Command, NO_ROOM, Reply, numbered_spec};
use quorlock_persistence::{LogOptions, MemoryDisk};

use crate::clock::SettableClock;
use crate::core::executor::Executor;
use crate::core::executor::room::{CHECKPOINT_BYTES, KEPT_BACK_BYTES};
use crate::core::executor_tests::{SMALL, ask, core_on, core_with_log};
use crate::core::wait::DurabilityWait;

/// The longest value of SET that a log of this room takes, and HSET's.
#[test]
fn a_command_is_refused_where_what_it_may_write_might_not_fit() {
    let (mut executor, clock, mut preparer) = core_with_log(Durability::Everysec, &SMALL);
    let room = usize::try_from(executor.appender.room() - KEPT_BACK_BYTES).unwrap();
    let core = &executor;
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
    assert!(lacks(&[b"EVAL", b"return 0", b"0"]), "it may write 7 MiB");
    let words: [&[u8]; 3] = [b"SET", b"key", &value];
    let long = Command::parse(&words).unwrap();
    let of_all = room as u64 + 1;
    assert!(executor.transaction_waits_for_segment(of_all));
    assert!(!executor.transaction_waits_for_segment(of_all - 1));
    assert_eq!(run(&mut executor, &clock, &words), None);
    preparer.prepare().unwrap();
    assert!(!executor.lacks_room_for(&long));
    assert!(!executor.transaction_waits_for_segment(of_all));
    assert_eq!(run(&mut executor, &clock, &words), Some(Reply::Ok));

    let (executor, ..) = core_with_log(Durability::Volatile, &SMALL);
    assert!(!executor.lacks_room_for(&long), "it is not logged");
    assert!(!executor.transaction_waits_for_segment(of_all));
}

fn run(executor: &mut Executor, clock: &SettableClock, words: &[&[u8]]) -> Option<Reply> {
    let command = Command::parse(words).unwrap();
    let now = executor.time.read(clock);
    executor.execute(
        now,
        &Caller::default(),
        &command,
        &mut DurabilityWait::default(),
    )
}

/// One that holds one value of 70,000 bytes, and has no room to log it twice.
const LARGER: LogOptions = LogOptions {
    first_segment_bytes: KEPT_BACK_BYTES + (78 << 10),
    ..SMALL
};

/// A log whose disk is full, with what is left of its first segment.
fn full(durability: Durability) -> (Executor, SettableClock) {
    let disk = MemoryDisk::new();
    let (executor, clock, mut preparer) = core_on(&disk, durability, &LARGER);
    disk.set_capacity(Some(0));
    assert!(!preparer.prepare().unwrap());
    (executor, clock)
}

/// 20 clients that each wrote 3 MB at once were told of a full disk, with most of it free.
#[test]
fn a_client_that_finds_no_room_waits_for_a_segment_as_often_as_others_are_quicker() {
    let (mut executor, clock, mut preparer) = core_with_log(Durability::Everysec, &SMALL);
    let value = vec![b'x'; 2 << 20];
    let words: [&[u8]; 3] = [b"SET", b"key", &value];
    for quicker in 0..3 {
        assert_eq!(run(&mut executor, &clock, &words), None);
        preparer.prepare().unwrap();
        for _ in 0..quicker {
            while let Some(reply) = run(&mut executor, &clock, &words) {
                assert_eq!(reply, Reply::Ok);
            }
            preparer.prepare().unwrap();
        }
        while let Some(reply) = run(&mut executor, &clock, &words) {
            assert_eq!(reply, Reply::Ok);
        }
    }
    assert!(!executor.take_was_refused());
    assert_eq!(executor.engine.count(0).keys, 1);
}

#[test]
fn a_script_that_runs_out_of_room_is_taken_back_and_run_again_with_more() {
    let (mut executor, clock, mut preparer) = core_with_log(Durability::Everysec, &SMALL);
    let script = b"redis.call('incr', KEYS[1]) redis.log(redis.LOG_WARNING, 'once') \
                   redis.call('get', KEYS[1]) redis.pcall('set', KEYS[2], ('x'):rep(100000)) return redis.call('incr', KEYS[1])";
    let words: [&[u8]; 5] = [b"EVAL", script, b"2", b"count", b"long"];
    let before = executor.appender.next_position();
    let room = executor.appender.room() - KEPT_BACK_BYTES;
    assert_eq!(run(&mut executor, &clock, &words), None);
    assert_eq!(
        executor.appender.next_position(),
        before,
        "nothing is logged"
    );
    assert_eq!(executor.engine.count(0).keys, 0);
    assert!(room < 100_000 && executor.engine.take_script_log().is_empty());
    preparer.prepare().unwrap();
    assert_eq!(run(&mut executor, &clock, &words), Some(Reply::Integer(2)));
    assert_eq!(executor.engine.count(0).keys, 2);
    assert_eq!(executor.engine.take_script_log().len(), 1);
    assert!(!executor.take_was_refused());
    let calls = |name| {
        let (number, _) = numbered_spec(name).unwrap();
        executor.script_counts().count(number).calls
    };
    assert_eq!(
        (calls(b"incr"), calls(b"set")),
        (2, 1),
        "of the run that stayed"
    );
    let statistics = executor.engine.statistics();
    assert_eq!(statistics.hits, 1, "GET");
}

#[test]
fn a_command_that_logs_what_it_finds_waits_for_room_and_then_does_it() {
    let (mut executor, clock, mut preparer) = core_with_log(Durability::Everysec, &LARGER);
    let value = "x".repeat(70_000);
    ask(&mut executor, &clock, &format!("SET long {value}"));
    let rename: [&[u8]; 3] = [b"RENAME", b"long", b"renamed"];
    assert_eq!(run(&mut executor, &clock, &rename), None);
    assert_eq!(
        ask(&mut executor, &clock, "EXISTS long renamed").0,
        Reply::Integer(1)
    );
    preparer.prepare().unwrap();
    assert_eq!(run(&mut executor, &clock, &rename), Some(Reply::Ok));
    assert_eq!(
        ask(&mut executor, &clock, "EXISTS renamed").0,
        Reply::Integer(1)
    );
}

/// It was told of a full disk, and what was pushed was left to others.
#[test]
fn a_client_that_waits_for_what_is_large_is_served_once_there_is_room() {
    let (mut executor, clock, mut preparer) = core_with_log(Durability::Everysec, &SMALL);
    let move_words: [&[u8]; 6] = [b"BLMOVE", b"from", b"to", b"LEFT", b"RIGHT", b"0"];
    let command = Command::parse(&move_words).unwrap();
    let caller = Caller {
        client_id: 7,
        ..Caller::default()
    };
    let now = executor.time.read(&clock);
    executor.execute(now, &caller, &command, &mut DurabilityWait::default());
    assert!(executor.wait_limit().is_some());
    let value = "x".repeat(2_000);
    ask(&mut executor, &clock, &format!("SET pad {value}"));
    let value = "x".repeat(3_000);
    ask(&mut executor, &clock, &format!("RPUSH from {value}"));
    assert!(executor.take_served().is_empty() && executor.has_postponed());
    assert!(preparer.needs_preparing(), "it is asked for");
    preparer.prepare().unwrap();
    let now = executor.time.read(&clock);
    executor.serve_postponed(now);
    let served = executor.take_served();
    assert_eq!(served.len(), 1);
    assert_eq!(served[0].served.client, 7);
    assert!(!executor.has_postponed() && !served[0].served.reply.is_error());
    assert_eq!(ask(&mut executor, &clock, "LLEN to").0, Reply::Integer(1));
}

/// A queue or a set of locks on a full disk: what removes little works, though it might have found much.
#[test]
fn a_command_that_logs_what_it_finds_is_refused_only_where_that_does_not_fit() {
    let (mut executor, clock) = full(Durability::Everysec);
    let value = "x".repeat(70_000);
    for (line, reply) in [
        ("SADD set a b c", Reply::Integer(3)),
        ("ZADD sorted 1 a 2 b", Reply::Integer(2)),
        ("SET short v", Reply::Ok),
        (&format!("SET long {value}"), Reply::Ok),
        ("ZREMRANGEBYSCORE sorted 1 1", Reply::Integer(1)),
        ("SMOVE set other a", Reply::Integer(1)),
        ("RENAME short renamed", Reply::Ok),
    ] {
        assert_eq!(ask(&mut executor, &clock, line).0, reply, "{line}");
        assert!(!executor.take_was_refused());
    }
    let room = executor.appender.room();
    let left = room - CHECKPOINT_BYTES;
    assert!((1_024..70_000).contains(&left), "{left}");
    let before = executor.engine.count(0);
    let (reply, _) = ask(&mut executor, &clock, "RENAME long renamed");
    assert_eq!(reply, Reply::Error(NO_ROOM));
    assert!(executor.take_was_refused());
    assert_eq!(executor.appender.room(), room, "nothing is logged");
    assert_eq!(executor.engine.count(0), before);
    assert_eq!(
        ask(&mut executor, &clock, "EXISTS long renamed").0,
        Reply::Integer(2)
    );
}

/// Also where it would fit by a little: how much a command writes that finds nothing is known before.
#[test]
fn a_command_whose_bytes_are_known_is_refused_before_it_is_executed() {
    let (mut executor, clock) = full(Durability::Everysec);
    let room = usize::try_from(executor.appender.room()).unwrap();
    let value = "x".repeat(room - 1024 - 3 * (32 + 4) - "SETkeyx".len() + 1);
    let (reply, _) = ask(&mut executor, &clock, &format!("SET keyx {value}"));
    assert_eq!(reply, Reply::Error(NO_ROOM));
    assert_eq!(executor.engine.count(0).keys, 0);
}
