//! What is counted of locks: each grant and each end once, whatever made it, and nothing that was undone.

use std::time::Duration;

use quorlock_engine::lock_counts::{ClassCounts, LockEndReason, LockRefusal};

use crate::harness::Node;

/// Grants, and then the ends, each by its word.
fn counted(node: &Node) -> String {
    let counts = all(node);
    let ends = LockEndReason::ALL.map(|how| (how, counts.ended(how)));
    let ends = ends.iter().filter(|(_, count)| *count > 0);
    let ends = ends.map(|(how, count)| format!(" {}:{count}", how.word()));
    format!("{}{}", counts.grants, ends.collect::<String>())
}

fn all(node: &Node) -> ClassCounts {
    let (_, counts) = node.engine.lock_counts().classes().next().unwrap();
    counts.clone()
}

fn run_all(node: &mut Node, lines: &[&str]) {
    for line in lines {
        let reply = node.run(line);
        assert!(!reply.starts_with("ERR"), "{line}: {reply}");
    }
}

/// What has been granted and has not ended is held.
fn assert_balanced(node: &Node) {
    let counts = all(node);
    let ended: u64 = LockEndReason::ALL
        .iter()
        .map(|how| counts.ended(*how))
        .sum();
    assert_eq!(counts.grants - ended, node.engine.held_locks().with_ttl);
}

const REDISSON_LOCK: &str = "EVAL \"redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 9000)\" 1 h me:1";
const REDISSON_UNLOCK: &str = "EVAL \"if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end redis.call('del', KEYS[1]) \
     return 1\" 1 h me:1";

#[test]
fn locks_of_every_kind_are_granted_once_and_end_once() {
    for (lines, expected) in [
        (&["SET k t NX PX 900", "DEL k"][..], "1 released:1"),
        (
            &["SET k t NX PX 900", "PEXPIRE k 5000", "SET k t XX PX 9"],
            "1",
        ),
        (&["SETNX k t", "EXPIRE k 5", "PERSIST k"], "1 persisted:1"),
        (&["SET k t PX 900", "SET k u PX 900"], "2 overwritten:1"),
        (&["SET k t PX 900", "SET k u"], "1 overwritten:1"),
        (&["SET k t NX PX 900", "PEXPIRE k 0"], "1 released:1"),
        (&["SET k t NX PX 900", "RENAME k j"], "2 released:1"),
        (&["SET k t NX PX 900", "FLUSHALL"], "1 flushed:1"),
        (
            &["SET k t NX PX 900", "LOCK.FORCE-RELEASE k t"],
            "1 forced:1",
        ),
        (&["SET k t", "DEL k", "RPUSH l a", "EXPIRE l 5"], "0"),
        (
            &["LOCK.ACQUIRE k t 900", "LOCK.RELEASE k t"],
            "1 released:1",
        ),
        (
            &[
                "LOCK.ACQUIRE k a 900 SHARED",
                "LOCK.ACQUIRE k b 900 SHARED",
                "LOCK.RELEASE k a",
            ],
            "1",
        ),
        (
            &["LOCK.ACQUIRE k a 900 SHARED", "LOCK.FORCE-RELEASE k a"],
            "1 forced:1",
        ),
        (&[REDISSON_LOCK, REDISSON_LOCK, REDISSON_UNLOCK], "1"),
        (&[REDISSON_LOCK, REDISSON_UNLOCK], "1 released:1"),
        (&["HSET h f 1", "EXPIRE h 5", "HDEL h f"], "1 released:1"),
    ] {
        let mut node = Node::default();
        run_all(&mut node, lines);
        assert_eq!(counted(&node), expected, "{lines:?}");
        assert_balanced(&node);
    }
}

#[test]
fn a_lock_whose_time_is_over_has_expired_whoever_notices_it() {
    for line in ["SET k u NX PX 900", "FLUSHALL", ""] {
        let mut node = Node::default();
        node.run("SET k t NX PX 900");
        node.advance(Duration::from_secs(2));
        match line {
            "" => drop(node.engine.reclaim(node.now.node, 1000)),
            line => run_all(&mut node, &[line]),
        }
        let counts = all(&node);
        assert_eq!(counts.ended(LockEndReason::Expired), 1, "{line}");
        // It was held until its end, and not until that was noticed.
        assert_eq!(counts.holds.sum, Duration::from_millis(900), "{line}");
        assert_balanced(&node);
    }
}

