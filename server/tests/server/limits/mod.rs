//! What a client can make a node hold, and for how long. Time is moved, never slept.
//!
//! What a worker does about limits it does after it has executed what arrived, so a reply on one
//! connection says that what others sent before has been read.

mod memory;
mod oversized;
mod times;
mod unauthenticated;
mod vanishing;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use quorlock_server::clock::SettableClock;
use quorlock_server::{Node, NodeBuilder};
use quorlock_testkit::Wire;

use crate::machine::{Lists, configured, serve};

/// One worker, so that a reply says what has been read.
fn builder(clock: &Arc<SettableClock>, directives: Lists<'_>) -> NodeBuilder {
    let one = configured(&[("workers", &["1"])]);
    let mut builder = one.ephemeral().clock(clock.clone());
    for (name, values) in directives {
        builder = builder.directive(name, values);
    }
    builder
}

fn with_node(directives: Lists<'_>, test: impl FnOnce(&Node, &SettableClock)) {
    let clock = Arc::new(SettableClock::new());
    serve(builder(&clock, directives), |node| test(node, &clock));
}

/// A field of a client's line in CLIENT LIST.
fn field(list: &str, id: u64, name: &str) -> u64 {
    let line = list
        .lines()
        .find(|line| line.starts_with(&format!("id={id} ")))
        .unwrap_or_else(|| panic!("client {id} is not in:\n{list}"));
    let prefix = format!("{name}=");
    let word = line.split(' ').find_map(|word| word.strip_prefix(&prefix));
    word.unwrap().parse().unwrap()
}

const SECRET: (&str, &[&str]) = ("requirepass", &["secret"]);

fn known(node: &Node) -> Wire {
    let mut client = Wire::connect(node.address());
    assert_eq!(client.ask("AUTH secret"), "+OK");
    client
}

/// Gives `key` a value of so many bytes.
fn set(client: &mut Wire, key: &str, bytes: usize) {
    let value = "v".repeat(bytes);
    assert_eq!(
        client.ask_words(&["SET", key, &value, "PX", "99999999"]),
        "+OK"
    );
}

/// Asks for more than sockets take, and reads nothing of it.
fn ask_and_not_read(node: &Node) -> TcpStream {
    let mut stream = TcpStream::connect(node.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // Once it has an answer it is being served.
    stream.write_all(b"PING\r\n").unwrap();
    stream.read_exact(&mut [0; 7]).unwrap();
    stream.write_all(&b"GET large\r\n".repeat(40)).unwrap();
    stream
}
