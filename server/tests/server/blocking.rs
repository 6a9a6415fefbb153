//! Clients that wait for an element: order, durability, time, who has gone.

use quorlock_testkit::eventually;

use crate::machine::gate::GatedNode;
use crate::machine::{Machine, run, wire, with_node};

#[test]
fn whoever_came_first_is_served_first_on_all_workers() {
    with_node(&[("workers", &["3"])], |node, _| {
        let mut pusher = wire(node);
        let mut waiters: Vec<_> = (0..9).map(|_| wire(node)).collect();
        for (number, waiter) in waiters.iter_mut().enumerate() {
            waiter.send(b"BLPOP other queue 0\r\n");
            pusher.await_info("blocked_clients", &(number + 1).to_string());
        }
        assert_eq!(pusher.ask("RPUSH queue a b c"), ":3");
        let script = "for i = 1, 3 do redis.call('RPUSH', KEYS[1], i) end return redis.call('LLEN', KEYS[1])";
        assert_eq!(pusher.ask_words(&["EVAL", script, "1", "queue"]), ":3");
        pusher.ask("MULTI");
        pusher.ask("RPUSH queue x y");
        pusher.ask("RENAME queue else");
        pusher.ask("RENAME else other");
        assert_eq!(pusher.ask("EXEC"), "[:2, +OK, +OK]");
        assert_eq!(pusher.ask("LPUSH queue z rest"), ":2");
        let served = [
            "queue a", "queue b", "queue c", "queue 1", "queue 2", "queue 3",
        ];
        let served = served
            .into_iter()
            .chain(["other x", "other y", "queue rest"]);
        for (waiter, pair) in waiters.iter_mut().zip(served) {
            let (key, element) = pair.split_once(' ').unwrap();
            assert_eq!(waiter.reply(), format!("[{key}, {element}]"));
        }
        assert_eq!(pusher.ask("LRANGE queue 0 -1"), "[z]");
        assert_eq!(pusher.ask("EXISTS other"), ":0");
        pusher.await_info("blocked_clients", "0");
        assert_eq!(
            waiters[0].ask("BLPOP none queue 0"),
            "[queue, z]",
            "it need not wait"
        );
        assert_eq!(waiters[1].ask("PING"), "+PONG");
    });
}

/// An element is taken for a client only once that is on disk: else it could be given out twice.
#[test]
fn an_element_that_was_waited_for_leaves_once_its_removal_is_durable() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        let (mut pusher, mut waiter) = gated.wires();
        waiter.send(b"BLPOP queue 0\r\n");
        pusher.await_info("blocked_clients", "1");
        gated.hold(&mut pusher, "RPUSH queue job", "quorlock");
        assert!(waiter.is_silent(), "neither push nor pop is on disk");
        gated.gate.set_closed(false);
        assert_eq!(waiter.reply(), "[queue, job]");
        assert_eq!(pusher.reply(), ":1");
        assert_eq!(
            waiter.ask("WAITAOF 1 0 0"),
            "[:1, :0]",
            "its pop counts as its write"
        );
    });
}

#[test]
fn the_time_is_kept_by_the_nodes_clock_and_what_follows_waits() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(&[]).await;
        let (mut waiter, mut other) = (wire(&node), wire(&node));
        waiter.send(b"BLPOP queue 1.5\r\nBLMOVE queue to LEFT LEFT 0.5\r\nPING\r\n");
        other.await_info("blocked_clients", "1");
        machine.advance_ms(1499);
        assert!(waiter.is_silent());
        machine.advance_ms(1);
        assert_eq!(
            waiter.reply(),
            "nil array",
            "the first has waited for its time"
        );
        other.await_info("blocked_clients", "1");
        machine.advance_ms(500);
        assert_eq!(waiter.reply(), "nil array");
        assert_eq!(waiter.reply(), "+PONG");
        assert_eq!(other.ask("RPUSH queue a"), ":1", "nobody waits any more");
        // What ends an earlier wait does not end a later one.
        waiter.send(b"BLPOP later 10\r\n");
        other.await_info("blocked_clients", "1");
        assert_eq!(other.ask("RPUSH later a"), ":1");
        assert_eq!(waiter.reply(), "[later, a]");
        waiter.send(b"BLPOP later 20\r\n");
        other.await_info("blocked_clients", "1");
        machine.advance_ms(10_000);
        assert!(waiter.is_silent());
        machine.advance_ms(10_000);
        assert_eq!(waiter.reply(), "nil array");
        node.stop().await.unwrap();
    });
}

