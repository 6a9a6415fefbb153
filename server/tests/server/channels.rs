//! Publishing and subscribing: order, durability, who has gone, who does not read.

use quorlock_testkit::eventually;

use crate::machine::gate::GatedNode;
use crate::machine::{run, wire, with_node};

#[test]
fn messages_arrive_in_order_at_all_who_listen_whoever_publishes() {
    with_node(&[("workers", &["3"])], |node, _| {
        let mut publisher = wire(node);
        let mut listeners: Vec<_> = (0..9).map(|_| wire(node)).collect();
        for (number, listener) in listeners.iter_mut().enumerate() {
            if number % 2 == 0 {
                listener.ask("HELLO 3");
            }
            assert_eq!(listener.ask("SUBSCRIBE lock"), "[subscribe, lock, :1]");
            assert_eq!(listener.ask("PSUBSCRIBE l?ck"), "[psubscribe, l?ck, :2]");
        }
        let script = "for i = 1, 3 do redis.call('PUBLISH', KEYS[1], ARGV[1] .. i) end return 1";
        for round in 0..50 {
            assert_eq!(publisher.ask(&format!("PUBLISH lock {round}a")), ":18");
            let words = ["EVAL", script, "1", "lock", &format!("{round}b")];
            assert_eq!(publisher.ask_words(&words), ":1");
            publisher.ask("MULTI");
            publisher.ask(&format!("PUBLISH lock {round}c"));
            assert_eq!(publisher.ask("EXEC"), "[:18]");
        }
        for listener in &mut listeners {
            for round in 0..50 {
                for part in ["a", "b1", "b2", "b3", "c"] {
                    let plain = format!("[message, lock, {round}{part}]");
                    assert_eq!(listener.reply(), plain);
                    let matched = format!("[pmessage, l?ck, lock, {round}{part}]");
                    assert_eq!(listener.reply(), matched);
                }
            }
        }
        assert_eq!(publisher.ask("PUBSUB NUMSUB lock"), "[lock, :9]");
        let half = listeners.len() / 2;
        for listener in listeners.drain(..half) {
            listener.reset();
        }
        eventually("who has gone is forgotten", || {
            publisher.ask("PUBSUB NUMSUB lock") == "[lock, :5]"
        });
        drop(listeners);
        eventually("nothing is left", || {
            publisher.ask("PUBSUB CHANNELS") == "[]" && publisher.ask("PUBSUB NUMPAT") == ":0"
        });
        assert_eq!(publisher.ask("PUBLISH lock x"), ":0");
    });
}

/// A message that a command has no time for is never dropped in silence, and no pattern is longer than those of KEYS.
#[test]
fn who_is_missed_by_a_message_is_disconnected_and_others_stay() {
    with_node(&[("notify-keyspace-events", &["KA"])], |node, _| {
        let (mut costly, mut modest, mut publisher) = (wire(node), wire(node), wire(node));
        let patterns: Vec<String> = (0..1000)
            .map(|number| format!("*{}{number}", "a".repeat(600)))
            .collect();
        for part in patterns.chunks(100) {
            let words: Vec<&str> = ["PSUBSCRIBE"]
                .into_iter()
                .chain(part.iter().map(String::as_str))
                .collect();
            costly.ask_words(&words);
            for _ in 1..part.len() {
                costly.reply();
            }
        }
        assert_eq!(modest.ask("PSUBSCRIBE *aaa*"), "[psubscribe, *aaa*, :1]");
        let key = "a".repeat(4000);
        assert_eq!(publisher.ask(&format!("SET {key} x")), "+OK");
        let event = format!("[pmessage, *aaa*, __keyspace@0__:{key}, set]");
        assert_eq!(modest.reply(), event);
        assert_eq!(costly.reply(), "<closed>");
        assert_eq!(publisher.ask("PUBSUB NUMPAT"), ":1");
        assert_eq!(publisher.ask(&format!("PUBLISH {key} x")), ":1");
        assert_eq!(modest.reply(), format!("[pmessage, *aaa*, {key}, x]"));

        let long = "*".repeat(1025);
        let refused = "-ERR the pattern is longer than 1024 bytes";
        for request in [
            "PSUBSCRIBE a",
            "PUBSUB CHANNELS",
            "PUBSUB SHARDCHANNELS",
            "KEYS",
        ] {
            assert_eq!(publisher.ask(&format!("{request} {long}")), refused);
        }
        assert_eq!(publisher.ask("PUBSUB NUMPAT"), ":1");
        assert_eq!(
            publisher.ask(&format!("KEYS {}", "*".repeat(1024))),
            format!("[{key}]")
        );
        let many = format!("CONFIG GET {}", "port ".repeat(257));
        let reply = publisher.ask(many.trim());
        assert!(
            reply.starts_with("-ERR CONFIG GET takes at most 256"),
            "{reply}"
        );
    });
}

