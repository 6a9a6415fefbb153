//! CLIENT: what one connection says of others and does to them, whichever workers serve them.

use std::time::Duration;

use quorlock_engine::control::kind;
use quorlock_testkit::{Wire, eventually};

use crate::machine::gate::GatedNode;
use crate::machine::{run, wire, with_node};

fn id(client: &mut Wire) -> String {
    client.ask("CLIENT ID").trim_start_matches(':').to_owned()
}

/// One field of what CLIENT INFO says.
fn field(client: &mut Wire, name: &str) -> String {
    let line = client.ask("CLIENT INFO");
    let prefix = format!("{name}=");
    let found = line
        .split([' ', '\n'])
        .find_map(|word| word.strip_prefix(&prefix));
    found
        .unwrap_or_else(|| panic!("{name} in {line}"))
        .to_owned()
}

#[test]
fn those_who_match_are_closed_whichever_worker_serves_them() {
    with_node(&[("workers", &["3"])], |node, clock| {
        let mut old = wire(node);
        old.ask("PING");
        clock.advance(Duration::from_secs(10));
        let mut clients: Vec<Wire> = (0..6).map(|_| wire(node)).collect();
        let mut killer = wire(node);
        let ids: Vec<String> = clients.iter_mut().map(id).collect();
        let address = field(&mut clients[0], "addr");
        let reply = killer.ask(&format!("CLIENT KILL {address}"));
        assert_eq!(
            (reply.as_str(), clients[0].reply().as_str()),
            ("+OK", "<closed>")
        );
        assert_eq!(
            killer.ask(&format!("CLIENT KILL {address}")),
            "-ERR No such client"
        );
        let kill = format!("CLIENT KILL ID {} ADDR {address}", ids[1]);
        assert_eq!(killer.ask(&kill), ":0", "all that is said must be so");
        assert_eq!(killer.ask(&format!("CLIENT KILL ID {}", ids[1])), ":1");
        assert_eq!(clients[1].reply(), "<closed>");
        assert_eq!(killer.ask("CLIENT KILL MAXAGE 11 SKIPME no"), ":0");
        assert_eq!(killer.ask("CLIENT KILL MAXAGE 10 SKIPME no"), ":1");
        assert_eq!(old.reply(), "<closed>");
        // A blocked one, one in a transaction with watched keys, and one that listens go as well.
        clients[2].ask("WATCH a");
        clients[2].ask("MULTI");
        clients[3].ask("SUBSCRIBE channel");
        assert_eq!(killer.ask("CLIENT KILL TYPE replica USER default"), ":0");
        assert_eq!(killer.ask("CLIENT KILL TYPE pubsub"), ":1");
        assert_eq!(clients[3].reply(), "<closed>");
        eventually("its subscription went with it", || {
            killer.ask("PUBSUB CHANNELS") == "[]"
        });
        let local = field(&mut killer, "laddr");
        assert_eq!(killer.ask(&format!("CLIENT KILL LADDR {local}")), ":3");
        for client in [2, 4, 5] {
            assert_eq!(clients[client].reply(), "<closed>");
        }
        eventually("nobody else is left", || {
            killer.ask("CLIENT LIST").lines().count() == 1
        });
        killer.send(b"CLIENT KILL TYPE normal SKIPME no\r\nPING\r\n");
        assert_eq!(killer.reply(), ":1", "the reply comes first");
        assert_eq!(killer.reply(), "<closed>");
    });
}

/// What a killed client has executed stays, and is written though nobody waits for it.
#[test]
fn a_client_whose_reply_waits_for_the_log_may_be_killed() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        let (mut client, mut other) = gated.wires();
        assert_eq!(client.ask("SET a 1 PX 30000"), "+OK");
        let id = id(&mut client);
        gated.hold(&mut client, "SET a 2 PX 30000", "quorlock-");
        gated.machine.advance_ms(20);
        gated.gate.set_closed(false);
        client.reply();
        gated.hold(&mut client, "SET a 3 PX 30000", "quorlock-log");
        assert_eq!(other.ask(&format!("CLIENT KILL ID {id}")), ":1");
        assert_eq!(client.reply(), "<closed>");
        gated.gate.set_closed(false);
        assert_eq!(other.ask("GET a"), "3");
    });
}

