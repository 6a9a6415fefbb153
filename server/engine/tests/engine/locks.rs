//! Locks with fences beside plain ones: who holds what, and which fences are taken.

use std::time::Duration;

use quorlock_engine::EngineOptions;
use quorlock_engine::control::Ceiling;

use crate::harness::Node;

/// The commands and their replies, one after the other.
fn assert_replies(node: &mut Node, lines: &[(&str, &str)]) {
    for (line, reply) in lines {
        assert_eq!(node.run(line), *reply, "{line}");
    }
}

#[test]
fn a_lock_and_a_plain_key_are_the_same_to_everybody() {
    let mut node = Node::default();
    assert_replies(
        &mut node,
        &[
            ("LOCK.ACQUIRE job mine 1000", "[1, 0, 0]"),
            ("SET job other NX PX 1000", "nil"),
            ("LOCK.ACQUIRE job other 1000", "[0, 0, \"mine\"]"),
            ("LOCK.ACQUIRE job mine 1000", "[0, 0, \"mine\"]"),
            ("GET job", "\"mine\""),
            ("PTTL job", "1000"),
            ("LOCK.RELEASE job other", "0"),
            ("LOCK.RELEASE job mine", "1"),
            ("LOCK.RELEASE job mine", "0"),
            ("SET job plain NX PX 1000", "OK"),
            ("LOCK.ACQUIRE job mine 1000", "[0, 0, \"plain\"]"),
            ("LOCK.FENCE job plain 4", "[1, 4]"),
            ("LOCK.RELEASE job plain", "1"),
            ("HSET job field value", "1"),
            ("LOCK.ACQUIRE job mine 1000", "[0, 4, nil]"),
            ("LOCK.FENCE job value 5", "nil"),
            ("LOCK.EXTEND job value 1000", "0"),
            ("LOCK.RELEASE job value", "0"),
        ],
    );
}

#[test]
fn an_extension_shortens_nothing_and_ends_with_the_lock() {
    let mut node = Node::default();
    assert_replies(
        &mut node,
        &[
            ("LOCK.ACQUIRE job mine 1000", "[1, 0, 0]"),
            ("LOCK.EXTEND job mine 3000", "1"),
            ("LOCK.EXTEND job mine 500", "1"),
            ("PTTL job", "3000"),
            ("LOCK.EXTEND job other 9000", "0"),
        ],
    );
    node.advance(Duration::from_secs(3));
    assert_replies(
        &mut node,
        &[
            ("LOCK.EXTEND job mine 1000", "0"),
            ("LOCK.FENCE job mine 1", "nil"),
            ("LOCK.ACQUIRE job other 1000", "[1, 0, 0]"),
        ],
    );
}

#[test]
fn only_the_holder_takes_a_fence_and_none_that_was_taken_before() {
    let mut node = Node::default();
    assert_replies(
        &mut node,
        &[
            ("LOCK.FENCE job mine 1", "nil"),
            ("LOCK.ACQUIRE job mine 1000", "[1, 0, 0]"),
            ("LOCK.FENCE job other 1", "nil"),
            ("LOCK.FENCE job mine 3", "[1, 3]"),
            ("LOCK.FENCE job mine 3", "[1, 3]"),
            ("LOCK.FENCE job mine 2", "[0, 3]"),
            ("LOCK.RELEASE job mine", "1"),
            ("LOCK.ACQUIRE job next 1000", "[1, 3, 0]"),
            ("LOCK.FENCE job next 3", "[0, 3]"),
            ("LOCK.FENCE job next 4", "[1, 4]"),
            ("FLUSHALL", "OK"),
            ("LOCK.ACQUIRE job last 1000", "[1, 4, 0]"),
            ("LOCK.FENCE job last 5", "[1, 5]"),
            ("LOCK.RELEASE job last", "1"),
            ("LOCK.ACQUIRE job last 1000 GUESS 5", "[1, 5, 0]"),
            ("LOCK.FENCE job last 5", "[0, 5]"),
        ],
    );
}

#[test]
fn a_guess_is_taken_with_the_grant_or_not_at_all() {
    let mut node = Node::default();
    assert_replies(
        &mut node,
        &[
            ("LOCK.ACQUIRE job a 1000 GUESS 5", "[1, 5, 1]"),
            ("LOCK.ACQUIRE job b 1000 GUESS 6", "[0, 5, \"a\"]"),
            ("LOCK.RELEASE job a", "1"),
            ("LOCK.ACQUIRE job b 1000 guess 5", "[1, 5, 0]"),
            ("LOCK.RELEASE job b", "1"),
            ("LOCK.ACQUIRE job c 1000 GUESS 6", "[1, 6, 1]"),
        ],
    );
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut node = Node::default();
    let long = "x".repeat(1025);
    let far = (1_u64 << 40) + 1;
    let lines = [
        ("LOCK.ACQUIRE job".to_owned(), "ERR wrong number"),
        ("LOCK.ACQUIRE job \"\" 1000".to_owned(), "ERR the token"),
        (format!("LOCK.ACQUIRE job {long} 1000"), "ERR the token"),
        ("LOCK.ACQUIRE job a 0".to_owned(), "ERR invalid expire"),
        ("LOCK.ACQUIRE job a -1".to_owned(), "ERR invalid expire"),
        ("LOCK.ACQUIRE job a x".to_owned(), "ERR value is not"),
        (
            "LOCK.ACQUIRE job a 60001 GUESS 1".to_owned(),
            "ERR a lock of 60001 ms",
        ),
        ("LOCK.ACQUIRE job a 1000 GUESS".to_owned(), "ERR syntax"),
        (
            "LOCK.ACQUIRE job a 1000 GUESS 0".to_owned(),
            "ERR a fence is",
        ),
        ("LOCK.ACQUIRE job a 1000 SHARED 1".to_owned(), "ERR syntax"),
        (
            format!("LOCK.ACQUIRE job a 1000 GUESS {far}"),
            "ERR this fence",
        ),
        ("LOCK.ADOPT -1".to_owned(), "ERR the ceiling"),
        (
            "LOCK.ADOPT 9223372036854775808".to_owned(),
            "ERR the ceiling",
        ),
    ];
    for (line, error) in lines {
        let reply = node.run(&line);
        assert!(reply.starts_with(&format!("-{error}")), "{line}: {reply}");
        assert!(node.effects.ceiling.is_none(), "{line}");
    }
    assert_eq!(node.run("EXISTS job"), "0");
    assert_eq!(node.run("LOCK.ACQUIRE job a 1000"), "[1, 0, 0]");
    for fence in ["0", "-1", "9223372036854775808", "1.0", ""] {
        let reply = node.execute(&[b"LOCK.FENCE", b"job", b"a", fence.as_bytes()]);
        assert!(reply.is_error(), "{fence}: {reply:?}");
    }
    assert!(
        node.run(&format!("LOCK.FENCE job a {far}"))
            .starts_with("-ERR this fence")
    );
    assert_eq!(node.run("LOCK.CEILING"), "[0, 1]");
}

