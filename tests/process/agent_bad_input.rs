//! What programs and lists of nodes should not give an agent, end to end.

use std::time::Duration;

use quorlock_testkit::{NodeProcess, Wire, eventually, request};

use crate::agent::{agent, agent_at};
use crate::agent_users::private;
use crate::run::cluster;
use crate::shell::Shell;

#[test]
fn a_transaction_on_locks_that_do_not_belong_together_changes_none_of_them() {
    let shell = cluster();
    let (_agent, mut wire) = agent(&shell, &[], "agent.log");
    for name in ["a", "b"] {
        let set = format!("SET {name} me NX PX 60000");
        assert_eq!(wire.ask(&set), "+OK");
    }
    for (commands, reason) in [
        (["DEL a", "DEL b"], "were not taken together"),
        (["DEL a", "SET c me NX PX 60000"], "does different things"),
        (
            ["PEXPIRE a 90000", "PEXPIRE b 90000"],
            "were not taken together",
        ),
    ] {
        assert_eq!(wire.ask("MULTI"), "+OK");
        for command in commands {
            assert_eq!(wire.ask(command), "+QUEUED");
        }
        let reply = wire.ask("EXEC");
        assert!(reply.starts_with("-NOTALOCK "), "{commands:?}: {reply}");
        assert!(reply.contains(reason), "{commands:?}: {reply}");
        assert_eq!(wire.ask("GET a"), "me");
        assert_eq!(wire.ask("GET b"), "me");
        assert_eq!(wire.ask("EXISTS c"), ":0");
    }
}

#[test]
fn scripts_without_an_end_huge_tokens_and_very_short_ttls_leave_an_agent_as_it_was() {
    let shell = cluster();
    let (_agent, address) = agent_at(&shell, &[], "agent.log");
    let mut wire = Wire::connect(&address);
    assert_eq!(wire.ask("SET held me NX PX 60000"), "+OK");
    for script in [
        "while true do end",
        "while redis.call('get', KEYS[1]) do end",
        "redis.call('del', KEYS[1]) while true do end",
    ] {
        let reply = wire.ask_words(&["EVAL", script, "1", "held"]);
        assert!(reply.starts_with("-ERR "), "{script}: {reply}");
        assert_eq!(wire.ask("GET held"), "me", "{script}");
    }

    let token = "x".repeat(100_000);
    let reply = wire.ask(&format!("SET big {token} NX PX 60000"));
    let refused = "-NOTALOCK the lock's value has 100000 bytes";
    assert!(reply.starts_with(refused), "{reply:.200}");
    let token = "x".repeat(10 << 20);
    let mut greedy = Wire::connect(&address);
    let reply = greedy.ask(&format!("SET big {token} NX PX 60000"));
    assert!(reply.starts_with('-'), "{reply:.200}");
    assert_eq!(wire.ask("EXISTS big"), ":0");

    let reply = wire.ask("SET short me NX PX 1");
    let is_late = reply.starts_with("-NOQUORUM ");
    assert!(reply == "+OK" || is_late, "{reply}");
    eventually("a lock of a millisecond is over", || {
        wire.ask("SET short you NX PX 60000") == "+OK"
    });
    assert_eq!(wire.ask("GET short"), "you");
    let year_ms = 365_u64 * 24 * 60 * 60 * 1_000;
    let reply = wire.ask(&format!("SET long me NX PX {year_ms}"));
    assert!(reply.starts_with("-NOTALOCK "), "{reply}");
}

#[test]
fn a_client_that_never_reads_is_closed_at_its_limit_and_others_are_served() {
    let shell = cluster();
    let limit = ["normal", "4mb", "0", "0"];
    let words = [&["--", "--client-output-buffer-limit"][..], &limit].concat();
    let (_agent, address) = agent_at(&shell, &words, "agent.log");
    let mut other = Wire::connect(&address);
    assert_eq!(other.ask("SET job me NX PX 60000"), "+OK");
    let mut silent = Wire::connect(&address);
    let reads = request(&["GET", "job"]).repeat(50);
    let large = "x".repeat(5 << 20);
    silent.send(&reads);
    silent.send_until_closed(&request(&["PING", &large]));
    silent.send_until_closed(&reads);
    eventually("it is closed", || {
        let info = other.ask("INFO");
        info.contains("client_output_buffer_limit_disconnections:1\r")
            && info.contains("agent_requests_under_way:0\r")
    });
    assert_eq!(other.ask("GET job"), "me");
    assert_eq!(other.ask("DEL job"), ":1");
}

#[test]
fn a_node_that_is_listed_twice_has_one_vote() {
    let shell = Shell::new();
    let [one, two] = ["one", "two"].map(|name| NodeProcess::start(shell.path(), name, &[]));
    let same = [one.url(), one.url()].join(",");
    let refused = shell.quorlock(&["agent", "--port", "0", "--nodes", &same]);
    assert_eq!(refused.code, Some(64), "{}", refused.stderr);
    let listed = "is listed twice: list each node once";
    assert!(refused.stderr.contains(listed), "{}", refused.stderr);
    let alias = one.url().replace("127.0.0.1", "localhost");
    let few = [one.url(), alias.clone()].join(",");
    let (_few, mut wire) = agent(&shell, &["--nodes", &few], "few.log");
    let reply = wire.ask("SET job me NX PX 60000");
    assert!(reply.starts_with("-NOQUORUM "), "{reply}");
    let enough = [one.url(), alias, two.url()].join(",");
    let (_enough, mut wire) = agent(&shell, &["--nodes", &enough], "enough.log");
    eventually("two nodes of three are a majority", || {
        wire.ask("SET other me NX PX 60000") == "+OK"
    });
}