/// However it is named, and within a transaction.
#[test]
fn a_script_that_declares_to_write_nothing_does_not_wait_while_writes_do() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        client.ask("SET a 1 PX 600000");
        assert_eq!(client.ask("CLIENT PAUSE 1000 WRITE"), "+OK");
        for head in ["#!lua flags=no-writes", "#!lua flags='no-writes'"] {
            let script = format!("{head}\nreturn redis.call('GET', KEYS[1])");
            let words = ["EVAL", &script, "1", "a"];
            assert_eq!(client.ask_words(&words), "1", "{head}");
            let sha = client.ask_words(&["SCRIPT", "LOAD", &script]);
            let by_sha = format!("EVALSHA {sha} 1 a");
            assert_eq!(client.ask(&by_sha), "1", "{head}");
            client.ask("MULTI");
            assert_eq!(client.ask_words(&words), "+QUEUED");
            assert_eq!(client.ask(&by_sha), "+QUEUED");
            assert_eq!(client.ask("EXEC"), "[1, 1]", "{head}");
        }
        assert_eq!(client.ask("CLIENT UNPAUSE"), "+OK");
    });
}

#[test]
fn a_pause_holds_up_writes_or_all_until_its_end_or_unpause() {
    with_node(&[("workers", &["1"])], |node, clock| {
        let (mut paused, mut other) = (wire(node), wire(node));
        paused.ask("SET a 1 PX 600000");
        paused.ask("SET soon 1 PX 500");
        assert_eq!(other.ask("CLIENT PAUSE 1000 WRITE"), "+OK");
        // Reading goes on, also in a transaction; what is refused is refused at once.
        assert_eq!(paused.ask("GET a"), "1");
        paused.ask("MULTI");
        paused.ask("GET a");
        assert_eq!(paused.ask("EXEC"), "[1]");
        assert_eq!(paused.ask("EVAL_RO return(1) 0"), ":1");
        assert!(paused.ask("SET a").starts_with("-ERR wrong number"));
        paused.send(b"PING\r\nDEL a\r\nGET a\r\n");
        assert_eq!(paused.reply(), "+PONG", "what came before is answered");
        other.await_info("blocked_clients", "1");
        let list = other.ask("CLIENT LIST");
        assert!(list.contains(" flags=b "), "{list}");
        let unblock = format!("CLIENT UNBLOCK {}", id_in(&list, " flags=b "));
        assert_eq!(
            other.ask(&unblock),
            ":0",
            "it is not blocked by its request"
        );
        assert_eq!(other.ask("GET a"), "1");
        let mut gone = wire(node);
        gone.send(b"DEL a\r\n");
        other.await_info("blocked_clients", "2");
        gone.reset();
        other.await_info("blocked_clients", "1");
        clock.advance(Duration::from_millis(999));
        assert_eq!(other.ask("GET soon"), "nil", "deadlines go on");
        assert!(paused.is_silent());
        clock.advance(Duration::from_millis(1));
        assert_eq!(other.ask("PING"), "+PONG");
        assert_eq!(
            (paused.reply(), paused.reply()),
            (":1".into(), "nil".into())
        );
        assert_eq!(other.info("blocked_clients"), "0");
        for held in [
            "EVAL return(1) 0",
            "PUBLISH a b",
            "SPUBLISH a b",
            "INCR b",
            "MULTI|INCR b",
        ] {
            assert_eq!(other.ask("CLIENT PAUSE 1000 WRITE"), "+OK");
            let requests: Vec<&str> = held.split('|').collect();
            for request in &requests[..requests.len() - 1] {
                paused.ask(request);
            }
            paused.send(format!("{}\r\n", requests[requests.len() - 1]).as_bytes());
            other.await_info("blocked_clients", "1");
            assert!(paused.is_silent(), "{held}");
            assert_eq!(other.ask("CLIENT UNPAUSE"), "+OK");
            let reply = paused.reply();
            assert!(
                reply.starts_with(':') || reply == "+QUEUED",
                "{held}: {reply}"
            );
        }
        // EXEC itself waits for what it would execute.
        other.ask("CLIENT PAUSE 1000 WRITE");
        paused.send(b"EXEC\r\n");
        other.await_info("blocked_clients", "1");
        other.ask("CLIENT UNPAUSE");
        assert_eq!(paused.reply(), "[:2]");
    });
}

