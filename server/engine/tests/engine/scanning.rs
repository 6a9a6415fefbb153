//! SCAN's promise: a key that is there all the time is returned, and just once where the database does not shrink.

use std::collections::BTreeMap;

use crate::harness::Node;
use proptest::prelude::*;
use quorlock_engine::{EngineOptions, Reply, ScriptLimits};

/// One page: the next cursor and the keys.
fn page(node: &mut Node, line: &str) -> (String, Vec<String>) {
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let Reply::Array(parts) = node.reply(line) else {
        panic!("SCAN answers an array")
    };
    let Reply::Array(keys) = &parts[1] else {
        panic!("the keys are an array")
    };
    (text(&parts[0]), keys.iter().map(text).collect())
}

/// A whole scan, with something done between the pages.
fn scan(node: &mut Node, options: &str, between: impl FnMut(&mut Node)) -> Vec<String> {
    scan_with(node, "SCAN", options, between)
}

fn scan_with(
    node: &mut Node,
    command: &str,
    options: &str,
    mut between: impl FnMut(&mut Node),
) -> Vec<String> {
    let (mut cursor, mut found) = ("0".to_string(), Vec::new());
    for _ in 0..10_000 {
        let (next, keys) = page(node, &format!("{command} {cursor} {options}"));
        found.extend(keys);
        if next == "0" {
            return found;
        }
        cursor = next;
        between(node);
    }
    panic!("the scan does not end");
}

#[test]
fn pages_are_bounded_also_where_nothing_is() {
    let mut node = Node::default();
    for number in 0..5000 {
        node.run(&format!("SET key:{number} v PX 100000"));
    }
    // All at once, and no maintenance follows.
    let names: Vec<String> = (1..4999).map(|number| format!("key:{number}")).collect();
    node.run(&format!("DEL {}", names.join(" ")));
    let mut pages = 0;
    let mut found = scan(&mut node, "COUNT 10", |_| pages += 1);
    found.sort();
    found.dedup();
    assert_eq!(found, ["key:0", "key:4999"]);
    assert!(pages > 20, "a page looks at a bounded number of slots");
    // A cursor of a larger database, or of nobody, goes on with what there is.
    while node.engine.reclaim(node.now.node, 64).more {}
    for cursor in ["99999999", "4294967296", "18446744073709551615"] {
        let (next, keys) = page(&mut node, &format!("SCAN {cursor}"));
        assert_eq!((next.as_str(), keys.len()), ("0", 2));
    }
    let (cursor, keys) = page(&mut node, "SCAN 0 COUNT 9223372036854775807");
    assert_eq!((cursor.as_str(), keys.len()), ("0", 2));
}

#[test]
fn a_scan_sees_only_its_own_database_and_type() {
    let mut node = Node::default();
    for number in 0..50 {
        node.caller.database = number % 3;
        node.run(&format!("SET key:{number} v"));
        node.run(&format!("HSET hash:{number} f v"));
    }
    node.caller.database = 1;
    assert_eq!(scan(&mut node, "COUNT 3", |_| ()).len(), 34);
    let hashes = scan(&mut node, "TYPE hash COUNT 3", |_| ());
    assert_eq!(hashes.len(), 17);
    assert!(hashes.iter().all(|key| key.starts_with("hash:")));
    assert_eq!(scan(&mut node, "MATCH key:1? COUNT 3", |_| ()).len(), 4);
}

#[test]
fn a_random_key_is_any_of_the_database_and_none_that_has_ended() {
    let mut node = Node::default();
    for number in 0..3000 {
        node.run(&format!("SET other:{number} v"));
    }
    node.caller.database = 1;
    assert_eq!(node.run("RANDOMKEY"), "nil");
    node.run("SET ended v PX 5");
    node.advance(std::time::Duration::from_millis(5));
    assert_eq!(node.run("RANDOMKEY"), "nil");
    node.run("SET lonely v");
    assert_eq!(node.run("RANDOMKEY"), "\"lonely\"");
    for number in 0..1000 {
        node.run(&format!("SET key:{number} v"));
    }
    let mut found: Vec<String> = (0..200).map(|_| node.run("RANDOMKEY")).collect();
    assert!(
        found
            .iter()
            .all(|key| key.starts_with("\"key:") || key == "\"lonely\"")
    );
    found.sort();
    found.dedup();
    assert!(found.len() > 150, "{} different ones", found.len());
}

