//! The HTTP endpoint for monitoring when it is asked for too much: hostile requests, connections that ask nothing and scrapers by
//! the hundred cost it little, and the node's locks nothing.

use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use quorlock_testkit::{Wire, becomes_so, observed_now};

use crate::machine::{Machine, run, wire};
use crate::metrics::{METRICS, at, connect, get, request};

#[test]
fn hostile_requests_are_answered_or_cut_and_the_node_goes_on() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(METRICS).await;
        let address = at(&node);
        for path in [
            "/",
            "/metrics/",
            "/../etc/passwd",
            "/metrics%00",
            "/%2e%2e/",
        ] {
            let answer = get(address, path);
            assert_eq!(answer.status, 404, "{path}");
            assert!(answer.head.contains("connection: close"), "{}", answer.head);
        }
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let text =
                format!("{method} /metrics HTTP/1.1\r\nHost: n\r\nContent-Length: 5\r\n\r\nhello");
            let answer = request(address, &text);
            assert_eq!(answer.status, 405, "{method}");
            assert!(answer.head.contains("allow: get, head"), "{}", answer.head);
            assert!(answer.head.contains("connection: close"), "{}", answer.head);
        }
        let head = request(address, "HEAD /metrics HTTP/1.1\r\nHost: n\r\n\r\n");
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        let cut = [
            "*1\r\n$4\r\nPING\r\n".to_owned(),
            "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".repeat(10),
            format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(200_000)),
            format!(
                "GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n",
                "x".repeat(200_000)
            ),
            format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(5_000)),
            "POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"
                .to_owned(),
            "GET /metrics HTTP/9.9\r\n\r\n".to_owned(),
        ];
        for text in cut {
            let mut stream = connect(address);
            // The peer may close before it has read everything.
            let _ = stream.write_all(text.as_bytes());
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(!answer.starts_with(b"HTTP/1.1 200"), "{:.60}", text);
        }
        // One answer per connection, however much is sent.
        let many = "GET /readyz HTTP/1.1\r\nHost: n\r\n\r\n".repeat(100);
        let answer = request(address, &many);
        assert_eq!(answer.status, 200);
        assert!(!answer.body.contains("HTTP/1.1"), "{}", answer.body);
        assert_eq!(get(address, "/healthz").status, 200);
        assert_eq!(wire(&node).ask("SET a token NX PX 1000"), "+OK");
    });
}

#[test]
fn idle_connections_take_no_more_than_their_share() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(METRICS).await;
        let mut idle: Vec<TcpStream> = (0..40).map(|_| connect(at(&node))).collect();
        for stream in &mut idle {
            stream.write_all(b"GET /met").unwrap();
        }
        // It came last, so that all of them have been accepted by now.
        assert_eq!(get(at(&node), "/readyz").status, 200);
        let is_open = |stream: &mut TcpStream| {
            let soon = Duration::from_millis(5);
            stream.set_read_timeout(Some(soon)).unwrap();
            let read = stream.read(&mut [0; 1]);
            read.is_err_and(|error| [WouldBlock, TimedOut].contains(&error.kind()))
        };
        let mut open = || idle.iter_mut().map(is_open).filter(|it| *it).count();
        // Soon, because a second later all are closed.
        let have_places = becomes_so(Duration::from_millis(500), || open() <= 16);
        assert!(have_places, "all 40 connections have a place");
        assert_eq!(
            wire(&node).ask("SET a token NX PX 60000"),
            "+OK",
            "locks go on"
        );
        drop(idle);
        assert_eq!(get(at(&node), "/readyz").status, 200);
    });
}

/// Sends so many whole requests before it reads, and counts those that are answered whole: who comes when all places are taken
/// displaces another.
fn scrapes(address: SocketAddr, count: usize) -> usize {
    let ask = |_| {
        let mut stream = connect(address);
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n");
        stream
    };
    let streams: Vec<TcpStream> = (0..count).map(ask).collect();
    let is_whole = |mut stream: TcpStream| {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"# EOF\n")
    };
    let answers = streams.into_iter().map(is_whole);
    answers.filter(|is_whole| *is_whole).count()
}

/// Half of them at a time: each takes a file of this process as well.
#[test]
fn a_thousand_scrapes_end_soon_and_leave_locks_alone() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(METRICS).await;
        let (address, locks) = (at(&node), node.address());
        let (began, are_over) = (observed_now(), AtomicBool::new(false));
        let lock_until_over = || {
            let mut client = Wire::connect(locks);
            let (mut rounds, mut slowest) = (0, Duration::ZERO);
            while !are_over.load(Ordering::Relaxed) {
                let asked = observed_now();
                assert_eq!(client.ask("SET a token NX PX 60000"), "+OK");
                assert_eq!(client.ask("DEL a"), ":1");
                slowest = slowest.max(observed_now() - asked);
                rounds += 1;
            }
            (rounds, slowest)
        };
        let (whole, (rounds, slowest)) = thread::scope(|scope| {
            let holder = scope.spawn(lock_until_over);
            let ended: Vec<_> = (0..2)
                .flat_map(|_| {
                    let scrapers = (0..50).map(|_| scope.spawn(move || scrapes(address, 10)));
                    let scrapers: Vec<_> = scrapers.collect();
                    scrapers.into_iter().map(|scraper| scraper.join())
                })
                .collect();
            are_over.store(true, Ordering::Relaxed);
            let whole: usize = ended.into_iter().map(Result::unwrap).sum();
            (whole, holder.join().unwrap())
        });
        let took = observed_now() - began;
        assert!(took < Duration::from_secs(60), "{took:?}");
        assert!(whole > 0, "none was answered");
        assert!(rounds > 10, "{rounds} locks in {took:?}");
        assert!(slowest < Duration::from_secs(5), "{slowest:?} for a lock");
        assert_eq!(get(address, "/metrics").status, 200);
    });
}
