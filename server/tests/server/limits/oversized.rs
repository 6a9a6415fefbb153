//! Requests that are too large to be kept: refused by name, at no cost of memory, and the connection goes on.

use std::time::Duration;

use quorlock_testkit::{Wire, eventually};

use crate::limits::{SECRET, field, with_node};

/// A request whose last argument has so many bytes, none of which is here yet.
fn header(words: &[&str], bytes: usize) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len() + 1);
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    (request + &format!("${bytes}\r\n")).into_bytes()
}

fn whole(words: &[&str], bytes: usize) -> Vec<u8> {
    let mut request = header(words, bytes);
    request.resize(request.len() + bytes, b'v');
    request.extend(b"\r\n");
    request
}

const LONG: usize = 8 << 20;

#[test]
fn a_command_with_too_long_an_argument_is_refused_by_name_and_what_follows_is_answered() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let refusal = |reply: String, name: &str| {
            let begin =
                format!("-ERR '{name}' was not executed: an argument of 8388608 bytes is longer");
            assert!(reply.starts_with(&begin), "{reply}");
            assert!(reply.ends_with(". Nothing was changed"), "{reply}");
        };
        client.send(b"SET before 1\r\n");
        client.send(&whole(&["Set", "k"], LONG));
        client.send(&whole(&["GET"], LONG));
        client.send(&whole(&["CLIENT", "SETNAME"], LONG));
        client.send(b"GET before\r\nEXISTS k\r\n");
        assert_eq!(client.reply(), "+OK");
        for name in ["set", "get", "client"] {
            refusal(client.reply(), name);
        }
        assert_eq!(client.reply(), "1");
        assert_eq!(client.reply(), ":0");
        client.send(&whole(&["NOSUCH", "k"], LONG));
        assert!(client.reply().starts_with("-ERR unknown command 'NOSUCH'"));
        client.send(&whole(&[], LONG));
        assert!(
            client
                .reply()
                .starts_with("-ERR no command has such a name: an argument of 8")
        );
        assert_eq!(client.ask("PING"), "+PONG");
        // A value that an argument may have, and that a key may not.
        client.send(&whole(&["SET", "k"], (4 << 20) + 1));
        assert!(client.reply().contains("4194304"));
        client.send(&whole(&["ECHO"], 7 << 20));
        assert_eq!(client.reply().len(), 7 << 20);
        let mut counts = Wire::connect(node.address());
        let counts = counts.ask("INFO commandstats");
        assert!(counts.contains("cmdstat_get:calls=1,"), "{counts}");
        assert!(
            counts.contains("cmdstat_client|setname:calls=0,"),
            "{counts}"
        );
    });
}

#[test]
fn within_a_transaction_it_ends_the_transaction() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask("SET a 1"), "+QUEUED");
        client.send(&whole(&["SET", "b"], LONG));
        assert!(client.reply().starts_with("-ERR 'set' was not executed: "));
        assert!(client.ask("EXEC").starts_with("-EXECABORT "));
        assert_eq!(client.ask("EXISTS a b"), ":0");
        client.ask("MULTI");
        client.send(&whole(&["EXEC"], LONG));
        assert!(
            client
                .reply()
                .starts_with("-EXECABORT Transaction discarded because of: 'exec' was")
        );
        assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI");
    });
}

#[test]
fn arguments_that_are_too_much_together_are_refused_the_same_way() {
    with_node(&[("client-query-buffer-limit", &["1mb"])], |node, _| {
        let mut client = Wire::connect(node.address());
        let value = "v".repeat(400_000);
        let keys = ["MSET", "a", &value, "b", &value, "c", &value, "d", &value];
        let reply = client.ask_words(&keys);
        assert!(
            reply.starts_with("-ERR 'mset' was not executed: its arguments together have more than the 1048576 bytes"),
            "{reply}"
        );
        assert_eq!(client.ask("EXISTS a b c d"), ":0");
        assert_eq!(client.ask_words(&keys[..5]), "+OK");
        // For connections that are there already, from their next request on.
        assert_eq!(
            client.ask("CONFIG SET client-query-buffer-limit 2mb"),
            "+OK"
        );
        assert_eq!(client.ask_words(&keys), "+OK");
    });
}

#[test]
fn beyond_proto_max_bulk_len_the_connection_ends() {
    with_node(&[], |node, _| {
        let mut other = Wire::connect(node.address());
        assert_eq!(
            other.ask("CONFIG GET proto-max-bulk-len"),
            "[proto-max-bulk-len, 536870912]"
        );
        let ends = |bytes: usize| {
            let mut client = Wire::connect(node.address());
            client.send(&header(&["SET", "k"], bytes));
            assert_eq!(client.reply(), "-ERR Protocol error: invalid bulk length");
            assert_eq!(client.reply(), "<closed>");
        };
        ends((512 << 20) + 1);
        let mut before = Wire::connect(node.address());
        assert_eq!(before.ask("PING"), "+PONG");
        assert_eq!(other.ask("CONFIG SET proto-max-bulk-len 1mb"), "+OK");
        ends((1 << 20) + 1);
        before.send(&header(&["SET", "k"], (1 << 20) + 1));
        assert_eq!(before.reply(), "-ERR Protocol error: invalid bulk length");
        assert_eq!(other.ask("CONFIG SET proto-max-bulk-len 100gb"), "+OK");
        ends(200 << 30);
    });
}

/// A client that announces what is not kept costs nothing while it sends, and has the time of one request.
#[test]
fn what_is_not_kept_takes_no_memory_and_no_more_time_than_a_request_may() {
    with_node(&[("request-timeout", &["60s"])], |node, clock| {
        let mut other = Wire::connect(node.address());
        let mut client = Wire::connect(node.address());
        let id = client.ask("CLIENT ID")[1..].parse().unwrap();
        client.send(&header(&["SET", "k"], 512 << 20));
        let part = vec![b'v'; 1 << 20];
        for _ in 0..32 {
            client.send(&part);
        }
        let list = other.ask("CLIENT LIST");
        assert!(field(&list, id, "tot-mem") < 300_000, "{list}");
        // Each byte it sends is no request of its own.
        for _ in 0..3 {
            clock.advance(Duration::from_secs(19));
            client.send(b"v");
            assert_eq!(other.ask("PING"), "+PONG");
            assert!(other.ask("CLIENT LIST").contains(&format!("id={id} ")));
        }
        clock.advance(Duration::from_secs(3));
        // It is looked at half a second after the worker has last looked at its clock, which may have been just now.
        eventually("its time is up", || {
            clock.advance(Duration::from_millis(502));
            client.answers_within(Duration::from_millis(600))
        });
        assert_eq!(client.reply(), "<closed>");
    });
}

#[test]
fn before_the_password_limits_are_as_they_were() {
    with_node(&[SECRET], |node, _| {
        let mut client = Wire::connect(node.address());
        client.send(&header(&["SET", "k"], 4097));
        assert_eq!(
            client.reply(),
            "-ERR Protocol error: unauthenticated bulk length"
        );
        let mut client = Wire::connect(node.address());
        client.send(b"AUTH secret\r\n");
        client.send(&whole(&["SET", "k"], LONG));
        client.send(b"RESET\r\n");
        assert_eq!(client.reply(), "+OK");
        assert!(client.reply().starts_with("-ERR 'set' was not executed: "));
        assert_eq!(client.reply(), "+RESET");
        assert_eq!(client.ask("PING"), "-NOAUTH Authentication required.");
    });
}