#[test]
fn pages_of_a_hash_are_bounded_and_a_small_hash_is_one() {
    let mut node = Node::default();
    for number in 0..64 {
        node.run(&format!("HSET h f{number} v"));
    }
    let (cursor, items) = page(&mut node, "HSCAN h 0 COUNT 3");
    assert_eq!((cursor.as_str(), items.len()), ("0", 128));
    for number in 64..1000 {
        node.run(&format!("HSET h f{number} v"));
    }
    assert_eq!(page(&mut node, "HSCAN h 0").1.len(), 20);
    assert_eq!(page(&mut node, "HSCAN h 0 COUNT 7").1.len(), 14);
    assert_eq!(page(&mut node, "HSCAN h 5").0, "0");
    assert_eq!(
        page(&mut node, "HSCAN h 18446744073709551615 COUNT 1").0,
        "999"
    );
    for count in ["1000", "9223372036854775807"] {
        let (cursor, items) = page(&mut node, &format!("HSCAN h 0 COUNT {count}"));
        assert_eq!((cursor.as_str(), items.len()), ("0", 2000));
    }
    let (longest, longer) = ("a".repeat(1_024), "[".repeat(1_025));
    assert_eq!(
        node.run(&format!("HSCAN h 0 MATCH {longest} COUNT 1000")),
        "[\"0\", []]"
    );
    assert_eq!(
        node.run(&format!("HSCAN h 0 MATCH {longer}")),
        "-ERR the pattern is longer than 1024 bytes"
    );
}

#[test]
fn random_fields_are_different_ones_or_any() {
    let mut node = Node::default();
    for number in 0..1000 {
        node.run(&format!("HSET h f{number} {number}"));
    }
    let list = |reply: Reply| {
        let Reply::Array(items) = reply else {
            panic!("an array")
        };
        items.iter().map(crate::harness::render).collect::<Vec<_>>()
    };
    let mut fields = list(node.reply("HRANDFIELD h 900"));
    fields.sort();
    fields.dedup();
    assert_eq!(fields.len(), 900);
    let mut any = list(node.reply("HRANDFIELD h -5000"));
    assert_eq!(any.len(), 5000);
    any.sort();
    any.dedup();
    assert!((950..=1000).contains(&any.len()), "{}", any.len());
    for pair in list(node.reply("HRANDFIELD h 50 WITHVALUES")).chunks(2) {
        assert_eq!(pair[0].replace('f', ""), pair[1]);
    }
    let mut single: Vec<String> = (0..100).map(|_| node.run("HRANDFIELD h")).collect();
    single.sort();
    single.dedup();
    assert!(single.len() > 80);
}

