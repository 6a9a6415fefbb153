//! Nodes that are killed under an agent.

use std::time::Duration;

use quorlock_agent_simulation::Agents;
use quorlock_engine::Reply;

use crate::{COMPARE_AND_DELETE, agents, code, text, token};

#[test]
fn with_two_of_five_nodes_away_callers_notice_nothing() {
    let mut agents = agents();
    agents.run_node(1, false);
    agents.run_node(3, false);
    assert_eq!(
        agents.send(0, &["SET", "a", "me", "NX", "PX", "9000"]),
        Reply::Ok
    );
    assert_eq!(
        agents.send(1, &["SET", "a", "you", "NX", "PX", "9000"]),
        Reply::Nil
    );
    assert_eq!(agents.send(1, &["GET", "a"]), Reply::bulk("me"));
    assert_eq!(agents.send(1, &["PEXPIRE", "a", "9000"]), Reply::Integer(1));
    let release = ["EVAL", COMPARE_AND_DELETE, "1", "a", "me"];
    assert_eq!(agents.send(1, &release), Reply::Integer(1));
    assert_eq!(token(&agents, "a"), None);
}

#[test]
fn without_a_majority_nothing_is_said_of_a_lock_and_each_node_is_named() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "60000"]);
    for node in 0..3 {
        agents.run_node(node, false);
    }
    for request in [
        &["GET", "a"][..],
        &["PTTL", "a"],
        &["EXISTS", "a"],
        &["SET", "a", "you", "NX", "PX", "9"],
        &["SET", "b", "you", "NX", "PX", "9"],
        &["PEXPIRE", "a", "9000"],
        &["DEL", "a"],
        &["DEL", "b"],
    ] {
        let reply = agents.send(0, request);
        assert_eq!(code(&reply), "NOQUORUM", "{request:?}");
        let text = text(&reply);
        assert!(text.contains("10.0.0.1:7001: "), "{text}");
        assert!(!text.contains('\n'), "a reply is one line");
    }
}

#[test]
fn a_lock_that_a_majority_kept_outlives_nodes_that_come_back() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "60000"]);
    for node in 0..5 {
        agents.run_node(node, false);
        agents.pass(Duration::from_millis(100));
        agents.run_node(node, true);
        agents.pass(Duration::from_secs(1));
        let take = ["SET", "a", "you", "NX", "PX", "9000"];
        assert_eq!(agents.send(node % 2, &take), Reply::Nil, "node {node}");
    }
    assert_eq!(agents.send(1, &["GET", "a"]), Reply::bulk("me"));
}

#[test]
fn a_release_behind_connections_that_have_all_ended_waits_for_new_ones() {
    let mut agents = agents();
    for release in [&["DEL", "a"][..], &["LOCK.RELEASE", "a", "me"]] {
        let take = ["SET", "a", "me", "NX", "PX", "60000"];
        assert_eq!(agents.send(0, &take), Reply::Ok);
        agents.pass(Duration::from_millis(100));
        for node in 0..5 {
            agents.cluster.disconnect(node, true);
        }
        // The agent knows that, and has no new ones yet.
        agents.pass(Duration::from_millis(2));
        assert_eq!(agents.send(0, release), Reply::Integer(1), "{release:?}");
        agents.pass(Duration::from_secs(1));
    }
}

/// Whether this node has a key of this name.
fn keeps(agents: &Agents, node: usize, name: &str) -> bool {
    let keys = agents.cluster.servers[node].keys();
    keys.into_iter().any(|(key, _)| key == name.as_bytes())
}

#[test]
fn a_release_is_owed_to_a_node_that_is_away_until_the_lock_would_have_ended() {
    // Through the agent that took it, also where its end was moved, and through another one.
    for (agent, is_extended) in [(0, false), (0, true), (1, false)] {
        let mut agents = agents();
        let ttl = if is_extended { "5000" } else { "60000" };
        agents.send(0, &["SET", "a", "me", "NX", "PX", ttl]);
        if is_extended {
            agents.send(0, &["PEXPIRE", "a", "60000"]);
        }
        agents.pass(Duration::from_millis(100));
        assert!(keeps(&agents, 1, "a"));
        agents.run_node(1, false);
        let release = ["EVAL", COMPARE_AND_DELETE, "1", "a", "me"];
        assert_eq!(agents.send(agent, &release), Reply::Integer(1));
        agents.pass(Duration::from_secs(30));
        agents.run_node(1, true);
        agents.pass(Duration::from_secs(3));
        assert!(!keeps(&agents, 1, "a"), "agent {agent}, {is_extended}");
    }
}

#[test]
fn what_a_session_releases_is_owed_as_long() {
    let mut agents = agents();
    for words in [
        &["LOCK.SESSION", "ON"][..],
        &["SET", "a", "me", "NX", "PX", "60000"],
    ] {
        let id = agents.begin_for(7, 0, words);
        assert_eq!(agents.reply(id), Reply::Ok);
    }
    agents.pass(Duration::from_millis(100));
    agents.run_node(1, false);
    agents.leave(7, 0);
    agents.pass(Duration::from_secs(30));
    agents.run_node(1, true);
    agents.pass(Duration::from_secs(3));
    assert!(!keeps(&agents, 1, "a"));
}
