//! What MULTI queues of the commands about the connection and the node, and what EXEC makes of it: Redis's replies, byte for
//! byte, and nothing of what an undone transaction would have done.

use std::sync::atomic::Ordering;

use quorlock_testkit::Wire;

use crate::machine::gate::GatedNode;
use crate::machine::hooked_clock::HookedClock;
use crate::machine::{configured, run, serve, wire, with_node};

/// Queues each request, and returns what EXEC answers.
pub(crate) fn transact(client: &mut Wire, requests: &[&str]) -> String {
    assert_eq!(client.ask("MULTI"), "+OK");
    for request in requests {
        assert_eq!(client.ask(request), "+QUEUED", "{request}");
    }
    client.ask("EXEC")
}

/// The same, as bytes up to the reply to a PING behind it.
fn transact_raw(client: &mut Wire, requests: &[&str], pong: &str) -> String {
    assert_eq!(client.ask("MULTI"), "+OK");
    for request in requests {
        assert_eq!(client.ask(request), "+QUEUED", "{request}");
    }
    client.send(b"EXEC\r\nPING\r\n");
    String::from_utf8(client.bytes_until(pong.as_bytes())).unwrap()
}

/// EXEC answered the error among its replies, and the SET stayed.
#[test]
fn a_debug_command_that_is_not_allowed_spoils_the_transaction() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask("SET a 1"), "+QUEUED");
        let refused = client.ask("DEBUG SLEEP 0");
        assert!(
            refused.starts_with("-ERR DEBUG command not allowed"),
            "{refused}"
        );
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
        assert_eq!(client.ask("GET a"), "nil");
    });
    with_node(&[("enable-debug-command", &["local"])], |node, _| {
        assert_eq!(
            transact(&mut wire(node), &["DEBUG HELP", "DEBUG x"])
                .matches("-ERR")
                .count(),
            1
        );
    });
}

#[test]
fn what_redis_queues_is_queued_and_answered_in_its_place() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask_words(&["SCRIPT", "LOAD", "return 1"]), "+QUEUED");
        client.ask(&format!("SCRIPT EXISTS {sha}"));
        client.ask(&format!("EVALSHA {sha} 0"));
        client.ask("SCRIPT FLUSH");
        client.ask(&format!("SCRIPT EXISTS {sha}"));
        assert_eq!(client.ask("EXEC"), format!("[{sha}, [:1], :1, +OK, [:0]]"));
        for (requests, replies) in [
            (
                &["CLIENT SETNAME x", "CLIENT GETNAME", "SET k v"][..],
                "[+OK, x, +OK]",
            ),
            (
                &[
                    "CONFIG GET tracking-table-max-keys",
                    "CONFIG SET tracking-table-max-keys 500",
                    "CONFIG GET tracking-table-max-keys",
                ],
                "[[tracking-table-max-keys, 1000000], +OK, [tracking-table-max-keys, 500]]",
            ),
            (
                &["AUTH default x", "AUTH a b c", "CLIENT REPLY x"],
                "[+OK, -ERR syntax error, -ERR syntax error]",
            ),
            (
                &["PUBSUB CHANNELS", "PUBSUB NUMPAT", "WAIT 0 0", "GET k"],
                "[[], :0, :0, v]",
            ),
            (
                &["COMMAND GETKEYS get a", "CLIENT PAUSE 0", "CLIENT UNPAUSE"],
                "[[a], +OK, +OK]",
            ),
            (
                &["HELLO 9", "CLIENT UNBLOCK 999", "CLIENT GETREDIR"],
                "[-NOPROTO unsupported protocol version, :0, :-1]",
            ),
            (
                &[
                    "CLIENT CACHING YES",
                    "CLIENT TRACKING ON OPTIN",
                    "CLIENT CACHING YES",
                ],
                "[-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
                 mode enabled, +OK, +OK]",
            ),
        ] {
            assert_eq!(transact(&mut client, requests), replies, "{requests:?}");
        }
        let reply = transact(
            &mut client,
            &["INFO server", "COMMAND COUNT", "CLIENT LIST", "CLIENT INFO"],
        );
        assert!(reply.starts_with("[# Server\r\n"), "{reply}");
        // As in Redis it is still in the transaction.
        let info = reply.rsplit("id=").next().unwrap();
        assert!(
            info.contains(" multi=4 ") && info.contains(" cmd=exec "),
            "{info}"
        );
        let info = client.ask("CLIENT INFO");
        assert!(info.contains(" multi=-1 "), "{info}");
    });
}