#[test]
fn an_expensive_pattern_is_refused_and_a_plain_one_is_not() {
    let mut node = Node::default();
    // One key costs half of the steps that a command has.
    let (text, pattern) = ("a".repeat(1_000_000), format!("*{}b", "a".repeat(1_000)));
    for number in 0..3 {
        assert_eq!(node.run(&format!("SET {text}{number} v")), "OK");
    }
    let refused = node.run(&format!("KEYS {pattern}"));
    assert!(
        refused.starts_with("-ERR the pattern needs too many steps"),
        "{refused}"
    );
    assert!(
        node.run(&format!("SCAN 0 MATCH {pattern}"))
            .starts_with("-ERR the pattern")
    );
    // Each key would cost as many steps as the pattern is long.
    let (longest, longer) = ("a".repeat(1_024), "[".repeat(1_025));
    assert_eq!(node.run(&format!("KEYS {longest}")), "[]");
    for line in [format!("KEYS {longer}"), format!("SCAN 0 MATCH {longer}")] {
        assert_eq!(
            node.run(&line),
            "-ERR the pattern is longer than 1024 bytes"
        );
    }
    for number in 0..2000 {
        node.run(&format!("SET key:{number} v"));
    }
    let Reply::Array(keys) = node.reply("KEYS key:*[0-9]*") else {
        panic!("an array")
    };
    assert_eq!(keys.len(), 2000);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn keys_that_stay_are_returned_exactly_once(
        changes in prop::collection::vec((0..200_u16, 0..5_u8), 0..400), count in 1..30_u8
    ) {
        // No clock: the endless script below ends by its steps.
        let script_limits = ScriptLimits { steps: 100, ..ScriptLimits::default() };
        let mut node = Node::with(EngineOptions { script_limits, ..EngineOptions::default() });
        for number in 0..200 {
            node.run(&format!("SET key:{number} v"));
        }
        let mut changes = changes.into_iter();
        let mut found = scan(&mut node, &format!("COUNT {count}"), |node| {
            for (number, kind) in changes.by_ref().take(20) {
                // Even keys stay, in whatever form; odd ones come and go.
                let odd = number | 1;
                let even = number & !1;
                match kind {
                    0 => node.run(&format!("DEL key:{odd}")),
                    1 => node.run(&format!("SET key:{odd} w")),
                    2 => node.run(&format!("SET key:{even} {}", "long".repeat(20))),
                    3 => node.run(&format!("SET new:{number} v")),
                    // Deleted by a script that is then undone: it was there all the time.
                    _ => node.run(&format!(
                        "EVAL \"redis.call('del', KEYS[1]) while true do end\" 1 key:{even}"
                    )),
                };
            }
        });
        found.retain(|key| key.strip_prefix("key:").is_some_and(|number| {
            number.parse::<u16>().unwrap() % 2 == 0
        }));
        let mut times = BTreeMap::new();
        for key in found {
            *times.entry(key).or_insert(0) += 1;
        }
        prop_assert_eq!(times.len(), 100);
        prop_assert!(times.values().all(|&times| times == 1), "{:?}", times);
    }

    #[test]
    fn fields_that_stay_are_returned(
        changes in prop::collection::vec((0..200_u16, 0..5_u8), 0..400), count in 1..30_u8
    ) {
        let script_limits = ScriptLimits { steps: 100, ..ScriptLimits::default() };
        let mut node = Node::with(EngineOptions { script_limits, ..EngineOptions::default() });
        for number in 0..200 {
            node.run(&format!("HSET h f{number} v"));
        }
        let mut changes = changes.into_iter();
        let found = scan_with(&mut node, "HSCAN h", &format!("COUNT {count}"), |node| {
            for (number, kind) in changes.by_ref().take(20) {
                // Even fields stay, whatever they hold; odd ones come and go.
                let (odd, even) = (number | 1, number & !1);
                match kind {
                    0 => node.run(&format!("HDEL h f{odd}")),
                    1 => node.run(&format!("HSET h f{odd} w new{number} w")),
                    2 => node.run(&format!("HSET h f{even} w")),
                    3 => node.run("RENAME h other") + &node.run("RENAME other h"),
                    // Removed by a script that is then undone: they were there all the time.
                    _ => node.run(&format!(
                        "EVAL \"redis.call('hdel', KEYS[1], ARGV[1], ARGV[2], ARGV[3]) \
                         while true do end\" 1 h f{even} f{odd} f0"
                    )),
                };
            }
        });
        for number in (0..200).step_by(2) {
            let name = format!("f{number}");
            prop_assert!(found.chunks(2).any(|pair| pair[0] == name), "{} is missing", name);
        }
        // Each is found by its name as well, wherever it has moved to.
        let Reply::Array(names) = node.reply("HKEYS h") else { panic!("an array") };
        for name in names {
            let Reply::Bulk(name) = name else { panic!("a bulk") };
            prop_assert_eq!(node.execute(&[b"HDEL", b"h", &name]), Reply::Integer(1));
        }
        prop_assert_eq!(node.run("EXISTS h"), "0");
    }
}
