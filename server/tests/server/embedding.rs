//! What an embedding program builds and gets: calls of the builder, disks that nodes do not share, addresses.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use quorlock_server::clock::{Boot, BootTime, Clock, RawTime, SettableClock};
use quorlock_server::config::Config;
use quorlock_server::{
    DiskFault, DiskOperation, MemoryDisk, Node, NodeBuilder, OpenError, PowerLoss, StartError,
};
use quorlock_testkit::Wire;

use crate::machine::hooked_clock::HookedClock;
use crate::machine::{Machine, run, wire};

fn on(disk: &MemoryDisk) -> NodeBuilder {
    let disk = Arc::new(disk.clone());
    Node::builder().ephemeral().disk(disk)
}

#[test]
fn two_nodes_never_share_a_disk_in_memory() {
    run(async {
        let disk = MemoryDisk::new();
        let first = on(&disk).start().await.unwrap();
        let error = on(&disk).start().await.unwrap_err();
        assert!(
            matches!(error, StartError::Open(OpenError::Locked { .. })),
            "{error:?}"
        );
        let text = error.to_string();
        for part in [
            "in memory is in use by another node",
            "must never share",
            "its `stop`",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let id = first.id();
        first.stop().await.unwrap();
        assert_eq!(on(&disk).start().await.unwrap().id(), id);
    });
}

/// Of a hundred 13 failed in the middle of the start, as if the disk were broken.
#[test]
fn a_restart_after_a_drop_waits_for_the_disk_or_says_who_has_it() {
    run(async {
        let machine = Machine::new();
        for _ in 0..50 {
            match machine.node(&[]).start().await {
                Ok(node) => drop(node),
                Err(error) => assert!(error.to_string().contains("another node"), "{error}"),
            }
        }
    });
}

/// Of two that start at once one has the directory, and a start behind a drop waits for it or says who has it.
#[test]
fn two_nodes_on_one_directory_take_turns() {
    run(async {
        let home = tempfile::tempdir().unwrap();
        let builder = || {
            let builder = Node::builder().port(0).dir(home.path());
            builder.directive("first-start", &["serve"])
        };
        let is_locked =
            |error: &StartError| matches!(error, StartError::Open(OpenError::Locked { .. }));
        let first = builder().start().await.unwrap();
        let id = first.id();
        first.stop().await.unwrap();
        let (node, refused) = match tokio::join!(builder().start(), builder().start()) {
            (Ok(node), Err(refused)) | (Err(refused), Ok(node)) => (node, refused),
            both => panic!("{both:?}"),
        };
        assert!(is_locked(&refused), "{refused:?}");
        drop(node);
        let last = loop {
            match builder().start().await {
                Ok(node) => break node,
                Err(refused) => assert!(is_locked(&refused), "{refused:?}"),
            }
        };
        assert_eq!((last.id(), last.incarnation()), (id, 3));
        last.stop().await.unwrap();
        home.close().unwrap();
    });
}

#[test]
fn a_panic_of_the_program_ends_the_node_that_it_owns() {
    let (reports, started) = mpsc::channel();
    let program = std::thread::spawn(move || {
        run(async {
            let node = Node::builder().ephemeral().start().await.unwrap();
            TcpStream::connect(node.address()).unwrap();
            reports.send((node.address(), node.watch())).unwrap();
            panic!("as an assertion of a test does");
        });
    });
    assert!(program.join().is_err());
    let (address, watch) = started.recv().unwrap();
    assert!(TcpStream::connect(address).is_err());
    assert!(watch.state().is_final(), "{:?}", watch.state());
}

/// Of 300 writes 90 said that the disk is full.
#[test]
fn a_write_that_lacks_a_descriptor_says_so() {
    run(async {
        let disk = MemoryDisk::new();
        let node = on(&disk)
            .directive("appendfsync", &["no"])
            .start()
            .await
            .unwrap();
        for after in 0..200 {
            disk.plan_fault(&[DiskOperation::Create], after, DiskFault::Error(24));
        }
        let mut client = wire(&node);
        let value = "v".repeat(1_000_000);
        let script = "return redis.call('set', KEYS[1], ARGV[1], 'px', 60000)";
        let mut refused = 0;
        for key in 0..60 {
            let key = key.to_string();
            for reply in [
                client.ask_words(&["SET", &key, &value, "PX", "60000"]),
                client.ask_words(&["EVAL", script, "1", &key, &value]),
            ] {
                if reply == "+OK" {
                    continue;
                }
                refused += 1;
                assert!(reply.contains("too many open files"), "{reply}");
                assert!(!reply.contains("disk"), "{reply}");
            }
        }
        assert!(refused > 0);
        node.crash().await;
    });
}

#[test]
fn a_node_on_a_socket_alone_has_a_url_that_clients_take() {
    run(async {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("node.sock");
        let up = home.path().join("x/../node.sock");
        std::fs::create_dir(home.path().join("x")).unwrap();
        for given in [&path, &up] {
            let given = given.to_str().unwrap();
            let builder = Node::builder().directive("unixsocket", &[given]);
            let node = builder.ephemeral().start().await.unwrap();
            assert_eq!(node.url(), format!("unix://{}", path.display()));
            assert_eq!(
                node.address().port(),
                0,
                "a port is made where it is asked for"
            );
            let path = node.url();
            let path = path.strip_prefix("unix://").unwrap();
            assert_eq!(Wire::connect_unix(path.as_ref()).ask("PING"), "+PONG");
            node.stop().await.unwrap();
        }
        let port = quorlock_testkit::free_port();
        let builder = Node::builder().ephemeral().port(port);
        let builder = builder.directive("unixsocket", &[path.to_str().unwrap()]);
        let node = builder.start().await.unwrap();
        assert_eq!(node.url(), format!("redis://127.0.0.1:{port}"));
        assert_eq!(node.unix_socket().as_deref(), Some(&*path));
    });
}

/// Each pair, in both orders.
#[test]
fn the_order_of_calls_does_not_matter() {
    run(async {
        let disk = MemoryDisk::new();
        let id = on(&disk).start().await.unwrap();
        let known = id.id();
        id.stop().await.unwrap();
        let given = Arc::new(disk.clone());
        let node = Node::builder().disk(given).ephemeral();
        let node = node.start().await.unwrap();
        assert_eq!(node.id(), known);
        node.stop().await.unwrap();

        let port = quorlock_testkit::free_port();
        let mut config = Config::default();
        config.set("node-name", &["named"]).unwrap();
        config.set("port", &["1"]).unwrap();
        let (first, last) = (Node::builder().config(config.clone()), Node::builder());
        for builder in [
            first.port(port).ephemeral(),
            last.ephemeral().port(port).config(config),
        ] {
            let node = builder.start().await.unwrap();
            assert_eq!(node.address().port(), port);
            assert_eq!(wire(&node).info("quorlock_node_name"), "named");
            node.stop().await.unwrap();
        }
    });
}

#[test]
fn what_contradicts_or_is_out_of_range_is_refused() {
    run(async {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap();
        let node = Node::builder;
        let disk = || Arc::new(MemoryDisk::new());
        let with = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            node().config(config)
        };
        for (builder, part) in [
            (node().ephemeral().dir(home.path()), "dir contradicts"),
            (node().dir(home.path()).ephemeral(), "dir contradicts"),
            (
                node().directive("DIR", &[path]).ephemeral(),
                "dir contradicts",
            ),
            (
                with(|it| it.dir = "/tmp".into()).ephemeral(),
                "dir contradicts",
            ),
            (node().disk(disk()).dir(home.path()), "NodeBuilder::disk"),
            (with(|it| it.maxclients = 0).ephemeral(), "maxclients 0: "),
            (
                with(|it| it.tcp_keepalive = Some(Duration::MAX)).ephemeral(),
                "tcp-keepalive",
            ),
            (
                node().ephemeral().directive("logfile", &["a"]),
                "logfile is a matter",
            ),
            (
                node().ephemeral().directive("pidfile", &["a"]),
                "pidfile is a matter",
            ),
            (
                node().ephemeral().directive("supervised", &["systemd"]),
                "supervised is",
            ),
            (
                node().ephemeral().directive("syslog-enabled", &["yes"]),
                "syslog-enabled is",
            ),
            (
                node().ephemeral().directive("log-format", &["json"]),
                "log-format is",
            ),
        ] {
            let error = builder.start().await.unwrap_err();
            assert!(matches!(error, StartError::Config(_)), "{error:?}");
            assert!(error.to_string().contains(part), "{error}");
        }
    });
}