#[test]
fn what_redis_refuses_within_a_transaction_is_refused_and_ends_it() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        for (request, refusal) in [
            ("SAVE", "Command not allowed inside a transaction"),
            (
                "LOCK.FENCE a b 1",
                "Command not allowed inside a transaction",
            ),
            ("LOCK.ADOPT 1", "Command not allowed inside a transaction"),
            (
                "LOCK.ACQUIRE a b 1000",
                "Command not allowed inside a transaction",
            ),
            (
                "LOCK.FORCE-RELEASE a b",
                "Command not allowed inside a transaction",
            ),
            ("SHUTDOWN", "Command not allowed inside a transaction"),
            ("SAVE x", "wrong number of arguments for 'save' command"),
            (
                "CLIENT NOSUCH",
                "unknown subcommand 'NOSUCH'. Try CLIENT HELP.",
            ),
            ("CLIENT", "wrong number of arguments for 'client' command"),
            (
                "CLIENT SETNAME",
                "wrong number of arguments for 'client|setname' command",
            ),
            (
                "PUBSUB NOSUCH",
                "unknown subcommand 'NOSUCH'. Try PUBSUB HELP.",
            ),
            (
                "SCRIPT LOAD",
                "wrong number of arguments for 'script|load' command",
            ),
            (
                "OBJECT ENCODING",
                "wrong number of arguments for 'object|encoding' command",
            ),
        ] {
            assert_eq!(client.ask("MULTI"), "+OK");
            assert_eq!(client.ask(request), format!("-ERR {refusal}"));
            assert_eq!(
                client.ask("EXEC"),
                "-EXECABORT Transaction discarded because of previous errors.",
                "{request}"
            );
        }
    });
}

/// One header for all commands, and behind it what each of them sends on its own.
#[test]
fn a_connection_that_begins_to_listen_within_a_transaction_listens_behind_it() {
    with_node(&[], |node, _| {
        let (mut client, mut other) = (wire(node), wire(node));
        let requests = ["SUBSCRIBE a b", "SET x 1", "GET x", "PING"];
        let pong = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
        assert_eq!(
            transact_raw(&mut client, &requests, &format!("{pong}{pong}")),
            "*4\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n+OK\r\n$1\r\n1\r\n",
        );
        let refusal = client.ask("GET x");
        assert!(
            refusal.starts_with("-ERR Can't execute 'get': only (P|S)SUB"),
            "{refusal}"
        );
        let refusal = client.ask("EXEC");
        assert!(
            refusal.starts_with(
                "-EXECABORT Transaction discarded because of: Can't execute 'exec': only"
            ),
            "{refusal}"
        );
        assert_eq!(other.ask("PUBLISH b hello"), ":1");
        assert_eq!(client.reply(), "[message, b, hello]");

        let mut client = wire(node);
        client.ask("HELLO 3");
        assert_eq!(
            transact_raw(
                &mut client,
                &["PSUBSCRIBE a", "ECHO x", "SSUBSCRIBE s"],
                "+PONG\r\n"
            ),
            "*3\r\n>3\r\n$10\r\npsubscribe\r\n$1\r\na\r\n:1\r\n$1\r\nx\r\n-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client\r\n",
        );
    });
}

#[test]
fn a_protocol_that_changes_within_a_transaction_is_that_of_the_replies_behind_it() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        let raw = transact_raw(
            &mut client,
            &[
                "HGETALL none",
                "GET none",
                "HELLO 3",
                "HGETALL none",
                "GET none",
            ],
            "+PONG\r\n",
        );
        assert!(
            raw.starts_with("*5\r\n*0\r\n$-1\r\n%7\r\n$6\r\nserver\r\n"),
            "{raw}"
        );
        assert!(raw.ends_with("%0\r\n_\r\n"), "{raw}");
        assert!(raw.contains("$5\r\nproto\r\n:3\r\n"), "{raw}");
    });
}