#[test]
fn debug_sleep_lets_all_clients_wait_where_it_is_allowed() {
    with_node(&[], |node, _| {
        let refused = wire(node).ask("DEBUG SLEEP 1");
        assert!(
            refused.starts_with("-ERR DEBUG command not allowed"),
            "{refused}"
        );
    });
    with_node(&[("enable-debug-command", &["local"])], |node, clock| {
        let mut sleeper = wire(node);
        for wrong in [
            "SLEEP",
            "SLEEP x",
            "SLEEP -1",
            "SLEEP nan",
            "SLEEP 3601",
            "OBJECT a",
        ] {
            let reply = sleeper.ask(&format!("DEBUG {wrong}"));
            assert!(reply.starts_with("-ERR"), "{wrong}: {reply}");
        }
        assert!(sleeper.ask("DEBUG HELP").contains("SLEEP <seconds>"));
        sleeper.send(b"DEBUG SLEEP 2.5\r\nECHO after\r\n");
        // One that comes before the sleep is answered.
        let mut held = loop {
            let mut client = wire(node);
            client.send(b"PING\r\n");
            if !client.answers_within(Duration::from_millis(300)) {
                break client;
            }
        };
        clock.advance(Duration::from_millis(2499));
        assert!(sleeper.is_silent() && held.is_silent());
        clock.advance(Duration::from_millis(1));
        assert_eq!(held.reply(), "+PONG");
        assert_eq!(
            (sleeper.reply(), sleeper.reply()),
            ("+OK".into(), "after".into())
        );
    });
}

#[test]
fn a_pause_of_everything_ends_on_all_workers_at_once_and_can_be_ended_by_anybody() {
    with_node(&[("workers", &["3"])], |node, _| {
        let mut clients: Vec<Wire> = (0..6).map(|_| wire(node)).collect();
        for client in &mut clients {
            client.ask("PING");
        }
        let mut other = wire(node);
        assert_eq!(other.ask("CLIENT PAUSE 99999999999 WRITE"), "+OK");
        for client in &mut clients {
            client.send(b"DEL a\r\nPING\r\n");
        }
        other.await_info("blocked_clients", "6");
        // The stricter kind counts, and the later end.
        assert_eq!(other.ask("CLIENT PAUSE 1 ALL"), "+OK");
        other.send(b"PING\r\n");
        let mut third = wire(node);
        assert_eq!(third.ask("CLIENT UNPAUSE"), "+OK");
        for client in &mut clients {
            assert_eq!(
                (client.reply(), client.reply()),
                (":0".into(), "+PONG".into())
            );
        }
        assert_eq!(other.reply(), "+PONG");
    });
}

#[test]
fn replies_are_left_out_as_the_client_wants_and_what_it_did_is_written() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "everysec")]).await;
        let (mut client, mut other) = gated.wires();
        client.send(b"CLIENT REPLY SKIP\r\nSET a 1 PX 30000\r\nGET a\r\n");
        assert_eq!(client.reply(), "1");
        client.send(b"CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nECHO 1\r\nECHO 2\r\n");
        assert_eq!(client.reply(), "2");
        // As in Redis RESET wants all replies again; its own is skipped where that was said before it.
        client.send(b"CLIENT REPLY SKIP\r\nRESET\r\nCLIENT REPLY OFF\r\nRESET\r\nECHO 3\r\n");
        assert_eq!(
            (client.reply(), client.reply()),
            ("+RESET".into(), "3".into())
        );
        client.send(b"CLIENT REPLY OFF\r\nPING\r\nNONE\r\nCLIENT REPLY SKIP\r\nINCR b\r\n");
        eventually("it was executed", || other.ask("GET b") == "1");
        client.send(b"SUBSCRIBE channel\r\n");
        assert_eq!(
            client.reply(),
            "[subscribe, channel, :1]",
            "this is no reply"
        );
        assert_eq!(other.ask("PUBLISH channel text"), ":1");
        assert_eq!(client.reply(), "[message, channel, text]");
        client.send(b"PING\r\nUNSUBSCRIBE\r\nCLIENT REPLY ON\r\nPING\r\n");
        assert_eq!(client.reply(), "[unsubscribe, channel, :0]");
        assert_eq!(
            (client.reply(), client.reply()),
            ("+OK".into(), "+PONG".into())
        );
        // What nobody waits for is written with the iteration, not with the next that somebody waits for.
        let frames = gated.machine.frames_of(kind::GROUP);
        client.send(b"CLIENT REPLY OFF\r\nSET c 1 PX 30000\r\n");
        eventually("it is in the log", || {
            gated.machine.frames_of(kind::GROUP) == frames + 1
        });
        // Bytes that are no request end the connection without a word.
        client.send(b"*x\r\n");
        assert_eq!(client.reply(), "<closed>");
    });
}

