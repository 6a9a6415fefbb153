//! What a reply waits for: the log's positions behind every answer.
//!
//! `any` must cover every write the reply reveals, `synced` every write for whose loss no restart
//! delay could make up. Positions are those of the harness: the first logged group is 1.

use std::time::Duration;

use crate::harness::Node;
use quorlock_engine::{EngineOptions, NodeTime};

/// Runs a command and returns its dependency.
fn depends(node: &mut Node, line: &str) -> (u64, u64) {
    node.run(line);
    let depends = node.effects.depends;
    (depends.any.get(), depends.synced.get())
}

/// Runs a command and returns whether it must be synced in every mode.
fn uncovered(node: &mut Node, line: &str) -> bool {
    node.run(line);
    node.effects.uncovered
}

#[test]
fn a_reply_waits_for_the_writes_it_reveals() {
    let mut node = Node::default();
    node.run("SET a 1 PX 1000");
    node.run("SET b 1 PX 1000");
    assert_eq!(depends(&mut node, "GET a"), (1, 0));
    assert_eq!(depends(&mut node, "PTTL b"), (2, 0));
    assert_eq!(depends(&mut node, "EXISTS a b"), (2, 0));
    assert_eq!(depends(&mut node, "GET missing"), (0, 0));
    node.run("DEL a");
    assert_eq!(
        depends(&mut node, "GET a"),
        (3, 0),
        "absence after a deletion"
    );
    assert_eq!(depends(&mut node, "DEL a"), (3, 0));
    assert_eq!(
        depends(&mut node, "SET a 2 XX"),
        (3, 0),
        "XX reveals absence"
    );
    for line in ["KEYS *", "SCAN 0", "DBSIZE"] {
        assert_eq!(depends(&mut node, line), (3, 0), "{line} tells of all keys");
    }
    node.run("PEXPIRE b 2000");
    assert_eq!(
        depends(&mut node, "EXISTS b"),
        (4, 0),
        "a new deadline is a write"
    );
    node.run("HINCRBY h f 1");
    node.run("PEXPIRE h 100");
    assert_eq!(depends(&mut node, "HGET h f").0, 6);
}

#[test]
fn a_bare_refusal_waits_for_nothing_and_a_telling_one_does() {
    let mut node = Node::default();
    node.run("SET lock t1 PX 1000");
    assert_eq!(depends(&mut node, "SET lock t2 NX PX 1000"), (0, 0));
    assert_eq!(depends(&mut node, "SETNX lock t2"), (0, 0));
    assert_eq!(depends(&mut node, "SET lock t2 NX PX 1000 GET"), (1, 0));
}

#[test]
fn whatever_tells_of_a_key_or_of_its_absence_waits_for_it() {
    let setup = "SET k v PX 1000";
    for line in [
        "GETDEL k",
        "GETEX k",
        "GETEX k PX 5",
        "GETSET k w",
        "GETRANGE k 0 0",
        "APPEND k w",
        "SETRANGE k 0 \"\"",
        "SET k w IFEQ v",
        "SET k w IFEQ other",
        "SET k w IFNE v",
        "DELEX k IFEQ other",
        "DELEX k IFNE other",
        "DELIFEQ k other",
        "TOUCH k",
        "RANDOMKEY",
        "RENAME k x",
        "RENAMENX k k",
        "COPY k x",
        "COPY none k",
    ] {
        let mut node = Node::default();
        node.run(setup);
        // The copy of a key that is not there tells of no other.
        let expected = u64::from(line != "COPY none k");
        assert_eq!(depends(&mut node, line).0, expected, "{line}");
    }
    for line in [
        "GETDEL k",
        "GETSET k w",
        "APPEND k w",
        "INCRBYFLOAT k 1",
        "SET k w IFEQ v",
        "SET k w IFNE v",
        "DELIFEQ k v",
        "DELEX k IFEQ v",
        "MSETNX k 1 x 2",
        "MSETNX x 1 k 2",
        "RENAME k x",
        "COPY k x",
        "RENAMENX other k",
        "COPY other k",
    ] {
        let mut node = Node::default();
        node.run("SET other v PX 1000");
        node.run(setup);
        node.run("DEL k");
        assert_eq!(depends(&mut node, line).0, 3, "{line} of an absent key");
    }
}