#[test]
fn a_moved_element_serves_those_who_wait_for_it_there() {
    with_node(&[], |node, _| {
        let (mut first, mut second, mut pusher) = (wire(node), wire(node), wire(node));
        second.send(b"BLMPOP 0 2 none b LEFT COUNT 3\r\n");
        pusher.await_info("blocked_clients", "1");
        first.send(b"BRPOPLPUSH a b 0\r\n");
        pusher.await_info("blocked_clients", "2");
        assert_eq!(pusher.ask("LPUSH a element"), ":1");
        assert_eq!(first.reply(), "element");
        assert_eq!(second.reply(), "[b, [element]]");
        // The error is told to who waits, and nothing is lost.
        pusher.ask("SET text 1");
        first.send(b"BLMOVE a text LEFT LEFT 0\r\n");
        pusher.await_info("blocked_clients", "1");
        assert_eq!(pusher.ask("LPUSH a element"), ":1");
        assert!(first.reply().starts_with("-WRONGTYPE"));
        assert_eq!(pusher.ask("LRANGE a 0 -1"), "[element]");
        // Another type is nothing to wait for.
        first.send(b"BLPOP c 0\r\n");
        pusher.await_info("blocked_clients", "1");
        pusher.ask("SET c 1");
        assert!(first.is_silent());
        pusher.ask("DEL c");
        pusher.ask("RPUSH c 1");
        assert_eq!(first.reply(), "[c, 1]");
    });
}

#[test]
fn who_has_gone_takes_no_element_and_leaves_nothing() {
    with_node(&[], |node, _| {
        let mut pusher = wire(node);
        let mut waiters: Vec<_> = (0..30).map(|_| wire(node)).collect();
        for waiter in &mut waiters {
            waiter.send(b"BLPOP queue 0\r\nSET executed 1\r\n");
        }
        pusher.await_info("blocked_clients", "30");
        let mut ended = Vec::new();
        for (number, waiter) in waiters.drain(..).enumerate() {
            match number % 3 {
                0 => waiter.reset(),
                1 => {
                    // It could still read, but asked for no more: as with Redis it has gone.
                    waiter.end();
                    ended.push(waiter);
                }
                _ => drop(waiter),
            }
        }
        pusher.await_info("blocked_clients", "0");
        assert_eq!(pusher.ask("RPUSH queue a"), ":1");
        assert_eq!(pusher.ask("LRANGE queue 0 -1"), "[a]");
        assert_eq!(pusher.ask("EXISTS executed"), ":0");
        eventually("the connections are closed", || {
            pusher.info("connected_clients") == "1"
        });
    });
}

/// What a client has sent behind its request may fill all that a node reads of it meanwhile.
#[test]
fn who_has_gone_is_noticed_behind_a_long_pipeline() {
    with_node(&[], |node, _| {
        let mut pusher = wire(node);
        let pipeline = [&b"BLPOP queue 0\r\n"[..], &b"PING\r\n".repeat(13_000)].concat();
        let mut ended = Vec::new();
        for number in 0..6 {
            let mut waiter = wire(node);
            waiter.send(&pipeline);
            pusher.await_info("blocked_clients", "1");
            match number % 2 {
                0 => waiter.reset(),
                _ => {
                    waiter.end();
                    ended.push(waiter);
                }
            }
            pusher.await_info("blocked_clients", "0");
        }
        assert_eq!(pusher.ask("RPUSH queue a"), ":1");
        assert_eq!(pusher.ask("LLEN queue"), ":1");
    });
}

#[test]
fn what_is_pushed_behind_a_kill_is_not_for_the_killed() {
    with_node(&[("workers", &["3"])], |node, _| {
        let mut pusher = wire(node);
        for round in 0..50 {
            let mut waiters: Vec<_> = (0..3).map(|_| wire(node)).collect();
            for waiter in &mut waiters {
                waiter.send(b"BLPOP queue 0\r\n");
            }
            pusher.await_info("blocked_clients", "3");
            pusher.send(b"CLIENT KILL TYPE normal SKIPME yes\r\nRPUSH queue a b\r\nLLEN queue\r\nDEL queue\r\n");
            assert_eq!(pusher.reply(), ":3");
            assert_eq!(pusher.reply(), ":2");
            assert_eq!(pusher.reply(), ":2", "round {round}");
            assert_eq!(pusher.reply(), ":1");
            pusher.await_info("blocked_clients", "0");
        }
    });
}

