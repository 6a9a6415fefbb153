//! A reply is charged before it is taken: what would be too large is an error, and nothing was
//! done for it. Long values are shared and not copied.

use std::sync::Arc;

use quorlock_engine::{EngineOptions, REPLY_BYTES_MAX, Reply, ReplyBudget};

use crate::harness::{Node, state_of};

const MEBIBYTE: usize = 1 << 20;

fn limited(reply_bytes_max: usize) -> Node {
    Node::with(EngineOptions {
        reply_bytes_max,
        ..EngineOptions::default()
    })
}

/// What elements of these lengths are charged.
fn cost(lengths: &[usize]) -> usize {
    let mut budget = ReplyBudget::new(usize::MAX);
    for &length in lengths {
        budget.charge(length).unwrap();
    }
    budget.taken()
}

fn is_too_large(reply: &Reply) -> bool {
    let Reply::Error(error) = reply else {
        return false;
    };
    let text = error.to_string();
    assert!(text.contains("proto-max-reply-len"), "{text}");
    assert!(text.contains("Nothing was changed"), "{text}");
    true
}

fn mget(node: &mut Node, count: usize) -> Reply {
    let mut words: Vec<&[u8]> = vec![b"MGET"];
    words.resize(count + 1, b"long");
    node.execute(&words)
}

#[test]
fn mget_of_one_long_value_many_times_takes_no_memory() {
    let mut node = Node::default();
    let value = vec![b'v'; 4 * MEBIBYTE];
    assert_eq!(node.execute(&[b"SET", b"long", &value]), Reply::Ok);
    // 64 MiB hold 15 of them: the 16th would fit without what an element costs besides.
    let Reply::Array(items) = mget(&mut node, 15) else {
        panic!("an array")
    };
    assert!(node.effects.reply.taken() <= REPLY_BYTES_MAX);
    let shared: Vec<&Arc<[u8]>> = items
        .iter()
        .map(|item| match item {
            Reply::Shared(bytes) => bytes,
            other => panic!("a long value is shared: {other:?}"),
        })
        .collect();
    assert!(shared.iter().all(|one| Arc::ptr_eq(one, shared[0])));
    assert_eq!(
        Arc::strong_count(shared[0]),
        16,
        "the key's own, and one each"
    );
    assert_eq!(**shared[0], *value);
    for count in [16, 250, 2000] {
        assert!(is_too_large(&mget(&mut node, count)), "{count}");
        assert!(node.effects.reply.taken() <= REPLY_BYTES_MAX, "{count}");
    }
    drop(items);
    assert!(matches!(node.run("SET long short XX GET"), text if text.len() > 4 * MEBIBYTE));
    assert_eq!(node.run("GET long"), "\"short\"");
}

const SETUP: &[&str] = &[
    "SET a 12345",
    "SET bc 1",
    "HSET h f 123456 g 12",
    "ZADD z 1.5 123456 2.25 12 3 3",
    "ZADD y 1 12",
    "SADD s m mmm",
    "DEL bc",
];

