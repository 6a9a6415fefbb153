//! Keyspace notifications: of whom, by whom, in which order, and not before what they tell of is durable.

use std::time::Duration;

use quorlock_testkit::Wire;

use crate::machine::gate::GatedNode;
use crate::machine::{run, wire, with_node};

fn listener(node: &quorlock_server::Node) -> Wire {
    let mut listener = wire(node);
    let subscribed = listener.ask("PSUBSCRIBE __key*");
    assert_eq!(subscribed, "[psubscribe, __key*, :1]");
    listener
}

/// The events until now, as `database event key`.
fn events(listener: &mut Wire, client: &mut Wire) -> Vec<String> {
    client.ask("PUBLISH __key:fence x");
    let mut found = Vec::new();
    loop {
        let message = listener.reply();
        let parts: Vec<&str> = message.trim_matches(['[', ']']).split(", ").collect();
        match parts[..] {
            [_, _, "__key:fence", _] => return found,
            [_, _, channel, key] => {
                let (database, event) = channel.split_once("__:").unwrap();
                let database = database.strip_prefix("__keyevent@").unwrap();
                found.push(format!("{database} {event} {key}"));
            }
            _ => panic!("{message}"),
        }
    }
}

#[test]
fn what_changes_is_told_on_both_channels_and_only_what_was_asked_for() {
    with_node(&[("notify-keyspace-events", &["KEg$"])], |node, _| {
        let (mut client, mut listener) = (wire(node), listener(node));
        client.ask("SET a 1");
        assert_eq!(
            listener.reply(),
            "[pmessage, __key*, __keyspace@0__:a, set]"
        );
        assert_eq!(
            listener.reply(),
            "[pmessage, __key*, __keyevent@0__:set, a]"
        );
        client.ask("HSET h f 1");
        client.ask("CONFIG SET notify-keyspace-events Eh");
        assert_eq!(
            client.ask("CONFIG GET notify-keyspace-events"),
            "[notify-keyspace-events, hE]"
        );
        client.ask("SET a 1");
        client.ask("SELECT 3");
        client.ask("HSET h f 1 g 2");
        client.ask("HDEL h f g");
        let expected = ["3 hset h", "3 hdel h"];
        assert_eq!(events(&mut listener, &mut client), expected);
        let wrong = client.ask("CONFIG SET notify-keyspace-events KEB");
        assert!(wrong.contains("Invalid event class character."), "{wrong}");
        assert_eq!(
            client.ask_words(&["CONFIG", "SET", "notify-keyspace-events", ""]),
            "+OK"
        );
        client.ask("HSET h f 1");
        assert_eq!(events(&mut listener, &mut client), [""; 0]);
    });
}

#[test]
fn scripts_and_transactions_tell_what_they_leave() {
    with_node(&[("notify-keyspace-events", &["AEnm"])], |node, _| {
        let (mut client, mut listener) = (wire(node), listener(node));
        client.ask("MULTI");
        for command in [
            "SET a 1 EX 100",
            "GET no",
            "RENAME a b",
            "COPY b c DB 2",
            "DEL b",
        ] {
            client.ask(command);
        }
        client.ask("EXEC");
        let script = "redis.call('INCRBY', 'n', 2) redis.call('PERSIST', 'n') return redis.call('GETDEL', 'n')";
        client.ask_words(&["EVAL", script, "0"]);
        let told = events(&mut listener, &mut client);
        let expected = [
            "0 new a",
            "0 set a",
            "0 expire a",
            "0 keymiss no",
            "0 new b",
            "0 rename_from a",
            "0 rename_to b",
            "2 new c",
            "2 copy_to c",
            "0 del b",
            "0 new n",
            "0 incrby n",
            "0 del n",
        ];
        assert_eq!(told, expected);
        // What is taken back was never told.
        let endless = "redis.call('SET', 'undone', '1') while true do end";
        client.ask_words(&["EVAL", endless, "0"]);
        assert_eq!(events(&mut listener, &mut client), [""; 0]);
    });
}

/// Once, whether somebody has looked for the key meanwhile or not.
#[test]
fn a_key_whose_time_has_come_is_told_of_once() {
    with_node(&[("notify-keyspace-events", &["Ex"])], |node, clock| {
        let (mut client, mut listener) = (wire(node), listener(node));
        for round in 0..50 {
            client.ask("SET a 1 PX 100");
            client.ask("SET b 1 PX 100");
            // The wheel is at most a millisecond late, and whoever looks meanwhile is not.
            clock.advance(Duration::from_micros(100_000 + 20 * round));
            assert_eq!(client.ask("GET a"), "nil");
            client.ask("SET a 2 PX 100");
            clock.advance(Duration::from_millis(200));
            let mut told = [(); 3].map(|()| listener.reply());
            told.sort_unstable();
            let expected = |key: &str| format!("[pmessage, __key*, __keyevent@0__:expired, {key}]");
            assert_eq!(told, ["a", "a", "b"].map(expected), "round {round}");
            assert_eq!(events(&mut listener, &mut client), [""; 0]);
        }
    });
}

#[test]
fn an_event_waits_for_the_change_it_tells_of() {
    run(async {
        let directives = [("appendfsync", "always"), ("notify-keyspace-events", "Eg")];
        let gated = GatedNode::start(&directives).await;
        let (mut client, mut listener) = gated.wires();
        assert_eq!(client.ask("SET a token PX 30000"), "+OK");
        listener.ask("SUBSCRIBE __keyevent@0__:del");
        gated.gate.set_closed(true);
        client.send(b"DEL a\r\n");
        gated.gate.await_thread("quorlock-");
        assert!(listener.is_silent(), "the release is not on disk");
        gated.gate.set_closed(false);
        assert_eq!(listener.reply(), "[message, __keyevent@0__:del, a]");
        assert_eq!(client.reply(), ":1");
    });
}

/// As redis-server 7.0.15. Planted: all keys of ZINTERSTORE and its kin are looked for before any of their types.
#[test]
fn what_comes_behind_a_key_of_another_type_is_not_told_of_as_missing() {
    with_node(&[("notify-keyspace-events", &["Em"])], |node, _| {
        let (mut client, mut listener) = (wire(node), listener(node));
        client.ask("SET text 1");
        for command in [
            "ZINTERSTORE to 3 a text b",
            "ZUNION 3 a text b",
            "ZDIFFSTORE to 3 a text b",
            "ZINTERCARD 3 a text b",
            "SINTERSTORE to a text b",
            "SUNION a text b",
        ] {
            let reply = client.ask(command);
            assert!(reply.starts_with("-WRONGTYPE"), "{command}: {reply}");
            let told = events(&mut listener, &mut client);
            assert_eq!(told, ["0 keymiss a"], "{command}");
        }
        // The types come before the options, and the number of keys before both.
        client.ask("ZINTERSTORE to 2 a b WEIGHTS 1");
        client.ask("ZINTERSTORE to 3 a b");
        let expected = ["0 keymiss a", "0 keymiss b"];
        assert_eq!(events(&mut listener, &mut client), expected);
    });
}
