//! What the log has room for.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use quorlock_engine::control::Durability;
use quorlock_engine::{Command, NO_ROOM, Reply};

use crate::core::executor_tests::{SMALL, ask, core_with_log};

/// The longest value of SET that a log of this room takes, and HSET's.
#[test]
fn a_command_is_refused_where_what_it_may_write_might_not_fit() {
    let (executor, _, mut preparer) = core_with_log(Durability::Everysec, &SMALL);
    let room = usize::try_from(executor.appender.room()).unwrap();
    assert!(room < usize::try_from(SMALL.first_segment_bytes).unwrap());
    let lacks = |words: &[&[u8]]| executor.lacks_room_for(&Command::parse(words).unwrap());
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
    let of_all = room as u64 + 1;
    assert!(executor.waits_for_segment(&long));
    assert!(executor.transaction_waits_for_segment(of_all));
    assert!(!executor.waits_for_segment(&short));
    assert!(!executor.transaction_waits_for_segment(of_all - 1));
    preparer.prepare().unwrap();
    assert!(!executor.lacks_room_for(&long) && !executor.waits_for_segment(&long));
    assert!(!executor.transaction_waits_for_segment(of_all));

    let (executor, ..) = core_with_log(Durability::Volatile, &SMALL);
    assert!(!executor.lacks_room_for(&long), "it is not logged");
    assert!(!executor.transaction_waits_for_segment(of_all));
}

/// A queue or a set of locks on a full disk: what removes little works, though it might have found much.
#[test]
fn a_command_that_logs_what_it_finds_is_refused_only_where_that_does_not_fit() {
    let (mut executor, clock, _preparer) = core_with_log(Durability::Everysec, &SMALL);
    let value = "x".repeat(5_000);
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
    let left = executor.appender.room();
    assert!((1_024..5_000).contains(&left), "{left}");
    let before = executor.engine.count(0);
    let (reply, _) = ask(&mut executor, &clock, "RENAME long renamed");
    assert_eq!(reply, Reply::Error(NO_ROOM));
    assert!(executor.take_was_refused());
    assert_eq!(executor.appender.room(), left, "nothing is logged");
    assert_eq!(executor.engine.count(0), before);
    assert_eq!(
        ask(&mut executor, &clock, "EXISTS long renamed").0,
        Reply::Integer(2)
    );
}

/// Also where it would fit by a little: how much a command writes that finds nothing is known before.
#[test]
fn a_command_whose_bytes_are_known_is_refused_before_it_is_executed() {
    let (mut executor, clock, _preparer) = core_with_log(Durability::Everysec, &SMALL);
    let room = usize::try_from(executor.appender.room()).unwrap();
    let value = "x".repeat(room - 1024 - 3 * (32 + 4) - "SETkeyx".len() + 1);
    let (reply, _) = ask(&mut executor, &clock, &format!("SET keyx {value}"));
    assert_eq!(reply, Reply::Error(NO_ROOM));
    assert_eq!(executor.engine.count(0).keys, 0);
}