/// A wake-up tells that a lock was released: before that is durable it could come true that it was not.
#[test]
fn a_message_waits_for_what_its_publisher_has_written() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        let (mut publisher, mut listener) = gated.wires();
        assert_eq!(publisher.ask("SET a token PX 30000"), "+OK");
        assert_eq!(listener.ask("SUBSCRIBE free"), "[subscribe, free, :1]");
        gated.hold(&mut publisher, "DEL a\r\nPUBLISH free a", "quorlock-");
        assert!(listener.is_silent(), "the release is not on disk");
        gated.gate.set_closed(false);
        assert_eq!(listener.reply(), "[message, free, a]");
        assert_eq!(publisher.reply(), ":1");
        assert_eq!(publisher.reply(), ":1");
    });
}

#[test]
fn who_listens_and_does_not_read_is_closed_and_keeps_nobody_waiting() {
    let limits = ["normal", "0", "0", "0", "pubsub", "4mb", "0", "0"];
    with_node(&[("client-output-buffer-limit", &limits)], |node, _| {
        let (mut publisher, mut silent, mut reader) = (wire(node), wire(node), wire(node));
        silent.ask("SUBSCRIBE a");
        reader.ask("SUBSCRIBE a");
        let message = "m".repeat(100_000);
        let mut rounds = 0;
        while publisher.ask(&format!("PUBLISH a {message}")) == ":2" {
            assert_eq!(reader.reply().len(), "[message, a, ]".len() + message.len());
            rounds += 1;
            assert!(rounds < 1_000, "it is never closed");
        }
        assert!(rounds > 40, "{rounds} messages are less than the limit");
        assert_eq!(
            publisher.info("client_output_buffer_limit_disconnections"),
            "1"
        );
        assert_eq!(publisher.ask("PUBSUB NUMSUB a"), "[a, :1]");
    });
}

#[test]
fn who_monitors_and_does_not_read_is_closed_and_keeps_nobody_waiting() {
    let limits = ["normal", "4mb", "0", "0", "pubsub", "4mb", "0", "0"];
    with_node(&[("client-output-buffer-limit", &limits)], |node, _| {
        let (mut client, mut silent, mut reader) = (wire(node), wire(node), wire(node));
        assert_eq!(silent.ask("MONITOR"), "+OK");
        assert_eq!(reader.ask("MONITOR"), "+OK");
        let name = "n".repeat(60_000);
        let mut rounds = 0;
        while client.info("client_output_buffer_limit_disconnections") == "0" {
            assert_eq!(client.ask(&format!("EXISTS {name}")), ":0");
            let mut line = reader.reply();
            while !line.contains("\"EXISTS\"") {
                line = reader.reply();
            }
            assert!(line.contains(&name), "{line}");
            rounds += 1;
            assert!(rounds < 1_000, "it is never closed");
        }
        assert!(rounds > 60, "{rounds} lines are less than the limit");
        let clients = client.ask("CLIENT LIST");
        assert_eq!(clients.matches(" flags=O ").count(), 1, "{clients}");
        assert_eq!(client.ask("SET a token NX PX 60000"), "+OK");
    });
}

