//! LOCK commands, for callers of any language: with fences, waiting and readers.

use std::time::Duration;

use quorlock_agent_simulation::{Agents, Answer};
use quorlock_engine::Reply;

use crate::{agents, code, token};

/// A lock that was granted.
struct Granted {
    fence: Option<i64>,
    token: String,
}

fn as_text(token: &[u8]) -> String {
    String::from_utf8(token.to_vec()).expect("tokens here are text")
}

/// What LOCK.ACQUIRE has granted for this ttl.
fn granted(reply: &Reply, ttl_ms: i64) -> Granted {
    match reply {
        Reply::Array(parts) => match &parts[..] {
            [
                Reply::Integer(1),
                fence,
                Reply::Bulk(token),
                Reply::Integer(validity),
            ] => {
                assert_eq!(*validity, ttl_ms);
                Granted {
                    fence: match fence {
                        Reply::Integer(fence) => Some(*fence),
                        _ => None,
                    },
                    token: as_text(token),
                }
            }
            _ => panic!("{parts:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Which token has kept the caller from the lock.
fn refused_by(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Array(parts) => match &parts[..] {
            [Reply::Integer(0), Reply::Nil, holder, _] => match holder {
                Reply::Bulk(holder) => Some(as_text(holder)),
                _ => None,
            },
            _ => panic!("{parts:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn acquire(agents: &mut Agents, agent: usize, owner: &str, options: &[&str]) -> Reply {
    let words = [&["LOCK.ACQUIRE", "a", owner, "9000"][..], options].concat();
    agents.send(agent, &words)
}

#[test]
fn a_lock_is_taken_extended_and_released_under_either_token_through_any_agent() {
    let mut agents = agents();
    let mine = granted(&acquire(&mut agents, 0, "me", &[]), 9_000);
    assert_eq!(mine.fence, None);
    assert_eq!(agents.asked, ["acquire"]);
    assert_eq!(agents.stored("a").unwrap(), mine.token.as_bytes());
    assert_eq!(token(&agents, "a").as_deref(), Some("me"));
    for agent in [0, 1] {
        for owner in ["me", "you"] {
            let refused = acquire(&mut agents, agent, owner, &[]);
            assert_eq!(refused_by(&refused).as_deref(), Some(&mine.token[..]));
        }
        // It is the lock of a SET NX as well.
        let set = ["SET", "a", "you", "NX", "PX", "9000"];
        assert_eq!(agents.send(agent, &set), Reply::Nil);
        for token in [&mine.token[..], "me"] {
            let extend = ["LOCK.EXTEND", "a", token, "20000"];
            assert_eq!(agents.send(agent, &extend), Reply::Integer(1));
            // An extension never shortens.
            let extend = ["LOCK.EXTEND", "a", token, "1000"];
            assert_eq!(agents.send(agent, &extend), Reply::Integer(1));
        }
        let Reply::Integer(left) = agents.send(agent, &["PTTL", "a"]) else {
            panic!("it ends")
        };
        assert!((19_900..=20_002).contains(&left), "{left}");
    }
    for token in [
        "you",
        "me~attempt-0123456789abcdef",
        "me~sharing-0123456789abcdef",
    ] {
        let extend = ["LOCK.EXTEND", "a", token, "20000"];
        assert_eq!(agents.send(1, &extend), Reply::Integer(0), "{token}");
        let release = ["LOCK.RELEASE", "a", token];
        assert_eq!(agents.send(1, &release), Reply::Integer(0), "{token}");
    }
    let release = ["LOCK.RELEASE", "a", &mine.token];
    assert_eq!(agents.send(1, &release), Reply::Integer(1));
    assert_eq!(agents.stored("a"), None);
    assert_eq!(agents.send(1, &release), Reply::Integer(0));
    let theirs = granted(&acquire(&mut agents, 1, "me", &[]), 9_000);
    // A late release of the first attempt does not free the second one.
    assert_eq!(agents.send(0, &release), Reply::Integer(0));
    assert_eq!(agents.stored("a").unwrap(), theirs.token.as_bytes());
    assert_eq!(
        agents.send(0, &["LOCK.RELEASE", "a", "me"]),
        Reply::Integer(1)
    );
}

#[test]
fn fences_grow_over_agents_their_restarts_and_those_of_nodes() {
    let mut agents = agents();
    let mut last = 0;
    for round in 0..12 {
        let agent = round % 2;
        let reply = acquire(&mut agents, agent, "me", &["FENCE"]);
        let mine = granted(&reply, 9_000);
        let fence = mine.fence.expect("a lock with a fence");
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        if round % 3 == 0 {
            agents.restart(agent);
        }
        // Each node is away once while the next ones take the lock.
        if round < 5 {
            agents.run_node(round, false);
        }
        let release = ["LOCK.RELEASE", "a", &mine.token];
        assert_eq!(agents.send(1 - agent, &release), Reply::Integer(1));
        if round < 5 {
            agents.run_node(round, true);
            agents.pass(Duration::from_secs(1));
        }
    }
}

#[test]
fn who_waits_is_served_as_soon_as_the_lock_is_free() {
    let mut agents = agents();
    let first = granted(&acquire(&mut agents, 0, "first", &[]), 9_000);
    let mut waiters = Vec::new();
    for (client, agent) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
        let owner = format!("waiter-{client}");
        let words = [
            "LOCK.ACQUIRE",
            "a",
            &owner,
            "9000",
            "WAIT",
            "60000",
            "FENCE",
        ];
        waiters.push(agents.begin_for(client, agent, &words));
        agents.pass(Duration::from_millis(200));
    }
    agents.asked.clear();
    agents.pass(Duration::from_secs(5));
    assert!(agents.asked.is_empty(), "{:?}", agents.asked);
    let mut held = first;
    let mut fences = Vec::new();
    while !waiters.is_empty() {
        let began_ns = agents.cluster.now_ns;
        assert_eq!(
            agents.send(1, &["LOCK.RELEASE", "a", &held.token]),
            Reply::Integer(1)
        );
        let (id, answer) = loop {
            match agents.take_answer() {
                Some(answer) => break answer,
                None => assert!(agents.advance()),
            }
        };
        let took_ms = (agents.cluster.now_ns - began_ns) / 1_000_000;
        assert!(took_ms < 30, "{took_ms} ms");
        let Answer::Reply(reply) = answer else {
            panic!("{answer:?}")
        };
        held = granted(&reply, 9_000);
        fences.push(held.fence.unwrap());
        waiters.retain(|waiter| *waiter != id);
    }
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

#[test]
fn who_waits_in_vain_is_refused_when_the_wait_is_over() {
    let mut agents = agents();
    let mine = granted(&acquire(&mut agents, 0, "me", &[]), 9_000);
    let began_ns = agents.cluster.now_ns;
    let refused = acquire(&mut agents, 1, "you", &["WAIT", "500"]);
    assert_eq!(refused_by(&refused).as_deref(), Some(&mine.token[..]));
    let waited_ms = (agents.cluster.now_ns - began_ns) / 1_000_000;
    assert!((500..600).contains(&waited_ms), "{waited_ms} ms");
}

#[test]
fn a_client_that_has_gone_while_it_waited_does_not_get_the_lock() {
    // It goes at each moment of the round that would have given it the lock.
    for after_us in (0..6_000).step_by(150) {
        let mut agents = agents();
        let mine = granted(&acquire(&mut agents, 0, "me", &[]), 9_000);
        let words = ["LOCK.ACQUIRE", "a", "gone", "9000", "WAIT", "60000"];
        let waiter = agents.begin_for(4, 1, &words);
        agents.pass(Duration::from_millis(300));
        let release = agents.begin(0, &[&["LOCK.RELEASE", "a", &mine.token]], false);
        agents.pass(Duration::from_micros(after_us));
        agents.leave(4, 1);
        let mut was_granted = false;
        while let Some((id, answer)) = agents.take_answer() {
            was_granted |= id == waiter && answer != Answer::Disconnected;
        }
        let _freed = release;
        agents.pass(Duration::from_millis(300));
        match was_granted {
            // Its reply was on its way before.
            true => assert_eq!(token(&agents, "a").as_deref(), Some("gone")),
            false => {
                assert_eq!(agents.stored("a"), None, "{after_us} us");
                granted(&acquire(&mut agents, 0, "next", &[]), 9_000);
            }
        }
        assert!(!was_granted || after_us > 1_000, "{after_us} us");
    }
}

#[test]
fn the_lock_of_an_agent_that_is_killed_is_its_holders_and_its_waiters_are_not_in_the_way() {
    let mut agents = agents();
    let mine = granted(&acquire(&mut agents, 0, "me", &["FENCE"]), 9_000);
    let words = ["LOCK.ACQUIRE", "a", "waiter", "9000", "WAIT", "60000"];
    agents.begin_for(4, 0, &words);
    agents.pass(Duration::from_millis(100));
    agents.restart(0);
    assert_eq!(
        refused_by(&acquire(&mut agents, 0, "you", &[])),
        Some(mine.token.clone())
    );
    let extend = ["LOCK.EXTEND", "a", "me", "9000"];
    assert_eq!(agents.send(0, &extend), Reply::Integer(1));
    let release = ["LOCK.RELEASE", "a", &mine.token];
    assert_eq!(agents.send(1, &release), Reply::Integer(1));
    let next = acquire(&mut agents, 1, "you", &["WAIT", "1000", "FENCE"]);
    assert!(granted(&next, 9_000).fence > mine.fence);
}

#[test]
fn with_two_nodes_away_callers_notice_nothing_and_with_three_each_node_is_named() {
    let mut agents = agents();
    agents.run_node(1, false);
    agents.run_node(3, false);
    let mine = granted(&acquire(&mut agents, 0, "me", &["FENCE"]), 9_000);
    let extend = ["LOCK.EXTEND", "a", "me", "9000"];
    assert_eq!(agents.send(1, &extend), Reply::Integer(1));
    agents.run_node(4, false);
    for words in [
        &["LOCK.ACQUIRE", "a", "you", "9000"][..],
        &["LOCK.ACQUIRE", "b", "you", "9000", "FENCE", "WAIT", "500"],
        &["LOCK.ACQUIRE", "b", "you", "9000", "SHARED"],
        &["LOCK.EXTEND", "a", "me", "9000"],
        &["LOCK.EXTEND", "a", &mine.token, "9000"],
        &["LOCK.RELEASE", "b", "me"],
        &["LOCK.RELEASE", "a", &mine.token],
    ] {
        let reply = agents.send(0, words);
        assert_eq!(code(&reply), "NOQUORUM", "{words:?}");
        let text = crate::text(&reply);
        assert!(text.contains("10.0.0.5:7001: "), "{text}");
    }
}

#[test]
fn a_lock_that_would_come_too_late_is_given_back() {
    for options in [&[][..], &["FENCE"], &["SHARED"], &["SHARED", "WAIT", "200"]] {
        let mut agents = agents();
        agents.cluster.network.extra_ns = vec![150_000_000; 5];
        let words = [&["LOCK.ACQUIRE", "a", "me", "1000"][..], options].concat();
        assert_eq!(code(&agents.send(0, &words)), "NOQUORUM", "{options:?}");
        agents.cluster.network.extra_ns = vec![0; 5];
        agents.pass(Duration::from_millis(600));
        let next = agents.send(1, &["LOCK.ACQUIRE", "a", "you", "1000"]);
        assert_eq!(granted(&next, 1_000).fence, None, "{options:?}");
    }
}

#[test]
fn readers_hold_a_lock_together_and_each_goes_by_its_whole_token() {
    let mut agents = agents();
    let text = ["SHARED", "OWNER", "rack 4"];
    let one = granted(&acquire(&mut agents, 0, "me", &text), 9_000).token;
    let other = granted(&acquire(&mut agents, 1, "me", &["SHARED"]), 9_000).token;
    assert_ne!(one, other);
    assert_eq!(refused_by(&acquire(&mut agents, 1, "writer", &[])), None);
    agents.restart(0);
    for (agent, token) in [(0, &other), (1, &one)] {
        let extend = ["LOCK.EXTEND", "a", token, "20000"];
        assert_eq!(agents.send(agent, &extend), Reply::Integer(1));
        let release = ["LOCK.RELEASE", "a", token];
        assert_eq!(agents.send(agent, &release), Reply::Integer(1));
        assert_eq!(agents.send(agent, &release), Reply::Integer(0));
        assert_eq!(agents.send(agent, &extend), Reply::Integer(0));
    }
    let writer = acquire(&mut agents, 1, "writer", &["WAIT", "1000", "FENCE"]);
    let writer = granted(&writer, 9_000).token;
    let refused = acquire(&mut agents, 0, "reader", &["SHARED"]);
    assert_eq!(refused_by(&refused), Some(writer));
}

#[test]
fn plain_requests_on_a_lock_that_readers_hold_are_answered_as_by_one_node() {
    let mut agents = agents();
    let reader = granted(&acquire(&mut agents, 0, "me", &["SHARED"]), 9_000).token;
    for agent in [0, 1] {
        let take = ["SET", "a", "you", "NX", "PX", "1000"];
        assert_eq!(agents.send(agent, &take), Reply::Nil);
        assert_eq!(agents.send(agent, &["EXISTS", "a"]), Reply::Integer(1));
        let get = agents.send(agent, &["GET", "a"]);
        assert_eq!(code(&get), "WRONGTYPE");
        let Reply::Integer(left) = agents.send(agent, &["PTTL", "a"]) else {
            panic!("it ends")
        };
        assert!((8_900..=9_002).contains(&left), "{left}");
        for words in [
            &["DEL", "a"][..],
            &["PEXPIRE", "a", "500"],
            &["LOCK.INFO", "a"],
        ] {
            assert_eq!(code(&agents.send(agent, words)), "NOTALOCK", "{words:?}");
        }
        let own = ["LOCK.RELEASE", "a", "me"];
        assert_eq!(agents.send(agent, &own), Reply::Integer(0));
    }
    let release = ["LOCK.RELEASE", "a", &reader];
    assert_eq!(agents.send(1, &release), Reply::Integer(1));
    assert_eq!(agents.send(0, &["GET", "a"]), Reply::Nil);
}

#[test]
fn a_node_that_hangs_holds_up_no_lock_command() {
    let mut agents = agents();
    agents.cluster.servers[1].is_paused = true;
    let began_ns = agents.cluster.now_ns;
    let writer = granted(&acquire(&mut agents, 0, "me", &["FENCE"]), 9_000).token;
    for token in ["me", &writer] {
        let extend = ["LOCK.EXTEND", "a", token, "20000"];
        assert_eq!(agents.send(0, &extend), Reply::Integer(1));
    }
    assert_eq!(
        agents.send(0, &["LOCK.RELEASE", "a", "me"]),
        Reply::Integer(1)
    );
    let reader = granted(&acquire(&mut agents, 1, "me", &["SHARED"]), 9_000).token;
    let extend = ["LOCK.EXTEND", "a", &reader, "20000"];
    assert_eq!(agents.send(1, &extend), Reply::Integer(1));
    let release = ["LOCK.RELEASE", "a", &reader];
    assert_eq!(agents.send(1, &release), Reply::Integer(1));
    let took_ms = (agents.cluster.now_ns - began_ns) / 1_000_000;
    assert!(took_ms < 30, "{took_ms} ms");
}

/// What LOCK.INFO says of these facts.
fn info(agents: &mut Agents, agent: usize, facts: &[&str]) -> Option<Vec<Reply>> {
    match agents.send(agent, &["LOCK.INFO", "a"]) {
        Reply::NilArray => None,
        Reply::Map(pairs) => {
            let fact = |name: &&str| {
                let found = pairs.iter().find(|(it, _)| *it == Reply::bulk(name));
                found.map(|(_, fact)| fact.clone()).expect("it is told")
            };
            Some(facts.iter().map(fact).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_agent_tells_who_has_a_lock_with_its_text_and_its_fence() {
    let mut agents = agents();
    assert_eq!(info(&mut agents, 0, &[]), None);
    let text = ["OWNER", "rack 4", "FENCE"];
    let mine = granted(&acquire(&mut agents, 0, "me", &text), 9_000);
    agents.restart(0);
    agents.run_node(2, false);
    agents.pass(Duration::from_secs(1));
    for agent in [0, 1] {
        let facts = ["type", "token", "owner", "fence", "ttl-ms"];
        let mut told = info(&mut agents, agent, &facts).expect("it is held");
        let Some(Reply::Integer(left)) = told.pop() else {
            panic!("it ends")
        };
        // As PTTL says it: the allowance for a round is counted as that of a lock that lasts so long.
        assert!((8_000..8_200).contains(&left), "{left}");
        let expected = [
            Reply::bulk("string"),
            Reply::bulk(&mine.token),
            Reply::bulk("rack 4"),
            Reply::Integer(mine.fence.expect("it was asked for")),
        ];
        assert_eq!(told, expected);
    }
    // A plain lock of a library says less of itself.
    agents.send(1, &["LOCK.RELEASE", "a", &mine.token]);
    agents.send(1, &["SET", "a", "you", "NX", "PX", "9000"]);
    let told = info(&mut agents, 0, &["owner", "fence"]);
    assert_eq!(told, Some(vec![Reply::Nil, Reply::Nil]));
    agents.run_node(3, false);
    agents.run_node(4, false);
    assert_eq!(code(&agents.send(0, &["LOCK.INFO", "a"])), "NOQUORUM");
}

#[test]
fn a_lock_is_ended_by_force_under_the_token_that_was_shown_and_no_other() {
    let mut agents = agents();
    let mine = granted(&acquire(&mut agents, 0, "me", &[]), 9_000);
    let words = ["LOCK.ACQUIRE", "a", "next", "9000", "WAIT", "60000"];
    let waiter = agents.begin_for(4, 0, &words);
    agents.pass(Duration::from_millis(100));
    let force = ["LOCK.FORCE-RELEASE", "a", &mine.token];
    assert_eq!(agents.send(1, &force), Reply::Integer(1));
    let next = granted(&agents.reply(waiter), 9_000);
    // Another holder has got it meanwhile.
    assert_eq!(agents.send(1, &force), Reply::Integer(0));
    assert_eq!(agents.stored("a").as_deref(), Some(next.token.as_bytes()));
}
