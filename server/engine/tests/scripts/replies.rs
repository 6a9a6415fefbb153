//! Scripts that return too much, or ask for too much: an error, and never memory. What a script
//! returns decides nothing, so that its writes stay, and the error says so.

use std::sync::Arc;

use quorlock_engine::{EngineOptions, RawTime, Reply, ReplyBudget};

use super::{Node, eval, run, state_of};

const STAY: &str = "The script's writes have taken effect";
const NONE: &str = "The script has changed nothing";

fn node() -> Node {
    let mut node = Node::default();
    node.engine.set_script_clock(Box::new(|| RawTime::ZERO));
    node
}

fn limited(reply_bytes_max: usize) -> Node {
    Node::with(EngineOptions {
        reply_bytes_max,
        ..EngineOptions::default()
    })
}

/// The effects must be there, in one frame, and the log must give them back.
fn check_kept(node: &mut Node, frames: usize) {
    assert_eq!(node.log.len(), frames, "one script is one frame");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}

#[test]
fn a_script_that_writes_and_then_returns_too_much_keeps_its_writes() {
    for body in [
        "local s = ('x'):rep(1e6) local t = {} for i=1,1000 do t[i] = s end return t",
        "local t = {1} for i=1,40 do t = {t,t} end return t",
        "local t = {} for i=1,1.1e6 do t[i] = 1 end return t",
        "local t = {} t.map = t for i=1,100 do t[i] = t end return {t,t,t,t,t,t,t,t}",
        "local e = {err=('E '):rep(5e5)} local t = {} for i=1,100 do t[i] = e end return t",
        "local o = {ok=('x'):rep(1e6)} local t = {} for i=1,100 do t[i] = o end return t",
        "local s = {set={}} local t = {} for i=1,2e5 do t[i] = s end return t",
        "local v = {verbatim_string={format='txt',string=('x'):rep(1e6)}} \
         local t = {} for i=1,100 do t[i] = v end return t",
        "local b = {big_number=('1'):rep(1e6)} local t = {} for i=1,100 do t[i] = b end return t",
    ] {
        for dialect in [2, 3] {
            let mut node = node();
            node.run("SET lock token PX 30000");
            let writing = format!(
                "redis.setresp({dialect}) redis.call('del','lock') \
                 redis.call('set','new','1','px',1000) {body}"
            );
            let reply = run(&mut node, &writing);
            assert!(
                reply.starts_with("-ERR the result of this script"),
                "{body}: {reply}"
            );
            assert!(
                reply.contains(&STAY.replace('\'', "\\'")),
                "{body}: {reply}"
            );
            assert!(reply.contains("67108864 bytes"), "{reply}");
            assert!(node.effects.reply.taken() <= 64 << 20);
            assert_eq!(node.run("EXISTS lock"), "0", "{body}");
            assert_eq!(node.run("PTTL new"), "1000", "{body}");
            check_kept(&mut node, 2);
            assert_eq!(run(&mut node, "return 1"), "1");
            assert!(node.engine.script_memory() < 25 << 20, "{body}");
        }
    }
    let reply = run(&mut node(), "local t = {} t[1] = t return t");
    assert!(reply.contains("-ERR reached lua stack limit"), "{reply}");
}

#[test]
fn a_script_that_only_reads_is_told_that_nothing_changed() {
    let mut node = limited(1000);
    node.run("SET k v");
    let reply = run(&mut node, "redis.call('get','k') return ('x'):rep(1000)");
    assert!(reply.contains(NONE), "{reply}");
    check_kept(&mut node, 1);
}

