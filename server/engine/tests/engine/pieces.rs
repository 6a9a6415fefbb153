//! Collections that are larger than a part of a snapshot: taken piece by piece while everything about them changes.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use quorlock_engine::{Engine, EngineOptions, LogPosition, ScriptLimits, SnapshotCursor, Stored};

use crate::harness::Node;

/// What happens between two parts.
type Step = (u8, u8, u8);

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = (0..40_u8, any::<u8>(), any::<u8>());
    prop::collection::vec(prop::collection::vec(step, 0..5), 1..60)
}

/// Fills the keys of a step anew, with more than a part of a snapshot takes.
fn fill(node: &mut Node, kind: u8, length: u8) {
    for number in 0..=length {
        node.run(&match kind % 4 {
            0 => format!("RPUSH l e{number}"),
            1 => format!("HSET h f{number} v{number}"),
            2 => format!("SADD s m{number}"),
            _ => format!("ZADD z {} m{number}", number % 7),
        });
    }
}

fn act(node: &mut Node, (kind, one, other): Step) {
    let end = |number: u8| {
        if number.is_multiple_of(2) {
            "LEFT"
        } else {
            "RIGHT"
        }
    };
    let key = ["l", "h", "s", "z"][usize::from(one % 4)];
    let line = match kind {
        0 => format!("LPUSH l x{one} x{other}"),
        1 => format!("RPUSH l y{one}"),
        2 => format!("LPOP l {}", one % 9),
        3 => format!("RPOP l {}", one % 9),
        4 => format!("LSET l {one} w{other}"),
        5 => format!("LINSERT l BEFORE e{one} n{other}"),
        6 => format!("LINSERT l AFTER e{one} n{other}"),
        7 => format!("LREM l {} e{other}", i16::from(one % 3) - 1),
        8 => format!("LTRIM l {} -{}", one % 20, other % 20 + 1),
        9 | 10 => "LMOVE l l LEFT RIGHT".to_owned(),
        11 | 12 => "RPOPLPUSH l l".to_owned(),
        13 => format!("LMOVE l other {} {}", end(one), end(other)),
        14 => format!("LMOVE other l {} {}", end(one), end(other)),
        15 | 16 => format!("HSET h f{one} {other}"),
        17 | 18 => format!("HDEL h f{one} f{other} f{}", one / 2),
        19 | 20 => format!("SADD s m{one} n{other}"),
        21 => format!("SREM s m{one} m{other} m{}", other / 2),
        22 => format!("SPOP s {}", one % 30),
        23 | 24 => format!("ZADD z {other} m{one}"),
        25 => format!("ZREM z m{one} m{other}"),
        26 => format!("ZPOPMIN z {}", one % 30),
        27 => format!("ZREMRANGEBYRANK z {} {}", one % 50, other % 60),
        28 => format!("ZINCRBY z -3 m{one}"),
        29 => format!("EXPIRE {key} {}", other % 4 + 1),
        30 => format!("PERSIST {key}"),
        31 | 32 => return take_back(node),
        // Most keys are filled more often than emptied.
        33 | 34 => return fill(node, one, other),
        35 => format!("DEL {key}"),
        36 => match one % 4 {
            0 => "LTRIM l 1 0".to_owned(),
            1 => {
                let body = "for _, f in ipairs(redis.call('hkeys', 'h')) do redis.call('hdel', 'h', f) end";
                node.execute(&[b"EVAL", body.as_bytes(), b"0"]);
                return;
            }
            2 => "SPOP s 1000".to_owned(),
            _ => "ZREMRANGEBYRANK z 0 -1".to_owned(),
        },
        37 => format!("SET {key} string"),
        38 if one < 30 => "FLUSHALL".to_owned(),
        38 => format!(
            "RENAME {key} {}",
            ["l", "h", "s", "z"][usize::from(other % 4)]
        ),
        _ => {
            node.advance(Duration::from_millis(700));
            if other.is_multiple_of(2) {
                node.engine.reclaim(node.now.node, 1000);
            }
            return;
        }
    };
    node.run(&line);
}

/// What is written is taken back when that becomes too much for the log: all of it.
fn take_back(node: &mut Node) {
    let body = "for i = 1, 400 do redis.call('lpop', 'l', 2) redis.call('rpush', 'l', string.rep('x', 50)) \
                redis.call('hdel', 'h', 'f' .. i) redis.call('srem', 's', 'm' .. i) end";
    let reply = node.execute(&[b"EVAL", body.as_bytes(), b"0"]);
    assert!(format!("{reply:?}").contains("Error"), "{reply:?}");
}

/// The log as a node writes it: groups and parts of snapshots in one stream.
#[derive(Default)]
struct Stream {
    frames: Vec<Vec<u8>>,
    /// How many of the node's groups are in it.
    groups: usize,
}

impl Stream {
    fn catch_up(&mut self, node: &Node) {
        self.frames.extend_from_slice(&node.log[self.groups..]);
        self.groups = node.log.len();
    }

