//! Commands that change several fields or keys do all of it or nothing, also at their limits.
//!
//! Every limit is tried just below, at and just above what the command needs.

use crate::harness::{Node, render, state_of, words};
use quorlock_engine::{Command, EngineOptions, Flags, LogPosition, Reply};

fn free() -> EngineOptions {
    EngineOptions {
        journal_bytes_max: 1 << 20,
        ..EngineOptions::default()
    }
}

/// Runs a command under a limit and checks that it has done all or nothing; true if all.
fn is_done(options: EngineOptions, room: Option<usize>, setup: &[&str], line: &str) -> bool {
    let mut node = Node::with(free());
    for line in setup {
        node.run(line);
    }
    // The limits come with the engine, so that the keys come from the log.
    let mut limited = Node::with(options);
    for (payload, position) in node.log.iter().zip(1..) {
        limited
            .engine
            .apply(LogPosition::from_raw(position), payload)
            .unwrap();
    }
    limited.log = node.log.clone();
    let before = limited.state();
    let groups = limited.log.len();
    limited.room_bytes = room;
    let reply = limited.reply(line);
    let (logged, most) = (limited.effects.journal.len(), options.journal_bytes_max);
    assert!(logged <= room.unwrap_or(most), "{line} logs {logged} bytes");
    if let Reply::Error(error) = &reply {
        assert_eq!(limited.state(), before, "{line}: {error}");
        assert_eq!(limited.log.len(), groups, "{line}: {error}");
        return false;
    }
    node.run(line);
    assert_eq!(limited.state(), node.state(), "{line}: {}", render(&reply));
    assert_eq!(
        state_of(&mut limited.replayed(), limited.now.node),
        node.state()
    );
    true
}

/// The least limit under which a command is done, after a look at every limit below and some above.
fn least(upto: usize, is_done: impl Fn(usize) -> bool) -> usize {
    let least = (0..upto).find(|&limit| is_done(limit)).unwrap();
    for limit in least..least + 40 {
        assert!(is_done(limit), "done at {least} and not at {limit}");
    }
    least
}