#[test]
fn a_script_s_result_may_take_the_limit_and_not_a_byte_more() {
    let mut element = ReplyBudget::new(usize::MAX);
    element.charge(0).unwrap();
    let element = element.taken();
    for (body, whole) in [
        ("return ('x'):rep(100)", element + 100),
        ("return ('x'):rep(2000)", element + 2000),
        ("return 1", element),
        // A table costs as much as some values, because it has to be looked into.
        ("return {1,2}", 3 * element + 8 * element),
    ] {
        for (limit, is_admitted) in [(whole - 1, false), (whole, true), (whole + 1, true)] {
            let mut node = limited(limit);
            let reply = eval(&mut node, body, &[], &[]);
            assert_eq!(
                !reply.is_error(),
                is_admitted,
                "{body} with {limit}: {reply:?}"
            );
        }
    }
    let reply = run(&mut limited(0), "redis.call('set','k','v') return 1");
    assert!(reply.contains(&STAY.replace('\'', "\\'")), "{reply}");
}

#[test]
fn a_command_of_a_script_has_the_same_limit() {
    let mut node = node();
    let value = vec![b'v'; 4 << 20];
    node.execute(&[b"SET", b"long", &value]);
    let many = "local t = {} for i=1,250 do t[i] = 'long' end ";
    let reply = run(
        &mut node,
        &format!("{many} return redis.call('mget', unpack(t))"),
    );
    assert!(
        reply.starts_with("-ERR the reply would take more"),
        "{reply}"
    );
    assert!(reply.contains("Nothing was changed"), "{reply}");
    let body = format!(
        "{many} redis.call('set','new','1') local e = redis.pcall('mget', unpack(t)) \
         redis.call('set','later','1') return e.err"
    );
    let reply = run(&mut node, &body);
    assert!(
        reply.contains("the reply to a command of this script"),
        "{reply}"
    );
    assert!(
        reply.contains("earlier writes have taken effect"),
        "{reply}"
    );
    assert_eq!(node.run("EXISTS new later"), "2");
    check_kept(&mut node, 2);
    let body = format!("redis.call('del','new') {many} return redis.call('mget', unpack(t))");
    let reply = run(&mut node, &body);
    assert!(
        reply.contains("earlier writes have taken effect"),
        "{reply}"
    );
    assert!(reply.contains("script: "), "{reply}");
    assert_eq!(node.run("EXISTS new"), "0");
    check_kept(&mut node, 3);
}

#[test]
fn a_command_that_may_not_send_what_was_there_does_not_write() {
    let mut node = limited(2000);
    node.run(&format!("SET k {}", "v".repeat(1990)));
    let body = "redis.call('set','other','1') local e = redis.pcall('set','k','new','get') \
                return {e.err ~= nil, redis.call('strlen','k')}";
    assert_eq!(run(&mut node, body), "[1, 1990]");
    assert_eq!(node.run("STRLEN k"), "1990");
    check_kept(&mut node, 2);
}

#[test]
fn each_command_of_a_script_has_the_whole_limit() {
    let mut node = limited(1000);
    node.run(&format!("SET k {}", "v".repeat(900)));
    let body = "local n = 0 for i=1,100 do n = n + #redis.call('get','k') end return n";
    assert_eq!(run(&mut node, body), "90000");
}

#[test]
fn a_text_that_is_named_many_times_is_held_once() {
    let mut node = node();
    let body = "local s = ('x'):rep(1e6) local t = {} for i=1,60 do t[i] = s end return t";
    let Reply::Array(items) = eval(&mut node, body, &[], &[]) else {
        panic!("an array")
    };
    let Reply::Shared(first) = &items[0] else {
        panic!("a long text is shared")
    };
    assert_eq!(Arc::strong_count(first), 60);
    let body = "return {('a'):rep(2000), ('b'):rep(2000), ('a'):rep(2000), ('c'):rep(10)}";
    let expected = ["a", "b", "a", "c"];
    let Reply::Array(items) = eval(&mut node, body, &[], &[]) else {
        panic!("an array")
    };
    for (item, letter) in items.iter().zip(expected) {
        let bytes = match item {
            Reply::Shared(bytes) => &**bytes,
            Reply::Bulk(bytes) => &**bytes,
            other => panic!("a bulk: {other:?}"),
        };
        assert!(bytes.iter().all(|byte| [*byte] == *letter.as_bytes()));
    }
}
