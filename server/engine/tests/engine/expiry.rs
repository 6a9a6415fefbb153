//! Deadlines to the nanosecond, and the memory behind them.
//!
//! A key exists until its deadline and not at it, for every command alike, whether or not it has
//! been reclaimed meanwhile.

use std::time::Duration;

use crate::harness::{Node, state_of};
use quorlock_engine::{Moment, NodeTime};

/// A node just before, at and just after the deadline of a key `k` with a TTL of 10 s.
fn around_deadline(setup: &[&str], ask: &str) -> [String; 3] {
    [-1_i64, 0, 1].map(|offset| {
        let mut node = Node::default();
        for line in setup {
            node.run(line);
        }
        let deadline = node.now.node.as_nanos() + 10_000_000_000;
        let nanos = deadline.checked_add_signed(offset).unwrap();
        node.now.node = NodeTime::from_nanos(nanos);
        node.run(ask)
    })
}

#[test]
fn a_key_ends_exactly_at_its_deadline() {
    let string: &[&str] = &["SET k v PX 10000"];
    let hash: &[&str] = &["HSET k f v", "PEXPIRE k 10000"];
    let cases: &[(&[&str], &str, &str, &str)] = &[
        (string, "GET k", "\"v\"", "nil"),
        (string, "EXISTS k", "1", "0"),
        (string, "TYPE k", "string", "none"),
        (string, "SET k w NX", "nil", "OK"),
        (string, "SET k w XX", "OK", "nil"),
        (string, "SET k w GET", "\"v\"", "nil"),
        (string, "DEL k", "1", "0"),
        (string, "UNLINK k", "1", "0"),
        (string, "PTTL k", "1", "-2"),
        (string, "TTL k", "0", "-2"),
        (string, "PERSIST k", "1", "0"),
        (string, "PEXPIRE k 5", "1", "0"),
        (string, "EXPIRE k -1", "1", "0"),
        (string, "KEYS *", "[\"k\"]", "[]"),
        (string, "SCAN 0", "[\"0\", [\"k\"]]", "[\"0\", []]"),
        (
            string,
            "INCR k",
            "-ERR value is not an integer or out of range",
            "1",
        ),
        (string, "STRLEN k", "1", "0"),
        (hash, "HGET k f", "\"v\"", "nil"),
        (hash, "HSET k f w", "0", "1"),
        (hash, "HINCRBY k n 1", "1", "1"),
        (hash, "HDEL k f", "1", "0"),
        (hash, "HGETALL k", "[\"f\", \"v\"]", "[]"),
        (
            hash,
            "SET k 1 GET",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
            "nil",
        ),
    ];
    for (setup, ask, before, after) in cases {
        assert_eq!(
            around_deadline(setup, ask),
            [*before, *after, *after],
            "{ask}"
        );
    }
}

#[test]
fn what_replaces_an_expired_key_inherits_nothing() {
    let mut node = Node::default();
    node.run("HSET k f v");
    node.run("PEXPIRE k 10");
    node.advance(Duration::from_millis(10));
    assert_eq!(node.run("HSET k g w"), "1");
    assert_eq!(node.run("HGETALL k"), "[\"g\", \"w\"]");
    assert_eq!(node.run("TTL k"), "-1");
    node.run("SET n 7 PX 10");
    node.advance(Duration::from_millis(10));
    assert_eq!(node.run("INCRBY n 5"), "5");
    assert_eq!(node.run("PTTL n"), "-1");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}

#[test]
fn time_left_is_rounded_up_so_that_a_live_key_never_shows_zero() {
    let mut node = Node::default();
    node.run("SET k v PX 1500");
    assert_eq!(node.run("PTTL k"), "1500");
    assert_eq!(node.run("TTL k"), "2");
    node.now.node = node.now.node.saturating_add(Duration::from_nanos(1));
    assert_eq!(node.run("PTTL k"), "1500");
    node.advance(Duration::from_micros(1_499_001));
    assert_eq!(node.run("PTTL k"), "1");
}

