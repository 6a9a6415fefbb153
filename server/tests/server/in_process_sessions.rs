//! Sessions in the node's own process: they do what connections on a socket do, and one that never reads keeps nobody waiting.

use std::time::Duration;

use quorlock_server::{Node, NodeStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::machine::{Machine, run, wire};

/// Reads until this has come.
async fn received(stream: &mut NodeStream, end: &[u8]) -> Vec<u8> {
    let mut received = Vec::new();
    while !received.ends_with(end) {
        assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0);
    }
    received
}

#[test]
fn a_session_changes_its_protocol_waits_for_elements_and_learns_of_changed_keys() {
    run(async {
        let node = Node::builder().ephemeral().start().await.unwrap();
        let mut stream = node.connect().unwrap();
        stream.write_all(b"HELLO 3\r\nPING\r\n").await.unwrap();
        let hello = received(&mut stream, b"+PONG\r\n").await;
        assert_eq!(hello.first(), Some(&b'%'));
        let request = b"CLIENT TRACKING ON\r\nGET k\r\n";
        stream.write_all(request).await.unwrap();
        assert_eq!(received(&mut stream, b"_\r\n").await, b"+OK\r\n_\r\n");
        assert_eq!(wire(&node).ask("SET k v PX 60000"), "+OK");
        let changed = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        assert_eq!(received(&mut stream, changed).await, changed);
        stream.write_all(b"BLPOP l 0\r\n").await.unwrap();
        while !wire(&node)
            .ask("INFO clients")
            .contains("blocked_clients:1")
        {
            tokio::task::yield_now().await;
        }
        assert_eq!(wire(&node).ask("RPUSH l a"), ":1");
        let popped = b"*2\r\n$1\r\nl\r\n$1\r\na\r\n";
        assert_eq!(received(&mut stream, popped).await, popped);
        node.stop().await.unwrap();
    });
}

#[test]
fn a_session_that_never_reads_is_held_up_alone_and_the_node_stops() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(&[("shutdown-timeout", "10")]).await;
        let text = "x".repeat(TEXT_BYTES);
        let request = format!("*2\r\n$4\r\nECHO\r\n${TEXT_BYTES}\r\n{text}\r\n");
        let mut silent = node.connect().unwrap();
        let mut taken = 0;
        let sending = async {
            while taken < REQUESTS && silent.write_all(request.as_bytes()).await.is_ok() {
                taken += 1;
            }
        };
        let _held_up_or_closed = tokio::time::timeout(Duration::from_millis(200), sending).await;
        assert!(
            taken < REQUESTS,
            "the node has taken all, and kept {taken} replies"
        );
        let others = async { node.call(["ECHO", &text]).await };
        let others = tokio::time::timeout(Duration::from_secs(10), others).await;
        assert_eq!(others.unwrap().unwrap().as_bytes(), Some(text.as_bytes()));
        node.request_stop();
        let mut took_ms = 0;
        // Its clock goes on while it has not stopped.
        while tokio::time::timeout(Duration::from_millis(20), node.stopped())
            .await
            .is_err()
        {
            machine.advance_ms(100);
            took_ms += 100;
            assert!(
                took_ms <= 30_000,
                "a session without a reader holds up the stop"
            );
        }
        drop(silent);
    });
}

const TEXT_BYTES: usize = 64 * 1024;

/// Together much more than a connection and the node hold for a client.
const REQUESTS: usize = 1_000;
