//! Databases that are swapped: who watches keys, waits for them, keeps them or comes back after a stop.

use std::time::Duration;

use crate::machine::{Machine, run, wire, with_node};

#[test]
fn a_swap_touches_watched_keys_that_one_of_the_databases_has() {
    with_node(&[], |node, clock| {
        let (mut client, mut other) = (wire(node), wire(node));
        other.ask("MSET here 1 both 1");
        other.ask("SELECT 1");
        other.ask("MSET there 1 both 1");
        other.ask("SET short 1 PX 1000");
        for (key, is_touched) in [
            ("here", true),
            ("there", true),
            ("both", true),
            ("short", true),
            ("none", false),
        ] {
            for swap in [
                "SWAPDB 0 1",
                "SWAPDB 1 0",
                "EVAL redis.call('SWAPDB',0,1) 0",
            ] {
                client.ask(&format!("WATCH {key}"));
                assert_eq!(other.ask("SWAPDB 2 1"), "+OK", "not of these");
                assert_eq!(other.ask("SWAPDB 1 2"), "+OK");
                client.ask("UNWATCH");
                client.ask(&format!("WATCH {key}"));
                let reply = other.ask(swap);
                assert!(["+OK", "nil"].contains(&&*reply), "{reply}");
                client.ask("MULTI");
                let expected = if is_touched { "nil array" } else { "[]" };
                assert_eq!(client.ask("EXEC"), expected, "{swap} {key}");
                other.ask("SWAPDB 0 1");
            }
        }
        // A key of the other database that has expired is no key.
        clock.advance(Duration::from_millis(1000));
        client.ask("WATCH short");
        other.ask("SWAPDB 0 1");
        client.ask("MULTI");
        assert_eq!(client.ask("EXEC"), "[]");
        // It is watched under its name from then on, whichever keys its database has.
        client.ask("WATCH none");
        other.ask("SWAPDB 0 1");
        other.ask("SET none 1");
        client.ask("MULTI");
        assert_eq!(client.ask("EXEC"), "[]", "of another database");
        other.ask("SELECT 0");
        client.ask("WATCH new");
        other.ask("SWAPDB 0 5");
        other.ask("SET new 1");
        client.ask("MULTI");
        assert_eq!(client.ask("EXEC"), "nil array");
        assert!(client.ask("INFO clients").contains("total_watched_keys:0"));
    });
}

#[test]
fn clients_of_both_databases_that_wait_are_served_what_a_swap_brings() {
    with_node(&[], |node, _| {
        let (mut pusher, mut one, mut two, mut sorted) =
            (wire(node), wire(node), wire(node), wire(node));
        two.ask("SELECT 1");
        sorted.ask("SELECT 1");
        one.send(b"BLPOP a 0\r\n");
        pusher.await_info("blocked_clients", "1");
        two.send(b"BLMOVE b to LEFT LEFT 0\r\n");
        pusher.await_info("blocked_clients", "2");
        sorted.send(b"BZPOPMIN a z 0\r\n");
        pusher.await_info("blocked_clients", "3");
        pusher.ask("RPUSH b x");
        pusher.ask("ZADD z 1 m");
        pusher.ask("SELECT 1");
        pusher.ask("RPUSH a y");
        assert!(one.is_silent() && two.is_silent() && sorted.is_silent());
        assert_eq!(pusher.ask("SWAPDB 0 1"), "+OK");
        assert_eq!(one.reply(), "[a, y]");
        assert_eq!(two.reply(), "x");
        assert_eq!(sorted.reply(), "[z, m, 1]");
        assert_eq!(pusher.ask("LRANGE to 0 -1"), "[x]");
        // Who goes on waiting does so in its own database.
        one.send(b"BLPOP c 0\r\n");
        pusher.await_info("blocked_clients", "1");
        pusher.ask("MULTI");
        pusher.ask("SWAPDB 0 1");
        pusher.ask("RPUSH c other");
        pusher.ask("SWAPDB 1 4");
        assert_eq!(pusher.ask("EXEC"), "[+OK, :1, +OK]");
        assert!(one.is_silent());
        pusher.ask("SWAPDB 0 4");
        assert_eq!(one.reply(), "[c, other]");
        pusher.await_info("blocked_clients", "0");
        assert!(pusher.ask("INFO clients").contains("total_blocking_keys:0"));
    });
}

