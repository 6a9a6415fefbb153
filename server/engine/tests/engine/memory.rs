//! What keys take is counted on every way on which they change, and beyond `maxmemory` only what adds to them is refused.

use quorlock_engine::{Flags, Reply, all_specs};

use crate::harness::Node;

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

fn empty() -> usize {
    Node::default().engine.memory()
}

/// What MEMORY USAGE says of all keys together.
fn usage(node: &mut Node) -> usize {
    let stored: Vec<_> = node.engine.stored().collect();
    let database = node.caller.database;
    let mut sum = 0;
    for one in stored {
        node.caller.database = one.database;
        match node.execute(&[b"MEMORY", b"USAGE", &one.key]) {
            Reply::Integer(bytes) => sum += usize::try_from(bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    node.caller.database = database;
    sum
}

#[test]
fn the_sum_is_that_of_all_keys_whatever_changes_them() {
    let mut node = Node::default();
    let long = "v".repeat(3000);
    let lines = [
        "SET short v".to_owned(),
        format!("SET text {long}"),
        format!("APPEND text {long}"),
        "SETRANGE text 9000 xyz".to_owned(),
        "SET text small".to_owned(),
        format!("HSET hash a 1 b {long} c 3"),
        "HDEL hash b".to_owned(),
        format!("HSET hash a {long}"),
        format!("RPUSH list {long} b c d"),
        "LPOP list".to_owned(),
        "LSET list 0 longer-than-before".to_owned(),
        "LREM list 0 d".to_owned(),
        "SADD set 1 2 3 some-longer-member".to_owned(),
        "SPOP set".to_owned(),
        "ZADD sorted 1 a 2 some-longer-member".to_owned(),
        "ZREM sorted a".to_owned(),
        "RENAME sorted other".to_owned(),
        "COPY hash hash2".to_owned(),
        "SWAPDB 0 3".to_owned(),
        "SWAPDB 0 3".to_owned(),
        "MOVE hash2 5".to_owned(),
        "LOCK.ACQUIRE lock token 5000".to_owned(),
        "LOCK.ACQUIRE readers token 5000 SHARED".to_owned(),
        "PEXPIRE text 100000".to_owned(),
        "DEL short nosuch".to_owned(),
    ];
    let base = empty();
    for line in &lines {
        node.run(line);
        assert_eq!(node.engine.memory() - base, usage(&mut node), "{line}");
    }
    let before = node.engine.memory();
    let fails = "redis.call('DEL', 'list') redis.call('HSET', 'hash', 'f', 'x') redis.call('SET', 'text', 'x') \
                 redis.call('SET', 'new', ARGV[1])";
    let words: [&[u8]; 4] = [b"EVAL", fails.as_bytes(), b"0", long.as_bytes()];
    node.room_bytes = Some(2000);
    let undone = node.execute(&words);
    assert!(matches!(undone, Reply::Error(_)), "{undone:?}");
    node.room_bytes = None;
    assert_eq!(node.engine.memory(), before);
    assert_eq!(before - base, usage(&mut node));
    assert_eq!(node.replayed().memory() - base, before - base);
    node.run("FLUSHALL");
    assert_eq!(node.engine.memory(), base);
}

#[test]
fn beyond_the_limit_what_adds_is_refused_and_the_rest_goes_on() {
    let mut node = Node::default();
    node.run("SET held token PX 5000");
    node.run("RPUSH list a b");
    node.run("HSET hash f 1");
    node.engine.set_memory_max(1);
    for (name, is_refused) in [
        ("set", true),
        ("rpush", true),
        ("hset", true),
        ("incr", true),
        ("lock.acquire", true),
        ("get", false),
        ("del", false),
        ("pexpire", false),
        ("lock.extend", false),
        ("lock.release", false),
        ("eval", false),
        ("lpop", false),
    ] {
        let spec = all_specs().find(|spec| spec.name == name).unwrap();
        let refusal = node
            .engine
            .refuses_to_grow(spec.flags.contains(Flags::DENY_OOM));
        let text = refusal.map(|refusal| format!("-{refusal}"));
        assert_eq!(text.as_deref(), is_refused.then_some(OOM), "{name}");
    }
    let unlock = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    let extend = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
    for (goes_on, reply) in [
        ("GET held".to_owned(), "token"),
        ("PEXPIRE held 9000".to_owned(), "1"),
        (format!("EVAL \"{extend}\" 1 held token 8000"), "1"),
        (format!("EVAL \"{unlock}\" 1 held token"), "1"),
        ("LPOP list".to_owned(), "a"),
        ("HDEL hash f".to_owned(), "1"),
        (
            "EVAL \"return redis.call('EXISTS', 'held')\" 0".to_owned(),
            "0",
        ),
    ] {
        assert_eq!(node.run(&goes_on).trim_matches('"'), reply, "{goes_on}");
    }
    node.engine.set_memory_max(0);
    assert_eq!(node.run("SET new token NX PX 5000"), "OK");
}

#[test]
fn scripts_are_refused_as_in_redis() {
    let mut node = Node::default();
    node.run("SET a 1");
    node.engine.set_memory_max(1);
    let set = "EVAL \"return redis.call('SET', 'k', 'v')\" 0";
    let refused = node.run(set).replace("\\'", "'");
    assert!(
        refused.starts_with("-OOM command not allowed when used memory > 'maxmemory'. script: "),
        "{refused}"
    );
    let caught = "EVAL \"local reply = redis.pcall('SET', 'k', 'v') return reply.err\" 0";
    assert!(node.run(caught).contains("OOM command not allowed"));
    // What has begun to write may go on.
    let both = "EVAL \"redis.call('DEL', 'a') return redis.call('SET', 'k', 'v')\" 0";
    assert_eq!(node.run(both), "OK");
    let flags = |flags: &str, body: &str| format!("EVAL \"#!lua{flags}\\n{body}\" 0");
    let set = "return redis.call('SET', 'k', 'v')";
    assert_eq!(
        node.run(&flags("", set)).replace("\\'", "'"),
        "-OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
    );
    assert_eq!(node.run(&flags(" flags=allow-oom", set)), "OK");
    let read = "return redis.call('GET', 'k')";
    assert_eq!(
        node.run(&flags(" flags=no-writes", read)).trim_matches('"'),
        "v"
    );
}
