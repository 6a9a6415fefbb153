//! Databases and collections that grow and shrink: what is walked over is all seen, and any key is as likely as another.
//!
//! How much memory is given back is tested where it is held.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use quorlock_engine::{Engine, EngineOptions, LogPosition, Reply, SnapshotCursor};

use crate::harness::Node;

/// How the keys go of which few are left.
#[derive(Clone, Copy, Debug)]
enum Way {
    Deleted,
    /// By commands of many keys, and then the maintenance goes on.
    DeletedTogether,
    Expired,
    DeletedByScripts,
    Renamed,
    Moved,
}

const WAYS: [Way; 6] = [
    Way::Deleted,
    Way::DeletedTogether,
    Way::Expired,
    Way::DeletedByScripts,
    Way::Renamed,
    Way::Moved,
];

fn bulk(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Reply::Shared(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// One page: the next cursor and what is on it.
fn page(node: &mut Node, line: &str) -> (u64, Vec<String>) {
    let Reply::Array(parts) = node.reply(line) else {
        panic!("{line} answers an array")
    };
    let Reply::Array(items) = &parts[1] else {
        panic!("the items are an array")
    };
    let cursor = bulk(&parts[0]).parse().expect("a cursor is a number");
    (cursor, items.iter().map(bulk).collect())
}

/// Keys 0 to `count`, of which the first `left` live on.
fn fill(node: &mut Node, count: usize, left: usize) {
    for number in 0..count {
        // Those that stay lie among the others.
        let number = (number * 7919) % count;
        let ends = if number < left { "" } else { "PX 1000" };
        node.run(&format!("SET key:{number} v {ends}"));
    }
}

fn thin_out(node: &mut Node, way: Way, count: usize, left: usize) {
    let names: Vec<String> = (left..count)
        .map(|number| format!("key:{number}"))
        .collect();
    match way {
        Way::Deleted => names.iter().for_each(|name| {
            node.run(&format!("DEL {name}"));
        }),
        Way::DeletedTogether => names.chunks(1000).for_each(|names| {
            node.run(&format!("UNLINK {}", names.join(" ")));
        }),
        Way::DeletedByScripts => names.chunks(1000).for_each(|names| {
            let keys = names.join(" ");
            let script = "for i = 1, #KEYS do redis.call('del', KEYS[i]) end";
            node.run(&format!("EVAL \"{script}\" {} {keys}", names.len()));
        }),
        Way::Renamed => {
            for name in &names {
                node.run(&format!("RENAME {name} key:0"));
            }
            // It has the others' deadline.
            node.run("SET key:0 v");
        }
        Way::Moved => {
            for name in &names {
                node.run(&format!("MOVE {name} 3"));
            }
            node.caller.database = 3;
            node.run("FLUSHDB");
            node.caller.database = 0;
        }
        Way::Expired => {}
    }
    node.advance(Duration::from_secs(2));
    while node.engine.reclaim(node.now.node, 64).more {}
}

#[test]
fn one_page_has_the_few_keys_that_are_left_of_many() {
    for way in WAYS {
        let mut node = Node::default();
        fill(&mut node, 10_000, 3);
        thin_out(&mut node, way, 10_000, 3);
        let (cursor, keys) = page(&mut node, "SCAN 0");
        assert_eq!((cursor, keys.len()), (0, 3), "{way:?}");
        assert!(!node.engine.is_sparse());
        for number in 0..3 {
            assert_eq!(node.run(&format!("GET key:{number}")), "\"v\"", "{way:?}");
        }
    }
}

/// Without the maintenance: every command makes a few steps, and so a database that keys leave one by one is never sparse.
#[test]
fn commands_alone_keep_pace_with_keys_that_leave_one_by_one() {
    let mut node = Node::default();
    fill(&mut node, 10_000, 0);
    for number in 0..10_000 {
        node.run(&format!("DEL key:{}", (number * 31) % 10_000));
        assert!(!node.engine.is_sparse(), "after {number}");
    }
    // All at once: the next commands do it.
    fill(&mut node, 4_000, 0);
    let names: Vec<String> = (10..4_000).map(|number| format!("key:{number}")).collect();
    node.run(&format!("DEL {}", names.join(" ")));
    assert!(node.engine.is_sparse());
    for _ in 0..1000 {
        node.run("GET key:0");
    }
    assert!(!node.engine.is_sparse());
    assert_eq!(page(&mut node, "SCAN 0").1.len(), 10);
}

#[test]
fn a_flushed_database_is_as_new_whatever_the_others_hold() {
    for (line, count) in [("FLUSHALL", 5000), ("FLUSHDB", 5000), ("FLUSHDB", 100)] {
        let mut node = Node::default();
        fill(&mut node, 5000, 0);
        node.caller.database = 1;
        fill(&mut node, count, 0);
        assert_eq!(node.run(line), "OK");
        assert_eq!(node.run("SCAN 0 COUNT 1"), "[\"0\", []]", "{line} {count}");
        node.run("SET new v");
        assert_eq!(node.run("SCAN 0 COUNT 1"), "[\"0\", [\"new\"]]");
        assert_eq!(node.run("DEL new"), "1");
        assert_eq!(node.run("SCAN 77 COUNT 1"), "[\"0\", []]");
        node.caller.database = 0;
        let keys = if line == "FLUSHALL" { 0 } else { 5000 };
        assert_eq!(node.run("DBSIZE"), keys.to_string());
        // Of what was written later nothing is missing, in either.
        for database in [0, 1] {
            node.caller.database = database;
            fill(&mut node, 6000, 0);
            assert_eq!(page(&mut node, "SCAN 0 COUNT 6000").1.len(), 6000);
        }
    }
}

/// How far the counts are from even ones: with `n` names the statistic is about `n`, and hardly ever above
/// `n + 5 * sqrt(2 * n)`.
fn assert_even(counts: &BTreeMap<String, usize>, names: usize, what: &str) {
    assert_eq!(counts.len(), names, "{what}: some never came");
    let calls: usize = counts.values().sum();
    let expected = calls as f64 / names as f64;
    let square = |&count: &usize| (count as f64 - expected).powi(2) / expected;
    let statistic: f64 = counts.values().map(square).sum();
    let bound = names as f64 + 5.0 * (2.0 * names as f64).sqrt();
    assert!(statistic < bound, "{what}: {statistic} is above {bound}");
}

fn count_calls(node: &mut Node, line: &str, calls: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..calls {
        *counts.entry(node.run(line)).or_insert(0) += 1;
    }
    counts
}

#[test]
fn any_key_is_as_likely_as_another() {
    for seed in [1, 2, 3] {
        let options = EngineOptions {
            hash_seed: seed,
            ..EngineOptions::default()
        };
        for way in [Way::Deleted, Way::DeletedTogether, Way::Expired] {
            let mut node = Node::with(options);
            fill(&mut node, 20_000, 100);
            thin_out(&mut node, way, 20_000, 100);
            let counts = count_calls(&mut node, "RANDOMKEY", 10_000);
            assert_even(&counts, 100, &format!("{way:?}, seed {seed}"));
        }
        // Right after growing, beside a database that is full, and with keys that have expired but are in memory.
        let mut node = Node::with(options);
        fill(&mut node, 10_000, 0);
        node.caller.database = 5;
        fill(&mut node, 300, 300);
        let counts = count_calls(&mut node, "RANDOMKEY", 30_000);
        assert_even(&counts, 300, "after growing");
        fill(&mut node, 5_000, 300);
        node.advance(Duration::from_secs(2));
        let counts = count_calls(&mut node, "RANDOMKEY", 30_000);
        assert_even(&counts, 300, "with expired keys");
        // In a script, and after one that was undone.
        let counts = count_calls(
            &mut node,
            "EVAL \"return redis.call('randomkey')\" 0",
            30_000,
        );
        assert_even(&counts, 300, "in scripts");
    }
}

#[test]
fn any_member_is_as_likely_as_another_in_what_is_left_of_a_large_collection() {
    let mut node = Node::default();
    for number in 0..20_000 {
        node.run(&format!("SADD s {number}"));
        node.run(&format!("HSET h {number} v"));
        node.run(&format!("ZADD z {number} {number}"));
    }
    for number in 100..20_000 {
        node.run(&format!("SREM s {number}"));
        node.run(&format!("HDEL h {number}"));
        node.run(&format!("ZREM z {number}"));
    }
    for line in ["SRANDMEMBER s", "HRANDFIELD h", "ZRANDMEMBER z"] {
        assert_even(&count_calls(&mut node, line, 10_000), 100, line);
    }
    let mut popped = BTreeMap::new();
    for _ in 0..10_000 {
        let member = node.run("SPOP s");
        node.run(&format!("SADD s {member}"));
        *popped.entry(member).or_insert(0) += 1;
    }
    assert_even(&popped, 100, "SPOP s");
}

/// What happens between two pages of a walk.
#[derive(Clone, Debug)]
enum Step {
    Add {
        from: u16,
        count: u16,
    },
    Remove {
        from: u16,
        count: u16,
    },
    /// All that need not stay.
    RemoveAll,
    Undone {
        from: u16,
    },
    Expire,
    /// A page with a cursor that nobody was given.
    Stray(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (any::<u16>(), 1..400_u16).prop_map(|(from, count)| Step::Add { from, count }),
        4 => (any::<u16>(), 1..600_u16).prop_map(|(from, count)| Step::Remove { from, count }),
        1 => Just(Step::RemoveAll),
        1 => any::<u16>().prop_map(|from| Step::Undone { from }),
        1 => Just(Step::Expire),
        1 => prop_oneof![any::<u64>(), 0..3000_u64].prop_map(Step::Stray),
    ];
    prop::collection::vec(step, 0..40)
}

/// The elements of a database, or of a collection.
#[derive(Clone, Copy)]
struct Walked {
    scan: &'static str,
    key: &'static str,
    remove: &'static str,
}

const WALKED: [Walked; 4] = [
    Walked {
        scan: "SCAN",
        key: "",
        remove: "DEL",
    },
    Walked {
        scan: "HSCAN",
        key: "h",
        remove: "HDEL h",
    },
    Walked {
        scan: "SSCAN",
        key: "s",
        remove: "SREM s",
    },
    Walked {
        scan: "ZSCAN",
        key: "z",
        remove: "ZREM z",
    },
];

impl Walked {
    fn add(self, node: &mut Node, name: &str) {
        node.run(&match self.scan {
            "SCAN" if name.ends_with('3') => format!("SET {name} v PX 50"),
            "SCAN" => format!("SET {name} v"),
            "HSCAN" => format!("HSET h {name} v"),
            "SSCAN" => format!("SADD s {name}"),
            _ => format!("ZADD z 1 {name}"),
        });
    }

    fn page(self, node: &mut Node, cursor: u64, count: u8) -> (u64, Vec<String>) {
        let Walked { scan, key, .. } = self;
        page(node, &format!("{scan} {key} {cursor} COUNT {count}"))
    }

    fn act(self, node: &mut Node, step: &Step, count: u8) {
        let names = |from: u16, count: u16| {
            let numbers = (from..from.saturating_add(count)).map(|number| number % 3000);
            numbers.map(|number| format!("odd:{number}"))
        };
        let all: Vec<String> = names(0, 3000).collect();
        match *step {
            Step::Add { from, count } => names(from, count).for_each(|name| self.add(node, &name)),
            Step::Remove { from, count } => names(from, count).for_each(|name| {
                node.run(&format!("{} {name}", self.remove));
            }),
            Step::RemoveAll => {
                node.run(&format!("{} {}", self.remove, all.join(" ")));
            }
            Step::Undone { from } => {
                let (command, key) = self.remove.split_once(' ').unwrap_or((self.remove, ""));
                let key = if key.is_empty() {
                    String::new()
                } else {
                    format!("'{key}', ")
                };
                let script = format!(
                    "for i = 0, 300 do redis.call('{command}', {key}'even:' .. i, 'odd:' .. i + {from} % 3000) end \
                     while true do end"
                );
                node.run(&format!("EVAL \"{script}\" 0"));
            }
            Step::Expire => {
                node.advance(Duration::from_millis(60));
                node.engine.reclaim(node.now.node, 500);
            }
            Step::Stray(cursor) => {
                self.page(node, cursor, count);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn what_stays_is_seen_by_every_walk(
        steps in steps(), walked in 0..4_usize, others in 0..3000_u16, (stay, count) in (1..300_u16, 1..60_u8)
    ) {
        let walked = WALKED[walked];
        let script_limits = quorlock_engine::ScriptLimits { steps: 5000, ..Default::default() };
        let mut node = Node::with(EngineOptions { script_limits, ..EngineOptions::default() });
        for number in 0..others.max(stay) {
            if number < stay {
                walked.add(&mut node, &format!("even:{number}0"));
            }
            if number < others {
                walked.add(&mut node, &format!("odd:{number}"));
            }
        }
        let mut steps = steps.iter();
        let (mut cursor, mut found, mut pages) = (0, BTreeSet::new(), 0);
        loop {
            let (next, items) = walked.page(&mut node, cursor, count);
            found.extend(items);
            if next == 0 {
                break;
            }
            prop_assert!(cursor == 0 || next < cursor, "a walk ends, whatever happens meanwhile");
            cursor = next;
            for step in steps.by_ref().take(2) {
                walked.act(&mut node, step, count);
            }
            pages += 1;
            prop_assert!(pages < 20_000);
        }
        for number in 0..stay {
            let name = format!("even:{number}0");
            prop_assert!(found.contains(&name), "{} is missing", name);
        }
    }

    /// Keys move while a snapshot is taken: none is missed, and collections that are taken in pieces are whole.
    #[test]
    fn a_snapshot_of_a_database_that_shrinks_misses_no_key(
        steps in steps(), part_bytes in 50..3000_usize, lists in 1..20_usize
    ) {
        let script_limits = quorlock_engine::ScriptLimits { steps: 5000, ..Default::default() };
        let mut node = Node::with(EngineOptions { script_limits, ..EngineOptions::default() });
        for number in 0..1500 {
            WALKED[0].add(&mut node, &format!("odd:{number}"));
            if number % 20 == 0 {
                node.run(&format!("RPUSH list:{} {}", number % lists, "e ".repeat(40).trim()));
                WALKED[0].add(&mut node, &format!("even:{number}0"));
            }
        }
        let (mut frames, mut groups) = (Vec::new(), node.log.len());
        let mut cursor = Some(SnapshotCursor::default());
        let mut steps = steps.iter();
        let mut parts = 0;
        while let Some(start) = cursor {
            let mut part = Vec::new();
            cursor = node.engine.snapshot(start, part_bytes, &mut part);
            frames.push(part);
            if let Some(step) = steps.next() {
                WALKED[0].act(&mut node, step, 10);
                node.run(&format!("LMOVE list:{0} list:{0} LEFT RIGHT", parts % lists));
                node.run(&format!("LPOP list:{} 3", parts % lists));
                node.run(&format!("RPUSH list:{} {parts}", (parts + 1) % lists));
            }
            frames.extend_from_slice(&node.log[groups..]);
            groups = node.log.len();
            parts += 1;
            prop_assert!(parts < 20_000);
        }
        let mut replayed = Engine::new(EngineOptions::default());
        for (frame, position) in frames.iter().zip(1..) {
            replayed.apply(LogPosition::from_raw(position), frame).expect("what was written is read");
        }
        let now = node.now.node;
        let living = |engine: &Engine| {
            let lives = |stored: &quorlock_engine::Stored| stored.deadline.is_none_or(|at| at.node_time() > now);
            engine.stored().filter(lives).collect::<BTreeSet<_>>()
        };
        prop_assert_eq!(living(&replayed), living(&node.engine));
    }
}
