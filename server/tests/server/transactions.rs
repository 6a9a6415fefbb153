//! Transactions: all or nothing at one moment, whoever else writes, however large, on every disk.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::control::kind;
use quorlock_testkit::Wire;

use crate::machine::gate::GatedNode;
use crate::machine::hooked_clock::HookedClock;
use crate::machine::{Machine, configured, run, serve, wire, with_node};

#[test]
fn a_watched_key_that_somebody_changes_stops_the_transaction() {
    with_node(&[], |node, clock| {
        let (mut client, mut other) = (wire(node), wire(node));
        let changes = [
            ("SET a 1 PX 60000", "SET a 2 PX 60000"),
            ("SET a 1 PX 60000", "SET a 1 PX 60000"),
            ("SET a 1 PX 60000", "DEL a"),
            ("SET a 1 PX 60000", "PEXPIRE a 50000"),
            ("SET a 1 PX 60000", "PERSIST a"),
            ("SET a 1 PX 60000", "FLUSHDB"),
            ("SET a 1 PX 60000", "FLUSHALL"),
            ("DEL a", "SET a 1 PX 60000"),
            ("DEL a", "SET a 1 PXAT 1"),
            ("HSET a f 1", "HSET a f 1"),
            ("HSET a f 1 g 2", "HDEL a f"),
            ("HSET a f 1", "HDEL a f"),
            (
                "SET a 1 PX 60000",
                "EVAL return(redis.call('DEL',KEYS[1])) 1 a",
            ),
        ];
        for (before, change) in changes {
            client.ask("DEL a");
            client.ask(before);
            assert_eq!(client.ask("WATCH a"), "+OK");
            assert_eq!(client.ask("MULTI"), "+OK");
            assert_eq!(client.ask("SET b 1 PX 60000"), "+QUEUED");
            let reply = other.ask(change);
            assert!(!reply.starts_with('-'), "{change}: {reply}");
            assert_eq!(client.ask("EXEC"), "nil array", "{change}");
            assert_eq!(client.ask("EXISTS b"), ":0", "{change}");
        }
        // What leaves it as it is does not.
        for nothing in [
            "GET a",
            "DEL none",
            "HDEL none f",
            "SET c 1",
            "PEXPIRE none 1",
            "SET a 2 NX",
        ] {
            client.ask("DEL a");
            client.ask("SET a 1 PX 60000");
            client.ask("WATCH a");
            other.ask(nothing);
            client.ask("MULTI");
            client.ask("GET a");
            assert_eq!(client.ask("EXEC"), "[1]", "{nothing}");
        }
        // A key that has expired is gone, also where nobody asked for it; one that was gone before is not.
        client.ask("SET a 1 PX 1000");
        client.ask("WATCH a none");
        clock.advance(Duration::from_millis(1000));
        client.ask("MULTI");
        assert_eq!(client.ask("EXEC"), "nil array");
        client.ask("WATCH a none");
        clock.advance(Duration::from_millis(1000));
        client.ask("MULTI");
        assert_eq!(client.ask("EXEC"), "[]");
    });
}

#[test]
fn replies_of_a_transaction_wait_for_its_sync_and_it_is_one_frame() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        let (mut client, mut other) = gated.wires();
        assert_eq!(client.ask("SET a 1 PX 30000"), "+OK");
        let frames = gated.machine.frames_of(kind::GROUP);
        client.send(b"MULTI\r\nINCR a\r\nSET b 1 PX 30000\r\nHSET h f 1\r\nGET a\r\n");
        for expected in ["+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED"] {
            assert_eq!(client.reply(), expected);
        }
        gated.gate.set_closed(true);
        client.send(b"EXEC\r\n");
        gated.gate.await_thread("quorlock-0");
        assert!(client.is_silent(), "the sync has not ended");
        other.send(b"GET b\r\n");
        assert!(other.is_silent(), "it would reveal what may be lost");
        gated.gate.set_closed(false);
        assert_eq!(client.reply(), "[:2, +OK, :1, 2]");
        assert_eq!(other.reply(), "1");
        assert_eq!(gated.machine.frames_of(kind::GROUP), frames + 1);
    });
}

