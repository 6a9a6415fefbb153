//! Callers that poll a lock that somebody else has.

use std::time::Duration;

use quorlock_agent_simulation::Agents;
use quorlock_engine::Reply;

use crate::{COMPARE_AND_DELETE, agents};

const TAKE: [&str; 6] = ["SET", "a", "you", "NX", "PX", "60000"];

/// Polls until the lock is there, every 50 ms. Returns how long that took.
fn poll(agents: &mut Agents, agent: usize) -> Duration {
    for polls in 0..200 {
        if agents.send(agent, &TAKE) == Reply::Ok {
            return Duration::from_millis(50) * polls;
        }
        agents.pass(Duration::from_millis(50));
    }
    panic!("the lock is not free within 10 s")
}

fn polled(agents: &mut Agents) {
    agents.send(0, &["SET", "a", "me", "NX", "PX", "60000"]);
    for _ in 0..10 {
        assert_eq!(agents.send(1, &TAKE), Reply::Nil);
        agents.pass(Duration::from_millis(50));
    }
}

#[test]
fn a_thousand_polls_ask_the_nodes_for_nothing() {
    let mut agents = agents();
    polled(&mut agents);
    assert_eq!(agents.asked.iter().filter(|it| **it == "watch").count(), 1);
    agents.asked.clear();
    for _ in 0..1_000 {
        assert_eq!(agents.send(1, &TAKE), Reply::Nil);
        agents.pass(Duration::from_millis(20));
    }
    assert_eq!(agents.asked, [""; 0]);
}

#[test]
fn the_next_poll_behind_a_release_through_any_agent_has_the_lock() {
    for other in [0, 1] {
        let mut agents = agents();
        polled(&mut agents);
        let release = ["EVAL", COMPARE_AND_DELETE, "1", "a", "me"];
        assert_eq!(agents.send(other, &release), Reply::Integer(1));
        agents.pass(Duration::from_millis(2));
        assert_eq!(poll(&mut agents, 1), Duration::ZERO, "agent {other}");
    }
}

#[test]
fn a_lock_that_ends_by_itself_is_there_for_who_polls() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "2000"]);
    let took = poll(&mut agents, 1);
    assert!(took <= Duration::from_millis(2_300), "{took:?}");
}

#[test]
fn polls_that_see_an_extension_or_lost_nodes_go_on() {
    let mut agents = agents();
    polled(&mut agents);
    assert_eq!(agents.send(0, &["PEXPIRE", "a", "5000"]), Reply::Integer(1));
    for node in [0, 1, 2] {
        agents.run_node(node, false);
    }
    agents.pass(Duration::from_secs(1));
    // A majority is away: nobody says that the lock is held.
    assert_eq!(crate::code(&agents.send(1, &TAKE)), "NOQUORUM");
    for node in [0, 1, 2] {
        agents.run_node(node, true);
    }
    let took = poll(&mut agents, 1);
    assert!(took <= Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_try_that_the_nodes_refuse_is_held_back_as_well() {
    let hold_back = Duration::from_millis(100);
    let mut agents = Agents::new(5, 5, 2, Duration::from_micros(100)).holding_back(hold_back);
    agents.send(0, &["SET", "a", "me", "NX", "PX", "60000"]);
    agents.send(1, &["GET", "warm"]);
    let first = agents.begin(1, &[&TAKE], false);
    agents.pass(Duration::from_millis(20));
    let before_ns = agents.cluster.now_ns;
    agents.send(0, &["EVAL", COMPARE_AND_DELETE, "1", "a", "me"]);
    assert_eq!(agents.reply(first), Reply::Ok);
    let took_ms = (agents.cluster.now_ns - before_ns) / 1_000_000;
    assert!(took_ms <= 5, "{took_ms} ms");
    // Nobody releases it in time, and the other agent has not watched it.
    let before_ns = agents.cluster.now_ns;
    let other = ["SET", "a", "other", "NX", "PX", "60000"];
    assert_eq!(agents.send(0, &other), Reply::Nil);
    let took_ms = (agents.cluster.now_ns - before_ns) / 1_000_000;
    assert!((100..=110).contains(&took_ms), "{took_ms} ms");
}

#[test]
fn a_try_that_is_held_back_has_the_lock_as_soon_as_it_is_released() {
    let mut agents =
        Agents::new(5, 5, 2, Duration::from_micros(100)).holding_back(Duration::from_millis(100));
    polled(&mut agents);
    for agent in [0, 1] {
        let tries: Vec<_> = (0..3).map(|_| agents.begin(1, &[&TAKE], false)).collect();
        agents.pass(Duration::from_millis(20));
        let owner = if agent == 0 { "me" } else { "you" };
        let before_ns = agents.cluster.now_ns;
        agents.send(agent, &["EVAL", COMPARE_AND_DELETE, "1", "a", owner]);
        // The first one that came has it.
        assert_eq!(agents.reply(tries[0]), Reply::Ok, "agent {agent}");
        let took_ms = (agents.cluster.now_ns - before_ns) / 1_000_000;
        assert!(took_ms <= 5, "{took_ms} ms");
        for other in &tries[1..] {
            assert_eq!(agents.reply(*other), Reply::Nil);
        }
        agents.pass(Duration::from_millis(100));
    }
}
