//! What connections do with requests that come in heaps, in pieces, or just before the client leaves.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use quorlock_server::Node;
use quorlock_testkit::Wire;

use crate::machine::{Lists, with_node};

/// Sends everything, says that nothing follows, and returns all that comes back.
fn last_words(node: &Node, bytes: &[u8]) -> String {
    let mut client = Wire::connect(node.address());
    client.send(bytes);
    client.end();
    String::from_utf8(client.rest()).unwrap()
}

#[test]
fn whoever_sends_no_more_still_gets_every_reply() {
    with_node(&[("appendfsync", &["always"])], |node, _| {
        let requests = b"SET a token NX PX 30000\r\nGET a\r\nDEL a\r\n";
        assert_eq!(
            last_words(node, requests),
            "+OK\r\n$5\r\ntoken\r\n:1\r\n",
            "and then the node closes"
        );
        assert_eq!(last_words(node, b"GET a\r\n*1\r\n$4\r\nPI"), "$-1\r\n");
    });
}

#[test]
fn more_requests_than_one_turn_takes_are_answered_in_order() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        client.send(&b"INCR n\r\n".repeat(5_000));
        for expected in 1..=5_000 {
            assert_eq!(client.reply(), format!(":{expected}"));
        }
    });
}

#[test]
fn many_deep_pipelines_at_once_keep_their_replies_apart() {
    with_node(&[], |node, _| {
        let mut clients: Vec<Wire> = (0..20).map(|_| Wire::connect(node.address())).collect();
        // While this runs, what the others send gathers; so it is all there for one turn.
        let mut busy = Wire::connect(node.address());
        let script = "for i = 1, 5000000 do end return 1";
        busy.send(
            format!(
                "*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n",
                script.len()
            )
            .as_bytes(),
        );
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(
                format!("INCR own{number}\r\nINCR all\r\n")
                    .repeat(500)
                    .as_bytes(),
            );
        }
        for client in &mut clients {
            let mut last = 0;
            for expected in 1..=500 {
                assert_eq!(client.reply(), format!(":{expected}"));
                let all: u64 = client.reply()[1..].parse().unwrap();
                assert!(all > last, "{all} after {last}");
                last = all;
            }
        }
        assert_eq!(clients[0].ask("GET all"), "10000");
    });
}

#[test]
fn a_crowd_at_a_quick_pace_gets_every_reply() {
    for mode in ["always", "everysec"] {
        // On a clock that stands still every pace is quick, so that workers rest.
        let directives: Lists<'_> = &[("appendfsync", &[mode]), ("workers", &["2"])];
        with_node(directives, |node, _| {
            let mut clients: Vec<Wire> = (0..200).map(|_| Wire::connect(node.address())).collect();
            for wave in 0..20 {
                for client in &mut clients {
                    client.send(b"INCR n\r\n");
                }
                let mut replies: Vec<usize> = clients
                    .iter_mut()
                    .map(|client| client.reply()[1..].parse().unwrap())
                    .collect();
                replies.sort_unstable();
                let first = wave * clients.len() + 1;
                assert!(replies.into_iter().eq(first..first + clients.len()));
            }
        });
    }
}

#[test]
fn large_replies_end_a_turn_and_the_requests_behind_them_are_kept() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let value = "v".repeat(100_000);
        assert_eq!(client.ask(&format!("SET large {value} PX 30000")), "+OK");
        client.send(&b"GET large\r\nINCR n\r\n".repeat(40));
        for expected in 1..=40 {
            assert_eq!(client.reply().len(), value.len());
            assert_eq!(client.reply(), format!(":{expected}"));
        }
    });
}

#[test]
fn what_follows_auth_in_the_same_packet_has_the_limits_of_who_is_known() {
    with_node(&[("requirepass", &["secret"])], |node, _| {
        let mut client = Wire::connect(node.address());
        let value = "v".repeat(100_000);
        let packet = format!(
            "AUTH secret\r\nSET a token PX 30000\r\nGET a\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$100000\r\n{value}\r\nSTRLEN b\r\nPING\r\n"
        );
        client.send(packet.as_bytes());
        for expected in ["+OK", "+OK", "token", "+OK"] {
            assert_eq!(client.reply(), expected);
        }
        assert_eq!(client.reply(), ":100000");
        assert_eq!(client.reply(), "+PONG");
        let mut stranger = Wire::connect(node.address());
        stranger.send(packet.replace("secret", "guess").as_bytes());
        assert!(stranger.reply().starts_with("-WRONGPASS"));
        assert!(stranger.reply().starts_with("-NOAUTH"));
        assert!(stranger.reply().starts_with("-NOAUTH"));
        assert!(stranger.reply().starts_with("-ERR Protocol error"));
        assert_eq!(stranger.reply(), "<closed>");
    });
}