#[test]
fn a_transaction_that_fits_no_frame_is_taken_back_as_a_whole() {
    with_node(&[("appendfsync", &["everysec"])], |node, _| {
        let mut client = wire(node);
        let value = "v".repeat(3 << 20);
        assert_eq!(client.ask("SET kept before PX 60000"), "+OK");
        client.ask("MULTI");
        for request in [
            "SELECT 1".to_owned(),
            "SET elsewhere 1 PX 60000".to_owned(),
            "SELECT 0".to_owned(),
            "DEL kept".to_owned(),
            format!("SET one {value} PX 60000"),
            "EVAL return(redis.call('SET',KEYS[1],'1')) 1 scripted".to_owned(),
            format!("SET two {value} PX 60000"),
            "GET two".to_owned(),
            format!("SET three {value} PX 60000"),
            "SELECT 2".to_owned(),
        ] {
            assert_eq!(client.ask(&request), "+QUEUED");
        }
        let reply = client.ask("EXEC");
        assert!(reply.starts_with("-EXECABORT "), "{reply}");
        assert!(reply.contains("7340032 bytes"), "{reply}");
        assert_eq!(
            client.ask("GET kept"),
            "before",
            "and in the database it was in"
        );
        assert_eq!(client.ask("DBSIZE"), ":1");
        client.ask("SELECT 1");
        assert_eq!(client.ask("DBSIZE"), ":0");
        // Nothing waits for what was never logged.
        client.ask("MULTI");
        client.ask("SET kept after PX 60000");
        assert_eq!(client.ask("EXEC"), "[+OK]");
    });
}

#[test]
fn what_one_connection_queues_is_bounded_and_shown() {
    with_node(&[], |node, _| {
        let (mut client, mut other) = (wire(node), wire(node));
        let value = "v".repeat(4 << 20);
        client.ask("MULTI");
        let request = format!("SET a {value}");
        for _ in 0..3 {
            assert_eq!(client.ask(&request), "+QUEUED");
        }
        let list = other.ask("CLIENT LIST");
        assert!(list.contains(" multi=3 "), "{list}");
        assert!(list.contains(" multi-mem=125"), "{list}");
        assert!(list.contains(" multi=-1 "), "{list}");
        let used = |other: &mut Wire| -> u64 { other.info("mem_clients_normal").parse().unwrap() };
        assert!(used(&mut other) > 12 << 20);
        let reply = client.ask(&request);
        assert!(
            reply.starts_with("-ERR the transaction is larger"),
            "{reply}"
        );
        assert!(used(&mut other) < 12 << 20, "{}", used(&mut other));
        let long = "w".repeat(3 << 20);
        let mut watching = wire(node);
        for number in 0..5 {
            assert_eq!(watching.ask(&format!("WATCH {number}{long}")), "+OK");
        }
        assert!(
            watching
                .ask(&format!("WATCH 6{long}"))
                .starts_with("-ERR a connection may watch")
        );
        assert!(used(&mut other) > 15 << 20, "{}", used(&mut other));
        assert_eq!(watching.ask("UNWATCH"), "+OK");
        assert!(used(&mut other) < 12 << 20, "{}", used(&mut other));
        assert_eq!(client.ask("PING"), "+QUEUED", "checked only");
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
        assert_eq!(client.ask("EXISTS a"), ":0");
        let many: String = (0..4096).map(|key| format!(" {key}")).collect();
        assert_eq!(client.ask(&format!("WATCH{many}")), "+OK");
        assert!(
            client
                .ask("WATCH one")
                .starts_with("-ERR a connection may watch")
        );
        assert_eq!(client.ask("UNWATCH"), "+OK");
        assert_eq!(client.ask("WATCH one"), "+OK");
    });
}