#[test]
fn who_waits_is_told_meanwhile_what_others_are_told() {
    with_node(&[], |node, _| {
        let (mut waiter, mut other) = (wire(node), wire(node));
        waiter.ask("HELLO 3");
        assert_eq!(waiter.ask("CLIENT TRACKING ON"), "+OK");
        waiter.ask("GET key");
        waiter.ask("SUBSCRIBE channel");
        waiter.send(b"BLPOP queue 0\r\nPING\r\n");
        other.await_info("blocked_clients", "1");
        for number in 0..3 {
            assert_eq!(other.ask(&format!("PUBLISH channel {number}")), ":1");
            assert_eq!(waiter.reply(), format!("[message, channel, {number}]"));
            other.await_info("blocked_clients", "1");
        }
        other.ask("SET key 1");
        assert_eq!(waiter.reply(), "[invalidate, [key]]");
        other.send(b"PUBLISH channel last\r\nRPUSH queue a\r\n");
        assert_eq!([other.reply(), other.reply()], [":1", ":1"]);
        let told = [waiter.reply(), waiter.reply()];
        assert!(
            told.contains(&"[message, channel, last]".to_owned()),
            "{told:?}"
        );
        assert!(told.contains(&"[queue, a]".to_owned()), "{told:?}");
        assert_eq!(waiter.reply(), "+PONG");
        other.await_info("blocked_clients", "0");
    });
}

#[test]
fn what_a_pause_has_held_up_is_not_executed_for_who_has_gone() {
    with_node(&[], |node, _| {
        let (mut gone, mut other) = (wire(node), wire(node));
        assert_eq!(other.ask("CLIENT PAUSE 100000 WRITE"), "+OK");
        gone.send(b"SET lock token\r\n");
        other.await_info("blocked_clients", "1");
        gone.end();
        other.await_info("blocked_clients", "0");
        assert_eq!(other.ask("CLIENT UNPAUSE"), "+OK");
        assert_eq!(other.ask("EXISTS lock"), ":0");
    });
}

#[test]
fn members_of_sorted_sets_are_waited_for_as_elements_of_lists_are() {
    with_node(&[], |node, _| {
        let (mut first, mut second, mut writer) = (wire(node), wire(node), wire(node));
        first.send(b"BZPOPMIN scores 0\r\n");
        writer.await_info("blocked_clients", "1");
        second.ask("HELLO 3");
        second.send(b"BZMPOP 0 2 none scores MAX COUNT 2\r\n");
        writer.await_info("blocked_clients", "2");
        assert_eq!(writer.ask("RPUSH none a"), ":1");
        assert!(
            first.is_silent() && second.is_silent(),
            "a list is not what they want"
        );
        assert_eq!(writer.ask("ZADD scores 1.5 a 2 b 3 c"), ":3");
        assert_eq!(first.reply(), "[scores, a, 1.5]");
        // As in 7.0 it is served of the key that has something for it; 7.2 answers WRONGTYPE of `none`.
        assert_eq!(second.reply(), "[scores, [[c, ,3], [b, ,2]]]");
        assert_eq!(writer.ask("ZADD scores 4 d 5 e"), ":2");
        second.send(b"BZPOPMAX else scores 0\r\n");
        assert_eq!(second.reply(), "[scores, e, ,5]");
        assert_eq!(writer.ask("ZRANGE scores 0 -1"), "[d]");
    });
}

#[test]
fn nothing_is_waited_for_inside_a_transaction_or_script() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        client.ask("MULTI");
        client.ask("BLPOP queue 0");
        client.ask("BLMOVE queue to LEFT LEFT 0");
        client.ask("BLMPOP 0 1 queue LEFT");
        assert_eq!(client.ask("EXEC"), "[nil array, nil, nil array]");
        let refused = client.ask_words(&["EVAL", "return redis.call('BLPOP', 'queue', 0)", "0"]);
        assert!(refused.contains("not allowed from script"), "{refused}");
        let words = [
            "EVAL",
            "return redis.call('BLMPOP', 0, 1, 'queue', 'LEFT')",
            "0",
        ];
        assert_eq!(client.ask_words(&words), "nil", "that one may be called");
        assert_eq!(client.info("blocked_clients"), "0");
    });
}

