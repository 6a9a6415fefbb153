//! CONFIG SET of what a running node can take over, and what it refuses.

use std::io::Read;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_server::Node;
use quorlock_server::config::LogLevel;
use quorlock_testkit::{Wire, eventually};

use crate::machine::{run, with_node};

fn refused(client: &mut Wire, command: &str) -> String {
    let reply = client.ask(command);
    assert!(reply.starts_with("-ERR CONFIG SET failed"), "{reply}");
    reply
}

#[test]
fn fewer_clients_than_are_here_closes_none_and_admits_none() {
    with_node(&[("maxclients", &["10"])], |node, _| {
        let mut first = Wire::connect(node.address());
        let mut second = Wire::connect(node.address());
        assert_eq!(second.ask("PING"), "+PONG");
        assert_eq!(first.ask("CONFIG SET maxclients 1"), "+OK");
        assert_eq!(first.info("maxclients"), "1");
        let mut refused = String::new();
        let mut third = TcpStream::connect(node.address()).unwrap();
        third.read_to_string(&mut refused).unwrap();
        assert_eq!(refused, "-ERR max number of clients reached\r\n");
        assert_eq!(second.ask("PING"), "+PONG", "it stays");
        assert_eq!(first.ask("CONFIG SET maxclients 3"), "+OK");
        assert_eq!(Wire::connect(node.address()).ask("PING"), "+PONG");
    });
}

#[test]
fn more_clients_than_the_process_has_files_for_are_refused() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let reply = refused(&mut client, "CONFIG SET timeout 7 maxclients 1000000");
        let (_, fit) = reply
            .split_once("(possibly related to argument 'maxclients') - The operating system is not able to handle the specified number of clients, try with ")
            .unwrap();
        assert_eq!(
            client.ask("CONFIG GET timeout"),
            "[timeout, 0]",
            "all or nothing"
        );
        assert_eq!(client.ask(&format!("CONFIG SET maxclients {fit}")), "+OK");
    });
}

/// Planted: workers are not woken, so that a client that was idle before stays.
#[test]
fn a_timeout_reaches_clients_that_were_idle_before_it() {
    with_node(&[("workers", &["2"])], |node, clock| {
        let mut idle: Vec<Wire> = (0..4).map(|_| Wire::connect(node.address())).collect();
        idle.iter_mut()
            .for_each(|it| assert_eq!(it.ask("PING"), "+PONG"));
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("CONFIG SET timeout 1"), "+OK");
        eventually("the idle clients are closed", || {
            clock.advance(Duration::from_millis(300));
            assert_eq!(client.ask("PING"), "+PONG");
            client.info("connected_clients") == "1"
        });
    });
}

#[test]
fn limits_of_scripts_hold_for_the_next_script() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let long = format!("return 1 --{}", "x".repeat(2_000));
        assert_eq!(client.ask("CONFIG SET script-size-limit 1kb"), "+OK");
        let reply = client.ask_words(&["EVAL", &long, "0"]);
        assert!(
            reply.contains("longer than script-size-limit (1024 bytes)"),
            "{reply}"
        );
        assert_eq!(
            client.ask("CONFIG SET script-size-limit 64kb script-load-limit 64kb"),
            "+OK"
        );
        assert_eq!(client.ask_words(&["EVAL", &long, "0"]), ":1");
        let longer = |end: &str| format!("return 1 --{}{end}", "x".repeat(40_000));
        let loaded = client.ask_words(&["SCRIPT", "LOAD", &longer("a")]);
        assert_eq!(loaded.len(), 40, "{loaded}");
        let full = client.ask_words(&["SCRIPT", "LOAD", &longer("b")]);
        assert!(full.contains("script-load-limit"), "{full}");
        refused(&mut client, "CONFIG SET script-time-limit 0");
        refused(&mut client, "CONFIG SET script-load-limit 1kb");
    });
}

