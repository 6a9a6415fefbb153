//! Client-side caching: nobody keeps what has changed unknowingly, whoever changes it and wherever it is served; and
//! what clients leave behind that go, or do not read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorlock_testkit::{Wire, eventually};

use crate::machine::gate::GatedNode;
use crate::machine::{run, wire, with_node};

fn tracking(node: &quorlock_server::Node, options: &str) -> Wire {
    let mut client = wire(node);
    client.ask("HELLO 3");
    assert_eq!(client.ask(&format!("CLIENT TRACKING ON{options}")), "+OK");
    client
}

/// The promise of it all: between two different values of a key a client is told to forget the first.
#[test]
fn no_reply_shows_another_value_before_the_client_was_told() {
    with_node(&[("workers", &["3"])], |node, _| {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (mut client, is_over) = (wire(node), &is_over);
                scope.spawn(move || {
                    let mut round = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        round += 1;
                        client.ask(&format!("SET a {writer}-{round}"));
                        let script =
                            "redis.call('SET', 'a', ARGV[1]) redis.call('DEL', 'b') return 1";
                        client.ask_words(&["EVAL", script, "0", &format!("{writer}={round}")]);
                        client.ask("INCR b");
                    }
                });
            }
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let mut client = tracking(node, "");
                    scope.spawn(move || {
                        let mut changes = 0;
                        let mut known = [None, None];
                        for _ in 0..300 {
                            client.send(&b"GET a\r\nGET b\r\n".repeat(10));
                            for number in 0..20 {
                                let value = loop {
                                    match client.reply().as_str() {
                                        "[invalidate, [a]]" => known[0] = None,
                                        "[invalidate, [b]]" => known[1] = None,
                                        value => break value.to_owned(),
                                    }
                                };
                                let known = &mut known[number % 2];
                                assert!(
                                    known.as_ref().is_none_or(|known| *known == value),
                                    "{value} was {known:?}"
                                );
                                changes += usize::from(known.is_none());
                                *known = Some(value);
                            }
                        }
                        changes
                    })
                })
                .collect();
            for reader in readers {
                let changes = reader.join();
                is_over.store(true, Ordering::Relaxed);
                let changes = changes.unwrap();
                assert!(changes > 10, "only {changes} changes were seen");
            }
        });
    });
}

/// Who waits for a lock with a cache of it goes by the message: it must not come true that the lock is held after all.
#[test]
fn a_message_waits_for_the_change_it_tells_of() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        let (mut writer, mut client) = gated.wires();
        assert_eq!(writer.ask("SET a token PX 30000"), "+OK");
        client.ask("HELLO 3");
        assert_eq!(client.ask("CLIENT TRACKING ON"), "+OK");
        assert_eq!(client.ask("GET a"), "token");
        gated.gate.set_closed(true);
        writer.send(b"DEL a\r\n");
        gated.gate.await_thread("quorlock-0");
        assert!(client.is_silent(), "the release is not on disk");
        gated.gate.set_closed(false);
        assert_eq!(client.reply(), "[invalidate, [a]]");
        assert_eq!(writer.reply(), ":1");
    });
}

#[test]
fn a_key_whose_time_has_come_is_told_of_without_anybody_asking() {
    with_node(&[("appendfsync", &["everysec"])], |node, clock| {
        let (mut writer, mut client) = (wire(node), tracking(node, ""));
        writer.ask("SET a 1 PX 1000");
        assert_eq!(client.ask("GET a"), "1");
        clock.advance(Duration::from_millis(999));
        assert_eq!(client.ask("GET a"), "1");
        clock.advance(Duration::from_millis(101));
        assert_eq!(client.reply(), "[invalidate, [a]]");
        assert_eq!(client.ask("GET a"), "_");
    });
}

/// What is taken back may be told of, and never hides a later change.
#[test]
fn a_change_after_one_that_was_taken_back_is_told() {
    with_node(&[("appendfsync", &["everysec"])], |node, _| {
        let (mut writer, mut client) = (wire(node), tracking(node, ""));
        assert_eq!(client.ask("GET a"), "_");
        let endless = "redis.call('SET', 'a', 'undone') while true do end";
        let reply = writer.ask_words(&["EVAL", endless, "0"]);
        assert!(reply.starts_with("-ERR "), "{reply}");
        assert_eq!(writer.ask("SET a 1"), "+OK");
        assert_eq!(client.reply(), "[invalidate, [a]]");
        assert_eq!(client.ask("GET a"), "1");
    });
}