const HASH: &[&str] = &["HSET h a 1", "PEXPIRE h 30000"];
const SCORES: &[&str] = &["ZADD z 1 a 2 b", "PEXPIRE z 30000"];
const FOUR: &[&str] = &["ZADD z 1 aaaaaaaaaa 2 bbbbbbbbbb 3 cccccccccc 4 d"];
const TWO_SORTED: &[&str] = &[
    "ZADD x 1 aaaaaaaaaa 2 b",
    "ZADD y 1 b 2 cccccccccc",
    "SET to v",
];
const COMMANDS: &[(&[&str], &str)] = &[
    (HASH, "HSET h b 2222222222 c 3333333333 d 4"),
    (HASH, "HSET h a 2222222222 a 3 a 4444444444"),
    (HASH, "HSET h b 2 a 22222222222222222222 b 3"),
    (&["SET x y"], "HSET h b 2222222222 c 3333333333 b 1"),
    (&["HSET h a 1111111111111 b 2 c 3 d 4"], "HDEL h x a b a c"),
    (&["HSET h a 1 b 2"], "HDEL h a b"),
    (HASH, "HMSET h b 2222222222 a 3333333333 d 4"),
    (&["SET x y"], "HMSET h b 2222222222 c 3333333333"),
    (HASH, "HSETNX h b 2222222222"),
    (&["SET x y"], "HSETNX h b 2222222222"),
    (
        &["SET k1 v", "SET k2 v", "SET k3 v"],
        "DEL k1 k2 none k1 k3",
    ),
    (&["SET k1 v", "SET k2 v", "SET k3 v"], "UNLINK k1 k2 k3"),
    (&["SET k1 v"], "MSET k1 1111111111 k2 2222222222 k1 3"),
    (&["HSET k1 f v"], "MSET k1 1 k2 2"),
    (&["SET k v"], "MSETNX k1 1111111111 k2 2222222222"),
    (
        &[
            "SET k1 01234567890123456789012345678901234567890123456789012345678901234567890123456789",
        ],
        "RENAME k1 longer-than-before",
    ),
    (
        &["SET k1 1", "SET k2 2", "PEXPIRE k1 30000"],
        "RENAME k1 k2",
    ),
    (&["HSET h a 1 b 2222222222", "SET k v"], "RENAME h k"),
    (&["HSET h a 1 b 2222222222"], "RENAMENX h k"),
    (&["HSET h a 1 b 2222222222", "SET k v"], "COPY h k REPLACE"),
    (&["SET k1 1", "PEXPIRE k1 30000"], "COPY k1 k2"),
    (&["SET k 1111111111", "PEXPIRE k 30000"], "APPEND k 2"),
    (&["SET k 1111111111"], "SETRANGE k 20 2"),
    (&["SET k 1111111111", "PEXPIRE k 30000"], "SETBIT k 200 1"),
    (&["SET k 1111111111"], "BITFIELD k SET u8 200 1"),
    (
        &["SET k 1111111111", "SET k2 2222222222222222"],
        "BITOP XOR to k k2",
    ),
    (&["RPUSH l 3 2 1111111111"], "SORT l STORE to"),
    (&["RPUSH l 1", "SET to v"], "SORT l LIMIT 5 5 STORE to"),
    (&["SET k 0.5"], "INCRBYFLOAT k 1e100"),
    (HASH, "HINCRBYFLOAT h a 1e100"),
    (SCORES, "ZADD z 5 cccccccccc 6 a 7 d 8 d"),
    (SCORES, "ZADD z XX CH 5 cccccccccc 6 a 2 b"),
    (&["SET z v"], "DEL z"),
    (&[], "ZADD z 5 cccccccccc 6 a 7 d 8 d"),
    (SCORES, "ZINCRBY z 1 cccccccccc"),
    (&[], "ZINCRBY z 1 cccccccccc"),
    (FOUR, "ZREM z aaaaaaaaaa none d cccccccccc"),
    (FOUR, "ZREM z aaaaaaaaaa bbbbbbbbbb cccccccccc d"),
    (FOUR, "ZREMRANGEBYRANK z 0 2"),
    (FOUR, "ZREMRANGEBYRANK z 0 -1"),
    (FOUR, "ZREMRANGEBYSCORE z (1 3"),
    (
        &["ZADD z 0 aaaaaaaaaa 0 bbbbbbbbbb 0 c"],
        "ZREMRANGEBYLEX z - (c",
    ),
    (FOUR, "ZPOPMIN z 3"),
    (FOUR, "ZPOPMAX z 9"),
    (FOUR, "ZMPOP 2 none z MAX COUNT 2"),
    (FOUR, "ZRANGESTORE to z 1 2"),
    (FOUR, "ZRANGESTORE z z 1 2"),
    (FOUR, "ZRANGESTORE z z 7 9"),
    (TWO_SORTED, "ZUNIONSTORE to 2 x y"),
    (TWO_SORTED, "ZUNIONSTORE x 2 x y"),
    (TWO_SORTED, "ZINTERSTORE to 2 x y"),
    (TWO_SORTED, "ZINTERSTORE to 2 x none"),
    (TWO_SORTED, "ZDIFFSTORE x 2 x y"),
    (SET, "SADD s b cccccccccc ddddddddddddddd a"),
    (SET, "SADD s b b b b b b b b b b b b b b b b b"),
    (&["SET x y"], "SADD s b cccccccccc b d"),
    (&["SADD s a b cccccccccc d"], "SREM s x b a b cccccccccc"),
    (&["SADD s a b"], "SREM s a b"),
    (SET, "SPOP s"),
    (&["SADD s a b cccccccccc d"], "SPOP s 3"),
    (&["SADD s a b cccccccccc d"], "SPOP s 4"),
    (&["SADD s a b", "SADD t c"], "SMOVE s t a"),
    (&["SADD s a", "SADD t a c"], "SMOVE s t a"),
    (&["SADD s a b"], "SMOVE s other-key a"),
    (SET, "SMOVE s other-key a"),
    (TWO_SETS, "SINTERSTORE other-key s t"),
    (TWO_SETS, "SUNIONSTORE s s t"),
    (TWO_SETS, "SDIFFSTORE t s t"),
    (TWO_SETS, "SDIFFSTORE s t t"),
    (LIST, "LREM l 0 a"),
    (LIST, "LREM l 1 b"),
    (LIST, "LPOP l 3"),
    (LIST, "LTRIM l 1 2"),
    (LIST, "LMOVE l l LEFT RIGHT"),
    (LIST, "LMOVE l m RIGHT LEFT"),
    (LIST, "RPOPLPUSH l m"),
    (&["RPUSH l a", "PEXPIRE l 30000"], "RPOPLPUSH l m"),
    (LIST, "BLMOVE l other-key LEFT LEFT 1"),
    (LIST, "BRPOPLPUSH l m 1"),
    (LIST, "LMPOP 2 none l LEFT COUNT 3"),
    (LIST, "BLMPOP 1 2 none l RIGHT COUNT 9"),
    (LIST, "BLPOP none l 1"),
    (FOUR, "BZPOPMAX none z 1"),
    (FOUR, "BZMPOP 1 2 none z MIN COUNT 3"),
    (LIST, "MOVE l 1"),
    (&["SET k 1111111111", "PEXPIRE k 30000"], "MOVE k 1"),
];
const LIST: &[&str] = &["RPUSH l a bbbbbbbbbb a b a", "PEXPIRE l 30000"];
const SET: &[&str] = &["SADD s a", "PEXPIRE s 30000"];
const TWO_SETS: &[&str] = &[
    "SADD s a bbbbbbbbbb c",
    "SADD t a bbbbbbbbbb d",
    "PEXPIRE t 30000",
];

