//! Acquiring, reading, extending and releasing.

use std::time::Duration;

use quorlock_engine::Reply;

use crate::{COMPARE_AND_DELETE, agents, code, token};

#[test]
fn a_set_nx_takes_the_lock_on_the_nodes_and_everybody_else_is_refused() {
    let mut agents = agents();
    let take = |owner| ["SET", "a", owner, "NX", "PX", "1000"];
    assert_eq!(agents.send(0, &take("me")), Reply::Ok);
    assert_eq!(agents.asked, ["acquire"]);
    assert_eq!(token(&agents, "a").as_deref(), Some("me"));
    for agent in [0, 1] {
        assert_eq!(agents.send(agent, &take("me")), Reply::Nil);
        assert_eq!(agents.send(agent, &take("you")), Reply::Nil);
        assert_eq!(agents.send(agent, &["GET", "a"]), Reply::bulk("me"));
        assert_eq!(agents.send(agent, &["EXISTS", "a"]), Reply::Integer(1));
    }
    // What is left is told as its caller counts it.
    let Reply::Integer(left) = agents.send(1, &["PTTL", "a"]) else {
        panic!("it ends")
    };
    assert!((980..=1_002).contains(&left), "{left}");
    // The nodes keep it for longer: its caller has counted from the reply on.
    agents.pass(Duration::from_millis(1_000));
    assert_eq!(agents.send(1, &["GET", "a"]), Reply::bulk("me"));
    agents.pass(Duration::from_millis(200));
    assert_eq!(agents.send(1, &["GET", "a"]), Reply::Nil);
    assert_eq!(agents.send(1, &take("you")), Reply::Ok);
}

#[test]
fn every_agent_answers_reads_by_what_a_majority_keeps_for_the_caller() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "60000"]);
    for node in [1, 3] {
        agents.run_node(node, false);
    }
    for agent in [0, 1] {
        for (command, of_held, of_free) in [
            ("GET", Reply::bulk("me"), Reply::Nil),
            ("TYPE", Reply::status("string"), Reply::status("none")),
            ("EXISTS", Reply::Integer(1), Reply::Integer(0)),
            ("STRLEN", Reply::Integer(2), Reply::Integer(0)),
            ("TTL", Reply::Integer(60), Reply::Integer(-2)),
        ] {
            assert_eq!(agents.send(agent, &[command, "a"]), of_held, "{command}");
            assert_eq!(agents.send(agent, &[command, "b"]), of_free, "{command}");
        }
        match agents.send(agent, &["PTTL", "a"]) {
            Reply::Integer(left) => assert!((59_000..=60_000).contains(&left), "{left}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_is_refused_by_a_script_changes_nothing_on_the_nodes() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "1000"]);
    agents.pass(Duration::from_micros(123_456));
    agents.asked.clear();
    let release = ["EVAL", COMPARE_AND_DELETE, "1", "a", "you"];
    assert_eq!(agents.send(1, &release), Reply::Integer(0));
    assert_eq!(agents.asked, ["read"]);
}

#[test]
fn an_agent_keeps_nothing_that_a_restart_loses() {
    let mut agents = agents();
    assert_eq!(
        agents.send(0, &["SET", "a", "me", "NX", "EX", "10"]),
        Reply::Ok
    );
    agents.restart(0);
    assert_eq!(
        agents.send(0, &["SET", "a", "you", "NX", "EX", "10"]),
        Reply::Nil
    );
    assert_eq!(agents.send(0, &["PEXPIRE", "a", "5000"]), Reply::Integer(1));
    assert_eq!(
        agents.send(1, &["EVAL", COMPARE_AND_DELETE, "1", "a", "me"]),
        Reply::Integer(1)
    );
    assert_eq!(token(&agents, "a"), None);
}

#[test]
fn a_lock_that_this_agent_has_taken_is_released_in_one_round() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "1000"]);
    agents.asked.clear();
    let release = ["EVAL", COMPARE_AND_DELETE, "1", "a", "me"];
    assert_eq!(agents.send(0, &release), Reply::Integer(1));
    assert_eq!(agents.asked, ["release"]);
    assert_eq!(agents.send(0, &release), Reply::Integer(0));
}

