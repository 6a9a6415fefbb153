//! A whole node for the tests of locks that clients wait for or share.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_persistence::MemoryDisk;

use crate::clock::SettableClock;
use crate::config::Config;
use crate::simulation::{Client, Node, Setup, request_bytes};

/// A node whose maintenance and log come as soon as there is something for them.
pub(super) struct Bench {
    disk: Arc<MemoryDisk>,
    pub(super) clock: Arc<SettableClock>,
    setup: Setup,
    pub(super) node: Node,
}

impl Bench {
    pub(super) fn new(directives: &[(&str, &str)]) -> Self {
        let mut config = Config::default();
        for (name, value) in [&[("first-start", "serve")], directives].concat() {
            let words: Vec<&str> = value.split(' ').collect();
            config.set(name, &words).unwrap();
        }
        let disk = Arc::new(MemoryDisk::with_power_loss());
        Self::start(disk, Arc::new(SettableClock::new()), Setup::new(config))
    }

    fn start(disk: Arc<MemoryDisk>, clock: Arc<SettableClock>, setup: Setup) -> Self {
        let node = Node::start(disk.clone(), clock.clone(), &setup).unwrap();
        let mut bench = Self {
            disk,
            clock,
            setup,
            node,
        };
        bench.go_on();
        bench
    }

    /// The machine loses its power: what was not synced is lost. The node starts again, in its restart delay.
    pub(super) fn lose_power(self) -> Self {
        let disk = Arc::new(self.disk.after_power_loss(false, |_, _| false));
        drop(self.node);
        self.clock.reboot(Duration::from_secs(1));
        Self::start(disk, self.clock, self.setup)
    }

    /// A client that speaks RESP3.
    pub(super) fn client(&mut self) -> Client {
        let client = self.node.connect(usize::MAX, None);
        assert!(self.run(client, "HELLO 3").starts_with('%'));
        client
    }

    pub(super) fn clients(&mut self, count: usize) -> Vec<Client> {
        (0..count).map(|_| self.client()).collect()
    }

    pub(super) fn send(&self, client: Client, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.node.send(client, &request_bytes(&words));
    }

    /// What a client has received when its request and all that follows from it are done.
    pub(super) fn run(&mut self, client: Client, line: &str) -> String {
        self.send(client, line);
        self.go_on();
        self.received(client)
    }

    pub(super) fn received(&self, client: Client) -> String {
        let bytes = self.node.take_received(client);
        String::from_utf8(bytes).unwrap().replace("\r\n", " ")
    }

    /// Lets workers, log and maintenance do what there is to do now; returns after how long the maintenance comes again.
    pub(super) fn go_on(&mut self) -> Duration {
        let mut pause = Duration::ZERO;
        for _ in 0..8 {
            for worker in 0..self.node.workers() {
                while self.node.iterate(worker) {}
            }
            self.node.work_on_log().unwrap();
            pause = self.node.maintain().unwrap().unwrap();
        }
        pause
    }

    /// The time that the maintenance sleeps passes, as often as it takes for so long.
    pub(super) fn advance(&mut self, duration: Duration) {
        let mut left = duration;
        while !left.is_zero() {
            let step = self.go_on().clamp(Duration::from_micros(1), left);
            self.clock.advance(step);
            left -= step;
        }
        self.go_on();
    }

    /// Who of these is told that the lock is free, by its number.
    pub(super) fn told(&self, clients: &[Client]) -> Vec<usize> {
        let mut told = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            match self.received(*client).as_str() {
                "" => {}
                text => {
                    assert_eq!(text, push("job", &format!("t{number}")));
                    told.push(number);
                }
            }
        }
        told
    }

    /// Clients wait for `job`, which is held.
    pub(super) fn with_waiting(count: usize) -> (Self, Client, Vec<Client>) {
        let mut bench = Self::new(&[]);
        let holder = bench.client();
        assert_eq!(bench.run(holder, "SET job held NX PX 1000"), "+OK ");
        let clients = bench.clients(count);
        for (number, client) in clients.iter().enumerate() {
            let reply = bench.run(*client, &format!("LOCK.WAIT job t{number}"));
            assert_eq!(reply, format!(":{} ", number + 1));
        }
        (bench, holder, clients)
    }
}

pub(super) fn push(key: &str, token: &str) -> String {
    let (key_len, token_len) = (key.len(), token.len());
    format!(">3 $9 lock-free ${key_len} {key} ${token_len} {token} ")
}
