//! Several locks that a request takes, extends and releases together, as node-redlock does.

use std::time::Duration;

use quorlock_agent_simulation::Agents;
use quorlock_engine::Reply;

use crate::{COMPARE_AND_DELETE, agents, code, text, token};

const ACQUIRE: &str = "for i, key in ipairs(KEYS) do if redis.call('exists', key) == 1 then return 0 end end \
    for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS";
const EXTEND: &str = "for i, key in ipairs(KEYS) do if redis.call('get', key) ~= ARGV[1] then return 0 end end \
    for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS";
const RELEASE: &str = "local count = 0 for i, key in ipairs(KEYS) do if redis.call('get', key) == ARGV[1] then \
    redis.pcall('del', key) count = count + 1 end end return count";

fn send(agents: &mut Agents, agent: usize, script: &str, rest: &[&str]) -> Reply {
    agents.send(agent, &[&["EVAL", script, "2", "b", "a"], rest].concat())
}

#[test]
fn several_locks_are_taken_extended_and_released_together_through_any_agent() {
    let mut agents = agents();
    let two = Reply::Integer(2);
    assert_eq!(send(&mut agents, 0, ACQUIRE, &["me", "1000"]), two);
    assert_eq!(agents.asked, ["acquire"]);
    for name in ["a", "b"] {
        assert_eq!(token(&agents, name).as_deref(), Some("me"));
        let take = ["SET", name, "you", "NX", "PX", "1000"];
        assert_eq!(agents.send(1, &take), Reply::Nil);
    }
    assert_eq!(agents.stored("a"), agents.stored("b"));
    // Another agent extends them: nothing that the first one may still owe ends them.
    let before = agents.stored("a");
    assert_eq!(send(&mut agents, 1, EXTEND, &["me", "3000"]), two);
    assert_ne!(agents.stored("a"), before);
    assert_eq!(agents.stored("a"), agents.stored("b"));
    agents.pass(Duration::from_millis(2_000));
    assert_eq!(agents.send(0, &["EXISTS", "a", "b", "c"]), two);
    assert_eq!(send(&mut agents, 0, RELEASE, &["you"]), Reply::Integer(0));
    agents.asked.clear();
    assert_eq!(send(&mut agents, 1, RELEASE, &["me"]), two);
    assert_eq!(agents.asked, ["read", "read", "release"]);
    assert_eq!((token(&agents, "a"), token(&agents, "b")), (None, None));
}

#[test]
fn of_several_locks_none_is_taken_where_one_is_held() {
    let mut agents = agents();
    agents.send(0, &["SET", "b", "you", "NX", "PX", "60000"]);
    for agent in [0, 1] {
        let refused = send(&mut agents, agent, ACQUIRE, &["me", "1000"]);
        assert_eq!(refused, Reply::Integer(0));
    }
    assert_eq!(token(&agents, "a"), None);
    // One of them alone is released with the other one free.
    assert_eq!(agents.send(1, &["DEL", "a", "b"]), Reply::Integer(1));
    assert_eq!(token(&agents, "b"), None);
}

#[test]
fn locks_that_were_not_taken_together_are_not_changed_together() {
    let mut agents = agents();
    for name in ["a", "b"] {
        agents.send(0, &["SET", name, "me", "NX", "PX", "60000"]);
    }
    for words in [
        &["DEL", "a", "b"][..],
        &["RENAME", "a", "c"],
        &["MSET", "c", "x", "d", "y"],
        &["EVAL", EXTEND, "2", "a", "b", "me", "9000"],
        // One is taken, and the other one only looked at.
        &[
            "EVAL",
            "if redis.call('exists', KEYS[1]) == 1 then return redis.call('set', KEYS[2], 'x', 'PX', 9) end",
            "2",
            "a",
            "c",
        ],
    ] {
        let refused = agents.send(0, words);
        assert_eq!(code(&refused), "NOTALOCK", "{words:?}: {}", text(&refused));
    }
    assert_eq!(token(&agents, "a").as_deref(), Some("me"));
    assert_eq!(token(&agents, "b").as_deref(), Some("me"));
    assert_eq!((token(&agents, "c"), token(&agents, "d")), (None, None));
}

#[test]
fn more_locks_than_nodes_look_at_together_are_refused() {
    let mut agents = agents();
    let names: Vec<String> = (0..65).map(|number| format!("l{number}")).collect();
    let mut words = vec!["EXISTS"];
    words.extend(names.iter().map(String::as_str));
    let refused = agents.send(0, &words);
    assert!(text(&refused).starts_with("NOTALOCK 1 to 64 names are locked together, not 65"));
    assert_eq!(agents.send(0, &words[..65]), Reply::Integer(0));
}

#[test]
fn what_has_become_of_one_of_several_locks_elsewhere_is_seen_before_they_are_released() {
    let two = Reply::Integer(2);
    for (elsewhere, said, is_left) in [
        (&[&["PEXPIRE", "b", "45000"][..]][..], None, true),
        (&[&["DEL", "b"]], Some(1), false),
        (
            &[&["DEL", "b"], &["SET", "b", "you", "NX", "PX", "30000"]],
            Some(1),
            false,
        ),
    ] {
        let mut agents = agents();
        assert_eq!(send(&mut agents, 0, ACQUIRE, &["me", "9000"]), two);
        for words in elsewhere {
            agents.send(1, words);
        }
        // The agent that has taken them knows nothing of that.
        let reply = send(&mut agents, 0, RELEASE, &["me"]);
        match said {
            Some(count) => assert_eq!(reply, Reply::Integer(count), "{elsewhere:?}"),
            None => assert_eq!(code(&reply), "NOTALOCK", "{elsewhere:?}"),
        }
        // Where nothing was done that is said, nothing is gone.
        assert_eq!(token(&agents, "a").is_some(), is_left, "{elsewhere:?}");
    }
}

