//! The log as input: snapshots taken while keys change, and payloads nobody should trust.

use crate::harness::{Node, state_of};
use proptest::prelude::*;
use quorlock_engine::{Engine, EngineOptions, LogPosition, PayloadErrorKind, SnapshotCursor};

fn empty() -> Engine {
    Engine::new(EngineOptions::default())
}

/// Some payloads with every kind of mutation in them.
fn payloads() -> Vec<Vec<u8>> {
    let mut node = Node::default();
    let long = "x".repeat(300);
    for line in [
        "SET a 1 PX 1000",
        &format!("SET {long} {long}"),
        "HSET h f v g w",
        "HSET h f x",
        "HDEL h g",
        "PEXPIRE h 500",
        "PERSIST h",
        "DEL a",
        "INCR a",
        "FLUSHDB",
        "SET b 2",
        "FLUSHALL",
        "RPUSH l a b",
        "LPUSH l c d e",
        "EVAL \"redis.call('lpop', 'l', 2) redis.call('lmove', 'l', 'l', 'LEFT', 'RIGHT') redis.call('linsert', 'l', 'BEFORE', 'a', 'x') redis.call('lset', 'l', 0, 'y') redis.call('lrem', 'l', 0, 'x')\" 0",
        "EVAL \"redis.call('set', 'x', '1') redis.call('hset', 'y', 'f', 'v')\" 0",
    ] {
        let reply = node.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    assert_eq!(node.log.len(), 16);
    node.log
}

#[test]
fn a_payload_cut_anywhere_is_an_error_or_a_shorter_payload() {
    for payload in payloads() {
        for cut in 0..payload.len() {
            let result = empty().apply(LogPosition::from_raw(1), &payload[..cut]);
            if let Err(error) = result {
                assert_eq!(error.kind, PayloadErrorKind::Truncated);
                assert!(error.offset <= cut);
            }
        }
        assert_eq!(empty().apply(LogPosition::from_raw(1), &payload), Ok(()));
    }
}

#[test]
fn unknown_versions_mutations_types_and_databases_are_named() {
    #[rustfmt::skip]
    let cases: &[(&[u8], usize, PayloadErrorKind)] = &[
        (&[7, 7], 0, PayloadErrorKind::Version(7)),
        (&[4, 22, 0, 1], 1, PayloadErrorKind::Mutation(22)),
        (&[5, 23, 0, 1], 1, PayloadErrorKind::Mutation(23)),
        (&[5, 22, 0, 16], 3, PayloadErrorKind::Database(16)),
        (&[5, 22, 0], 3, PayloadErrorKind::Truncated),
        (&[0], 0, PayloadErrorKind::Version(0)),
        (&[1, 0], 1, PayloadErrorKind::Mutation(0)),
        (&[1, 7, 21], 2, PayloadErrorKind::Mutation(21)),
        (&[1, 5, 16, 1, b'k'], 2, PayloadErrorKind::Database(16)),
        (&[1, 6, 255], 2, PayloadErrorKind::Database(255)),
        (&[1, 1, 0, 1, b'k', 0, 0, 0, 0, 0, 0, 0, 0, 9], 13, PayloadErrorKind::ValueType(9)),
        (&[1, 1, 0, 1, b'k', 0, 0, 0, 0, 0, 0, 0, 0, 2, 0], 13, PayloadErrorKind::Number),
        (&[1, 5, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 1], 3, PayloadErrorKind::Number),
        (&[1, 5, 0, 0xff, 0xff, 0xff, 0xff, 0x7f], 8, PayloadErrorKind::Truncated),
        (&[1, 5], 2, PayloadErrorKind::Truncated),
    ];
    for (payload, offset, kind) in cases {
        let error = empty()
            .apply(LogPosition::from_raw(1), payload)
            .unwrap_err();
        assert_eq!((error.offset, error.kind), (*offset, *kind), "{payload:?}");
        assert!(error.to_string().contains(&offset.to_string()));
    }
    assert_eq!(
        empty().apply(LogPosition::from_raw(1), &[]),
        Ok(()),
        "no mutations are fine"
    );
}

/// Earlier releases took deadlines of up to 584 years, in nanoseconds.
#[test]
fn far_deadlines_of_earlier_releases_are_read_as_they_were_meant() {
    let nanos: u64 = 17_000_000_000_000_000_001;
    let mut payload = vec![1, 1, 0, 1, b'k'];
    payload.extend_from_slice(&nanos.to_le_bytes());
    payload.extend_from_slice(&[1, 1, b'v', 2, 0, 1, b'k']);
    let mut node = Node::default();
    node.now.node = quorlock_engine::NodeTime::from_nanos(0);
    let at_set = payload[..16].to_vec();
    assert_eq!(node.engine.apply(LogPosition::from_raw(1), &at_set), Ok(()));
    node.log = vec![at_set, Vec::new()];
    assert_eq!(node.run("PTTL k"), "17000000000001");
    payload.extend_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(
        node.engine.apply(LogPosition::from_raw(2), &payload),
        Ok(())
    );
    assert_eq!(node.run("PTTL k"), "-1");
    // What is near is written as ever, so that earlier releases read it.
    let mut node = Node::default();
    node.run("SET k v PX 9000000000000");
    node.run(
        "EVAL \"redis.call('set','a','1') redis.call('set','b','1','px','900719925474099')\" 0",
    );
    node.run("SET k v");
    let versions: Vec<u8> = node.log.iter().map(|payload| payload[0]).collect();
    assert_eq!(versions, [1, 2, 1]);
}

#[test]
fn mutations_of_what_is_not_there_are_passed_over() {
    let mut node = Node::default();
    for line in [
        "HSET h f v",
        "HSET h g w",
        "PEXPIRE h 10",
        "HDEL h f",
        "DEL h",
    ] {
        node.run(line);
    }
    let mut engine = empty();
    for payload in &node.log[1..] {
        assert_eq!(engine.apply(LogPosition::from_raw(1), payload), Ok(()));
    }
    assert_eq!(state_of(&mut engine, node.now.node), Vec::<String>::new());
    // A field of what has become a string meanwhile.
    let mut other = Node::default();
    other.run("SET h s");
    let mut engine = empty();
    engine
        .apply(LogPosition::from_raw(1), &other.log[0])
        .unwrap();
    engine
        .apply(LogPosition::from_raw(2), &node.log[1])
        .unwrap();
    engine
        .apply(LogPosition::from_raw(3), &node.log[3])
        .unwrap();
    assert_eq!(state_of(&mut engine, node.now.node), ["0 h = \"s\" -1"]);
}

#[test]
fn a_snapshot_taken_while_keys_change_leads_to_the_same_state() {
    let mut node = Node::default();
    for number in 0..300 {
        node.run(&format!("SET key:{number} {number} PX {}", 1000 + number));
        node.run(&format!("HSET hash:{number} f {number} g x"));
    }
    let mut parts = Vec::new();
    let mut cursor = Some(SnapshotCursor::default());
    let mut number = 0;
    while let Some(start) = cursor {
        let mut part = Vec::new();
        cursor = node.engine.snapshot(start, 1000, &mut part);
        assert!(part.len() <= 1000 + 64, "parts are bounded");
        parts.push(part);
        let changed = node.log.len();
        // Keys that the snapshot has passed, has not reached yet, will never reach and meets again.
        node.run(&format!("DEL key:{number}"));
        node.run(&format!("HINCRBY hash:{number} f 1"));
        node.run(&format!("HDEL hash:{} g", 299 - number));
        node.run(&format!("PEXPIRE hash:{} 5000", 299 - number));
        node.run(&format!("SET key:{} again", 299 - number));
        node.run(&format!("DEL hash:{}", 150 + number));
        node.run(&format!("SET new:{number} v PX 500"));
        parts.extend(node.log[changed..].iter().cloned());
        number += 1;
    }
    assert!(number > 10, "the snapshot has many parts");
    let mut engine = empty();
    for (part, position) in parts.iter().zip(1..) {
        engine.apply(LogPosition::from_raw(position), part).unwrap();
    }
    assert_eq!(state_of(&mut engine, node.now.node), node.state());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn no_payload_can_make_replay_panic(
        mut payload in prop::collection::vec(
            prop_oneof![0..22_u8, 0x88..0x96_u8, any::<u8>()],
            0..200,
        ),
        of_version in 1..=3_u8,
    ) {
        let _ = empty().apply(LogPosition::from_raw(1), &payload);
        if let Some(version) = payload.first_mut() {
            *version = of_version;
        }
        let mut engine = empty();
        let _ = engine.apply(LogPosition::from_raw(1), &payload);
        // Whatever was made of it can be used.
        state_of(&mut engine, quorlock_engine::NodeTime::from_nanos(1));
        engine.reclaim(quorlock_engine::NodeTime::from_nanos(u64::MAX), usize::MAX);
    }

    #[test]
    fn a_flipped_bit_cannot_make_replay_panic(
        which in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), bit in 0..8_u8
    ) {
        let mut log = payloads();
        let number = which.index(log.len());
        let byte = place.index(log[number].len());
        log[number][byte] ^= 1 << bit;
        let mut engine = empty();
        for payload in &log {
            let _ = engine.apply(LogPosition::from_raw(1), payload);
        }
        state_of(&mut engine, quorlock_engine::NodeTime::from_nanos(1));
    }
}