#[test]
fn what_is_decided_at_start_is_refused_with_the_reason() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let known = client.ask("CONFIG GET *");
        for (name, reason) in [
            ("port", "a node listens from its start on"),
            ("dir", "stop the node before you move them"),
            (
                "cluster-id",
                "clients take the node for the one that it said it was",
            ),
            ("enable-debug-command", "could let all others wait"),
            ("daemonize", "a node stays in the foreground"),
            ("maxmemory-policy", "would take a lock from its holder"),
        ] {
            let reply = refused(&mut client, &format!("CONFIG SET timeout 7 {name} x"));
            let words = format!("argument '{name}') - can't set immutable config: ");
            assert!(reply.contains(&words) && reply.contains(reason), "{reply}");
        }
        assert_eq!(client.ask("CONFIG GET *"), known, "nothing was changed");
    });
}

#[test]
fn the_log_level_is_that_of_the_program() {
    run(async {
        let node = Node::builder().ephemeral().start().await.unwrap();
        let mut client = Wire::connect(node.address());
        let reply = refused(&mut client, "CONFIG SET loglevel debug");
        assert!(reply.ends_with("decides what is logged"), "{reply}");
        node.stop().await.unwrap();

        let levels = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&levels);
        let builder = Node::builder().ephemeral();
        let builder = builder.log_filter(move |level| seen.lock().unwrap().push(level));
        let node = builder.start().await.unwrap();
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("CONFIG SET loglevel debug"), "+OK");
        assert_eq!(client.ask("CONFIG SET loglevel debug"), "+OK");
        refused(&mut client, "CONFIG SET loglevel loud");
        assert_eq!(client.ask("CONFIG SET loglevel warning"), "+OK");
        let levels = levels.lock().unwrap();
        assert_eq!(*levels, [LogLevel::Debug, LogLevel::Warning]);
    });
}

#[test]
fn the_error_of_the_delay_and_other_settings_follow() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let all = "CONFIG SET restart-delay-reply loading tcp-keepalive 60 protected-mode no \
                   shutdown-timeout 3 script-native no";
        assert_eq!(client.ask(all), "+OK");
        for (name, value) in [
            ("restart-delay-reply", "loading"),
            ("tcp-keepalive", "60"),
            ("protected-mode", "no"),
            ("shutdown-timeout", "3"),
            ("script-native", "no"),
        ] {
            let shown = client.ask(&format!("CONFIG GET {name}"));
            assert_eq!(shown, format!("[{name}, {value}]"));
        }
        assert_eq!(
            client.ask_words(&["EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "k"]),
            "+OK"
        );
    });
}

#[test]
fn beyond_maxmemory_no_lock_is_taken_and_none_is_lost() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let mut other = Wire::connect(node.address());
        assert_eq!(client.info("maxmemory"), "0");
        let used = |client: &mut Wire| client.info("used_memory").parse::<u64>().unwrap();
        let empty = used(&mut client);
        assert_eq!(client.ask("SET held token NX PX 30000"), "+OK");
        assert!(used(&mut client) > empty);
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask("SET queued v"), "+QUEUED");
        assert_eq!(other.ask("CONFIG SET maxmemory 1"), "+OK");
        assert_eq!(other.info("maxmemory"), "1");
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(
            client.ask("EXEC"),
            format!("-EXECABORT Transaction discarded because of: {oom}")
        );
        assert_eq!(client.ask("SET new token NX PX 30000"), format!("-{oom}"));
        assert_eq!(client.ask("PEXPIRE held 60000"), ":1");
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask("DEL held"), "+QUEUED");
        assert_eq!(client.ask("EXEC"), "[:1]");
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask("SET new v"), format!("-{oom}"));
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
        assert_eq!(used(&mut client), empty);
        assert_eq!(other.ask("CONFIG SET maxmemory 100mb"), "+OK");
        assert_eq!(client.ask("SET new token NX PX 30000"), "+OK");
        let errors = client.ask("INFO errorstats");
        assert!(errors.contains("errorstat_OOM:count=2"), "{errors}");
    });
}