#[test]
fn with_require_ttl_only_what_a_transaction_leaves_counts() {
    with_node(&[("require-ttl", &["yes"])], |node, _| {
        let mut client = wire(node);
        client.send(b"MULTI\r\nINCR a\r\nPEXPIRE a 1000\r\nEXEC\r\n");
        for expected in ["+OK", "+QUEUED", "+QUEUED", "[:1, :1]"] {
            assert_eq!(client.reply(), expected);
        }
        client.send(b"MULTI\r\nINCR a\r\nINCR b\r\nEXEC\r\n");
        for expected in ["+OK", "+QUEUED", "+QUEUED"] {
            assert_eq!(client.reply(), expected);
        }
        let reply = client.reply();
        assert!(reply.starts_with("-EXECABORT "), "{reply}");
        assert_eq!(client.ask("GET a"), "1");
        assert_eq!(client.ask("EXISTS b"), ":0");
    });
}

/// A script that reaches a limit leaves nothing; the commands beside it stay, and later ones see that.
#[test]
fn a_script_that_is_undone_takes_nothing_of_its_transaction_with_it() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        let value = "v".repeat(1 << 20);
        client.ask("SET a before PX 60000");
        client.ask("MULTI");
        client.ask("SET a within PX 60000");
        client.ask("DEL gone");
        let script = "redis.call('DEL', KEYS[1]) for i = 1, 9 do redis.call('SET', i, ARGV[1]) end";
        let words = ["EVAL", script, "1", "a", &value];
        assert_eq!(client.ask_words(&words), "+QUEUED");
        client.ask("GET a");
        client.ask("DBSIZE");
        let reply = client.ask("EXEC");
        assert!(reply.starts_with("[+OK, :0, -ERR "), "{reply}");
        assert!(reply.ends_with(", within, :1]"), "{reply}");
    });
}

#[test]
fn on_a_full_disk_a_transaction_is_refused_as_a_whole() {
    run(async {
        let machine = Machine::with_space(3 << 20);
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET lock token NX PX 60000"), "+OK");
        let value = "v".repeat(60_000);
        let mut refusals = 0;
        for number in 0..60 {
            client.ask("MULTI");
            client.ask(&format!("SET one {number} PX 60000"));
            client.ask(&format!("SET two {value}{number} PX 60000"));
            let reply = client.ask("EXEC");
            let one = client.ask("GET one");
            let two = client.ask("GET two");
            if reply == "[+OK, +OK]" {
                assert_eq!((one, two), (number.to_string(), format!("{value}{number}")));
                continue;
            }
            assert!(reply.starts_with("-EXECABORT "), "{reply}");
            assert!(reply.contains("MISCONF the log has no room"), "{reply}");
            assert!(two.ends_with(&format!("v{one}")), "both of the same one");
            refusals += 1;
        }
        assert!(refusals > 10, "{refusals} of 60 were refused");
        client.send(b"MULTI\r\nGET lock\r\nDEL lock\r\nEXEC\r\n");
        for _ in 0..3 {
            client.reply();
        }
        assert_eq!(client.reply(), "[token, :1]", "a release has room");
        node.stop().await.unwrap();
    });
}

#[test]
fn a_node_in_its_restart_delay_executes_no_part_of_a_transaction() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_in("everysec").await;
        assert_eq!(wire(&node).ask("SET a 1 NX PX 30000"), "+OK");
        machine.kill();
        drop(node);
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("WATCH a"), "+OK", "it tells nothing");
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask("PING"), "+QUEUED");
        assert!(client.ask("GET a").starts_with("-RESTARTDELAY "));
        assert!(client.ask("EXEC").starts_with("-EXECABORT "));
        client.send(b"MULTI\r\nPING\r\nEXEC\r\n");
        for expected in ["+OK", "+QUEUED", "[+PONG]"] {
            assert_eq!(client.reply(), expected);
        }
        node.stop().await.unwrap();
    });
}

