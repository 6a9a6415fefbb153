//! What a connection costs before the password, and who makes room at `maxclients`.

use std::io::Write;
use std::net::TcpStream;

use quorlock_testkit::Wire;

use super::{SECRET, field, known, with_node};

#[test]
fn a_connection_before_the_password_costs_little_whatever_it_sends() {
    with_node(&[SECRET], |node, _| {
        let mut known = known(node);
        let word = "w".repeat(4_096);
        let sent: [Vec<u8>; 6] = [
            format!("*3\r\n$4\r\nAUTH\r\n$4096\r\n{word}\r\n$1000\r\n").into_bytes(),
            word.clone().into_bytes(),
            b"PING\r\n".repeat(200_000),
            format!("HELLO 3 {}\r\n", "\u{fffd}".repeat(1_300))
                .repeat(500)
                .into_bytes(),
            b"*10\r\n"
                .to_vec()
                .into_iter()
                .chain(b"$1\r\na\r\n".repeat(9))
                .collect(),
            "\n".repeat(100_000).into_bytes(),
        ];
        let mut strangers = Vec::new();
        for bytes in sent {
            let mut stream = TcpStream::connect(node.address()).unwrap();
            stream.set_nonblocking(true).unwrap();
            // It never reads, so the node need not take everything.
            let mut left = &bytes[..];
            for _ in 0..200 {
                match stream.write(left) {
                    Ok(count) => left = &left[count..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => break,
                }
                if left.is_empty() {
                    break;
                }
                assert_eq!(known.ask("PING"), "+PONG");
            }
            strangers.push(stream);
        }
        known.await_info("total_connections_received", "7");
        for _ in 0..100 {
            let list = known.ask("CLIENT LIST");
            assert_eq!(list.lines().count(), 7, "all are here:\n{list}");
            for line in list.lines().skip(1) {
                let id = line[3..].split(' ').next().unwrap().parse().unwrap();
                let total = field(&list, id, "tot-mem");
                assert!(total <= 16 * 1024, "{line}");
            }
        }
    });
}

#[test]
fn requests_before_the_password_have_redis_s_errors_at_their_limits() {
    with_node(&[SECRET], |node, _| {
        let word = "w".repeat(4_000);
        for (bytes, error) in [
            ("*1\r\n$4097\r\n".to_owned(), "unauthenticated bulk length"),
            (
                "*2147483648\r\n".to_owned(),
                "unauthenticated multibulk length",
            ),
            (
                format!("*3\r\n$4000\r\n{word}\r\n$4000\r\n{word}\r\n$4000\r\n{word}\r\n"),
                "too big request",
            ),
            (word.repeat(3), "too big inline request"),
        ] {
            let mut client = Wire::connect(node.address());
            client.send(bytes.as_bytes());
            let reply = client.reply();
            assert!(reply.contains(error), "{reply}");
        }
    });
}

#[test]
fn at_maxclients_the_oldest_without_the_password_makes_room() {
    with_node(&[SECRET, ("maxclients", &["5"])], |node, _| {
        let mut strangers: Vec<Wire> = (0..5).map(|_| Wire::connect(node.address())).collect();
        for stranger in &mut strangers {
            assert!(stranger.ask("PING").starts_with("-NOAUTH"));
        }
        let mut clients: Vec<Wire> = Vec::new();
        for stranger in &mut strangers {
            clients.push(known(node));
            assert_eq!(stranger.reply(), "<closed>");
        }
        // Nobody is left who could make room.
        let mut late = Wire::connect(node.address());
        assert_eq!(late.reply(), "-ERR max number of clients reached");
        for client in &mut clients {
            assert_eq!(client.ask("PING"), "+PONG");
        }
        let client = &mut clients[0];
        assert_eq!(client.info("quorlock_closed_unauthenticated_clients"), "5");
        assert_eq!(client.info("rejected_connections"), "1");
        assert_eq!(client.info("connected_clients"), "5");
        // RESET gives the password up, and with it the claim to a connection.
        assert_eq!(client.ask("RESET"), "+RESET");
        let mut next = known(node);
        assert_eq!(clients[0].reply(), "<closed>");
        assert_eq!(next.ask("PING"), "+PONG");
    });
}

#[test]
fn without_a_password_maxclients_is_kept() {
    with_node(&[("maxclients", &["2"])], |node, _| {
        let mut one = Wire::connect(node.address());
        let mut other = Wire::connect(node.address());
        assert_eq!(one.ask("PING"), "+PONG");
        assert_eq!(other.ask("PING"), "+PONG");
        let mut late = Wire::connect(node.address());
        assert_eq!(late.reply(), "-ERR max number of clients reached");
        assert_eq!(one.ask("PING"), "+PONG");
    });
}