#[test]
fn hset_at_the_limit_of_a_values_bytes_sets_all_fields_or_none() {
    for (setup, line) in COMMANDS.iter().filter(|(_, line)| line.starts_with("HSET")) {
        let limited = |collection_bytes_max| EngineOptions {
            collection_bytes_max,
            ..free()
        };
        let bytes = least(1000, |limit| is_done(limited(limit), None, setup, line));
        // The limit is on what the hash becomes: the same in one step or in several.
        let mut node = Node::with(limited(bytes));
        for line in setup.iter().chain([line]) {
            node.run(line);
        }
        let whole = format!(
            "HSET whole {}",
            node.run("HGETALL h").replace(['[', ']', ','], "")
        );
        assert!(!node.run(&whole).starts_with('-'), "{line} at {bytes}");
        let mut node = Node::with(limited(bytes - 1));
        assert!(node.run(&whole).starts_with('-'), "{line} at {bytes} - 1");
    }
}

#[test]
fn sorted_sets_at_the_limit_of_a_values_bytes_get_all_members_or_none() {
    let grows =
        |line: &str| ["ZADD", "ZINCRBY", "ZUNIONSTORE"].contains(&line.split(' ').next().unwrap());
    for (setup, line) in COMMANDS.iter().filter(|(_, line)| grows(line)) {
        let limited = |collection_bytes_max| EngineOptions {
            collection_bytes_max,
            ..free()
        };
        let bytes = least(1000, |limit| is_done(limited(limit), None, setup, line));
        let key = if line.contains(" to ") {
            "to"
        } else {
            line.split(' ').nth(1).unwrap()
        };
        let mut node = Node::with(limited(bytes));
        setup
            .iter()
            .chain([line])
            .for_each(|line| drop(node.run(line)));
        let members = node.run(&format!("ZRANGE {key} 0 -1"));
        let names: usize = members
            .split(", ")
            .map(|name| name.trim_matches(['[', ']', '"']).len() + 13)
            .sum();
        assert_eq!(bytes, names, "{line}: what its result takes");
    }
}