/// As in Redis the header counts all commands, those without a reply as well.
#[test]
fn replies_are_left_out_within_a_transaction_as_between_requests() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        client.ask("SET x 1");
        let requests = [
            "PING",
            "CLIENT REPLY OFF",
            "GET x",
            "CLIENT REPLY ON",
            "GET x",
        ];
        assert_eq!(
            transact_raw(&mut client, &requests, "$1\r\n1\r\n+PONG\r\n"),
            "*5\r\n+PONG\r\n+OK\r\n"
        );
        client.ask("MULTI");
        client.ask("CLIENT REPLY SKIP");
        client.ask("GET x");
        client.send(b"EXEC\r\nGET x\r\nPING\r\n");
        assert_eq!(client.bytes_until(b"+PONG\r\n"), b"*2\r\n$1\r\n1\r\n");
        assert_eq!(
            transact_raw(
                &mut client,
                &["CLIENT KILL TYPE normal SKIPME no", "SET x 2"],
                ":1\r\n"
            ),
            "*2\r\n"
        );
        assert_eq!(client.reply(), "<closed>");
        assert_eq!(wire(node).ask("GET x"), "2");
    });
}

/// Its keys are taken back. What it changed of its connection goes with the connection, and what it would do to the node or to
/// others has not happened yet.
#[test]
fn a_transaction_that_is_undone_leaves_nothing_of_what_is_not_about_keys() {
    let (clock, step_ns) = HookedClock::stepping();
    let builder = configured(&[("script-time-limit", &["100"])]).clock(clock);
    serve(builder, |node| {
        let mut other = wire(node);
        let id = other.ask("CLIENT ID").replace(':', "");
        let kill = format!("CLIENT KILL ID {id}");
        let undone = |client: &mut Wire, first: &[&str]| {
            let mut requests = first.to_vec();
            requests.push("SET k v");
            // Each is looked at before the next one runs, also where none is the engine's.
            requests.extend([&"PUBSUB CHANNELS"; 200]);
            client.ask("MULTI");
            for request in requests {
                assert_eq!(client.ask(request), "+QUEUED");
            }
            // Each reading of the clock is a millisecond after the one before it.
            step_ns.store(1_000_000, Ordering::Relaxed);
            let reply = client.ask("EXEC");
            step_ns.store(0, Ordering::Relaxed);
            assert!(reply.starts_with("-EXECABORT "), "{reply}");
            assert!(reply.contains("script-time-limit (100 ms)"), "{reply}");
            reply
        };
        for first in [
            "SUBSCRIBE a",
            "HELLO 3",
            "AUTH default any",
            "CLIENT TRACKING ON",
        ] {
            let mut client = wire(node);
            let reply = undone(&mut client, &[first]);
            assert!(reply.contains("had changed this connection"), "{reply}");
            assert_eq!(client.reply(), "<closed>", "{first}");
        }
        let mut client = wire(node);
        let before = other.ask("CONFIG GET tracking-table-max-keys");
        let reply = undone(
            &mut client,
            &[
                "CONFIG SET tracking-table-max-keys 77 requirepass pw",
                "ACL SETUSER bob on nopass",
                "ACL SETUSER default -ping",
                &kill,
                "CLIENT ID",
            ],
        );
        assert!(!reply.contains("this connection"), "{reply}");
        assert_eq!(client.ask("PING"), "+PONG");
        assert_eq!(client.ask("ACL USERS"), "[default]");
        assert_eq!(wire(node).ask("PING"), "+PONG", "without a password");
        assert_eq!(
            other.ask("CONFIG GET tracking-table-max-keys"),
            before,
            "and it is there"
        );
        assert_eq!(other.ask("PUBSUB NUMSUB a"), "[a, :0]");
        assert_eq!(other.ask("EXISTS k"), ":0");
        assert_eq!(transact(&mut client, &[&kill, "SET k v"]), "[:1, +OK]");
        assert_eq!(other.reply(), "<closed>");
    });
}

