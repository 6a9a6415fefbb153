//! What clients may hold, each and together, also while their replies wait for a sync.

use std::sync::Arc;
use std::time::Duration;

use quorlock_server::MemoryDisk;
use quorlock_server::clock::SettableClock;
use quorlock_testkit::{Wire, eventually};

use super::{builder, field, set, with_node};
use crate::machine::gate::{Gate, OpenAtEnd};
use crate::machine::run;

#[test]
fn the_hard_limit_of_output_closes_at_once() {
    with_node(&[], |node, _| {
        let mut watcher = Wire::connect(node.address());
        set(&mut watcher, "large", 1_000_000);
        let limit = "client-output-buffer-limit";
        let words = ["CONFIG", "SET", limit, "normal 1000000 0 0"];
        assert_eq!(watcher.ask_words(&words), "+OK");
        assert_eq!(
            watcher.ask(&format!("CONFIG GET {limit}")),
            format!(
                "[{limit}, normal 1000000 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60]"
            )
        );
        let mut greedy = Wire::connect(node.address());
        assert_eq!(greedy.ask("GET large"), "<closed>");
        watcher.await_info("client_output_buffer_limit_disconnections", "1");
        let words = ["CONFIG", "SET", limit, "normal 1000020 0 0"];
        assert_eq!(watcher.ask_words(&words), "+OK");
        assert_eq!(
            Wire::connect(node.address()).ask("GET large").len(),
            1_000_000
        );
        let error = watcher.ask_words(&["CONFIG", "SET", limit, "normal 1 2"]);
        assert!(error.starts_with("-ERR CONFIG SET failed"), "{error}");
    });
}

#[test]
fn replies_that_wait_for_a_slow_sync_count() {
    run(async {
        let clock = Arc::new(SettableClock::new());
        let disk = Arc::new(MemoryDisk::default());
        let gate = Arc::new(Gate::default());
        let (passed, moved) = (Arc::clone(&gate), Arc::clone(&clock));
        // Only syncs that take long are left to the log thread.
        disk.on_sync(Arc::new(move || {
            moved.advance(Duration::from_millis(2));
            passed.pass();
        }));
        let directives: [(&str, &[&str]); 3] = [
            ("appendfsync", &["always"]),
            ("maxmemory-clients", &["3mb"]),
            (
                "client-output-buffer-limit",
                &["normal", "3mb", "1mb", "10"],
            ),
        ];
        let node = builder(&clock, &directives)
            .disk(disk)
            .start()
            .await
            .unwrap();
        let mut watcher = Wire::connect(node.address());
        for expected in 1..=20 {
            assert_eq!(watcher.ask("INCR n"), format!(":{expected}"));
        }
        set(&mut watcher, "large", 2_000_000);
        gate.set_closed(true);
        let _open = OpenAtEnd(Arc::clone(&gate));
        // What reveals a write waits for it: these replies cannot leave.
        let mut clients: Vec<Wire> = (0..3).map(|_| Wire::connect(node.address())).collect();
        for client in &mut clients {
            client.send(b"INCR n\r\nGET large\r\n");
        }
        gate.await_thread("quorlock-log");
        // Two of them are more than all may hold together; one is over its soft limit.
        watcher.await_info("evicted_clients", "2");
        let memory: u64 = watcher.info("mem_clients_normal").parse().unwrap();
        assert!((2_000_000..3_000_000).contains(&memory), "{memory}");
        let field = "client_output_buffer_limit_disconnections";
        assert_eq!(watcher.info(field), "0");
        clock.advance(Duration::from_secs(11));
        watcher.await_info(field, "1");
        assert_eq!(watcher.info("connected_clients"), "1");
        for client in &mut clients {
            assert_eq!(client.reply(), "<closed>", "no reply has left");
        }
        gate.set_closed(false);
        assert_eq!(watcher.ask("INCR n"), ":24", "what they asked for was done");
        node.stop().await.unwrap();
    });
}

#[test]
fn the_largest_goes_when_all_together_hold_too_much() {
    with_node(&[("maxmemory-clients", &["3mb"])], |node, _| {
        let mut watcher = Wire::connect(node.address());
        let mut begin = |bytes: usize, is_spared: bool| {
            let mut client = Wire::connect(node.address());
            if is_spared {
                assert_eq!(client.ask("CLIENT NO-EVICT on"), "+OK");
            }
            let id: u64 = client.ask("CLIENT ID")[1..].parse().unwrap();
            let mut request = b"*2\r\n$3\r\nGET\r\n$4000000\r\n".to_vec();
            request.resize(bytes, b'k');
            client.send(&request);
            let is_here = |list: &str| field(list, id, "qbuf") >= bytes as u64;
            eventually("its request is held", || {
                is_here(&watcher.ask("CLIENT LIST"))
            });
            (client, id)
        };
        let (_small, small_id) = begin(1_000, false);
        let (mut spared, spared_id) = begin(400_000, true);
        let (mut large, _) = begin(300_000, false);
        let (mut last, _) = begin(200_000, false);
        // A buffer may have twice the room it needs.
        let mut more = Wire::connect(node.address());
        let mut request = b"*2\r\n$3\r\nGET\r\n$4000000\r\n".to_vec();
        request.resize(3_900_000, b'k');
        more.send_until_closed(&request);
        assert_eq!(more.reply(), "<closed>");
        let mut watcher = Wire::connect(node.address());
        watcher.await_info("evicted_clients", "1");
        let list = watcher.ask("CLIENT LIST");
        assert!(field(&list, small_id, "qbuf") >= 1_000);
        assert!(field(&list, small_id, "tot-mem") > field(&list, small_id, "qbuf"));
        assert_eq!(watcher.ask("CONFIG SET maxmemory-clients 850kb"), "+OK");
        assert_eq!(large.reply(), "<closed>");
        let list = watcher.ask("CLIENT LIST");
        assert!(field(&list, small_id, "qbuf") >= 1_000);
        assert!(field(&list, spared_id, "qbuf") >= 400_000);
        assert_eq!(watcher.ask("CONFIG SET maxmemory-clients 100"), "+OK");
        assert_eq!(last.reply(), "<closed>");
        assert_eq!(
            spared.reply(),
            "<closed>",
            "it is the last to go, and it goes"
        );
        watcher.await_info("evicted_clients", "5");
        assert_eq!(watcher.ask("CONFIG SET maxmemory-clients 1%"), "+OK");
        assert_eq!(
            watcher.ask("CONFIG GET maxmemory-clients"),
            "[maxmemory-clients, 1%]"
        );
    });
}

#[test]
fn what_many_send_at_once_is_all_answered_in_order() {
    with_node(&[("workers", &["2"])], |node, _| {
        let mut watcher = Wire::connect(node.address());
        set(&mut watcher, "large", 1_000_000);
        let mut clients: Vec<Wire> = (0..60).map(|_| Wire::connect(node.address())).collect();
        // More replies than one turn makes, and more than one turn of each connection.
        for (number, client) in clients.iter_mut().enumerate() {
            let requests = format!("INCR own{number}\r\nGET large\r\n").repeat(3);
            client.send(requests.as_bytes());
            client.send(format!("INCR own{number}\r\nQUIT\r\n").as_bytes());
        }
        for client in &mut clients {
            for expected in 1..=3 {
                assert_eq!(client.reply(), format!(":{expected}"));
                assert_eq!(client.reply().len(), 1_000_000);
            }
            assert_eq!(client.reply(), ":4");
            assert_eq!(client.reply(), "+OK");
            assert_eq!(client.reply(), "<closed>");
        }
    });
}