#[test]
fn a_ceiling_goes_on_record_before_a_reply_tells_of_a_fence() {
    let mut node = Node::default();
    node.run("LOCK.ACQUIRE job a 1000");
    assert!(node.effects.tells_fence && node.effects.ceiling.is_none());
    node.run("LOCK.FENCE job a 7");
    assert!(node.effects.tells_fence);
    assert_eq!(node.effects.ceiling, Some(Ceiling::Known(7 + (1 << 16))));
    node.run("LOCK.FENCE job a 8");
    assert!(node.effects.tells_fence && node.effects.ceiling.is_none());
    node.run("LOCK.ACQUIRE job b 1000");
    assert!(node.effects.tells_fence, "a refusal tells of it as well");
    node.run("GET job");
    assert!(!node.effects.tells_fence);
}

#[test]
fn a_node_whose_fences_are_lost_takes_none_until_it_has_adopted_a_ceiling() {
    let mut node = Node::with(EngineOptions::default());
    node.engine.begin_fences(Ceiling::Uncertain(30));
    for line in [
        "LOCK.ACQUIRE job a 1000",
        "LOCK.ACQUIRE job a 1000 GUESS 1",
        "LOCK.FENCE job a 1",
    ] {
        let reply = node.run(line);
        assert!(reply.starts_with("-FENCELOST "), "{line}: {reply}");
    }
    assert_eq!(node.run("SET job a NX PX 1000"), "OK");
    assert_eq!(node.run("LOCK.EXTEND job a 2000"), "1");
    assert_eq!(node.run("LOCK.CEILING"), "[30, 0]");
    assert_eq!(node.run("LOCK.ADOPT 41"), "41");
    assert_eq!(node.effects.ceiling, Some(Ceiling::Known(41)));
    assert!(node.effects.tells_fence);
    assert_eq!(node.run("LOCK.FENCE job a 41"), "[0, 41]");
    assert_eq!(node.run("LOCK.FENCE job a 42"), "[1, 42]");
}

#[test]
fn a_lock_without_a_fence_may_last_for_longer_than_any_restart_delay() {
    let mut node = Node::default();
    let long = "3600000";
    let granted = node.run(&format!("LOCK.ACQUIRE job token {long} OWNER night"));
    assert_eq!(granted, "[1, 0, 0]");
    // A node forgets which token took a fence, so what it extends is bounded for all that hold a lock.
    assert_eq!(node.run(&format!("LOCK.EXTEND job other {long}")), "0");
    assert_eq!(node.run(&format!("LOCK.EXTEND none other {long}")), "0");
    let refused =
        |answer: String| assert!(answer.contains("longer than restart-delay-max"), "{answer}");
    refused(node.run(&format!("LOCK.EXTEND job token {long}")));
    refused(node.run("LOCK.FENCE job token 1"));
    node.run("SET forever t");
    let without = node.run("LOCK.FENCE forever t 1");
    assert!(without.contains("without a TTL"), "{without}");
    refused(node.run(&format!("LOCK.ACQUIRE other token {long} GUESS 1")));
    refused(node.run(&format!("LOCK.ACQUIRE other token {long} SHARED")));
    assert_eq!(
        node.run("LOCK.ACQUIRE fenced token 30000 GUESS 1"),
        "[1, 1, 1]"
    );
    refused(node.run(&format!("LOCK.EXTEND fenced token {long}")));
    assert_eq!(node.run("PTTL fenced"), "30000");
}

#[test]
fn scripts_take_no_fence_break_no_lock_and_are_not_told_of_holders() {
    let mut node = Node::default();
    node.run("SET job token PX 1000");
    for call in [
        "'LOCK.INFO', 'job'",
        "'LOCK.LIST'",
        "'LOCK.FORCE-RELEASE', 'job', 'token'",
        "'LOCK.ACQUIRE', 'other', 'token', '1000'",
        "'LOCK.FENCE', 'job', 'token', '1'",
        "'LOCK.CEILING'",
        "'LOCK.ADOPT', '1'",
    ] {
        let reply = node.run(&format!("EVAL \"return redis.call({call})\" 0"));
        assert!(
            reply.starts_with("-ERR This Redis command is not allowed from script"),
            "{call}: {reply}"
        );
    }
    assert_eq!(node.run("EXISTS job other"), "1");
}