#[test]
fn whatever_tells_of_a_hash_or_of_its_absence_waits_for_it() {
    for line in [
        "HINCRBYFLOAT h f 2",
        "HSETNX h f 2",
        "HSETNX h g 2",
        "HMSET h f 2",
        "HMGET h f",
        "HVALS h",
        "HSTRLEN h f",
        "HSCAN h 0",
        "HRANDFIELD h",
        "HRANDFIELD h 1",
    ] {
        for setup in ["HSET h f v", "PEXPIRE h 10", "DEL h"] {
            let mut node = Node::default();
            node.run("HSET h f 1 e 1");
            node.run("PEXPIRE h 20000");
            node.run(setup);
            assert_eq!(depends(&mut node, line).0, 3, "{line} after {setup}");
        }
    }
}

#[test]
fn whatever_tells_of_a_sorted_set_or_of_its_absence_waits_for_it() {
    for line in [
        "ZADD z NX 1 a",
        "ZADD z XX 1 none",
        "ZINCRBY z 0 a",
        "ZREM z none",
        "ZSCORE z a",
        "ZMSCORE z a",
        "ZCARD z",
        "ZRANK z a",
        "ZREVRANK z a WITHSCORE",
        "ZRANGE z 0 -1",
        "ZRANGE z 5 -1",
        "ZREVRANGEBYSCORE z 9 0",
        "ZCOUNT z 5 9",
        "ZLEXCOUNT z - +",
        "ZRANGESTORE to z 0 -1",
        "ZREMRANGEBYRANK z 7 8",
        "ZREMRANGEBYSCORE z 7 8",
        "ZPOPMIN z 0",
        "ZMPOP 2 none z MIN",
        "ZUNION 2 none z",
        "ZINTER 2 none z",
        "ZDIFF 2 none z",
        "ZINTERCARD 2 none z",
        "ZUNIONSTORE to 2 none z",
        "ZINTERSTORE z 1 none",
        "ZDIFFSTORE z 1 none",
        "ZSCAN z 0",
        "ZRANDMEMBER z",
        "ZRANDMEMBER z 1",
    ] {
        for setup in ["ZADD z 5 c", "PEXPIRE z 10", "DEL z"] {
            let mut node = Node::default();
            node.run("ZADD z 1 a 2 b");
            node.run("PEXPIRE z 20000");
            node.run(setup);
            assert_eq!(depends(&mut node, line).0, 3, "{line} after {setup}");
        }
    }
}

#[test]
fn whatever_tells_of_a_set_or_of_its_absence_waits_for_it() {
    for line in [
        "SADD s m",
        "SREM s none",
        "SISMEMBER s m",
        "SMISMEMBER s m",
        "SCARD s",
        "SMEMBERS s",
        "SMOVE s t none",
        "SMOVE t s x",
        "SPOP s 0",
        "SRANDMEMBER s",
        "SRANDMEMBER s 1",
        "SSCAN s 0",
        "SINTER s t",
        "SINTER t s",
        "SUNION t s",
        "SDIFF t s",
        "SINTERCARD 2 t s",
        "SINTERSTORE x t s",
        "SUNIONSTORE x t s",
        "SDIFFSTORE x t s",
        "SDIFFSTORE s none",
    ] {
        for setup in ["SADD s v", "PEXPIRE s 10", "DEL s"] {
            let mut node = Node::default();
            node.run("SADD s m n");
            node.run("SADD t x");
            node.run("PEXPIRE t 20000");
            node.run(setup);
            assert_eq!(depends(&mut node, line).0, 4, "{line} after {setup}");
        }
    }
}

#[test]
fn a_refusal_of_msetnx_waits_for_nothing() {
    let mut node = Node::default();
    node.run("SET lock t1 PX 1000");
    assert_eq!(depends(&mut node, "MSETNX free t2 lock t2"), (0, 0));
}

#[test]
fn keys_under_another_name_are_uncovered_as_before() {
    let mut node = Node::default();
    node.run("SET fence 1");
    node.run("SET lock t PX 1000");
    assert!(!uncovered(&mut node, "RENAME lock other"));
    assert!(!uncovered(&mut node, "COPY other lock"));
    assert!(uncovered(&mut node, "COPY fence lock REPLACE"));
    assert!(uncovered(&mut node, "RENAME other lock"), "it had no TTL");
    assert!(uncovered(&mut node, "RENAME fence lock"));
    assert!(uncovered(&mut node, "MSET a 1 b 2"));
    assert!(uncovered(&mut node, "GETEX a PX 1000"));
    assert!(!uncovered(&mut node, "GETEX a PX 100"));
    assert!(uncovered(&mut node, "GETEX a PERSIST"));
    let longest = node.now.node.saturating_add(Duration::from_secs(1));
    node.run("SET lock t PX 1000");
    node.run("RENAME lock other");
    assert_eq!(node.effects.longest_deadline, Some(longest));
}