const RELEASE_FIRST: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

#[test]
fn of_several_locks_some_are_released_and_the_others_stay_and_are_released_with_them_or_alone() {
    for (agent, words) in [
        (0, &["DEL", "a"][..]),
        (1, &["DEL", "a"]),
        (0, &["UNLINK", "a", "c"]),
        (0, &["EVAL", RELEASE_FIRST, "2", "a", "b", "me"]),
        (1, &["EVAL", RELEASE_FIRST, "2", "a", "b", "me"]),
    ] {
        let mut agents = agents();
        assert_eq!(
            send(&mut agents, 0, ACQUIRE, &["me", "9000"]),
            Reply::Integer(2)
        );
        assert_eq!(agents.send(agent, words), Reply::Integer(1), "{words:?}");
        assert_eq!(token(&agents, "a"), None, "{words:?}");
        assert_eq!(token(&agents, "b").as_deref(), Some("me"), "{words:?}");
        // The one that is free is there for others, and the one that is held is for nobody.
        for (name, reply) in [("a", Reply::Ok), ("b", Reply::Nil)] {
            let take = ["SET", name, "you", "NX", "PX", "9000"];
            assert_eq!(agents.send(1, &take), reply, "{words:?} {name}");
        }
        assert_eq!(agents.send(0, &["PEXPIRE", "b", "8000"]), Reply::Integer(1));
        // The holder releases what it still has.
        assert_eq!(
            send(&mut agents, agent, RELEASE, &["me"]),
            Reply::Integer(1)
        );
        assert_eq!(token(&agents, "a").as_deref(), Some("you"), "{words:?}");
        assert_eq!(token(&agents, "b"), None, "{words:?}");
    }
}

#[test]
fn of_locks_that_a_session_took_together_those_end_with_it_that_it_still_has() {
    for words in [
        &["DEL", "a"][..],
        &["EVAL", RELEASE_FIRST, "2", "a", "b", "me"],
    ] {
        let mut agents = agents();
        let mut ask = |words: &[&str]| {
            let id = agents.begin_for(7, 0, words);
            agents.reply(id)
        };
        assert_eq!(ask(&["LOCK.SESSION", "ON"]), Reply::Ok);
        let take = ["EVAL", ACQUIRE, "2", "b", "a", "me", "9000"];
        assert_eq!(ask(&take), Reply::Integer(2));
        assert_eq!(ask(words), Reply::Integer(1));
        agents.leave(7, 0);
        agents.pass(Duration::from_millis(10));
        assert_eq!(agents.stored("b"), None, "{words:?}");
    }
}

/// Agents that hold back, and "b" is held through the first one and polled through the second.
fn holding_back() -> Agents {
    let hold_back = Duration::from_millis(100);
    let mut agents = Agents::new(5, 5, 2, Duration::from_micros(100)).holding_back(hold_back);
    agents.send(0, &["SET", "b", "you", "NX", "PX", "60000"]);
    for _ in 0..3 {
        let refused = send(&mut agents, 1, ACQUIRE, &["me", "60000"]);
        assert_eq!(refused, Reply::Integer(0));
        agents.pass(Duration::from_millis(50));
    }
    agents
}

const TAKE_BOTH: [&str; 7] = ["EVAL", ACQUIRE, "2", "b", "a", "me", "60000"];
const TAKE_B: [&str; 6] = ["SET", "b", "other", "NX", "PX", "60000"];

#[test]
fn a_try_for_several_is_held_back_until_the_one_that_is_held_is_released() {
    let mut agents = holding_back();
    agents.asked.clear();
    let tries = [
        agents.begin(1, &[&TAKE_BOTH], false),
        agents.begin(1, &[&TAKE_B], false),
    ];
    agents.pass(Duration::from_millis(20));
    assert_eq!(agents.asked, [""; 0]);
    let before_ns = agents.cluster.now_ns;
    agents.send(0, &["EVAL", COMPARE_AND_DELETE, "1", "b", "you"]);
    assert_eq!(agents.reply(tries[0]), Reply::Integer(2));
    let took_ms = (agents.cluster.now_ns - before_ns) / 1_000_000;
    assert!(took_ms <= 5, "{took_ms} ms");
    assert_eq!(agents.reply(tries[1]), Reply::Nil);
}

#[test]
fn a_try_for_several_that_is_refused_for_another_of_them_lets_the_next_one_go_on() {
    let mut agents = holding_back();
    let tries = [
        agents.begin(1, &[&TAKE_BOTH], false),
        agents.begin(1, &[&TAKE_B], false),
    ];
    agents.send(0, &["SET", "a", "you", "NX", "PX", "60000"]);
    let before_ns = agents.cluster.now_ns;
    agents.send(0, &["EVAL", COMPARE_AND_DELETE, "1", "b", "you"]);
    assert_eq!(agents.reply(tries[0]), Reply::Integer(0));
    assert_eq!(agents.reply(tries[1]), Reply::Ok);
    let took_ms = (agents.cluster.now_ns - before_ns) / 1_000_000;
    assert!(took_ms <= 10, "{took_ms} ms");
    assert_eq!(token(&agents, "a").as_deref(), Some("you"));
}