#[test]
fn somebody_else_may_end_a_wait_once() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "everysec")]).await;
        let (mut client, mut other) = gated.wires();
        assert_eq!(client.ask("SET a token PX 30000"), "+OK");
        assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1, :0]");
        let id = id(&mut client);
        assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), ":0");
        assert_eq!(other.ask("CLIENT UNBLOCK -1"), ":0");
        gated.gate.set_closed(true);
        for (how, reply) in [
            ("", "[:0, :0]"),
            (" TIMEOUT", "[:0, :0]"),
            (" error", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        ] {
            client.send(b"SET b token PX 30000\r\nWAITAOF 1 0 10000\r\nPING\r\n");
            assert_eq!(client.reply(), "+OK");
            other.await_info("blocked_clients", "1");
            assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}{how}")), ":1");
            assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), ":0", "once");
            assert_eq!(
                (client.reply().as_str(), client.reply().as_str()),
                (reply, "+PONG")
            );
            assert_eq!(other.info("blocked_clients"), "0");
        }
        // The time of the waits that were ended does not end the next one.
        client.send(b"WAITAOF 1 0 20000\r\n");
        other.await_info("blocked_clients", "1");
        gated.machine.advance_ms(10_000);
        assert_eq!(other.info("blocked_clients"), "1");
        gated.gate.set_closed(false);
        assert_eq!(client.reply(), "[:1, :0]");
    });
}

#[test]
fn a_list_shows_those_whose_wait_has_ended_and_whose_next_request_is_to_come() {
    with_node(&[], |node, _| {
        let (mut waiting, mut other) = (wire(node), wire(node));
        let id = id(&mut waiting);
        for ends in ["LPUSH list a".to_owned(), format!("CLIENT UNBLOCK {id}")] {
            waiting.send(b"BLPOP list 0\r\n");
            other.await_info("blocked_clients", "1");
            let list = format!("CLIENT LIST ID {id}");
            assert!(other.ask(&list).contains(" flags=b "), "{ends}");
            other.send(format!("{ends}\r\n{list}\r\n").as_bytes());
            assert_eq!(other.reply(), ":1");
            let shown = other.reply();
            assert!(shown.contains(" flags=u "), "{ends}: {shown}");
            waiting.reply();
            assert!(other.ask(&list).contains(" flags=N "), "{ends}");
        }
    });
}

#[test]
fn the_exec_of_a_refused_transaction_waits_for_the_end_of_a_pause_where_it_would_have_written() {
    with_node(&[], |node, _| {
        let (mut client, mut other) = (wire(node), wire(node));
        client.ask("MULTI");
        client.ask("SET k 1");
        client.ask("NOSUCH");
        other.ask("CLIENT PAUSE 100000 WRITE");
        client.send(b"EXEC\r\n");
        other.await_info("blocked_clients", "1");
        other.ask("CLIENT UNPAUSE");
        assert!(client.reply().starts_with("-EXECABORT"));
    });
}

#[test]
fn a_list_shows_what_is_asked_for_in_the_order_in_which_it_is() {
    with_node(&[], |node, _| {
        let (mut one, mut two) = (wire(node), wire(node));
        let (first, second) = (id(&mut one), id(&mut two));
        two.ask("CLIENT NO-TOUCH on");
        two.ask("CLIENT NO-EVICT on");
        two.ask("MULTI");
        let list = one.ask(&format!("CLIENT LIST ID {second} 99 {first} {second}"));
        let ids: Vec<&str> = list
            .lines()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        let expected = [&second, &first].map(|id| format!("id={id}"));
        assert_eq!(ids, expected);
        assert!(list.contains(" flags=xeT "), "{list}");
        assert_eq!(two.ask("RESET"), "+RESET");
        let list = one.ask("CLIENT LIST TYPE normal");
        assert!(
            !list.contains(" flags=xeT ") && list.lines().count() == 2,
            "{list}"
        );
        assert_eq!(one.ask("CLIENT LIST TYPE pubsub"), "");
        one.ask("HELLO 3");
        assert!(one.ask("CLIENT LIST").starts_with("txt:id="), "verbatim");
    });
}

/// The id in the line of a list that holds this.
fn id_in(list: &str, part: &str) -> String {
    let line = list.lines().find(|line| line.contains(part)).unwrap();
    let word = line.split(' ').next().unwrap();
    word.trim_start_matches("id=").to_owned()
}