#[test]
fn what_an_agent_assumes_of_a_lock_is_not_acted_on_where_it_is_wrong() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "60000"]);
    agents.send(1, &["DEL", "a"]);
    agents.send(1, &["SET", "a", "you", "NX", "PX", "60000"]);
    // The first agent still believes the lock to be the first holder's.
    let release = |owner| ["EVAL", COMPARE_AND_DELETE, "1", "a", owner];
    assert_eq!(agents.send(0, &release("me")), Reply::Integer(0));
    assert_eq!(token(&agents, "a").as_deref(), Some("you"));
    assert_eq!(agents.send(0, &release("you")), Reply::Integer(1));
    assert_eq!(token(&agents, "a"), None);
}

#[test]
fn two_attempts_under_one_token_are_known_from_each_other() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "100"]);
    let first = agents.stored("a").unwrap();
    agents.pass(Duration::from_millis(500));
    agents.send(0, &["SET", "a", "me", "NX", "PX", "100"]);
    assert_ne!(agents.stored("a").unwrap(), first);
}

#[test]
fn an_ok_that_would_come_too_late_is_none_and_the_lock_is_given_back() {
    let mut agents = agents();
    let take = ["SET", "a", "me", "NX", "PX", "1000"];
    // A round takes longer than what the nodes are asked for beyond the ttl.
    agents.cluster.network.extra_ns = vec![150_000_000; 5];
    assert_eq!(code(&agents.send(0, &take)), "NOQUORUM");
    agents.cluster.network.extra_ns = vec![0; 5];
    agents.pass(Duration::from_millis(300));
    assert_eq!(agents.stored("a"), None, "it is not left behind");
    assert_eq!(agents.send(0, &take), Reply::Ok);
}

#[test]
fn an_extension_lasts_from_its_reply_on_and_may_shorten() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "9000"]);
    for ttl in [20_000, 2_000] {
        let extend = ["PEXPIRE", "a", &ttl.to_string()];
        assert_eq!(agents.send(1, &extend), Reply::Integer(1));
        let Reply::Integer(left) = agents.send(0, &["PTTL", "a"]) else {
            panic!("it ends")
        };
        assert!((ttl - 20..ttl + 3).contains(&left), "{left} of {ttl}");
    }
    agents.cluster.network.extra_ns = vec![150_000_000; 5];
    assert_eq!(code(&agents.send(0, &["PEXPIRE", "a", "1000"])), "NOQUORUM");
    agents.cluster.network.extra_ns = vec![0; 5];
    agents.pass(Duration::from_secs(5));
    assert_eq!(agents.send(0, &["PEXPIRE", "b", "1000"]), Reply::Integer(0));
}

#[test]
fn a_release_that_is_owed_for_a_try_does_not_free_what_was_extended_through_another_agent() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "9000"]);
    let first = agents.stored("a").unwrap();
    assert_eq!(agents.send(1, &["PEXPIRE", "a", "9000"]), Reply::Integer(1));
    // The first agent may have given that try up.
    let second = agents.stored("a").unwrap();
    assert_ne!(second, first);
    assert_eq!(token(&agents, "a").as_deref(), Some("me"));
    // The second knows its own.
    assert_eq!(agents.send(1, &["PEXPIRE", "a", "8000"]), Reply::Integer(1));
    assert_eq!(agents.stored("a").unwrap(), second);
    let Reply::Integer(left) = agents.send(0, &["PTTL", "a"]) else {
        panic!("it ends")
    };
    assert!((7_900..=8_002).contains(&left), "{left}");
    let release = ["EVAL", COMPARE_AND_DELETE, "1", "a", "me"];
    assert_eq!(agents.send(0, &release), Reply::Integer(1));
    assert_eq!(agents.stored("a"), None);
}

#[test]
fn who_takes_a_lock_again_has_it_under_a_new_attempt_through_any_agent() {
    let mut agents = agents();
    let take = [
        "EVAL",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end \
         return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])",
        "1",
        "a",
        "me",
        "9000",
    ];
    assert_eq!(agents.send(0, &take), Reply::status("OK"));
    let first = agents.stored("a").unwrap();
    // Another agent may owe the release of that one by now.
    assert_eq!(agents.send(0, &take), Reply::Integer(1));
    let second = agents.stored("a").unwrap();
    assert_ne!(second, first);
    assert_eq!(token(&agents, "a").as_deref(), Some("me"));
    // Who extends what it counts on having keeps its attempt.
    assert_eq!(agents.send(0, &["PEXPIRE", "a", "8000"]), Reply::Integer(1));
    assert_eq!(agents.stored("a").unwrap(), second);
}

