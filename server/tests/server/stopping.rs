//! The orderly stop and clients that read slowly, or not at all.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::machine::gate::{Gate, OpenAtEnd};
use crate::machine::{Machine, run, wire};
use quorlock_server::Node;
use socket2::{Domain, Socket, Type};

const VALUE_BYTES: usize = 4 << 20;

/// A client that asked for 16 MiB with one command and has read one byte of it: more than the
/// buffers of both sockets hold.
fn glutton(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.connect(&address.into()).unwrap();
    let mut stream: TcpStream = socket.into();
    stream.write_all(b"MGET a a a a\r\n").unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    stream
}

/// Stops the node while its clock goes on; returns how long that took by this clock.
async fn stop(machine: &Machine, node: Node) -> u64 {
    node.request_stop();
    let mut took_ms = 0;
    while !is_stopped(&node).await {
        machine.advance_ms(100);
        took_ms += 100;
    }
    node.stop().await.unwrap();
    took_ms
}

/// Whether it stops before the clock has to go on.
async fn is_stopped(node: &Node) -> bool {
    let soon = Duration::from_millis(20);
    tokio::time::timeout(soon, node.stopped()).await.is_ok()
}

#[test]
fn a_client_that_never_reads_does_not_hold_up_the_stop() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(&[("shutdown-timeout", "60")]).await;
        let value = "x".repeat(VALUE_BYTES);
        assert_eq!(wire(&node).ask_words(&["SET", "a", &value]), "+OK");
        let _silent = glutton(node.address());
        let took_ms = stop(&machine, node).await;
        assert!(
            took_ms >= 2_000,
            "a client that reads slowly is not cut off"
        );
        assert!(
            took_ms < 30_000,
            "{took_ms} ms, although nobody took a byte"
        );
    });
}

#[test]
fn a_client_that_reads_slowly_gets_its_reply_whole() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(&[("shutdown-timeout", "60")]).await;
        let value = "x".repeat(VALUE_BYTES);
        assert_eq!(wire(&node).ask_words(&["SET", "a", &value]), "+OK");
        let mut slow = glutton(node.address());
        let clock = machine.clock.clone();
        let reader = std::thread::spawn(move || {
            // About 4 MiB per second of the node's time: longer than the silence that ends the wait.
            let mut part = vec![0; 32 * 1024];
            let mut bytes = 1;
            loop {
                match slow.read(&mut part).unwrap() {
                    0 => return bytes,
                    read => bytes += read,
                }
                clock.advance(Duration::from_millis(8));
            }
        });
        node.stop().await.unwrap();
        let value = format!("${VALUE_BYTES}\r\n").len() + VALUE_BYTES + 2;
        assert_eq!(reader.join().unwrap(), "*4\r\n".len() + 4 * value);
    });
}

#[test]
fn a_drop_on_a_runtimes_thread_leaves_the_wait_to_the_end_of_the_thread() {
    let machine = Machine::new();
    let gate = Gate::before_syncs_of(&machine.disk());
    let _open = OpenAtEnd(Arc::clone(&gate));
    let (dropped, is_dropped) = mpsc::channel();
    std::thread::scope(|scope| {
        let (machine, gate) = (&machine, &gate);
        let ending = scope.spawn(move || {
            run(async {
                let node = machine
                    .granting(&[("appendfsync", "everysec")], "SET a token NX PX 10000")
                    .await;
                gate.set_closed(true);
                drop(node);
                dropped.send(()).unwrap();
            });
        });
        // Its last sync stands at the gate, and the task goes on.
        let in_time = is_dropped.recv_timeout(Duration::from_secs(10));
        gate.await_thread("quorlock");
        let (ended, is_ended) = mpsc::channel();
        scope.spawn(move || {
            ending.join().unwrap();
            ended.send(()).unwrap();
        });
        let too_soon = is_ended.recv_timeout(Duration::from_millis(100)).is_ok();
        gate.set_closed(false);
        in_time.expect("the drop does not wait");
        assert!(!too_soon, "the thread ends before its node");
        is_ended.recv_timeout(Duration::from_secs(10)).unwrap();
    });
    run(async {
        let node = machine.start_in("everysec").await;
        assert_eq!(node.last_stop(), "clean stop");
    });
}