#[test]
fn absence_by_expiry_waits_for_the_write_that_set_the_deadline() {
    let mut node = Node::default();
    node.run("SET k v PX 50000");
    node.run("PEXPIRE k 10");
    node.advance(Duration::from_millis(20));
    assert_eq!(depends(&mut node, "GET k"), (2, 0));
    node.engine.reclaim(node.now.node, 100);
    assert_eq!(node.run("DBSIZE"), "0");
    assert_eq!(
        depends(&mut node, "GET k"),
        (2, 0),
        "and still after the memory is free"
    );
}

#[test]
fn keys_no_delay_covers_are_synced_when_written_and_before_they_are_told_of() {
    let mut node = Node::default();
    assert!(uncovered(&mut node, "SET fence 1"));
    assert_eq!(depends(&mut node, "GET fence"), (1, 1));
    assert!(uncovered(&mut node, "INCR fence"));
    assert_eq!(depends(&mut node, "GET fence"), (2, 2));
    assert!(
        !uncovered(&mut node, "SET lock t PX 60000"),
        "exactly at the cap"
    );
    assert_eq!(depends(&mut node, "GET lock"), (3, 0));
    assert!(uncovered(&mut node, "PEXPIRE lock 60001"), "beyond the cap");
    assert!(
        uncovered(&mut node, "PEXPIRE lock 100"),
        "it was beyond the cap before"
    );
    assert!(
        !uncovered(&mut node, "PEXPIRE lock 100"),
        "and now it is not"
    );
    assert!(
        uncovered(&mut node, "DEL fence"),
        "its deletion could be lost"
    );
    let position = node.log.len() as u64;
    assert_eq!(depends(&mut node, "GET fence"), (position, position));
    assert!(!uncovered(&mut node, "SET plain 1 PX 10"));
    assert!(uncovered(&mut node, "PERSIST plain"));
    assert!(
        uncovered(&mut node, "SET plain 2 PX 10"),
        "it had no TTL before"
    );
    assert!(!uncovered(&mut node, "DEL plain"));
    assert!(uncovered(&mut node, "HSET h f v"));
    assert!(uncovered(&mut node, "HSET h f w"));
    assert!(uncovered(&mut node, "FLUSHALL"));
    let position = node.log.len() as u64;
    assert_eq!(depends(&mut node, "GET never-seen"), (position, position));
}

/// Where databases are swapped every key may be another one, and so may every absence.
#[test]
fn whatever_tells_of_a_key_waits_for_the_swap_of_its_database() {
    let mut node = Node::default();
    assert!(!uncovered(&mut node, "SWAPDB 0 1"), "both are empty");
    assert!(node.log.is_empty());
    node.run("SET a 1 PX 1000");
    assert!(uncovered(&mut node, "SWAPDB 0 1"));
    assert_eq!(depends(&mut node, "GET a"), (2, 2), "it is gone");
    node.caller.database = 1;
    assert_eq!(depends(&mut node, "GET a"), (2, 2), "it has come");
    assert_eq!(depends(&mut node, "PTTL a"), (2, 2));
    assert_eq!(depends(&mut node, "SWAPDB 1 1"), (2, 2));
    node.run("SET b 1 PX 1000");
    assert_eq!(node.log.len(), 3);
    assert_eq!(depends(&mut node, "GET a"), (2, 2));
    assert_eq!(depends(&mut node, "GET b"), (3, 2));
}

#[test]
fn a_deadline_that_came_nearer_than_the_cap_is_covered() {
    let mut node = Node::default();
    assert!(uncovered(&mut node, "SET k v PX 100000"));
    node.advance(Duration::from_secs(50));
    assert!(!uncovered(&mut node, "DEL k"));
    node.run("SET k v PX 100000");
    node.advance(Duration::from_secs(50));
    assert!(!uncovered(&mut node, "FLUSHDB"));
}

#[test]
fn an_expired_key_without_successor_makes_nothing_uncovered() {
    let mut node = Node::default();
    node.run("SET k v PX 70000");
    node.advance(Duration::from_secs(70));
    assert!(!uncovered(&mut node, "SET k w NX PX 1000"));
}

