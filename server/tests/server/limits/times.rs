//! How long a client may take: for the password, for a request, for its replies.

use std::io::Read;
use std::time::Duration;

use quorlock_testkit::Wire;

use super::{SECRET, ask_and_not_read, known, set, with_node};

#[test]
fn bytes_before_the_password_gain_no_time() {
    with_node(&[SECRET], |node, clock| {
        let mut known = known(node);
        let mut stranger = Wire::connect(node.address());
        for _ in 0..2 {
            assert!(stranger.ask("PING").starts_with("-NOAUTH"));
            assert!(stranger.ask("RESET").starts_with("+RESET"));
            clock.advance(Duration::from_millis(29_999));
        }
        assert!(stranger.ask("PING").starts_with("-NOAUTH"));
        // It is looked at every half second.
        clock.advance(Duration::from_millis(502));
        assert_eq!(stranger.reply(), "<closed>");
        known.await_info("quorlock_closed_unauthenticated_clients", "1");
        assert_eq!(known.info("connected_clients"), "1");
    });
}

#[test]
fn who_gives_up_the_password_has_the_whole_time_again() {
    with_node(&[SECRET], |node, clock| {
        let mut client = known(node);
        clock.advance(Duration::from_secs(3600));
        assert_eq!(client.ask("RESET"), "+RESET");
        clock.advance(Duration::from_secs(59));
        assert!(client.ask("PING").starts_with("-NOAUTH"));
        assert_eq!(client.ask("AUTH secret"), "+OK");
        assert_eq!(client.info("quorlock_unauthenticated_clients"), "0");
        assert_eq!(client.ask("RESET"), "+RESET");
        clock.advance(Duration::from_secs(61));
        assert_eq!(client.reply(), "<closed>");
    });
}

#[test]
fn requests_that_never_end_are_closed_and_pools_are_not() {
    for directives in [&[][..], &[SECRET][..]] {
        with_node(directives, |node, clock| {
            let connect = || match directives {
                [] => Wire::connect(node.address()),
                _ => known(node),
            };
            let mut pool: Vec<Wire> = (0..3).map(|_| connect()).collect();
            let beginnings: [&[u8]; 7] = [
                b"*",
                b"P",
                b"GET key",
                b"*2\r\n",
                b"*2\r\n$3\r\nGET\r\n$3\r\nke",
                b"*1\r\n$4000000\r\n",
                b"PING\r\n*",
            ];
            let mut slow: Vec<Wire> = beginnings
                .iter()
                .map(|bytes| {
                    let mut client = connect();
                    assert_eq!(client.ask("PING"), "+PONG");
                    client.send(bytes);
                    client
                })
                .collect();
            assert_eq!(slow[6].reply(), "+PONG");
            assert_eq!(pool[0].ask("PING"), "+PONG");
            clock.advance(Duration::from_secs(59));
            // A byte per minute keeps no request alive.
            slow[2].send(b"k");
            slow[5].send(b"v");
            assert_eq!(pool[1].ask("PING"), "+PONG");
            assert_eq!(pool[1].info("quorlock_timed_out_clients"), "0");
            clock.advance(Duration::from_secs(2));
            for client in &mut slow {
                assert_eq!(client.reply(), "<closed>");
            }
            pool[2].await_info("quorlock_timed_out_clients", "7");
            clock.advance(Duration::from_secs(24 * 3600));
            for client in &mut pool {
                assert_eq!(client.ask("PING"), "+PONG");
            }
        });
    }
}

#[test]
fn a_request_that_began_later_has_its_own_time() {
    with_node(&[], |node, clock| {
        let mut client = Wire::connect(node.address());
        for _ in 0..5 {
            assert_eq!(client.ask("PING"), "+PONG");
            client.send(b"*1\r\n$4\r\nPI");
            assert_eq!(Wire::connect(node.address()).ask("PING"), "+PONG");
            clock.advance(Duration::from_secs(40));
            client.send(b"NG\r\n*1\r\n$4\r\nPI");
            assert_eq!(client.reply(), "+PONG");
            clock.advance(Duration::from_secs(40));
            client.send(b"NG\r\n");
            assert_eq!(client.reply(), "+PONG");
        }
        assert_eq!(client.info("quorlock_timed_out_clients"), "0");
    });
}

