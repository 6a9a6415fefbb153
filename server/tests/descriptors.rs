//! All nodes of a process share its limit of open files, and leave some for the program. A program of its own, because it
//! changes that limit.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::sync::Mutex;

use quorlock_server::Node;
use quorlock_testkit::Wire;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const NODES: u64 = 3;

/// What each node keeps for its log and for the program.
const KEPT: u64 = 96;

/// The warnings of all nodes.
static WARNINGS: Mutex<String> = Mutex::new(String::new());

struct Warnings;

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            writeln!(WARNINGS.lock().unwrap(), "{value:?}").unwrap();
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Self);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn set_limit(files: u64) {
    let limit = getrlimit(Resource::Nofile);
    let current = Some(files);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
}

fn soft_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

async fn start() -> Node {
    let builder = Node::builder().ephemeral().directive("workers", &["1"]);
    builder.start().await.unwrap()
}

/// Connects; `None` where the node has refused.
fn connect(node: &Node) -> Option<Wire> {
    let mut wire = Wire::connect(node.address());
    match wire.ask("PING").as_str() {
        "+PONG" => Some(wire),
        refused => {
            assert!(refused.contains("max number of clients"), "{refused}");
            None
        }
    }
}

/// What INFO says of its clients.
fn wanted(node: &Node) -> String {
    connect(node).unwrap().ask("INFO clients")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_the_limit_and_only_the_program_raises_it() {
    set_limit(512);
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(start().await);
    }
    assert_eq!(soft_limit(), Some(512), "a node leaves the limit alone");
    let mut clients: Vec<Wire> = nodes
        .iter()
        .flat_map(|node| (0..10).map(|_| connect(node).unwrap()))
        .collect();
    // Room for two more, whichever node they choose.
    set_limit(NODES * KEPT + 32);
    clients.push(connect(&nodes[0]).unwrap());
    clients.push(connect(&nodes[2]).unwrap());
    for node in &nodes {
        assert!(connect(node).is_none(), "the limit is that of all nodes");
    }
    File::open("/proc/self/status").unwrap();
    // What a node had is the others' once it has stopped.
    nodes.remove(1).stop().await.unwrap();
    connect(&nodes[0]).unwrap();
    set_limit(512);
    let builder = Node::builder().ephemeral().owns_process();
    let builder = builder.directive("maxclients", &["300"]);
    let owner = builder.start().await.unwrap();
    assert_eq!(soft_limit(), Some(NODES * KEPT + 300));
    assert!(wanted(&owner).contains("\r\nmaxclients:300\r\nquorlock_maxclients_wanted:300\r\n"));
    owner.stop().await.unwrap();
    let few = Node::builder().ephemeral();
    let few = few.directive("maxclients", &["5000"]);
    let few = few.directive("node-name", &["crowded"]);
    tracing::subscriber::set_global_default(Warnings).unwrap();
    let few = few.start().await.unwrap();
    assert!(wanted(&few).contains("\r\nmaxclients:300\r\nquorlock_maxclients_wanted:5000\r\n"));
    let warnings = WARNINGS.lock().unwrap().clone();
    let about = |line: &&str| line.contains("maxclients is 300 instead of 5000");
    let warning = warnings.lines().find(about).unwrap_or_default();
    assert!(warning.contains("crowded"), "{warnings}");
    let mut client = connect(&few).unwrap();
    assert_eq!(client.ask("CONFIG SET maxclients 200"), "+OK");
    assert!(wanted(&few).contains("\r\nmaxclients:200\r\nquorlock_maxclients_wanted:200\r\n"));
    few.stop().await.unwrap();
}
