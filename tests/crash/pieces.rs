//! Collections that a checkpoint takes in pieces, while they change, with a crash between any two of its steps.

use std::sync::Arc;

use quorlock_node::clock::SettableClock;
use quorlock_node::simulation::Node;
use quorlock_persistence::MemoryDisk;

use crate::setup;

/// What each key holds, in the words of replies; in no particular order where there is none.
fn content(node: &mut Node) -> Vec<Vec<String>> {
    let requests: [(&[&[u8]], bool); 5] = [
        (&[b"LRANGE", b"list", b"0", b"-1"], true),
        (&[b"HGETALL", b"hash"], false),
        (&[b"SMEMBERS", b"set"], false),
        (&[b"ZRANGE", b"sorted", b"0", b"-1", b"WITHSCORES"], true),
        (&[b"LOCK.INFO", b"shared"], false),
    ];
    let words = |(request, has_order): (&[&[u8]], bool)| {
        let reply = String::from_utf8(node.execute(request)).expect("words");
        assert!(reply.starts_with('*'), "{reply}");
        // Of holders only tokens and ends are logged; the ends are those of the tokens.
        let is_logged = |line: &&str| request[0] != b"LOCK.INFO" || is_name(line);
        let words = reply.lines().filter(is_logged);
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        if !has_order {
            words.sort();
        }
        words
    };
    requests.map(words).into()
}

fn is_name(line: &str) -> bool {
    line.starts_with("name") || line.starts_with("new")
}

fn hold_shared<'a>(token: &'a [u8], ttl: &'a [u8]) -> [&'a [u8]; 5] {
    [b"LOCK.ACQUIRE", b"shared", token, ttl, b"SHARED"]
}

fn fill(node: &mut Node) {
    for first in (0..100).step_by(10) {
        let names: Vec<String> = (first..first + 10)
            .map(|number| format!("name{number}"))
            .collect();
        let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let pairs: Vec<&[u8]> = names.iter().flat_map(|name| [*name, b"value"]).collect();
        let scored: Vec<&[u8]> = names.iter().flat_map(|name| [&b"7"[..], *name]).collect();
        for (start, rest) in [
            ([&b"RPUSH"[..], b"list"], &names),
            ([b"HSET", b"hash"], &pairs),
            ([b"SADD", b"set"], &names),
            ([b"ZADD", b"sorted"], &scored),
        ] {
            let request: Vec<&[u8]> = start.into_iter().chain(rest.iter().copied()).collect();
            assert!(node.execute(&request).starts_with(b":"));
        }
        for name in &names {
            let reply = node.execute(&hold_shared(name, b"50000"));
            assert!(reply.starts_with(b"*2\r\n:1\r\n"));
        }
    }
}

/// Changes of every kind, at both ends and in the middle.
fn change(node: &mut Node, number: usize) {
    let (one, other) = (format!("name{}", number * 7 % 100), format!("new{number}"));
    let (index, score) = ((number * 13 % 90).to_string(), number.to_string());
    let [one, other, index, score] = [&one, &other, &index, &score].map(|word| word.as_bytes());
    let requests: [&[&[u8]]; 15] = [
        &[b"LMOVE", b"list", b"list", b"LEFT", b"RIGHT"],
        &[b"LPUSH", b"list", other],
        &[b"LMOVE", b"list", b"list", b"RIGHT", b"LEFT"],
        &[b"RPOP", b"list"],
        &[b"LSET", b"list", index, other],
        &[b"LINSERT", b"list", b"BEFORE", one, other],
        &[b"LREM", b"list", b"1", one],
        &[b"HSET", b"hash", one, other],
        &[b"HDEL", b"hash", one],
        &[b"SREM", b"set", one],
        &[b"ZADD", b"sorted", score, one],
        &[b"ZREM", b"sorted", one],
        &hold_shared(other, b"40000"),
        &[b"LOCK.EXTEND", b"shared", one, b"60000"],
        &[b"LOCK.RELEASE", b"shared", one],
    ];
    for request in requests.iter().cycle().skip(number % 15).take(14) {
        let reply = node.execute(request);
        assert!(
            !reply.starts_with(b"-"),
            "{}",
            String::from_utf8_lossy(&reply)
        );
    }
}

/// The crash of a process with `always`: all that it has answered is on the disk, in the order of its frames.
#[test]
fn a_crash_between_two_pieces_loses_nothing_of_a_collection() {
    let directives = [("appendfsync", "always")];
    let mut is_complete = false;
    for steps in 0..400 {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        let start = || Node::start(disk.clone(), clock.clone(), &setup(&directives));
        let mut node = start().expect("an empty disk");
        fill(&mut node);
        let mut taken = 0;
        while taken < steps && !is_complete {
            is_complete = !node.compact().expect("a disk without faults");
            change(&mut node, taken);
            taken += 1;
        }
        let before = content(&mut node);
        drop(node);
        let mut node = start().expect("a whole log");
        assert_eq!(content(&mut node), before, "after {steps} steps");
        if is_complete {
            assert!(steps > 25, "{steps} steps have no pieces");
            return;
        }
    }
    panic!("the checkpoint has no end");
}