#[test]
fn events_name_the_database_that_a_key_is_in_now() {
    with_node(&[("notify-keyspace-events", &["EA"])], |node, clock| {
        let (mut client, mut listener) = (wire(node), wire(node));
        client.ask("SET a 1 PX 1000");
        client.ask("SWAPDB 0 3");
        listener.ask("PSUBSCRIBE __key*");
        client.ask("SET b 1");
        clock.advance(Duration::from_millis(1000));
        let messages = [listener.reply(), listener.reply()];
        assert_eq!(messages[0], "[pmessage, __key*, __keyevent@0__:set, b]");
        assert_eq!(messages[1], "[pmessage, __key*, __keyevent@3__:expired, a]");
    });
}

/// As in Redis: who caches keys of one database and swaps it has to know.
#[test]
fn a_swap_is_not_told_to_clients_that_keep_keys() {
    with_node(&[], |node, _| {
        let (mut reader, mut other) = (wire(node), wire(node));
        reader.ask("HELLO 3");
        reader.ask("CLIENT TRACKING ON");
        other.ask("SET a 1");
        assert_eq!(reader.ask("GET a"), "1");
        other.ask("SWAPDB 0 1");
        assert_eq!(reader.ask("PING"), "+PONG");
        other.ask("SET a 2");
        assert_eq!(reader.reply(), "[invalidate, [a]]");
    });
}

#[test]
fn databases_are_swapped_after_a_start_as_before_the_stop() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(&[]).await;
        let mut client = wire(&node);
        client.ask("MSET a zero b zero");
        client.ask("SELECT 1");
        client.ask("SET a one");
        client.ask("SWAPDB 0 1");
        client.ask("SET c one");
        assert_eq!(client.ask("BGREWRITEAOF").chars().next(), Some('+'));
        client.await_info("aof_rewrite_in_progress", "0");
        client.ask("SWAPDB 1 2");
        client.ask("SET d one");
        node.stop().await.unwrap();
        let node = machine.start(&[]).await;
        let mut client = wire(&node);
        for (database, expected) in [
            (0, "[one, nil, nil, nil]"),
            (1, "[nil, nil, nil, one]"),
            (2, "[zero, zero, one, nil]"),
        ] {
            client.ask(&format!("SELECT {database}"));
            assert_eq!(client.ask("MGET a b c d"), expected, "{database}");
        }
    });
}

/// SWAPDB moved a lock to a database that no client can select, and the next SET had it as well.
#[test]
fn no_command_names_a_database_beyond_those_that_there_are() {
    with_node(&[("databases", &["4"])], |node, _| {
        let mut client = wire(node);
        assert_eq!(client.ask("SET lock me NX PX 600000"), "+OK");
        for beyond in [
            "SWAPDB 0 4",
            "SWAPDB 9 0",
            "MOVE lock 4",
            "COPY lock other DB 4",
            "EVAL return(redis.pcall('SWAPDB',0,4)) 0",
            "EVAL return(redis.pcall('MOVE',KEYS[1],4)) 1 lock",
            "SELECT 4",
        ] {
            let reply = client.ask(beyond);
            assert!(
                reply.starts_with("-ERR DB index is out of range"),
                "{beyond}: {reply}"
            );
        }
        assert_eq!(client.ask("SET lock other NX PX 600000"), "nil");
        assert_eq!(client.ask("COPY lock other DB 3"), ":1");
        assert_eq!(client.ask("SWAPDB 0 3"), "+OK");
        assert_eq!(client.ask("GET other"), "me");
    });
}