/// The kernel refused it for every client.
#[test]
fn a_keepalive_that_is_longer_than_the_kernels_is_the_kernels() {
    run(async {
        let builder = Node::builder().ephemeral();
        let builder = builder.directive("tcp-keepalive", &["2147483647"]);
        let node = builder.start().await.unwrap();
        assert_eq!(wire(&node).ask("PING"), "+PONG");
    });
}

/// Everything that signatures name has a name here.
#[test]
fn what_a_program_needs_is_named_by_this_crate() {
    let clock = SettableClock::new();
    let readings: (RawTime, BootTime, Boot) = (clock.raw(), clock.boottime(), clock.boot());
    assert_eq!(readings.0, clock.raw());
    let disk = MemoryDisk::with_power_loss();
    let after: MemoryDisk = disk.after_loss(&PowerLoss::default());
    assert!(after.take_faults().is_empty());
}

#[test]
fn errors_speak_of_code_and_not_of_flags() {
    run(async {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let missing = "/nowhere/at/all";
        for builder in [
            Node::builder().ephemeral().port(port),
            Node::builder()
                .ephemeral()
                .directive("metrics-port", &[&port.to_string()]),
            Node::builder()
                .ephemeral()
                .directive("unixsocket", &[missing]),
            Node::builder().dir(missing),
        ] {
            let error = builder.start().await.unwrap_err().to_string();
            assert!(!error.contains("--"), "{error}");
        }
    });
}

