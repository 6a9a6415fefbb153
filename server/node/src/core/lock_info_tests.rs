//! LOCK.INFO of a whole node: what connections say about themselves is shown, also when they are gone.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use quorlock_persistence::MemoryDisk;

use crate::clock::SettableClock;
use crate::config::Config;
use crate::simulation::{Client, Node, Setup, request_bytes};

struct Machine {
    disk: MemoryDisk,
    clock: Arc<SettableClock>,
    setup: Setup,
}

impl Machine {
    fn new() -> Self {
        let mut config = Config::default();
        config.set("first-start", &["serve"]).unwrap();
        Self {
            disk: MemoryDisk::with_power_loss(),
            clock: Arc::new(SettableClock::new()),
            setup: Setup::new(config),
        }
    }

    fn start(&self) -> Node {
        let disk = Arc::new(self.disk.clone());
        Node::start(disk, self.clock.clone(), &self.setup).unwrap()
    }
}

fn run(node: &mut Node, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let reply = node.execute(&words);
    String::from_utf8(reply).unwrap().replace("\r\n", " ")
}

/// What a client is answered.
fn ask(node: &mut Node, client: Client, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    node.send(client, &request_bytes(&words));
    for _ in 0..100 {
        for worker in 0..node.workers() {
            node.iterate(worker);
        }
        node.work_on_log().unwrap();
        let reply = node.take_received(client);
        if !reply.is_empty() {
            return String::from_utf8(reply).unwrap().replace("\r\n", " ");
        }
    }
    panic!("{line}: no reply")
}

const GRANTED: &str = "+OK ";
const LIBRARY: &str = "$12 library-name $8 redis-py $15 library-version $5 5.2.0 ";

#[test]
fn a_lock_shows_the_name_and_the_library_of_its_connection_and_when_that_is_gone() {
    let mut node = Machine::new().start();
    let client = node.connect(usize::MAX, None);
    for line in [
        "CLIENT SETNAME early",
        "CLIENT SETINFO lib-name redis-py",
        "CLIENT SETINFO lib-ver 5.2.0",
        "SET job token NX PX 30000",
        // What it is called now, and not what it was called then.
        "CLIENT SETNAME worker-7",
    ] {
        assert_eq!(ask(&mut node, client, line), GRANTED, "{line}");
    }
    let shown = run(&mut node, "LOCK.INFO job");
    for part in [
        "$11 client-name $8 worker-7 $14 client-address ",
        "$16 client-connected :1 ",
        LIBRARY,
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(run(&mut node, "LOCK.LIST").contains("$8 worker-7 "));
    let others: Vec<Client> = (0..3).map(|_| node.connect(usize::MAX, None)).collect();
    node.end(client);
    others.iter().for_each(|other| node.end(*other));
    for worker in (0..node.workers()).cycle().take(8) {
        node.iterate(worker);
    }
    assert!(!run(&mut node, "CLIENT LIST").contains("worker-7"));
    let shown = run(&mut node, "LOCK.INFO job");
    for part in [
        "$11 client-name $8 worker-7 ",
        "$16 client-connected :0 ",
        LIBRARY,
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(run(&mut node, "LOCK.LIST job").contains("$8 worker-7 "));
}

#[test]
fn what_a_transaction_or_a_killed_client_took_has_a_name_as_well() {
    let mut node = Machine::new().start();
    let client = node.connect(usize::MAX, None);
    ask(&mut node, client, "CLIENT SETNAME worker-7");
    let id = ask(&mut node, client, "CLIENT ID");
    let id = id.trim().trim_start_matches(':').to_owned();
    ask(&mut node, client, "MULTI");
    ask(&mut node, client, "SET job token NX PX 30000");
    ask(&mut node, client, "LOCK.INFO job");
    let shown = ask(&mut node, client, "EXEC");
    assert!(shown.contains("$8 worker-7 "), "{shown}");
    assert_eq!(run(&mut node, &format!("CLIENT KILL ID {id}")), ":1 ");
    assert!(run(&mut node, "LOCK.INFO job").contains("$11 client-name $8 worker-7 "));
    run(&mut node, "MULTI");
    let refused = run(&mut node, "LOCK.FORCE-RELEASE job token");
    assert!(refused.starts_with("-ERR Command not allowed"), "{refused}");
    run(&mut node, "DISCARD");
    assert_eq!(run(&mut node, "LOCK.FORCE-RELEASE job token"), ":1 ");
    assert_eq!(run(&mut node, "LOCK.INFO job"), "*-1 ");
    run(&mut node, "HELLO 3");
    assert_eq!(run(&mut node, "LOCK.INFO job"), "_ ");
    run(&mut node, "SET job token PX 30000");
    let shown = run(&mut node, "LOCK.INFO job");
    assert!(shown.starts_with("%16 $4 type "), "{shown}");
}
