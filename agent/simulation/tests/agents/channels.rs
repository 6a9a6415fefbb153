//! Messages through agents in front of a simulated cluster.

use std::time::Duration;

use quorlock_agent_simulation::Agents;
use quorlock_client_rules::channels::Topic;
use quorlock_engine::Reply;

use crate::{agents, ask_node};

/// What has come to the clients of an agent since.
fn taken(agents: &mut Agents, agent: usize) -> Vec<String> {
    agents.pass(Duration::from_millis(100));
    let delivered = std::mem::take(&mut agents.delivered);
    let mine = delivered.iter().filter(|(to, ..)| *to == agent);
    mine.map(|(_, channel, payload)| {
        let (channel, payload) = (
            String::from_utf8_lossy(channel),
            String::from_utf8_lossy(payload),
        );
        format!("{channel} {payload}")
    })
    .collect()
}

fn listens(agents: &mut Agents, agent: usize, topic: Topic) {
    let id = agents.listen(1, agent, vec![topic]);
    assert_eq!(agents.reply(id), Reply::Ok);
}

/// Restarts every node, one after the other. A majority is up all the time.
fn restart_all(agents: &mut Agents) {
    for node in 0..5 {
        agents.run_node(node, false);
        agents.pass(Duration::from_millis(500));
        agents.run_node(node, true);
        agents.pass(Duration::from_secs(3));
    }
}

#[test]
fn a_message_of_any_agent_reaches_each_agent_that_listens_once() {
    let mut agents = agents();
    listens(&mut agents, 0, Topic::channel("news"));
    listens(&mut agents, 0, Topic::pattern("n*"));
    listens(&mut agents, 1, Topic::pattern("ne*"));
    for publisher in [0, 1] {
        // All nodes have both agents; one of them has two subscriptions that match.
        let told = agents.send(publisher, &["PUBLISH", "news", "item"]);
        assert_eq!(told, Reply::Integer(3));
        agents.pass(Duration::from_millis(100));
        let delivered = std::mem::take(&mut agents.delivered);
        let mut to: Vec<usize> = delivered.iter().map(|(to, ..)| *to).collect();
        to.sort_unstable();
        assert_eq!(to, [0, 1], "from agent {publisher}");
    }
    assert_eq!(
        agents.send(0, &["PUBLISH", "other", "item"]),
        Reply::Integer(0)
    );
    assert_eq!(taken(&mut agents, 0), [""; 0]);
}

#[test]
fn what_is_listened_to_is_subscribed_again_on_nodes_that_were_restarted() {
    let mut agents = agents();
    listens(&mut agents, 0, Topic::channel("news"));
    listens(&mut agents, 0, Topic::pattern("a*"));
    restart_all(&mut agents);
    for (channel, text) in [("news", "one"), ("abc", "two"), ("news", "three")] {
        let told = agents.send(1, &["PUBLISH", channel, text]);
        assert_eq!(told, Reply::Integer(1));
        assert_eq!(taken(&mut agents, 0), [format!("{channel} {text}")]);
    }
}

#[test]
fn messages_come_once_and_in_order_while_nodes_are_killed() {
    let mut agents = agents();
    listens(&mut agents, 0, Topic::channel("news"));
    let mut expected = Vec::new();
    let mut got = Vec::new();
    for number in 0..60 {
        let node = number / 12;
        match number % 12 {
            3 => agents.run_node(node, false),
            6 => agents.run_node(node, true),
            _ => {}
        }
        let text = number.to_string();
        let told = agents.send(1, &["PUBLISH", "news", &text]);
        assert!(matches!(told, Reply::Integer(_)), "{told:?}");
        expected.push(format!("news {text}"));
        got.extend(taken(&mut agents, 0));
        agents.pass(Duration::from_millis(200));
    }
    got.extend(taken(&mut agents, 0));
    assert_eq!(got, expected);
}

#[test]
fn without_a_majority_nothing_is_subscribed_or_published() {
    let mut agents = agents();
    for node in 0..3 {
        agents.run_node(node, false);
    }
    let id = agents.listen(1, 0, vec![Topic::channel("news")]);
    let before_ns = agents.cluster.now_ns;
    let refused = agents.reply(id);
    assert_eq!(crate::code(&refused), "NOQUORUM");
    assert!(crate::text(&refused).contains("node 0: "), "{refused:?}");
    let took_ms = (agents.cluster.now_ns - before_ns) / 1_000_000;
    assert!(took_ms <= 3_100, "{took_ms} ms");
    let refused = agents.send(1, &["PUBLISH", "news", "item"]);
    assert_eq!(crate::code(&refused), "NOQUORUM");
    for node in 0..3 {
        agents.run_node(node, true);
    }
    agents.pass(Duration::from_secs(3));
    listens(&mut agents, 0, Topic::channel("news"));
    assert_eq!(
        agents.send(1, &["PUBLISH", "news", "item"]),
        Reply::Integer(1)
    );
    assert_eq!(taken(&mut agents, 0), ["news item"]);
}

#[test]
fn callers_that_do_not_listen_cost_the_nodes_no_connection_and_many_cost_one() {
    let mut agents = agents();
    let before = agents.cluster.connects;
    agents.send(0, &["PUBLISH", "news", "item"]);
    assert_eq!(agents.cluster.connects, before);
    for client in 1..=50 {
        let topics = vec![Topic::channel("news"), Topic::channel(client.to_string())];
        let id = agents.listen(client, 0, topics);
        assert_eq!(agents.reply(id), Reply::Ok);
    }
    assert_eq!(agents.cluster.connects, before + 5);
    for client in 1..=50 {
        agents.leave(client, 0);
    }
    agents.pass(Duration::from_secs(11));
    let told = agents.send(0, &["PUBLISH", "news", "item"]);
    assert_eq!(told, Reply::Integer(0));
    assert_eq!(agents.cluster.connects, before + 5);
}

#[test]
fn a_message_that_was_published_on_nodes_without_an_agent_comes_once_for_each() {
    let mut agents = agents();
    listens(&mut agents, 0, Topic::channel("news"));
    listens(&mut agents, 0, Topic::pattern("n*"));
    for node in [0, 3] {
        let plain = ask_node(&mut agents, node, &["PUBLISH", "news", "plain"]);
        assert!(plain.starts_with(":2"), "{plain:?}");
    }
    assert_eq!(taken(&mut agents, 0), ["news plain", "news plain"]);
}

#[test]
fn a_node_that_hangs_holds_up_no_message_for_long() {
    let mut agents = agents();
    listens(&mut agents, 0, Topic::channel("news"));
    agents.send(1, &["PUBLISH", "news", "one"]);
    assert_eq!(taken(&mut agents, 0), ["news one"]);
    agents.cluster.servers[2].is_paused = true;
    for text in ["two", "three"] {
        let told = agents.send(1, &["PUBLISH", "news", text]);
        assert_eq!(told, Reply::Integer(1));
        assert_eq!(taken(&mut agents, 0), [format!("news {text}")]);
    }
}