/// A client must not have a node list thousands of connections thousands of times.
#[test]
fn what_is_about_the_node_obeys_the_limits_of_one_reply_and_one_script_together() {
    with_node(&[("proto-max-reply-len", &["1mb"])], |node, _| {
        let mut client = wire(node);
        let mut requests = vec!["SET k v"];
        requests.extend([&"COMMAND LIST"; 200]);
        requests.push("CONFIG SET tracking-table-max-keys 77");
        let reply = transact(&mut client, &requests);
        assert!(reply.starts_with("[+OK, [set, "), "{}", &reply[..99]);
        let large = "would take more than the 1048576 bytes";
        assert!(reply.matches(large).count() > 100, "{}", reply.len());
        assert_eq!(client.ask("GET k"), "v", "what it did to keys stays");
    });
    let (clock, step_ns) = HookedClock::stepping();
    let builder = configured(&[("script-time-limit", &["100"])]).clock(clock);
    serve(builder, |node| {
        let mut client = wire(node);
        client.ask("MULTI");
        for _ in 0..200 {
            assert_eq!(client.ask("COMMAND COUNT"), "+QUEUED");
        }
        step_ns.store(1_000_000, Ordering::Relaxed);
        let reply = client.ask("EXEC");
        step_ns.store(0, Ordering::Relaxed);
        assert!(reply.starts_with("[:"), "{reply}");
        let late = reply.matches("took longer than script-time-limit (100 ms)");
        assert!((50..150).contains(&late.count()), "{reply}");
    });
}

/// WAITAOF waits for nothing within a transaction, and is true: what the transaction writes is not on disk yet.
#[test]
fn waitaof_within_a_transaction_does_not_vouch_for_the_transaction() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        let (mut client, _) = gated.wires();
        client.ask("MULTI");
        client.ask("WAITAOF 1 0 0");
        client.ask("SET a 1 PX 30000");
        gated.gate.set_closed(true);
        client.send(b"EXEC\r\n");
        gated.gate.await_thread("quorlock-");
        assert!(client.is_silent(), "the sync has not ended");
        gated.gate.set_closed(false);
        assert_eq!(client.reply(), "[[:0, :0], +OK]");
        assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1, :0]");
    });
}

/// What a client has sent and what it queues, as Redis shows it.
#[test]
fn client_list_shows_what_is_read_and_what_is_queued() {
    with_node(&[("workers", &["1"])], |node, _| {
        let (mut client, mut other) = (wire(node), wire(node));
        assert_eq!(other.ask("PING"), "+PONG");
        let list = client.ask("CLIENT LIST");
        // `*2`, `$6`, `CLIENT`, `$4`, `LIST` with their line ends.
        assert!(list.contains(" qbuf=26 qbuf-free="), "{list}");
        assert!(list.contains(" qbuf=0 "), "another sends nothing: {list}");
        client.send(b"*2\r\n$3\r\nGE");
        other.ask("PING");
        let list = other.ask("CLIENT LIST");
        assert!(list.contains(" qbuf=10 "), "{list}");
        client.send(b"T\r\n$1\r\nk\r\n");
        assert_eq!(client.reply(), "nil");
        assert!(other.ask("CLIENT LIST").contains(" qbuf=0 "));
        client.ask("MULTI");
        for (request, multi, command) in [
            ("GET k", " multi=1 ", " cmd=get "),
            ("CLIENT SETNAME x", " multi=2 ", " cmd=client|setname "),
            ("SCRIPT EXISTS a", " multi=3 ", " cmd=script|exists "),
            // A refusal forgets what was queued, and the count stays.
            ("SET k", " multi=3 ", " cmd=set "),
            ("GET k", " multi=3 ", " cmd=get "),
        ] {
            client.ask(request);
            let list = other.ask("CLIENT LIST");
            for part in [multi, command] {
                assert!(list.contains(part), "{part}: {list}");
            }
        }
        client.ask("EXEC");
        assert!(other.ask("CLIENT LIST").contains(" cmd=exec "));
    });
}