#[test]
fn an_agent_in_a_list_of_nodes_is_named_and_takes_no_lock() {
    let shell = cluster();
    let (_agent, address) = agent_at(&shell, &[], "agent.log");
    let url = format!("redis://{address}");
    for counting in [&[] as &[&str], &["--votes-by-address"]] {
        let ask = |command: &str, words: &[&str]| {
            let list = [&[command, "--nodes", &url][..], counting, words].concat();
            shell.quorlock(&list)
        };
        for job in [&["job", "-n"][..], &["job", "-n", "--shared"]] {
            let ended = ask("run", &[job, &["--", "true"]].concat());
            assert_eq!(ended.code, Some(69), "{}", ended.stderr);
            let what = "it is an agent and no node";
            assert!(ended.stderr.contains(what), "{}", ended.stderr);
            for said_once in [
                "list those nodes",
                "`INFO nodes` on the agent",
                "lock library",
            ] {
                let times = ended.stderr.matches(said_once).count();
                assert_eq!(times, 1, "{said_once}: {}", ended.stderr);
            }
        }
        for command in ["status", "doctor"] {
            let ended = ask(command, &[]);
            assert_ne!(ended.code, Some(0), "{command}: {}", ended.stdout);
            let what = "an agent and no node";
            assert!(ended.stdout.contains(what), "{command}: {}", ended.stdout);
        }
        let ended = ask("locks", &[]);
        assert_ne!(ended.code, Some(0), "{}", ended.stdout);
        assert!(ended.stderr.contains("an agent"), "{}", ended.stderr);
        let other = ask("agent", &["--port", "0"]);
        assert_eq!(other.code, Some(64), "{}", other.stderr);
        let named = format!("{url}: it is an agent and no node");
        assert!(other.stderr.contains(&named), "{}", other.stderr);
        assert!(
            other.stderr.contains("`INFO nodes` on the other agent"),
            "{}",
            other.stderr
        );
    }
    assert_eq!(Wire::connect(&address).ask("GET job"), "nil");
}

#[test]
fn an_agent_whose_user_has_no_right_to_info_is_named_and_keeps_no_lock() {
    let shell = cluster();
    let users = "user default on nopass ~* &* +@all\nuser bob on >secret ~* &* +@all -info\n";
    let users = private(&shell, "users.acl", users);
    let (_agent, address) = agent_at(&shell, &["--", "--aclfile", &users], "agent.log");
    let url = format!("redis://bob:secret@{address}");
    let other = shell.quorlock(&[
        "agent",
        "--port",
        "0",
        "--votes-by-address",
        "--nodes",
        &url,
    ]);
    assert_eq!(other.code, Some(64), "{}", other.stderr);
    for job in [&["job", "-n"][..], &["job", "-n", "--shared"]] {
        let options = ["run", "--votes-by-address", "--ttl", "50s", "--nodes", &url];
        let ended = shell.quorlock(&[&options[..], job, &["--", "true"]].concat());
        assert_eq!(ended.code, Some(69), "{job:?}: {}", ended.stderr);
        let what = "it is an agent and no node";
        assert!(ended.stderr.contains(what), "{job:?}: {}", ended.stderr);
        eventually("it has released what it took", || {
            shell.quorlock(&["who", "job"]).code == Some(1)
        });
    }
}

#[test]
fn callers_of_an_agent_with_the_wrong_password_for_its_nodes_are_told_so() {
    let shell = Shell::new();
    let node = NodeProcess::start(shell.path(), "node", &["--requirepass", "right"]);
    let url = node.url().replace("redis://", "redis://:hunter2@");
    let (mut agent, mut wire) = agent(&shell, &["--nodes", &url], "agent.log");
    let reply = wire.ask("SET job me NX PX 60000");
    assert!(reply.starts_with("-NOQUORUM "), "{reply}");
    assert!(reply.contains("WRONGPASS"), "{reply}");
    eventually("INFO has the reason", || {
        let info = wire.ask("INFO nodes");
        assert!(!info.contains("hunter2"), "{info}");
        info.contains(",state=away,") && info.contains("WRONGPASS")
    });
    assert!(!reply.contains("hunter2"), "{reply}");
    assert!(!agent.output().contains("hunter2"), "{}", agent.output());
    agent.kill();
}

#[test]
fn a_try_that_is_held_back_has_the_lock_as_soon_as_it_is_free() {
    let shell = cluster();
    let (_agent, address) = agent_at(&shell, &["--hold-back", "1s"], "agent.log");
    let (mut holder, mut waiter) = (Wire::connect(&address), Wire::connect(&address));
    for _ in 0..20 {
        let taken = holder.ask("SET job me NX PX 60000");
        assert!(taken == "+OK" || taken == "nil", "{taken}");
        waiter.send(b"SET job you NX PX 60000\r\n");
        // The nodes have refused it.
        assert!(!waiter.answers_within(Duration::from_millis(200)));
        assert_eq!(holder.ask("DEL job"), ":1");
        if waiter.reply() == "+OK" {
            assert_eq!(holder.ask("GET job"), "you");
            return;
        }
    }
    panic!("no try had the lock");
}