#[test]
fn a_client_that_never_reads_is_closed() {
    with_node(&[], |node, clock| {
        let mut watcher = Wire::connect(node.address());
        set(&mut watcher, "large", 4_000_000);
        let mut silent = ask_and_not_read(node);
        assert_eq!(watcher.ask("PING"), "+PONG");
        clock.advance(Duration::from_secs(59));
        assert_eq!(watcher.ask("PING"), "+PONG");
        assert_eq!(watcher.info("connected_clients"), "2");
        // The kernel may find room for more of it a little later; then the time begins again.
        for _ in 0..1_000 {
            clock.advance(Duration::from_secs(2));
            assert_eq!(watcher.ask("PING"), "+PONG");
            if watcher.info("quorlock_timed_out_clients") == "1" {
                break;
            }
        }
        assert_eq!(watcher.info("connected_clients"), "1");
        let mut bytes = Vec::new();
        let read = silent.read_to_end(&mut bytes);
        assert!(
            read.is_err() || bytes.len() < 160_000_000,
            "it got everything"
        );
    });
}

#[test]
fn a_client_that_reads_slowly_gets_everything() {
    with_node(&[], |node, clock| {
        let mut watcher = Wire::connect(node.address());
        set(&mut watcher, "large", 4_000_000);
        let mut slow = ask_and_not_read(node);
        let mut part = vec![0; 8_000_000];
        for _ in 0..20 {
            assert_eq!(watcher.ask("PING"), "+PONG");
            clock.advance(Duration::from_secs(55));
            slow.read_exact(&mut part).unwrap();
        }
        assert_eq!(watcher.info("quorlock_timed_out_clients"), "0");
    });
}

#[test]
fn the_soft_limit_of_output_closes_after_its_time() {
    let directives: [(&str, &[&str]); 2] = [
        (
            "client-output-buffer-limit",
            &["normal", "0", "100kb", "10"],
        ),
        ("send-timeout", &["0"]),
    ];
    with_node(&directives, |node, clock| {
        let mut watcher = Wire::connect(node.address());
        set(&mut watcher, "large", 4_000_000);
        let _silent = ask_and_not_read(node);
        assert_eq!(watcher.ask("PING"), "+PONG");
        clock.advance(Duration::from_secs(9));
        assert_eq!(watcher.ask("PING"), "+PONG");
        let field = "client_output_buffer_limit_disconnections";
        assert_eq!(watcher.info(field), "0");
        // The kernel may find room for a whole reply a little later; then the time begins again.
        for _ in 0..1_000 {
            clock.advance(Duration::from_secs(2));
            assert_eq!(watcher.ask("PING"), "+PONG");
            if watcher.info(field) == "1" {
                break;
            }
        }
        assert_eq!(watcher.info("connected_clients"), "1");
    });
}

#[test]
fn the_time_of_a_request_does_not_run_while_its_client_waits_for_a_reply() {
    with_node(&[], |node, clock| {
        let mut watcher = Wire::connect(node.address());
        set(&mut watcher, "large", 4_000_000);
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("PING"), "+PONG");
        client.send(b"MGET large large large large large large\r\nPI");
        assert_eq!(watcher.ask("PING"), "+PONG");
        clock.advance(Duration::from_secs(50));
        assert!(client.reply().len() > 24_000_000);
        assert_eq!(watcher.ask("PING"), "+PONG");
        clock.advance(Duration::from_secs(50));
        assert_eq!(watcher.ask("PING"), "+PONG");
        client.send(b"NG\r\n");
        assert_eq!(client.reply(), "+PONG");
    });
}