/// Commands with the lengths of what is charged.
const CHARGED: &[(&str, &[usize])] = &[
    ("GET a", &[5]),
    ("GET absent", &[0]),
    ("MGET a absent h a", &[5, 0, 0, 5]),
    ("SET a 1 XX GET", &[5]),
    ("SET absent 1 NX GET", &[0]),
    ("GETSET a 1", &[5]),
    ("INCRBYFLOAT a 0.5", &[7]),
    ("HINCRBYFLOAT h g 1e3", &[4]),
    ("GETDEL a", &[5]),
    ("GETDEL absent", &[0]),
    ("GETEX a PX 100", &[5]),
    ("GETRANGE a 1 -2", &[3]),
    ("SET a 1 IFEQ 12345 GET", &[5]),
    ("HGET h f", &[6]),
    ("HMGET h f none g", &[6, 0, 2]),
    ("HMGET none f", &[0]),
    ("HVALS h", &[6, 2]),
    ("HSCAN h 0", &[1, 6, 1, 2]),
    ("HSCAN h 0 MATCH g", &[1, 2]),
    ("HRANDFIELD h 9", &[1, 1]),
    ("HRANDFIELD h 2 WITHVALUES", &[1, 6, 1, 2]),
    ("HRANDFIELD h -3", &[1, 1, 1]),
    ("HKEYS h", &[1, 1]),
    ("HGETALL h", &[1, 6, 1, 2]),
    ("ZRANGE z 0 1", &[6, 2]),
    ("ZRANGE z 0 1 WITHSCORES", &[6, 0, 2, 0]),
    ("ZRANGE z 0 1 REV", &[1, 2]),
    ("ZRANGEBYSCORE z 2 9 WITHSCORES LIMIT 0 1", &[2, 0]),
    ("ZREVRANGEBYLEX z + - LIMIT 0 1", &[1]),
    ("ZMSCORE z 12 none 3", &[0, 0, 0]),
    ("ZMSCORE none 12", &[0]),
    ("ZPOPMIN z", &[6, 0]),
    ("ZPOPMAX z 2", &[1, 0, 2, 0]),
    ("ZPOPMIN z 9", &[6, 0, 2, 0, 1, 0]),
    ("ZMPOP 2 none z MIN", &[1, 0, 6, 0, 0]),
    ("ZUNION 2 z y", &[6, 2, 1]),
    ("ZINTER 2 z y WITHSCORES", &[2, 0]),
    ("ZDIFF 2 z y", &[6, 1]),
    ("ZSCAN z 0", &[6, 3, 2, 4, 1, 1]),
    ("ZSCAN z 0 MATCH 1?", &[2, 4]),
    ("ZRANDMEMBER z 9 WITHSCORES", &[6, 0, 2, 0, 1, 0]),
    ("ZRANDMEMBER y", &[2]),
    ("ZRANDMEMBER y -2 WITHSCORES", &[2, 0, 2, 0]),
    ("KEYS *", &[1, 1, 1, 1, 1]),
    ("SCAN 0 COUNT 1000000000", &[1, 1, 1, 1, 1]),
    ("SMEMBERS s", &[1, 3]),
    ("SMISMEMBER s m n x", &[0, 0, 0]),
    ("SSCAN s 0", &[1, 3]),
    ("SSCAN s 0 MATCH m*", &[1, 3]),
    ("SRANDMEMBER s 9", &[1, 3]),
    ("SPOP s 2", &[1, 3]),
    ("SPOP s 9", &[1, 3]),
    ("SINTER s s", &[1, 3]),
    ("SUNION s none s", &[1, 3]),
    ("SDIFF s none", &[1, 3]),
    ("SCRIPT EXISTS x y z", &[0, 0, 0]),
];

#[test]
fn a_reply_may_take_the_limit_and_not_a_byte_more() {
    for &(line, lengths) in CHARGED {
        let whole = cost(lengths);
        let expected = {
            let mut node = Node::default();
            SETUP.iter().for_each(|line| drop(node.run(line)));
            node.run(line)
        };
        for (limit, is_admitted) in [(whole - 1, false), (whole, true), (whole + 1, true)] {
            let mut node = limited(limit);
            SETUP.iter().for_each(|line| drop(node.run(line)));
            let before = (node.state(), node.log.len());
            let reply = node.reply(line);
            assert_eq!(is_too_large(&reply), !is_admitted, "{line} with {limit}");
            if is_admitted {
                assert_eq!(crate::harness::render(&reply), expected, "{line}");
                assert_eq!(node.effects.reply.taken(), whole, "{line}");
            } else {
                assert_eq!((node.state(), node.log.len()), before, "{line}");
                assert!(node.effects.journal.is_empty(), "{line}");
            }
        }
    }
}

#[test]
fn a_limit_of_nothing_leaves_what_carries_no_data() {
    for limit in [0, 1] {
        let mut node = limited(limit);
        for (line, reply) in [
            ("SET lock token NX PX 30000", "OK"),
            ("SET lock other NX PX 30000", "nil"),
            ("PEXPIRE lock 1000", "1"),
            ("EXISTS lock", "1"),
            ("HSET h f 1", "1"),
            ("SADD s a b", "2"),
            ("SUNIONSTORE t s s", "2"),
            ("SMOVE s t a", "1"),
            ("SREM s b", "1"),
            ("DEL t", "1"),
            ("INCR n", "1"),
            ("DEL lock h n", "3"),
            ("KEYS *", "[]"),
        ] {
            assert_eq!(node.run(line), reply, "{line} with {limit}");
        }
        assert_eq!(node.run("SET lock token"), "OK");
        assert!(is_too_large(&node.reply("GET lock")));
        assert!(is_too_large(&node.reply("SET lock other GET")));
    }
    let mut node = limited(usize::MAX);
    node.run("SET lock token");
    assert_eq!(node.run("MGET lock lock"), "[\"token\", \"token\"]");
}