#[test]
fn a_node_stops_though_clients_wait() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(&[]).await;
        let (mut waiter, mut other) = (wire(&node), wire(&node));
        waiter.send(b"BLPOP queue 0\r\n");
        other.await_info("blocked_clients", "1");
        node.stop().await.unwrap();
        assert_eq!(waiter.reply(), "<closed>");
    });
}

/// Each case: who waits, what one transaction does, and what redis-server 7.0.15 answers those who wait.
#[rustfmt::skip]
const ORDERS: &[(&[&str], &[&str], &[&str])] = &[
    (&["BLPOP a b 0"], &["RPUSH b 1", "RPUSH a 2"], &["[b, 1]"]),
    (&["BRPOP a b c 0"], &["RPUSH c 1 2", "RPUSH a 2", "RPUSH b 3"], &["[c, 2]"]),
    (&["BLMPOP 0 3 a b c LEFT COUNT 5"], &["RPUSH c 1 2", "RPUSH a 2", "RPUSH b 3"], &["[c, [1, 2]]"]),
    (&["BZPOPMAX a b 0"], &["ZADD b 1 x 3 z", "ZADD a 2 y"], &["[b, z, 3]"]),
    (&["BZMPOP 0 2 a b MAX COUNT 2"], &["ZADD b 1 x 3 z", "ZADD a 2 y"], &["[b, [[z, 3], [x, 1]]]"]),
    (&["BLPOP a 0", "BLPOP b 0"], &["RPUSH b 1", "RPUSH a 2"], &["[a, 2]", "[b, 1]"]),
    (&["BLPOP a b 0", "BLPOP b a 0"], &["RPUSH b 1", "RPUSH a 2"], &["[b, 1]", "[a, 2]"]),
    // A key that was emptied keeps its turn, one that was no list had none.
    (&["BLPOP a b 0"], &["RPUSH a 0", "DEL a", "RPUSH b 1", "RPUSH a 2"], &["[a, 2]"]),
    (&["BLPOP a b 0"], &["SET a 0", "RPUSH b 1", "DEL a", "RPUSH a 2"], &["[b, 1]"]),
    (&["BZPOPMIN a b 0"], &["RPUSH a 0", "ZADD b 1 x", "DEL a", "ZADD a 1 y"], &["[b, x, 1]"]),
    (&["BLPOP a a 0"], &["RPUSH a 1"], &["[a, 1]"]),
    (&["BLPOP c b 0", "BLMOVE a c LEFT RIGHT 0"], &["RPUSH a 1", "RPUSH b 2"], &["[b, 2]", "1"]),
    (&["BLPOP a b 0"], &["RPUSH o 1", "RENAME o b", "RPUSH a 1"], &["[b, 1]"]),
    (&["BLPOP a b 0"], &["RPUSH o 2 1", "SORT o STORE b", "RPUSH a 1"], &["[b, 1]"]),
];

#[test]
fn of_several_keys_the_one_that_had_an_element_first_is_served_first() {
    with_node(&[], |node, _| {
        let mut pusher = wire(node);
        for (waits, steps, expected) in ORDERS {
            let script: Vec<String> = steps.iter().map(|step| call_of(step)).collect();
            for is_script in [false, true] {
                assert_eq!(pusher.ask("FLUSHALL"), "+OK");
                let mut waiters: Vec<_> = waits.iter().map(|_| wire(node)).collect();
                for (number, (waiter, wait)) in waiters.iter_mut().zip(*waits).enumerate() {
                    waiter.send(format!("{wait}\r\n").as_bytes());
                    pusher.await_info("blocked_clients", &(number + 1).to_string());
                }
                if is_script {
                    let reply = pusher.ask_words(&["EVAL", &script.join(" "), "0"]);
                    assert_eq!(reply, "nil", "{steps:?}");
                } else {
                    pusher.ask("MULTI");
                    for step in *steps {
                        assert_eq!(pusher.ask(step), "+QUEUED");
                    }
                    pusher.ask("EXEC");
                }
                for (waiter, expected) in waiters.iter_mut().zip(*expected) {
                    assert_eq!(waiter.reply(), *expected, "{waits:?} {steps:?}");
                }
            }
        }
    });
}

/// The same command from a script.
fn call_of(step: &str) -> String {
    let words: Vec<String> = step.split(' ').map(|word| format!("'{word}'")).collect();
    format!("redis.call({})", words.join(", "))
}