#[test]
fn absolute_times_use_the_wall_clock_once_and_are_deaf_to_its_steps() {
    let mut node = Node::default();
    let wall_ms = node.now.wall_us / 1000;
    assert_eq!(node.run(&format!("SET k v PXAT {}", wall_ms + 1000)), "OK");
    // The clock stands at .456 of a millisecond: rounded up there is a little less left.
    assert_eq!(node.run("PTTL k"), "1000");
    assert_eq!(node.run("PEXPIRETIME k"), (wall_ms + 1000).to_string());
    let step = 3_600_000_000;
    for wall_us in [node.now.wall_us + step, node.now.wall_us - step] {
        node.now = Moment {
            wall_us,
            ..node.now
        };
        assert_eq!(node.run("PTTL k"), "1000");
        assert_eq!(node.run("GET k"), "\"v\"");
    }
    node.advance(Duration::from_micros(999_544));
    assert_eq!(node.run("GET k"), "nil");
    // What has passed already by the wall clock deletes; the very instant counts as passed.
    let mut node = Node::default();
    node.now.wall_us = 1_700_000_000_000_000;
    node.run("SET k v");
    assert_eq!(node.run("EXPIREAT k 1700000000"), "1");
    assert_eq!(node.run("EXISTS k"), "0");
    node.run("SET k v");
    assert_eq!(node.run("PEXPIREAT k 1700000000001"), "1");
    assert_eq!(node.run("PTTL k"), "1");
}

#[test]
fn every_ttl_that_redis_accepts_is_accepted_and_told_as_asked() {
    let mut node = Node::default();
    node.now.wall_us = 1_700_000_000_123_000;
    let longest_ms = i64::MAX - 1_700_000_000_123;
    let asked = [
        9_223_372_036_854 - 5001,
        9_223_372_036_854 - 4999,
        9_223_372_036_854,
        18_446_744_073_709,
        18_446_744_073_710,
        900_719_925_474_099,
        longest_ms - 1,
        longest_ms,
    ];
    for ms in asked {
        for command in ["SET k v PX", "PSETEX k", "PEXPIRE k"] {
            let line = match command {
                "PSETEX k" => format!("PSETEX k {ms} v"),
                _ => format!("{command} {ms}"),
            };
            node.run("SET k v");
            assert!(["OK", "1"].contains(&&*node.run(&line)), "{line}");
            assert!(node.effects.uncovered, "{line}: no restart delay covers it");
            assert_eq!(node.run("PTTL k"), ms.to_string(), "{line}");
            let unix_ms = ms + 1_700_000_000_123;
            assert_eq!(node.run("PEXPIRETIME k"), unix_ms.to_string(), "{line}");
            let seconds = (ms + 500) / 1000;
            assert_eq!(node.run("TTL k"), seconds.to_string(), "{line}");
            assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
            assert_eq!(node.run(&format!("PEXPIREAT k {unix_ms}")), "1");
            assert_eq!(node.run("PTTL k"), ms.to_string(), "PEXPIREAT k {unix_ms}");
        }
    }
    assert_eq!(node.run(&format!("PEXPIREAT k {}", i64::MAX)), "1");
    assert_eq!(node.run("PEXPIRETIME k"), i64::MAX.to_string());
    node.advance(Duration::from_millis(7));
    assert_eq!(node.run("PTTL k"), (longest_ms - 7).to_string());
    assert_eq!(node.engine.reclaim(node.now.node, usize::MAX).freed, 0);
}

#[test]
fn every_ttl_that_redis_refuses_is_refused_and_changes_nothing() {
    let mut node = Node::default();
    node.now.wall_us = 1_700_000_000_123_000;
    let longest_ms = i64::MAX - 1_700_000_000_123;
    node.run("SET k v PX 1000");
    let cases = [
        (format!("SET k w PX {}", longest_ms + 1), "set"),
        (format!("SET k w EX {}", longest_ms / 1000 + 1), "set"),
        (format!("SET k w EX {}", i64::MAX / 1000 + 1), "set"),
        (format!("SET k w EXAT {}", i64::MAX / 1000 + 1), "set"),
        (format!("SETEX k {} w", longest_ms / 1000 + 1), "setex"),
        (format!("PSETEX k {} w", longest_ms + 1), "psetex"),
        (format!("PEXPIRE k {}", longest_ms + 1), "pexpire"),
        (format!("EXPIRE k {}", longest_ms / 1000 + 1), "expire"),
        (format!("EXPIRE k {}", i64::MIN / 1000 - 1), "expire"),
        (format!("EXPIREAT k {}", i64::MAX / 1000 + 1), "expireat"),
    ];
    for (line, name) in cases {
        let refused = format!("-ERR invalid expire time in \\'{name}\\' command");
        assert_eq!(node.run(&line), refused, "{line}");
    }
    assert_eq!(node.run("GET k"), "\"v\"");
    assert_eq!(node.run("PTTL k"), "1000");
}