#[test]
fn thousands_of_clients_that_vanish_leave_nothing() {
    with_node(&[("workers", &["2"])], |node, _| {
        let mut clients: Vec<Wire> = (0..1500).map(|_| tracking(node, "")).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            for own in 0..4 {
                client.send(format!("EXISTS shared {number}-{own}\r\n").as_bytes());
            }
        }
        for client in &mut clients {
            for _ in 0..4 {
                assert_eq!(client.reply(), ":0");
            }
        }
        let mut other = wire(node);
        assert_eq!(other.info("tracking_clients"), "1500");
        assert_eq!(other.info("tracking_total_keys"), "6001");
        assert_eq!(other.info("tracking_total_items"), "7500");
        for client in clients {
            client.reset();
        }
        for field in ["clients", "total_keys", "total_items"] {
            other.await_info(&format!("tracking_{field}"), "0");
        }
        assert_eq!(other.ask("SET shared 1"), "+OK");
    });
}

/// More keys than one hold of the engine takes out, of a client that goes; also of one that was told of nothing any more.
#[test]
fn one_client_with_very_many_keys_leaves_nothing() {
    with_node(&[("workers", &["2"])], |node, _| {
        let mut other = wire(node);
        for way in ["CLIENT TRACKING OFF", "RESET", "a connection reset"] {
            let mut client = tracking(node, "");
            for round in 0..40 {
                let keys: Vec<String> = (0..500).map(|key| format!("{round}-{key}")).collect();
                assert_eq!(client.ask(&format!("EXISTS {}", keys.join(" "))), ":0");
            }
            assert_eq!(other.info("tracking_total_items"), "20000", "{way}");
            match way {
                "CLIENT TRACKING OFF" => assert_eq!(client.ask(way), "+OK"),
                "RESET" => assert_eq!(client.ask(way), "+RESET"),
                _ => {}
            }
            assert_eq!(other.info("tracking_total_items"), "20000", "{way}");
            client.reset();
            other.await_info("tracking_total_keys", "0");
            other.await_info("tracking_total_items", "0");
        }
    });
}

#[test]
fn who_is_told_and_does_not_read_is_closed_and_keeps_nobody_waiting() {
    let limits = ["normal", "0", "0", "0", "pubsub", "2mb", "0", "0"];
    with_node(&[("client-output-buffer-limit", &limits)], |node, _| {
        let mut silent = tracking(node, "");
        let mut writer = wire(node);
        let key = "k".repeat(50_000);
        for number in 0..600 {
            assert_eq!(silent.ask(&format!("EXISTS {number}{key}")), ":0");
        }
        // From now on it reads nothing; the kernel keeps a part of what it is sent.
        for number in 0..600 {
            assert_eq!(writer.ask(&format!("SET {number}{key} 1")), "+OK");
        }
        writer.await_info("tracking_clients", "0");
        let closed = writer.info("client_output_buffer_limit_disconnections");
        assert_eq!(closed, "1");
        writer.await_info("tracking_total_items", "0");
    });
}

#[test]
fn what_a_client_has_chosen_is_shown() {
    with_node(&[], |node, _| {
        let (mut other, mut target) = (wire(node), wire(node));
        let id = target.ask("CLIENT ID").replace(':', "");
        let mut client = tracking(node, &format!(" REDIRECT {id} NOLOOP"));
        let own = client.ask("CLIENT ID").replace(':', "");
        let line = |other: &mut Wire| other.ask(&format!("CLIENT LIST ID {own}"));
        let shown = line(&mut other);
        assert!(shown.contains(" flags=t "), "{shown}");
        assert!(shown.contains(&format!(" redir={id} ")), "{shown}");
        assert_eq!(client.ask("GET a"), "_");
        target.reset();
        eventually("it has gone", || {
            other.ask(&format!("CLIENT LIST ID {id}")).is_empty()
        });
        other.ask("SET a 1");
        let broken = format!("[tracking-redir-broken, :{id}]");
        assert_eq!(client.reply(), broken);
        assert!(line(&mut other).contains(" flags=tR "));
        assert_eq!(
            client.ask("CLIENT TRACKINGINFO"),
            format!("[flags, [on, noloop, broken_redirect], redirect, :{id}, prefixes, []]")
        );
        assert_eq!(client.ask("RESET"), "+RESET");
        assert!(line(&mut other).contains(" flags=N "));
        assert_eq!(other.info("tracking_clients"), "0");
    });
}

