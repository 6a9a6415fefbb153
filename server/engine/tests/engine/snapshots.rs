//! Snapshots of collections, taken in parts while their elements change.

use std::collections::BTreeSet;

use crate::harness::Node;
use quorlock_engine::{Engine, EngineOptions, LogPosition, Reply, SnapshotCursor, Stored};

/// All keys of a node, and what they hold.
fn stored(engine: &Engine) -> BTreeSet<Stored> {
    engine.stored().collect()
}

/// Takes a snapshot in parts of so many bytes, with what `between` makes the node do after each, and replays all of it.
fn replayed(
    node: &mut Node,
    part_bytes: usize,
    mut between: impl FnMut(&mut Node, usize),
) -> (Engine, usize) {
    let mut frames = Vec::new();
    let (mut cursor, mut number) = (Some(SnapshotCursor::default()), 0);
    while let Some(start) = cursor {
        let mut part = Vec::new();
        cursor = node.engine.snapshot(start, part_bytes, &mut part);
        frames.push(part);
        let changed = node.log.len();
        between(node, number);
        frames.extend(node.log[changed..].iter().cloned());
        number += 1;
    }
    let mut engine = Engine::new(EngineOptions::default());
    for (frame, position) in frames.iter().zip(1..) {
        engine
            .apply(LogPosition::from_raw(position), frame)
            .unwrap();
    }
    (engine, number)
}

/// Changes that are no absolute values must neither be missed nor be made twice.
#[test]
fn elements_that_change_between_parts_are_changed_once() {
    let mut node = Node::default();
    for number in 0..200 {
        node.run(&format!("RPUSH list:{number} a b c {number} d e"));
        node.run(&format!("SADD set:{number} a b {number}"));
        node.run(&format!("ZADD sorted:{number} 1 a 2 b {number} c"));
    }
    let (engine, parts) = replayed(&mut node, 600, |node, number| {
        // Keys that the snapshot has passed, has not reached yet, and meets again.
        for key in [number, 199 - number, 100, 150 + number % 7] {
            for line in [
                format!("LPUSH list:{key} x {number}"),
                format!("RPOP list:{key}"),
                format!("LMOVE list:{key} list:{} LEFT RIGHT", (key + 90) % 200),
                format!("LMOVE list:{key} list:{key} RIGHT LEFT"),
                format!("LINSERT list:{key} BEFORE b y"),
                format!("LSET list:{key} 0 z"),
                format!("LREM list:{key} 1 c"),
                format!("LPOP list:{} 9", (key + 31) % 200),
                format!("SADD set:{key} x {number}"),
                format!("SMOVE set:{key} set:{} a", (key + 90) % 200),
                format!("SREM set:{} a b x", (key + 31) % 200),
                format!("ZADD sorted:{key} {number} a 7 x"),
                format!("ZINCRBY sorted:{key} 3 b"),
                format!("ZPOPMIN sorted:{}", (key + 31) % 200),
            ] {
                node.run(&line);
            }
        }
    });
    assert!(parts > 10, "{parts} parts are few");
    assert_eq!(stored(&engine), stored(&node.engine));
}

/// From one element up to the limit of a value, of empty elements and of long ones.
/// The parts before a swap hold keys under the numbers before it, and those after it under the others.
#[test]
fn databases_that_are_swapped_between_parts_come_back_swapped() {
    let mut node = Node::default();
    for number in 0..300 {
        node.caller.database = u8::try_from(number % 4).unwrap();
        node.run(&format!("SET key:{number} {number} PX {}", 1000 + number));
        node.run(&format!("RPUSH list:{number} a b c d {number}"));
    }
    let (engine, parts) = replayed(&mut node, 700, |node, number| {
        node.caller.database = u8::try_from(number % 3).unwrap();
        node.run(&format!("SWAPDB {} {}", number % 4, number % 5));
        node.run(&format!("RPUSH list:{} {number}", number * 7 % 300));
        node.run(&format!("SET key:{} new", number * 11 % 300));
        node.run(&format!("DEL key:{}", number * 13 % 300));
        let script = format!(
            "redis.call('SWAPDB', 1, 2) redis.call('INCR', 'n') redis.call('SWAPDB', 2, {})",
            number % 6
        );
        node.run(&format!("EVAL \"{script}\" 0"));
    });
    assert!(parts > 10, "{parts}");
    assert_eq!(stored(&engine), stored(&node.engine));
    assert_eq!(stored(&node.replayed()), stored(&node.engine));
}

#[test]
fn a_collection_of_any_size_comes_back_whole() {
    let mut node = Node::default();
    let limit = 4 << 20;
    for (number, element_bytes) in [0, 1, 127, 128, 4_000, 700_000].into_iter().enumerate() {
        let element = "x".repeat(element_bytes);
        let most = limit / (element_bytes + 5);
        for length in [1, 2, 65, most / 2, most] {
            if length > most {
                continue;
            }
            let key = format!("list:{number}:{length}");
            let mut left = length;
            while left > 0 {
                let count = left.min(50_000);
                let mut words = vec![element.as_bytes(); count + 2];
                (words[0], words[1]) = (b"RPUSH", key.as_bytes());
                let reply = node.execute(&words);
                assert!(!matches!(reply, Reply::Error(_)), "{key}: {reply:?}");
                left -= count;
            }
        }
    }
    let (engine, _) = replayed(&mut node, 64 << 10, |_, _| {});
    assert_eq!(stored(&engine), stored(&node.engine));
}