#[test]
fn the_latest_deadline_of_a_command_is_reported() {
    let mut node = Node::default();
    let now = node.now.node;
    node.run("SET k v PX 1000");
    assert_eq!(
        node.effects.longest_deadline,
        Some(now.saturating_add(Duration::from_secs(1)))
    );
    node.run("GET k");
    assert_eq!(node.effects.longest_deadline, None);
    node.run("PEXPIRE k 2000");
    let deadline = now.saturating_add(Duration::from_secs(2));
    assert_eq!(node.effects.longest_deadline, Some(deadline));
    assert_eq!(node.engine.longest_deadline(), Some(deadline));
    node.run("PERSIST k");
    assert_eq!(node.effects.longest_deadline, None);
    assert_eq!(node.engine.longest_deadline(), None);
}

#[test]
fn require_ttl_refuses_what_no_delay_covers_and_changes_nothing() {
    let mut node = Node::with(EngineOptions {
        require_ttl: true,
        ..EngineOptions::default()
    });
    let lines = [
        "SET k v",
        "SETNX k v",
        "INCR k",
        "INCRBYFLOAT k 1",
        "HINCRBYFLOAT k f 1",
        "HSET k f v",
        "HINCRBY k f 1",
        "HMSET k f v",
        "HSETNX k f v",
        "ZADD k 1 a",
        "ZINCRBY k 1 a",
        "SET k v EX 61",
        "MSET k v",
        "MSETNX k v",
        "GETSET k v",
        "APPEND k v",
        "SETRANGE k 0 v",
        "SET k v IFNE w",
    ];
    for line in lines {
        let reply = node.run(line);
        assert!(
            reply.starts_with("-ERR this node requires a TTL"),
            "{line}: {reply}"
        );
        assert!(node.effects.journal.is_empty());
    }
    assert_eq!(node.run("DBSIZE"), "0");
    assert_eq!(node.run("SET k v PX 60000"), "OK");
    for line in [
        "PERSIST k",
        "PEXPIRE k 60001",
        "SET k v",
        "EXPIRE k 100",
        "GETEX k PERSIST",
        "GETEX k EX 61",
        "SET k w IFEQ v",
    ] {
        assert!(
            node.run(line).starts_with("-ERR this node requires a TTL"),
            "{line}"
        );
    }
    assert_eq!(node.run("PTTL k"), "60000");
    assert_eq!(node.run("SET k w KEEPTTL"), "OK");
    assert_eq!(node.run("APPEND k w"), "2");
    assert_eq!(node.run("COPY k copy"), "1");
    assert_eq!(node.run("RENAME copy k"), "OK");
    assert_eq!(node.run("DEL k"), "1");
    // With a script only the outcome counts: a reentrant lock sets its TTL after its field.
    let lock = "redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 5000)";
    assert_eq!(node.run(&format!("EVAL \"{lock}\" 1 r me")), "nil");
    assert!(!node.effects.uncovered);
    assert_eq!(node.run("PTTL r"), "5000");
    let bare = "redis.call('pexpire', KEYS[1], 9000) redis.call('set', KEYS[2], 'v')";
    let reply = node.run(&format!("EVAL \"{bare}\" 2 r bare"));
    assert!(
        reply.starts_with("-ERR this node requires a TTL"),
        "{reply}"
    );
    assert_eq!(node.run("PTTL r"), "5000", "the script was undone");
    assert_eq!(node.run("EXISTS bare"), "0");
}

#[test]
fn a_script_is_uncovered_by_its_outcome_and_by_what_it_found() {
    let mut node = Node::default();
    let lock = "redis.call('hincrby', KEYS[1], 'me', 1) redis.call('pexpire', KEYS[1], 5000)";
    assert!(!uncovered(&mut node, &format!("EVAL \"{lock}\" 1 r")));
    assert_eq!(depends(&mut node, "HGET r me"), (1, 0));
    assert!(uncovered(
        &mut node,
        "EVAL \"redis.call('incr', KEYS[1])\" 1 fence"
    ));
    assert_eq!(depends(&mut node, "GET fence"), (2, 2));
    let give = "redis.call('pexpire', KEYS[1], 5000)";
    assert!(
        uncovered(&mut node, &format!("EVAL \"{give}\" 1 fence")),
        "it had no TTL before"
    );
    let passing = "redis.call('set', KEYS[1], 'v') redis.call('del', KEYS[1])";
    assert!(!uncovered(
        &mut node,
        &format!("EVAL \"{passing}\" 1 passing")
    ));
}

#[test]
fn a_node_time_of_zero_is_a_time_like_any_other() {
    let mut node = Node::default();
    node.now.node = NodeTime::from_nanos(0);
    assert_eq!(node.run("SET k v PX 1"), "OK");
    assert_eq!(node.run("GET k"), "\"v\"");
    node.now.node = NodeTime::from_nanos(1_000_000);
    assert_eq!(node.run("GET k"), "nil");
}