/// Of a token that takes its lock again, or gives it another time, nothing begins anew.
#[test]
fn a_lock_is_held_since_its_token_took_it() {
    for (renewals, held) in [
        (&["SET k t PX 9000"][..], [3, 3]),
        (&["SET k t XX PX 9000"], [3, 3]),
        (&["SET k t PX 500", "SET k t PX 9000"], [3, 3]),
        (
            &["EVAL \"redis.call('set', 'k', 't', 'px', 9000)\" 0"],
            [3, 3],
        ),
        (
            &[
                "EVAL \"redis.call('set', 'k', 't', 'px', 9000) redis.call('pexpire', 'k', 9001) while true do end\" 0",
            ],
            [3, 3],
        ),
        (&["PEXPIRE k 9000"], [3, 3]),
        // What ended without a TTL counts as a lock again.
        (&["PERSIST k", "PEXPIRE k 9000"], [3, 5]),
        (&["SET k u PX 9000"], [1, 3]),
    ] {
        let mut node = Node::default();
        node.run("SET k t NX PX 4000");
        node.advance(Duration::from_secs(2));
        renewals.iter().for_each(|line| drop(node.run(line)));
        node.advance(Duration::from_secs(1));
        let now = node.now.node;
        let [oldest, all_held] = held.map(Duration::from_secs);
        for _ in 0..2 {
            assert_eq!(node.engine.oldest_lock(now), Some(oldest), "{renewals:?}");
        }
        node.run("DEL k");
        assert_eq!(all(&node).holds.sum, all_held, "{renewals:?}");
        assert_balanced(&node);
    }
}

#[test]
fn what_is_undone_is_not_counted() {
    let mut node = Node::default();
    node.run("SET held t NX PX 900");
    let before = all(&node);
    let script = "redis.call('set', 'new', 't', 'px', 900) redis.call('del', 'held') \
                  redis.call('set', 'held', 't', 'px', 900) redis.call('set', 'new', 'u', 'nx') while true do end";
    let reply = node.run(&format!("EVAL \"{script}\" 0"));
    assert!(reply.contains("script"), "{reply}");
    assert_eq!(all(&node), before);
    assert_eq!(node.engine.held_locks().with_ttl, 1);
    assert_eq!(node.run("EXISTS new"), "0", "it was undone");
}

#[test]
fn refusals_count_by_their_reason() {
    let mut node = Node::default();
    for line in [
        "SET k t NX PX 900",
        "SET k u NX PX 900",
        "SETNX k u",
        "LOCK.ACQUIRE k u 900",
        "LOCK.ACQUIRE k u 900 SHARED",
        "SET k t XX PX 900",
        "LOCK.ACQUIRE r a 900 SHARED",
        "SET r writer NX PX 900",
        "LOCK.ACQUIRE r b 900 SHARED",
    ] {
        node.run(line);
    }
    let counts = all(&node);
    assert_eq!(counts.refused(LockRefusal::Held), 5);
    assert_eq!(counts.refused(LockRefusal::WriterWaits), 1);
}

#[test]
fn what_is_held_is_known_after_a_replay_which_counts_nothing() {
    let mut node = Node::default();
    run_all(
        &mut node,
        &[
            "SET a t NX PX 9000",
            "SET b t",
            "SET c t PX 900",
            "DEL c",
            "RPUSH l x",
        ],
    );
    let held = node.engine.held_locks();
    assert_eq!((held.with_ttl, held.without_ttl), (1, 1));
    let replayed = node.replayed();
    assert_eq!(replayed.held_locks(), held);
    let (_, counts) = replayed.lock_counts().classes().next().unwrap();
    assert_eq!(*counts, ClassCounts::default());
}

#[test]
fn the_oldest_lock_is_found_a_part_of_the_keys_at_a_time() {
    let mut node = Node::default();
    let second = Duration::from_secs(1);
    node.run("SET plain value");
    for key in 0..6000 {
        node.run(&format!("SET lock:{key} t PX 60000"));
        if key == 4999 {
            node.advance(second);
        }
    }
    node.run("SET plain value");
    for _ in 0..3 {
        node.engine.oldest_lock(node.now.node);
    }
    assert_eq!(node.engine.oldest_lock(node.now.node), Some(second));
    for key in 0..5000 {
        node.run(&format!("DEL lock:{key}"));
    }
    for _ in 0..3 {
        node.engine.oldest_lock(node.now.node);
    }
    node.advance(second);
    assert_eq!(node.engine.oldest_lock(node.now.node), Some(second));
    node.run("FLUSHALL");
    assert_eq!(node.engine.oldest_lock(node.now.node), None);
}