    /// Takes the parts of a snapshot, with steps between; false where the steps are over before the parts.
    fn take(&mut self, node: &mut Node, part_bytes: usize, mut steps: &[Vec<Step>]) -> bool {
        let mut cursor = SnapshotCursor::default();
        loop {
            let mut part = Vec::new();
            let next = node.engine.snapshot(cursor, part_bytes, &mut part);
            self.frames.push(part);
            let Some(after) = next else { return true };
            cursor = after;
            let Some((between, later)) = steps.split_first() else {
                return false;
            };
            steps = later;
            between.iter().for_each(|&step| act(node, step));
            self.catch_up(node);
        }
    }

    /// What a start makes of the frames from one on.
    fn replayed(&self, first: usize) -> Engine {
        let mut engine = Engine::new(EngineOptions::default());
        for (frame, position) in self.frames[first..].iter().zip(1..) {
            let position = LogPosition::from_raw(position);
            engine
                .apply(position, frame)
                .expect("what was written is read");
        }
        engine
    }
}

/// What lives: a key that has expired may be gone already.
fn living(engine: &Engine, node: &Node) -> BTreeSet<Stored> {
    let lives = |stored: &Stored| {
        let mut ends = stored.deadline.into_iter();
        ends.all(|deadline| deadline.node_time() > node.now.node)
    };
    engine.stored().filter(lives).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    /// A snapshot is given up at any part of it, and another one is completed: a start may begin with the beginning
    /// of the log or with the second snapshot, and finds the same.
    #[test]
    fn pieces_and_what_changes_between_them_make_the_whole(
        lengths in prop::collection::vec(any::<u8>(), 4),
        part_bytes in 50..700_usize,
        (given_up, completed) in (steps(), steps()),
    ) {
        let script_limits = ScriptLimits { journal_bytes: 5000, ..ScriptLimits::default() };
        let mut node = Node::with(EngineOptions { script_limits, ..EngineOptions::default() });
        let mut stream = Stream::default();
        for (kind, &length) in (0..).zip(&lengths) {
            fill(&mut node, kind, length);
        }
        stream.catch_up(&node);
        stream.take(&mut node, part_bytes, &given_up);
        let second = stream.frames.len();
        if !stream.take(&mut node, part_bytes, &completed) {
            let complete = stream.frames.len();
            prop_assert!(stream.take(&mut node, 1 << 20, &[]));
            prop_assert_eq!(living(&stream.replayed(complete), &node), living(&node.engine, &node));
        } else {
            prop_assert_eq!(living(&stream.replayed(second), &node), living(&node.engine, &node));
        }
        prop_assert_eq!(living(&stream.replayed(0), &node), living(&node.engine, &node));
    }
}

/// Just what the first piece holds is removed, and more comes, before the second is taken.
#[test]
fn a_piece_of_which_nothing_is_left_is_no_empty_collection() {
    for (kind, removal, addition) in [
        (0, "RPOP l 2", "RPUSH l new"),
        (1, "HDEL h f99", "HSET h new 1"),
        (2, "SREM s m99 m98", "SADD s new"),
        (3, "ZREM z m99", "ZADD z 1 new"),
    ] {
        let mut node = Node::default();
        fill(&mut node, kind, 99);
        let mut stream = Stream {
            groups: node.log.len(),
            ..Stream::default()
        };
        let mut cursor = Some(SnapshotCursor::default());
        let mut parts = 0;
        while let Some(start) = cursor {
            let mut part = Vec::new();
            cursor = node.engine.snapshot(start, 16, &mut part);
            stream.frames.push(part);
            if parts == 0 {
                node.run(removal);
                node.run(addition);
                stream.catch_up(&node);
            }
            parts += 1;
        }
        assert!(parts > 40, "{parts} parts");
        let replayed = living(&stream.replayed(0), &node);
        assert_eq!(replayed, living(&node.engine, &node), "{removal}");
    }
}

/// The largest frame of a log takes 8 MiB.
#[test]
fn a_collection_larger_than_a_frame_is_logged_and_comes_back() {
    let mut node = Node::default();
    let element = "x".repeat(1000);
    for number in 0..20_000 {
        let name = format!("{number:05}");
        node.execute(&[b"RPUSH", b"l", name.as_bytes(), element.as_bytes()]);
        node.execute(&[b"HSET", b"h", name.as_bytes(), element.as_bytes()]);
    }
    let mut stream = Stream {
        groups: node.log.len(),
        ..Stream::default()
    };
    let steps: Vec<Vec<Step>> = (0..900_u16)
        .map(|number| {
            let [_, number] = number.to_be_bytes();
            vec![(number % 19, number, number)]
        })
        .collect();
    assert!(stream.take(&mut node, 64 << 10, &steps));
    assert!(stream.frames.iter().all(|frame| frame.len() < 70 << 10));
    let replayed = stream.replayed(0);
    assert_eq!(living(&replayed, &node), living(&node.engine, &node));
    // What would write it as one is refused before anything is written.
    let groups = node.log.len();
    for line in ["RENAME l k", "COPY h k", "MOVE h 3", "RENAMENX h k"] {
        let reply = node.run(line);
        assert!(
            reply.contains("ERR this changes more than 7340032 bytes"),
            "{line}: {reply}"
        );
    }
    assert_eq!(node.log.len(), groups);
}