#[test]
fn addresses_are_free_when_stop_returns() {
    run(async {
        for round in 0..20 {
            let node = Node::builder()
                .ephemeral()
                .directive("metrics-port", &["0"]);
            let node = node.start().await.unwrap();
            let (address, metrics) = (node.address(), node.metrics_address().unwrap());
            let _clients = (wire(&node), TcpStream::connect(metrics).unwrap());
            node.stop().await.unwrap();
            for address in [address, metrics] {
                let again = std::net::TcpListener::bind(address);
                assert!(again.is_ok(), "round {round}: {again:?}");
            }
        }
    });
}

/// With `stop` nothing is made any more; a drop within a runtime goes on for a moment.
#[test]
fn a_stopped_node_leaves_its_directory_to_the_program() {
    run(async {
        for _ in 0..20 {
            let home = tempfile::tempdir().unwrap();
            let node = Node::builder().port(0).dir(home.path());
            let node = node.directive("first-start", &["serve"]);
            node.start().await.unwrap().stop().await.unwrap();
            home.close().unwrap();
        }
    });
}

/// It read the clock as fast as a core can.
#[test]
fn a_clock_at_its_end_keeps_no_thread_busy() {
    run(async {
        let readings = Arc::<AtomicU64>::default();
        let count = Arc::clone(&readings);
        let clock = HookedClock::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let clock = Arc::new(clock);
        let node = Node::builder().ephemeral().clock(clock.clone());
        let node = node.start().await.unwrap();
        assert_eq!(wire(&node).ask("SET a token PX 60000"), "+OK");
        clock.settable.advance(Duration::MAX);
        // The machine's time: what is due at the end is done in the first part of it.
        let pause = || tokio::time::sleep(Duration::from_millis(100));
        pause().await;
        let before = readings.load(Ordering::Relaxed);
        pause().await;
        let read = readings.load(Ordering::Relaxed) - before;
        assert!(read < 1_000, "{read} readings in 100 ms");
        node.stop().await.unwrap();
    });
}