#[test]
fn deadlines_beyond_the_end_of_the_clock_are_never_reached() {
    let mut node = Node::default();
    node.now.node = NodeTime::from_nanos(0);
    node.run("SET k v PX 900719925474099");
    node.run("SET n v");
    node.now.node = NodeTime::from_nanos(u64::MAX - 1_000_000);
    assert_eq!(node.run("SET l v PX 1000"), "OK");
    assert_eq!(node.run("PTTL l"), "1000");
    let left_ms: i64 = 900_719_925_474_099 - 18_446_744_073_709;
    assert_eq!(node.run("PTTL k"), left_ms.to_string());
    node.engine.reclaim(node.now.node, usize::MAX);
    assert_eq!(node.run("DBSIZE"), "3");
    assert_eq!(node.run("PTTL n"), "-1");
}

#[test]
fn expired_keys_leave_memory_in_bounded_steps() {
    let mut node = Node::default();
    for number in 0..1000 {
        node.run(&format!("SET key:{number} v PX {}", 100 + number % 50));
    }
    node.run("SET stays v");
    node.run("SET later v PX 5000");
    assert_eq!(node.engine.reclaim(node.now.node, 10_000).freed, 0);
    let due = node.engine.next_deadline().unwrap();
    assert!(due <= node.now.node.saturating_add(Duration::from_millis(102)));
    node.advance(Duration::from_millis(152));
    assert_eq!(node.run("DBSIZE"), "1002");
    let mut turns = 0;
    loop {
        let reclaimed = node.engine.reclaim(node.now.node, 64);
        assert!(reclaimed.freed <= 64, "a turn is bounded");
        turns += 1;
        if !reclaimed.more {
            break;
        }
    }
    assert!(turns >= 1000 / 64);
    assert_eq!(node.run("DBSIZE"), "2");
    assert_eq!(node.engine.statistics().expired, 1000);
    assert_eq!(node.engine.count(0).with_ttl, 1);
    assert!(node.log.len() == 1002, "reclaiming writes nothing");
    // Following the wheel's own hints frees the last key in time, and then nothing is left to do.
    let mut calls = 0;
    while let Some(due) = node.engine.next_deadline() {
        node.now.node = node.now.node.max(due);
        node.engine.reclaim(node.now.node, 10);
        calls += 1;
        assert!(calls < 100, "the hints lead somewhere");
    }
    assert_eq!(node.run("KEYS *"), "[\"stays\"]");
}

/// Keys that live for so long, a hundred new ones each 10 ms, and nobody frees any but those who write. Returns how many
/// there are at most beside those that live.
fn expired_at_most(ttl_ms: u64, runs_ms: u64) -> usize {
    let mut node = Node::default();
    let mut most = 0;
    for turn in 0..runs_ms / 10 {
        for number in 0..100 {
            node.run(&format!("SET {turn}:{number} v PX {ttl_ms}"));
        }
        node.engine.reclaim_owed(node.now.node);
        node.advance(Duration::from_millis(10));
        let living = (turn + 1).min(ttl_ms / 10) * 100;
        most = most.max(node.engine.count(0).keys.saturating_sub(living));
    }
    usize::try_from(most).unwrap()
}

#[test]
fn who_writes_frees_as_much_as_he_writes() {
    for (ttl_ms, runs_ms) in [(20, 2_000), (1_000, 5_000), (5_000, 12_000)] {
        let most = expired_at_most(ttl_ms, runs_ms);
        // When the wheel turns further, all that live move, and none is freed meanwhile.
        let bound = 1_000.max(ttl_ms * 10 / 2);
        assert!(most as u64 <= bound, "{ttl_ms} ms: {most}");
    }
}

#[test]
fn a_write_owes_a_few_steps_and_a_replay_none() {
    let mut node = Node::default();
    // So that the wheel knows what time it is.
    node.engine.reclaim(node.now.node, 1);
    for number in 0..3_000 {
        node.run(&format!("SET {number} v PX 50"));
    }
    let mut replayed = node.replayed();
    let freed = |engine: &mut quorlock_engine::Engine, now| engine.reclaim_owed(now).freed;
    assert_eq!(freed(&mut node.engine, node.now.node), 0, "none is due");
    node.advance(Duration::from_millis(200));
    assert_eq!(freed(&mut node.engine, node.now.node), 0, "nothing is owed");
    assert_eq!(freed(&mut replayed, node.now.node), 0, "nor by a replay");
    for number in 0..100 {
        node.run(&format!("SET new:{number} v PX 60000"));
    }
    assert_eq!(node.engine.owed_steps(), 400);
    assert_eq!(freed(&mut node.engine, node.now.node), 400);
    for number in 0..2_000 {
        node.run(&format!("SET more:{number} v PX 60000"));
    }
    assert_eq!(freed(&mut node.engine, node.now.node), 2_600, "at once");
    assert_eq!(freed(&mut node.engine, node.now.node), 0);
}