#[test]
fn requests_before_a_broken_one_are_executed_and_answered() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        client.send(b"INCR n\r\nINCR n\r\n*1\r\n+PING\r\nINCR n\r\n");
        assert_eq!(client.reply(), ":1");
        assert_eq!(client.reply(), ":2");
        assert!(client.reply().starts_with("-ERR Protocol error"));
        assert_eq!(client.reply(), "<closed>");
        assert_eq!(Wire::connect(node.address()).ask("GET n"), "2");
    });
}

#[test]
fn replies_reach_a_client_that_has_sent_more_than_the_node_reads() {
    with_node(&[], |node, _| {
        let value = "v".repeat(1_000_000);
        assert_eq!(
            Wire::connect(node.address()).ask(&format!("SET large {value}")),
            "+OK"
        );
        for (last, answer) in [
            (&b"QUIT\r\n"[..], "+OK\r\n"),
            (b"*1\r\n+PING\r\n", "-ERR Protocol error: "),
        ] {
            let mut stream = TcpStream::connect(node.address()).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            // Closed with bytes unread, a connection is reset, and what the client has not read yet is lost.
            let rest = b"PING\r\n".repeat(3_000_000);
            let sent = [&b"GET large\r\n".repeat(5), last, &rest].concat();
            let mut writing = stream.try_clone().unwrap();
            let mut received = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(move || writing.write_all(&sent).unwrap());
                stream.read_to_end(&mut received).unwrap();
            });
            let replies = 5 * format!("$1000000\r\n{value}\r\n").len();
            let tail = String::from_utf8_lossy(&received[replies..]);
            assert!(tail.starts_with(answer), "{tail}");
        }
    });
}

#[test]
fn a_broken_request_behind_a_wait_is_answered_without_another_byte() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        client.send(b"SET a token PX 30000\r\nWAITAOF 1 0 0\r\n*1\r\n+PING\r\n");
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.reply(), "[:1, :0]");
        assert!(client.reply().starts_with("-ERR Protocol error"));
        assert_eq!(client.reply(), "<closed>");
    });
}

#[test]
fn nothing_is_executed_behind_quit() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        client.send(b"INCR n\r\nQUIT\r\nINCR n\r\n");
        assert_eq!(client.reply(), ":1");
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.reply(), "<closed>");
        assert_eq!(Wire::connect(node.address()).ask("GET n"), "1");
    });
}

#[test]
fn requests_behind_a_wait_stay_in_order_however_they_arrive() {
    with_node(&[("appendfsync", &["everysec"])], |node, _| {
        let mut client = Wire::connect(node.address());
        for round in 0..50 {
            client.send(b"INCR n\r\nWAITAOF 1 0 0\r\nINCR n\r\nWAITAOF 1 0 0\r\n");
            client.send(b"INCR n\r\nPI");
            client.send(b"NG\r\n");
            for (number, expected) in ["[:1, :0]", "[:1, :0]", "+PONG"].iter().enumerate() {
                assert_eq!(client.reply(), format!(":{}", round * 3 + number + 1));
                assert_eq!(client.reply(), *expected);
            }
        }
    });
}

#[test]
fn the_silent_are_closed_and_the_others_are_not() {
    let directives: [(&str, &[&str]); 2] = [("requirepass", &["secret"]), ("timeout", &["300"])];
    with_node(&directives, |node, clock| {
        let mut stranger = Wire::connect(node.address());
        assert!(stranger.ask("PING").starts_with("-NOAUTH"));
        let mut known = Wire::connect(node.address());
        assert_eq!(known.ask("AUTH secret"), "+OK");
        clock.advance(Duration::from_secs(61));
        assert_eq!(stranger.reply(), "<closed>");
        assert_eq!(known.ask("PING"), "+PONG");
        let mut silent = Wire::connect(node.address());
        assert_eq!(silent.ask("AUTH secret"), "+OK");
        clock.advance(Duration::from_secs(299));
        assert_eq!(known.ask("PING"), "+PONG");
        clock.advance(Duration::from_secs(2));
        assert_eq!(silent.reply(), "<closed>");
        assert_eq!(known.ask("PING"), "+PONG");
    });
}
