//! One node of a cluster: a simulated node, its disk, its clock, and whether it runs.

use std::sync::Arc;
use std::time::Duration;

use quorlock_persistence::{LogOptions, MemoryDisk};
use quorlock_server::clock::SettableClock;
use quorlock_server::config::Config;
use quorlock_server::simulation::{Node, Setup, init};

pub(super) struct Server {
    disk: MemoryDisk,
    clock: Arc<SettableClock>,
    /// What its clock has been told of true time.
    told_ns: u64,
    setup: Setup,
    pub(super) node: Option<Node>,
    /// Counts its lives: connections of an earlier one are dead.
    pub(super) life: u32,
    pub(super) is_paused: bool,
}

impl Server {
    pub(super) fn new(seed: u64, fsync: &str) -> Server {
        let mut config = Config::default();
        for (name, value) in [
            ("appendonly", "yes"),
            ("appendfsync", fsync),
            ("first-start", "serve"),
            ("restart-delay-max", "30s"),
        ] {
            config.set(name, &[value]).expect("these directives exist");
        }
        let setup = Setup {
            config,
            sizes: LogOptions {
                first_segment_bytes: 256 << 10,
                segment_bytes: 256 << 10,
                ..LogOptions::default()
            },
            part_bytes: 4096,
            directory_fingerprint: 7,
            files: None,
            seed,
            is_remote: false,
        };
        let disk = MemoryDisk::new();
        init(Arc::new(disk.clone()), &setup).expect("an empty disk takes a node");
        let mut server = Server {
            disk,
            clock: Arc::new(SettableClock::new()),
            told_ns: 0,
            setup,
            node: None,
            life: 0,
            is_paused: false,
        };
        server.start();
        server
    }

    pub(super) fn start(&mut self) {
        if self.node.is_some() {
            return;
        }
        self.life += 1;
        self.setup.seed = self.setup.seed.wrapping_add(1);
        let disk = Arc::new(self.disk.clone());
        let clock = Arc::clone(&self.clock);
        let node = Node::start(disk, clock, &self.setup).expect("a node starts on its own disk");
        self.node = Some(node);
    }

    /// The process is killed; the page cache stays.
    pub(super) fn kill(&mut self) {
        if self.node.take().is_some() {
            self.life += 1;
            self.disk = self.disk.after_process_end();
        }
    }

    pub(super) fn tell_time(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.told_ns);
        self.clock.advance(Duration::from_nanos(passed));
        self.told_ns = now_ns;
    }

    /// Everything the node's threads would do by now.
    pub(super) fn work(&mut self) {
        let Some(node) = self.node.as_mut().filter(|_| !self.is_paused) else {
            return;
        };
        for _ in 0..ROUNDS {
            for worker in 0..node.workers() {
                while node.iterate(worker) {}
            }
            node.work_on_log().expect("a disk in memory does not fail");
            if node.is_all_written() {
                break;
            }
        }
        for worker in 0..node.workers() {
            while node.iterate(worker) {}
        }
    }

    /// What comes with time: ticks, syncs of the second, the end of a restart delay.
    pub(super) fn tick(&mut self) {
        let Some(node) = self.node.as_mut().filter(|_| !self.is_paused) else {
            return;
        };
        if node.is_serving() {
            node.maintain().expect("a disk in memory does not fail");
            node.sync().expect("a disk in memory does not fail");
        } else {
            node.serve_if_due().expect("a disk in memory does not fail");
        }
    }
}

const ROUNDS: usize = 8;
