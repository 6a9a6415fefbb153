//! LOCK.LIST over a simulated cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_agent_simulation::Agents;
use quorlock_engine::Reply;

use crate::{agents, ask_node};

/// Reads a list to its end: how often each name came, and the facts that came last.
fn listed(agents: &mut Agents, pattern: &str) -> BTreeMap<String, (usize, String)> {
    let mut rows = BTreeMap::new();
    let mut cursor = "0".to_owned();
    for _ in 0..1_000 {
        let reply = agents.send(1, &["LOCK.LIST", pattern, &cursor]);
        let Reply::Array(parts) = &reply else {
            panic!("{reply:?}")
        };
        let [Reply::Bulk(next), Reply::Array(page)] = &parts[..] else {
            panic!("{reply:?}")
        };
        for row in page {
            let Reply::Map(facts) = row else {
                panic!("{row:?}")
            };
            let Reply::Bulk(name) = &facts[0].1 else {
                panic!("{row:?}")
            };
            let name = String::from_utf8(name.clone()).expect("names here are text");
            let entry: &mut (usize, String) = rows.entry(name).or_default();
            entry.0 += 1;
            entry.1 = format!("{facts:?}");
        }
        cursor = String::from_utf8(next.clone()).expect("digits");
        if cursor == "0" {
            return rows;
        }
    }
    panic!("the list has no end")
}

#[test]
fn a_list_has_each_lock_that_a_majority_holds_once() {
    let mut agents = agents();
    for number in 0..130 {
        let name = format!("job-{number}");
        let taken = agents.send(0, &["SET", &name, "me", "NX", "PX", "50000"]);
        assert_eq!(taken, Reply::Ok);
    }
    agents.send(0, &["SET", "other", "me", "NX", "PX", "50000"]);
    let all = listed(&mut agents, "*");
    assert_eq!(all.len(), 131);
    let again: Vec<_> = all.iter().filter(|(_, (times, _))| *times != 1).collect();
    assert!(again.is_empty(), "{again:?}");
    let facts = &all["other"].1;
    let is_told = |fact: &str| facts.contains(&format!("Bulk({:?})", fact.as_bytes()));
    for fact in ["type", "string", "token", "ttl-ms", "nodes"] {
        assert!(is_told(fact), "{fact}: {facts}");
    }
    assert_eq!(listed(&mut agents, "oth*").len(), 1);
    assert_eq!(listed(&mut agents, "nothing").len(), 0);
}

#[test]
fn locks_of_a_minority_are_not_in_it_and_a_node_that_is_away_hides_none() {
    let mut agents = agents();
    // Node 0 misses these.
    agents.run_node(0, false);
    agents.send(0, &["SET", "kept", "me", "NX", "PX", "50000"]);
    agents.run_node(0, true);
    agents.pass(Duration::from_secs(2));
    ask_node(&mut agents, 1, &["SET", "stray", "x", "NX", "PX", "50000"]);
    ask_node(&mut agents, 2, &["SET", "stray", "x", "NX", "PX", "50000"]);
    assert_eq!(
        listed(&mut agents, "*").into_keys().collect::<Vec<_>>(),
        ["kept"]
    );
    agents.run_node(4, false);
    assert_eq!(
        listed(&mut agents, "*").into_keys().collect::<Vec<_>>(),
        ["kept"]
    );
    for node in [2, 3] {
        agents.run_node(node, false);
    }
    let refused = agents.send(1, &["LOCK.LIST"]);
    assert_eq!(crate::code(&refused), "NOQUORUM");
}

#[test]
fn a_node_that_hangs_costs_a_list_the_patience_of_a_round() {
    let mut agents = agents();
    agents.send(0, &["SET", "kept", "me", "NX", "PX", "50000"]);
    agents.cluster.servers[0].is_paused = true;
    let before_ns = agents.cluster.now_ns;
    let all = listed(&mut agents, "*");
    assert_eq!(all.len(), 1);
    let took_ms = (agents.cluster.now_ns - before_ns) / 1_000_000;
    assert!(took_ms <= 1_200, "{took_ms} ms");
}

#[test]
fn words_of_a_list_are_checked_as_by_a_node() {
    let mut agents = agents();
    for (words, code) in [
        (&["LOCK.LIST", "*", "x"][..], "ERR"),
        (&["LOCK.LIST", "*", "0", "more"], "ERR"),
    ] {
        assert_eq!(crate::code(&agents.send(1, words)), code, "{words:?}");
    }
    // A cursor is anybody's number.
    let far = u128::MAX.to_string();
    let reply = agents.send(1, &["LOCK.LIST", "*", &far]);
    assert!(matches!(reply, Reply::Array(_)), "{reply:?}");
}
