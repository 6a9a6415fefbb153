//! Requests of lock libraries to agents in front of a simulated cluster.

mod channels;
mod listing;
mod lock_commands;
mod nodes_away;
mod polling;
mod refused;
mod scripts;
mod sessions;
mod several;
mod steps;

use std::time::Duration;

use quorlock_agent_simulation::Agents;
use quorlock_engine::Reply;

/// Five nodes at half a millisecond, and two agents in front of them.
fn agents() -> Agents {
    let mut agents = Agents::new(7, 5, 2, Duration::from_micros(500));
    // The nodes have to be connected first.
    agents.send(0, &["GET", "warm"]);
    agents.send(1, &["GET", "warm"]);
    agents.asked.clear();
    agents
}

/// The code that an error begins with.
fn code(reply: &Reply) -> String {
    text(reply).split(' ').next().unwrap_or_default().to_owned()
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Error(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        other => panic!("{other:?} is no error"),
    }
}

/// What the holder has named, of what the nodes keep.
fn token(agents: &Agents, name: &str) -> Option<String> {
    let stored = String::from_utf8(agents.stored(name)?).expect("tokens here are text");
    let (own, attempt) = stored
        .split_once("~attempt-")
        .expect("a token of an attempt");
    assert_eq!(attempt.len(), 16);
    Some(own.to_owned())
}

const COMPARE_AND_DELETE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Sends a command to a node as a client without an agent does, and returns the beginning of what it answers.
fn ask_node(agents: &mut Agents, number: usize, words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    let server = &mut agents.cluster.servers[number];
    let node = server.node.as_mut().expect("it runs");
    let client = node.connect(usize::MAX, None);
    node.send(client, request.as_bytes());
    agents.cluster.work(number);
    let server = &mut agents.cluster.servers[number];
    let node = server.node.as_mut().expect("it runs");
    String::from_utf8_lossy(&node.take_received(client)).into_owned()
}