#[test]
fn set_commands_at_the_limit_of_a_values_bytes_do_all_or_nothing() {
    let lines = [
        "SADD s",
        "SMOVE",
        "SINTERSTORE",
        "SUNIONSTORE",
        "SDIFFSTORE t",
    ];
    let is_tried = |line: &str| lines.iter().any(|start| line.starts_with(start));
    for (setup, line) in COMMANDS.iter().filter(|(_, line)| is_tried(line)) {
        let limited = |collection_bytes_max| EngineOptions {
            collection_bytes_max,
            ..free()
        };
        let bytes = least(1000, |limit| is_done(limited(limit), None, setup, line));
        // A set that shrinks is no larger than before, whatever the limit is now.
        assert!(bytes > 0 || line == &"SMOVE s t a", "{line}");
    }
}

#[test]
fn commands_of_several_parts_at_the_limit_of_the_journal_do_all_or_nothing() {
    for (setup, line) in COMMANDS {
        let limited = |journal_bytes_max| EngineOptions {
            journal_bytes_max,
            ..free()
        };
        let bytes = least(2000, |limit| is_done(limited(limit), None, setup, line));
        assert!(bytes > 64, "{line}");
    }
}

#[test]
fn commands_of_several_parts_do_all_or_nothing_where_the_log_has_little_room() {
    for (setup, line) in COMMANDS {
        least(2000, |room| is_done(free(), Some(room), setup, line));
    }
}

/// Commands with long keys and values, and what comes before them.
fn long_commands() -> Vec<(Vec<String>, String)> {
    let (key, value) = ("k".repeat(300), "v".repeat(100_000));
    let long: &[(&[String], String)] = &[
        (
            &[format!("SET {key} {value}")],
            format!("RENAME {key} {key}2"),
        ),
        (&[format!("SET {key} {value}")], format!("COPY {key} k2")),
        (&[format!("SET k {value}")], "APPEND k 1".into()),
        (&[format!("SET k {value}")], "SETRANGE k 1 1".into()),
        (
            &[format!("HSET k {value} {value}")],
            format!("COPY k {key}"),
        ),
        (&[], format!("MSET {key} 1 {key}2 2 k {value}")),
        (
            &[format!("SADD s 1 {value}")],
            format!("SMOVE s {key} {value}"),
        ),
        (
            &[format!("SADD s {value}"), format!("SADD t {value}")],
            format!("SMOVE s t {value}"),
        ),
        (
            &[format!("SADD s 1 2 {value} {value}2")],
            format!("SUNIONSTORE {key} s s"),
        ),
        (
            &[format!("SADD {key} 1 2 3 4 {value} {value}2")],
            format!("SPOP {key} 5"),
        ),
        (&[], format!("SADD {key} 1 2 3 4 5 6 7 8 9 {value}")),
        (
            &[format!("SADD {key} 0")],
            format!("SADD {key} 1 2 3 4 5 6 7 8 9"),
        ),
        (&[], "INCRBYFLOAT k 1e4932".into()),
        (&[], "HINCRBYFLOAT k f 1e4932".into()),
        (&[], format!("ZADD {key} 1 a 2 b 3 c 4 {value}")),
        (&[format!("ZADD {key} 1 a")], format!("ZADD {key} 2 a 2 b")),
        (
            &[format!("ZADD {key} 1 {value} 2 b")],
            format!("ZPOPMIN {key}"),
        ),
        (
            &[format!("ZADD {key} 1 {value} 2 b")],
            format!("ZMPOP 1 {key} MIN"),
        ),
        (
            &[format!("ZADD k 1 {value} 2 b")],
            "ZREMRANGEBYRANK k 0 0".into(),
        ),
        (
            &[format!("ZADD k 1 {value} 2 b")],
            "ZRANGESTORE to k 0 0".into(),
        ),
        (
            &[format!("ZADD k 1 {value} 2 b")],
            "ZUNIONSTORE to 1 k".into(),
        ),
    ];
    let owned = |(setup, line): &(&[String], String)| (setup.to_vec(), line.clone());
    long.iter().map(owned).collect()
}