/// As Redis's 7.2 test expects: first what others changed before, then the reply, then what its own command has changed.
#[test]
fn a_client_that_waited_has_its_reply_before_it_is_told_of_its_own_change() {
    with_node(&[("workers", &["2"])], |node, _| {
        let mut other = wire(node);
        for (command, key, push, reply) in [
            ("BLMOVE from to LEFT LEFT 0", "to", "RPUSH from x", "x"),
            ("BRPOPLPUSH from to 0", "to", "RPUSH from x", "x"),
            ("BLPOP from 0", "from", "RPUSH from x y", "[from, x]"),
            (
                "BLMPOP 0 1 from LEFT",
                "from",
                "RPUSH from x y",
                "[from, [x]]",
            ),
            (
                "BZPOPMIN from 0",
                "from",
                "ZADD from 1 x 2 y",
                "[from, x, ,1]",
            ),
        ] {
            other.ask("FLUSHALL");
            let mut client = tracking(node, "");
            other.ask("RPUSH to a");
            client.ask(&format!("EXISTS {key}"));
            client.send(format!("{command}\r\n").as_bytes());
            other.await_info("blocked_clients", "1");
            other.ask(push);
            let told = format!("[invalidate, [{key}]]");
            let expected = match key {
                // It is told of the push, and no longer keeps the key then.
                "from" => [told.as_str(), reply],
                _ => [reply, told.as_str()],
            };
            for expected in expected {
                assert_eq!(client.reply(), expected, "{command}");
            }
            client.send(b"ECHO end\r\n");
            assert_eq!(client.reply(), "end", "{command}");
        }
    });
}

/// The same where the replies to what it asked before still wait for a sync.
#[test]
fn so_has_one_whose_earlier_replies_wait() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        let (mut other, mut client) = gated.wires();
        client.ask("HELLO 3");
        client.ask("CLIENT TRACKING ON");
        client.ask("EXISTS before to");
        gated.gate.set_closed(true);
        client.send(b"SET held 1 PX 60000\r\nBLMOVE from to LEFT LEFT 0\r\n");
        gated.gate.await_thread("quorlock-0");
        // One is changed before it is served, the other by what serves it.
        other.send(b"SET before 1 PX 60000\r\nRPUSH from x\r\n");
        gated.gate.set_closed(false);
        assert_eq!(other.reply(), "+OK");
        assert_eq!(other.reply(), ":1");
        for expected in ["+OK", "[invalidate, [before]]", "x", "[invalidate, [to]]"] {
            assert_eq!(client.reply(), expected);
        }
        client.send(b"ECHO end\r\n");
        assert_eq!(client.reply(), "end");
    });
}

/// As redis-server 7.0.15 and 7.2. Planted: what a client has read is forgotten when it wants to be told of nothing.
#[test]
fn what_was_read_before_is_told_of_once_tracking_is_on_again() {
    with_node(&[], |node, _| {
        let (mut client, mut writer) = (tracking(node, ""), wire(node));
        for between in ["CLIENT TRACKING OFF", "RESET"] {
            for key in ["a", "b", "c"] {
                client.ask(&format!("GET {key}"));
            }
            client.ask(between);
            assert_eq!(writer.ask("SET b 1"), "+OK");
            client.ask("HELLO 3");
            assert_eq!(client.ask("CLIENT TRACKING ON"), "+OK");
            for key in ["b", "c"] {
                assert_eq!(writer.ask(&format!("SET {key} 2")), "+OK");
            }
            assert_eq!(client.reply(), "[invalidate, [c]]", "{between}");
            writer.ask("SET a 2");
            assert_eq!(client.reply(), "[invalidate, [a]]", "{between}");
        }
    });
}

/// As redis-server 7.0.15 and 7.2. Planted: what a script writes counts as its caller's.
#[test]
fn who_ignores_what_it_changes_itself_is_told_of_its_scripts_where_it_broadcasts() {
    with_node(&[], |node, _| {
        let script = "redis.call('SET', 'a', '1') return redis.call('INCR', 'b')";
        let mut client = tracking(node, " BCAST NOLOOP");
        assert_eq!(client.ask("SET a 1"), "+OK");
        assert_eq!(client.ask_words(&["EVAL", script, "0"]), ":1");
        assert_eq!(client.reply(), "[invalidate, [a, b]]");
        client.ask("CLIENT TRACKING OFF");
        assert_eq!(client.ask("CLIENT TRACKING ON NOLOOP"), "+OK");
        client.ask("MGET a b");
        assert_eq!(client.ask_words(&["EVAL", script, "0"]), ":2");
        assert_eq!(client.ask("PING"), "+PONG", "nothing came before");
    });
}