/// A script that is undone has published nothing.
#[test]
fn what_is_taken_back_was_never_published() {
    with_node(&[("appendfsync", &["everysec"])], |node, _| {
        let (mut publisher, mut listener) = (wire(node), wire(node));
        listener.ask("SUBSCRIBE a");
        let endless = "redis.call('PUBLISH', 'a', 'undone') while true do end";
        let reply = publisher.ask_words(&["EVAL", endless, "0"]);
        assert!(reply.starts_with("-ERR "), "{reply}");
        let value = "v".repeat(3 << 20);
        publisher.ask("MULTI");
        publisher.ask("PUBLISH a undone");
        for key in ["one", "two", "three"] {
            publisher.ask(&format!("SET {key} {value} PX 60000"));
        }
        assert!(publisher.ask("EXEC").starts_with("-EXECABORT "));
        let flood = "for i = 1, 100 do redis.pcall('PUBLISH', 'a', ARGV[1]) end return 1";
        assert_eq!(
            publisher.ask_words(&["EVAL", flood, "0", &"f".repeat(1 << 20)]),
            ":1"
        );
        assert_eq!(publisher.ask("PUBLISH a last"), ":1");
        let mut floods = 0;
        loop {
            let message = listener.reply();
            assert!(!message.contains("undone"));
            if message == "[message, a, last]" {
                break;
            }
            floods += 1;
        }
        assert!((1..=8).contains(&floods), "{floods} MiB of one script");
    });
}

#[test]
fn who_listens_is_not_idle_and_is_shown() {
    with_node(&[("timeout", &["5"])], |node, clock| {
        let (mut client, mut listener) = (wire(node), wire(node));
        listener.ask("SUBSCRIBE a b");
        assert_eq!(listener.reply(), "[subscribe, b, :2]");
        listener.ask("PSUBSCRIBE p*");
        let list = client.ask("CLIENT LIST TYPE pubsub");
        assert!(
            list.contains(" flags=P ") && list.contains(" sub=2 psub=1 ssub=0 "),
            "{list}"
        );
        assert!(!client.ask("CLIENT LIST TYPE normal").contains("flags=P"));
        assert_eq!(client.info("pubsub_channels"), "2");
        assert_eq!(client.info("pubsub_patterns"), "1");
        for _ in 0..4 {
            clock.advance(std::time::Duration::from_secs(3));
            assert_eq!(client.ask("PING"), "+PONG");
        }
        assert_eq!(client.ask("PUBLISH a x"), ":1");
        assert_eq!(listener.reply(), "[message, a, x]");
        assert_eq!(listener.ask("RESET"), "+RESET");
        assert_eq!(client.ask("PUBLISH a x"), ":0");
    });
}

/// RESET ended the subscriptions with a lock of its own, while the requests before it held the engine.
#[test]
fn a_pipeline_that_listens_and_resets_is_answered() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        client.send(b"SUBSCRIBE a\r\nRESET\r\nPING\r\n");
        for expected in ["[subscribe, a, :1]", "+RESET", "+PONG"] {
            assert_eq!(client.reply(), expected);
        }
        client.send(b"HELLO 3\r\nSUBSCRIBE a\r\nSET k 1\r\nRESET\r\nQUIT\r\n");
        assert!(client.reply().contains("proto"));
        for expected in ["[subscribe, a, :1]", "+OK", "+RESET", "+OK", "<closed>"] {
            assert_eq!(client.reply(), expected);
        }
        assert_eq!(wire(node).ask("PUBSUB CHANNELS"), "[]");
    });
}

/// As Redis names what it refuses; what there is not is told as ever.
#[test]
fn who_listens_is_told_the_full_name_of_what_is_refused() {
    with_node(&[], |node, _| {
        let mut listener = wire(node);
        listener.ask("SUBSCRIBE lock");
        for (request, name) in [
            ("get a", "get"),
            ("CLIENT GetName", "client|getname"),
            ("COMMAND", "command"),
            ("object encoding a", "object|encoding"),
        ] {
            let expected = format!("-ERR Can't execute '{name}': only (P|S)SUBSCRIBE");
            let told = listener.ask(request);
            assert!(told.starts_with(&expected), "{told}");
        }
        for request in ["NOSUCH", "CLIENT nosuch"] {
            let told = listener.ask(request);
            assert!(told.starts_with("-ERR unknown"), "{told}");
        }
    });
}