#[test]
fn what_depends_on_how_long_a_lock_lasts_is_decided_by_what_the_nodes_say() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "600000"]);
    for (condition, is_freed) in [
        ("redis.call('pttl', KEYS[1]) > 100000", false),
        ("redis.call('ttl', KEYS[1]) > 100", false),
        ("redis.call('pexpire', KEYS[1], 300000, 'GT') == 0", false),
        ("redis.call('pttl', KEYS[1]) < 100000", true),
    ] {
        let script = format!("if {condition} then return 0 end return redis.call('del', KEYS[1])");
        let reply = agents.send(0, &["EVAL", &script, "1", "a"]);
        assert_eq!(reply, Reply::Integer(i64::from(is_freed)), "{condition}");
        assert_eq!(token(&agents, "a").is_none(), is_freed, "{condition}");
    }
}

#[test]
fn of_callers_at_several_agents_one_gets_the_lock() {
    let mut agents = agents();
    for round in 0..50 {
        let name = format!("n{round}");
        let mut requests = Vec::new();
        for caller in 0..6 {
            let owner = format!("c{caller}");
            let take = ["SET", &name, &owner, "NX", "PX", "9000"];
            requests.push(agents.begin(caller % 2, &[&take], false));
        }
        let replies: Vec<Reply> = requests.into_iter().map(|id| agents.reply(id)).collect();
        let taken = replies.iter().filter(|reply| **reply == Reply::Ok).count();
        assert!(taken <= 1, "{replies:?}");
        let is_answer = |reply: &Reply| match reply {
            Reply::Ok | Reply::Nil => true,
            error => code(error) == "TRYAGAIN",
        };
        assert!(replies.iter().all(is_answer), "{replies:?}");
        assert_eq!(taken == 1, token(&agents, &name).is_some(), "{replies:?}");
    }
}

#[test]
fn the_replies_of_a_transaction_come_together() {
    let mut agents = agents();
    let commands: [&[&str]; 2] = [&["SET", "a", "me", "NX", "PX", "9000"], &["PTTL", "a"]];
    let id = agents.begin(0, &commands, true);
    assert_eq!(
        agents.reply(id),
        Reply::Array(vec![Reply::Ok, Reply::Integer(9_000)])
    );
    assert_eq!(token(&agents, "a").as_deref(), Some("me"));
    // How long it lasts is not what the agent assumes.
    let commands: [&[&str]; 2] = [&["PTTL", "a"], &["DEL", "a"]];
    let id = agents.begin(0, &commands, true);
    match agents.reply(id) {
        Reply::Array(replies) => {
            let Reply::Integer(left) = replies[0] else {
                panic!("{replies:?}")
            };
            assert!((8_900..=9_002).contains(&left), "{left}");
            assert_eq!(replies[1], Reply::Integer(1));
        }
        other => panic!("{other:?}"),
    }
    let commands: [&[&str]; 2] = [&["SETNX", "b", "me"], &["PEXPIRE", "b", "9000"]];
    let id = agents.begin(0, &commands, true);
    assert_eq!(
        agents.reply(id),
        Reply::Array(vec![Reply::Integer(1), Reply::Integer(1)])
    );
    assert_eq!(token(&agents, "b").as_deref(), Some("me"));
}

#[test]
fn a_node_that_hangs_holds_up_no_answer() {
    let mut agents = agents();
    agents.send(0, &["SET", "a", "me", "NX", "PX", "1000"]);
    agents.cluster.servers[1].is_paused = true;
    let began_ns = agents.cluster.now_ns;
    assert_eq!(agents.send(0, &["PEXPIRE", "a", "300"]), Reply::Integer(1));
    assert_eq!(
        agents.send(0, &["SET", "b", "me", "NX", "PX", "300"]),
        Reply::Ok
    );
    let release = ["EVAL", COMPARE_AND_DELETE, "1", "b", "me"];
    assert_eq!(agents.send(0, &release), Reply::Integer(1));
    let took_ms = (agents.cluster.now_ns - began_ns) / 1_000_000;
    assert!(took_ms < 20, "{took_ms} ms");
}