/// Nobody else is served while a transaction runs: its commands together have the time of a script.
#[test]
fn a_transaction_that_takes_too_long_is_taken_back_as_a_whole() {
    let (clock, step_ns) = HookedClock::stepping();
    let builder = configured(&[("script-time-limit", &["100"])]).clock(clock);
    serve(builder, |node| {
        let mut client = wire(node);
        assert_eq!(client.ask("SET kept before PX 60000000"), "+OK");
        let transact = |client: &mut Wire, reads: usize| {
            client.ask("MULTI");
            client.ask("SET kept after PX 60000000");
            client.ask("PUBLISH channel message");
            for _ in 0..reads {
                assert_eq!(client.ask("KEYS *"), "+QUEUED");
            }
            // Each reading of the clock is a millisecond after the one before it.
            step_ns.store(1_000_000, Ordering::Relaxed);
            let reply = client.ask("EXEC");
            step_ns.store(0, Ordering::Relaxed);
            reply
        };
        let mut listener = wire(node);
        assert_eq!(
            listener.ask("SUBSCRIBE channel"),
            "[subscribe, channel, :1]"
        );
        let reply = transact(&mut client, 200);
        assert!(reply.starts_with("-EXECABORT Transaction discarded because of: its commands"));
        for part in ["script-time-limit (100 ms)", "Nothing of it was executed"] {
            assert!(reply.contains(part), "{reply}");
        }
        assert_eq!(client.ask("GET kept"), "before");
        let reply = transact(&mut client, 5);
        assert!(reply.starts_with("[+OK, :1, [kept]"), "{reply}");
        assert_eq!(client.ask("GET kept"), "after");
        assert_eq!(listener.reply(), "[message, channel, message]");
        assert!(
            listener.is_silent(),
            "what was taken back was not published"
        );
        // A script alone has its own time, from its first step on.
        assert_eq!(client.ask_words(&["EVAL", "return 1", "0"]), ":1");
    });
}

/// Errors take memory as replies do: 150,000 of them once made 96 MB of one reply.
#[test]
fn all_replies_of_a_transaction_obey_the_limit_of_one_errors_included() {
    with_node(&[("proto-max-reply-len", &["1mb"])], |node, _| {
        let mut client = wire(node);
        assert_eq!(client.ask("SET text value PX 60000"), "+OK");
        let mut transact = |command: &str, count: usize| {
            let mut requests = "MULTI\r\nSET text changed PX 60000\r\n".to_owned();
            for _ in 0..count {
                requests.push_str(command);
                requests.push_str("\r\n");
            }
            client.send((requests + "EXEC\r\n").as_bytes());
            for _ in 0..count + 2 {
                client.reply();
            }
            let reply = client.reply();
            let left = client.ask("GET text");
            client.ask("SET text value PX 60000");
            (reply, left)
        };
        for command in ["INCR text", "PING", "SET other 1 PX 60000", "EXISTS text"] {
            let (reply, left) = transact(command, 20_000);
            assert!(
                reply.starts_with("-EXECABORT "),
                "{command}: {}",
                reply.len()
            );
            assert_eq!(left, "value", "{command}");
            for part in ["1048576 bytes", "Nothing of it was executed"] {
                assert!(reply.contains(part), "{reply}");
            }
        }
        let (reply, left) = transact("INCR text", 1000);
        assert!(reply.starts_with("[+OK, -ERR value is not"), "{reply}");
        assert_eq!(left, "changed");
    });
}

#[test]
fn a_command_that_is_absent_spoils_a_transaction_and_says_why() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        for absent in [
            "XADD k * f v",
            "FCALL f 0",
            "replicaof no one",
            "PFADD k a",
            "GEOADD k 1 2 a",
        ] {
            assert_eq!(client.ask("MULTI"), "+OK");
            let reply = client.ask(absent);
            let name = absent.split(' ').next().unwrap();
            let known = format!("-ERR unknown command '{name}', with args beginning with: ");
            let why = reply
                .strip_prefix(&known)
                .unwrap_or_else(|| panic!("{reply}"));
            assert!(why.len() > 60 && why.ends_with(')'), "{reply}");
            assert_eq!(client.ask("SET a 1"), "+QUEUED");
            assert!(client.ask("EXEC").starts_with("-EXECABORT "), "{absent}");
        }
        assert_eq!(client.ask("EXISTS a"), ":0");
        assert!(client.ask("SAVE").contains("BGREWRITEAOF compacts it"));
        assert!(client.ask("BGSAVE SCHEDULE").contains("no RDB files"));
        assert!(client.ask("MODULE LOAD x").contains("loads no modules"));
    });
}