/// With RESP3 a member and its score are an element of their own.
#[test]
fn nested_scores_are_charged_as_such() {
    for (line, lengths) in [
        ("ZRANGE z 0 1 WITHSCORES", &[4, 0, 0, 2, 0, 0][..]),
        ("ZPOPMIN z", &[4, 0]),
        ("ZPOPMIN z 1", &[4, 0, 0]),
        ("ZUNION 1 z WITHSCORES", &[4, 0, 0, 2, 0, 0]),
        ("ZRANDMEMBER z 2 WITHSCORES", &[4, 0, 0, 2, 0, 0]),
    ] {
        for (limit, is_admitted) in [(cost(lengths) - 1, false), (cost(lengths), true)] {
            let mut node = limited(limit);
            node.caller.protocol = quorlock_engine::Protocol::Resp3;
            node.run("ZADD z 1 1234 2 12");
            let before = node.log.len();
            let reply = node.reply(line);
            assert_eq!(is_too_large(&reply), !is_admitted, "{line} with {limit}");
            assert!(is_admitted || node.log.len() == before, "{line}");
        }
    }
}

/// The count of HRANDFIELD and SRANDMEMBER asks for more than they send.
#[test]
fn any_count_of_random_parts_is_bounded_by_the_reply() {
    let mut node = Node::default();
    node.run("HSET h f v g w");
    node.run("SADD s f g");
    for count in ["-4611686018427387903", "-9223372036854775807"] {
        assert!(is_too_large(&node.reply(&format!("HRANDFIELD h {count}"))));
        assert!(is_too_large(&node.reply(&format!("SRANDMEMBER s {count}"))));
    }
    node.run("ZADD z 1 a 2 b");
    for line in [
        "HRANDFIELD h -1000000000 WITHVALUES",
        "ZRANDMEMBER z -9223372036854775807",
        "ZRANDMEMBER z -1000000000 WITHSCORES",
    ] {
        assert!(is_too_large(&node.reply(line)), "{line}");
    }
}

#[test]
fn the_limit_can_be_changed_while_a_node_runs() {
    let mut node = Node::default();
    node.run("SET a 12345");
    for (limit, is_admitted) in [(0, false), (cost(&[5]), true), (cost(&[5]) - 1, false)] {
        node.engine.set_reply_bytes_max(limit);
        assert_eq!(!is_too_large(&node.reply("GET a")), is_admitted, "{limit}");
    }
}

#[test]
fn a_million_tiny_keys_are_bounded_by_what_they_take() {
    let mut node = limited(1000 * cost(&[3]));
    for number in 0..1000 {
        node.run(&format!("SET {number:03} v"));
    }
    assert!(matches!(node.reply("KEYS *"), Reply::Array(keys) if keys.len() == 1000));
    node.run("SET one-more v");
    assert!(is_too_large(&node.reply("KEYS *")));
    assert!(is_too_large(&node.reply("SCAN 0 COUNT 18446744073709")));
    assert!(node.run("SCAN 0 COUNT 10").starts_with("[\"991\", "));
}

#[test]
fn a_value_that_is_replaced_stays_what_it_was_in_a_reply() {
    let mut node = Node::default();
    for length in [1023, 1024, 5000] {
        let (old, new) = (vec![b'o'; length], vec![b'n'; length]);
        node.execute(&[b"SET", b"k", &old]);
        node.execute(&[b"HSET", b"h", b"f", &old]);
        let (string, field) = (node.reply("GET k"), node.reply("HGET h f"));
        let all = node.reply("HGETALL h");
        node.execute(&[b"SET", b"k", &new]);
        node.execute(&[b"HSET", b"h", b"f", &new]);
        for reply in [&string, &field] {
            let (is_shared, bytes) = match reply {
                Reply::Bulk(bytes) => (false, &**bytes),
                Reply::Shared(bytes) => (true, &**bytes),
                other => panic!("a bulk: {other:?}"),
            };
            assert_eq!((is_shared, bytes), (length >= 1024, &*old));
        }
        assert_eq!(all, Reply::Map(vec![(Reply::bulk("f"), field)]));
        assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
    }
}

#[test]
fn long_values_are_undone_and_replayed_like_others() {
    let mut node = Node::default();
    let long = "x".repeat(3000);
    node.run(&format!("SET k {long}"));
    node.run(&format!("HSET h f {long} g 1"));
    let before = node.state();
    let body = "redis.call('set','k','short') redis.call('hset','h','f','1') \
                redis.call('hdel','h','g') redis.call('del','h') while true do end";
    let mut now = quorlock_engine::RawTime::ZERO;
    node.engine.set_script_clock(Box::new(move || {
        now = now.plus_nanos(1_000_000);
        now
    }));
    let reply = node.execute(&[b"EVAL", body.as_bytes(), b"0"]);
    assert!(matches!(reply, Reply::Error(_)));
    assert_eq!(node.state(), before);
    assert_eq!(state_of(&mut node.replayed(), node.now.node), before);
    node.run("PEXPIRE k 1000");
    node.run(&format!("SET k {long}y KEEPTTL"));
    assert_eq!(node.run("STRLEN k"), "3001");
    assert_eq!(node.run("PTTL k"), "1000");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}
