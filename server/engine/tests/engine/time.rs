//! TIME: strictly later for each command and script, one value within a script, and never what deadlines go by.

use quorlock_engine::Reply;

use crate::harness::Node;

const WALL_US: u64 = 1_700_000_000_123_456;

fn microseconds(reply: &str) -> u64 {
    let digits: String = reply.chars().filter(char::is_ascii_digit).collect();
    let (seconds, micros) = digits.split_at(10);
    seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap()
}

fn time_us(node: &mut Node) -> u64 {
    microseconds(&node.run("TIME"))
}

#[test]
fn each_command_and_script_at_one_moment_sees_a_later_time_by_one_microsecond() {
    let mut node = Node::default();
    let script = "EVAL \"local t = redis.call('TIME') return t[1] .. t[2]\" 0";
    for number in 0..200 {
        assert_eq!(time_us(&mut node), WALL_US + 2 * number);
        node.run("SET between commands");
        assert_eq!(
            microseconds(&node.run(script)),
            WALL_US + 2 * number + 1,
            "as far ahead as there were questions"
        );
    }
}

#[test]
fn a_script_sees_one_time_and_the_next_a_later_one() {
    let mut node = Node::default();
    let script = "EVAL \"local a, b = redis.call('TIME'), redis.call('TIME') \
                  return {a[1] .. a[2], b[1] .. b[2]}\" 0";
    let seen = |node: &mut Node| match node.reply(script) {
        Reply::Array(parts) => parts,
        other => panic!("{other:?}"),
    };
    let first = seen(&mut node);
    assert_eq!(first[0], first[1]);
    let second = seen(&mut node);
    assert_eq!(second[0], second[1]);
    assert_ne!(first, second);
}

#[test]
fn a_time_that_ran_ahead_waits_for_the_clock_and_never_goes_back() {
    let mut node = Node::default();
    for _ in 0..1_000 {
        time_us(&mut node);
    }
    node.now.wall_us = WALL_US + 500;
    assert_eq!(time_us(&mut node), WALL_US + 1_000);
    node.now.wall_us = WALL_US - 3_600_000_000;
    assert_eq!(
        time_us(&mut node),
        WALL_US + 1_001,
        "the clock was set back"
    );
    node.now.wall_us = WALL_US + 5_000;
    assert_eq!(time_us(&mut node), WALL_US + 5_000);
    node.now.wall_us = u64::MAX;
    node.run("TIME");
    assert!(
        node.run("TIME").starts_with('['),
        "the last number there is"
    );
}

#[test]
fn absolute_deadlines_go_by_the_moment_and_not_by_what_was_shown() {
    let mut node = Node::default();
    for _ in 0..5_000 {
        time_us(&mut node);
    }
    let at_ms = WALL_US / 1_000 + 10_000;
    node.run(&format!("SET k v PXAT {at_ms}"));
    time_us(&mut node);
    assert_eq!(node.run("PEXPIRETIME k"), at_ms.to_string());
    assert_eq!(node.run("PTTL k"), "10000");
}