/// What cannot be foreseen is bounded by the log's room while it runs.
#[test]
fn every_command_that_may_log_what_it_finds_is_tried_at_every_limit() {
    let tried = |name: &str| {
        let mut lines = COMMANDS.iter().map(|(_, line)| line.split(' ').next());
        lines.any(|word| word.is_some_and(|word| word.eq_ignore_ascii_case(name)))
    };
    let missing: Vec<&str> = quorlock_engine::all_specs()
        .filter(|spec| spec.flags.contains(Flags::WHOLE_VALUE) && !tried(spec.name))
        .map(|spec| spec.name)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The node refuses a command for which its log may have no room; what it reckons with must be enough.
#[test]
fn no_command_logs_more_than_is_reckoned_with_from_its_arguments() {
    let short = COMMANDS.iter().map(|(setup, line)| {
        let setup: Vec<String> = setup.iter().map(|&line| line.into()).collect();
        (setup, (*line).to_owned())
    });
    for (setup, line) in short.chain(long_commands()) {
        let mut node = Node::default();
        setup.iter().for_each(|line| drop(node.run(line)));
        let reply = node.run(&line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        let words = words(&line);
        let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reckoned = Command::parse(&arguments).unwrap().mutation_bytes_max();
        let logged = node.effects.journal.len();
        assert!(logged <= reckoned, "{line}: {logged} and not {reckoned}");
    }
}

#[test]
fn hset_obeys_the_other_limits_for_all_fields_at_once() {
    let new = "HSET key b 2 c 3";
    let limited = |key_bytes_max| EngineOptions {
        key_bytes_max,
        ..free()
    };
    assert_eq!(
        least(10, |limit| is_done(limited(limit), None, &[], new)),
        3
    );
    let strict = EngineOptions {
        require_ttl: true,
        ..free()
    };
    assert!(!is_done(strict, None, &[], new));
    assert!(!is_done(
        strict,
        None,
        &["HSET h a 1", "PEXPIRE h 60001"],
        "HSET h b 2 c 3"
    ));
    assert!(is_done(
        strict,
        None,
        &["HSET h a 1", "PEXPIRE h 60000"],
        "HSET h b 2 c 3"
    ));
    assert!(!is_done(free(), None, &["SET h a"], "HSET h b 2 c 3"));
}

#[test]
fn smove_obeys_the_other_limits_before_it_takes_anything() {
    let limited = |key_bytes_max| EngineOptions {
        key_bytes_max,
        ..free()
    };
    let setup = &["SADD s a b"];
    assert_eq!(
        least(10, |limit| is_done(
            limited(limit),
            None,
            setup,
            "SMOVE s other a"
        )),
        5
    );
    let strict = EngineOptions {
        require_ttl: true,
        ..free()
    };
    let both = &["SADD s a b", "SADD t c", "PEXPIRE t 60000"];
    assert!(is_done(strict, None, both, "SMOVE s t a"));
    assert!(!is_done(strict, None, both, "SMOVE s new a"));
    assert!(!is_done(
        strict,
        None,
        &["SADD s a", "SADD t c"],
        "SMOVE s t a"
    ));
    assert!(!is_done(
        free(),
        None,
        &["SADD s a", "SET t c"],
        "SMOVE s t a"
    ));
}

/// A value that is overwritten does not count beside the one that takes its place.
#[test]
fn a_counter_in_a_full_hash_goes_on_counting() {
    let collection_bytes_max = 40;
    let mut node = Node::with(EngineOptions {
        collection_bytes_max,
        ..free()
    });
    assert_eq!(
        node.run("HSET h holder 1 f 22222222222222"),
        "-ERR collection is larger than 40 bytes"
    );
    assert_eq!(node.run("HSET h holder 1 f 222222222222"), "2");
    assert_eq!(node.run("HINCRBY h holder 1"), "2");
    assert_eq!(node.run("HSET h f 3 holder 3"), "0");
}
