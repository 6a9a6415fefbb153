//! One node of a cluster: a simulated node, its disk, its clock, and whether it runs.

use std::sync::Arc;
use std::time::Duration;

use crate::crash::random::Random;
use quorlock_engine::{Stored, StoredValue};
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
    /// How long a sync takes, where it takes long.
    pub(super) sync_ns: u64,
    is_full: bool,
    pub(super) is_sync_planned: bool,
    /// When what is written is synced the next time; never where the kernel decides.
    sync_due_ns: Option<u64>,
    /// The disk of the node that answered under the address before, and the fingerprint of its directory.
    away: Option<(MemoryDisk, u64)>,
    /// The node that answers under the address may hold no lock before this time.
    pub(super) is_empty_until_ns: u64,
}

impl Server {
    pub(super) fn new(seed: u64, fsync: &str, rate_ppm: i32) -> Server {
        let mut config = Config::default();
        for (name, value) in [
            ("appendonly", "yes"),
            ("appendfsync", fsync),
            ("first-start", "serve"),
            ("restart-delay-max", "30s"),
            ("cluster-id", CLUSTER),
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
        let disk = MemoryDisk::with_power_loss();
        init(Arc::new(disk.clone()), &setup).expect("an empty disk takes a node");
        let clock = SettableClock::new();
        clock.detune_raw(rate_ppm);
        let mut server = Server {
            disk,
            clock: Arc::new(clock),
            told_ns: 0,
            setup,
            node: None,
            life: 0,
            is_paused: false,
            sync_ns: 0,
            is_full: false,
            is_sync_planned: false,
            sync_due_ns: (fsync != "no").then_some(0),
            away: None,
            is_empty_until_ns: 0,
        };
        server.start();
        server
    }

    /// Another node answers under the address from now on: one with an empty directory, of this cluster or another. The
    /// process of the node before has ended.
    pub(super) fn replace(&mut self, cluster: &str) {
        if self.away.is_some() {
            return;
        }
        let config = &mut self.setup.config;
        config.set("cluster-id", &[cluster]).expect("it exists");
        let fingerprint = self.setup.directory_fingerprint;
        self.setup.directory_fingerprint = fingerprint + 1;
        self.setup.seed = Random::of(&[self.setup.seed, 8]).next();
        let disk = MemoryDisk::with_power_loss();
        init(Arc::new(disk.clone()), &self.setup).expect("an empty disk takes a node");
        self.away = Some((std::mem::replace(&mut self.disk, disk), fingerprint));
    }

    /// The node of before never comes back.
    pub(super) fn forget_away(&mut self) {
        self.away = None;
    }

    /// The node that answered under the address before does so again.
    pub(super) fn bring_back(&mut self) {
        if let Some((disk, fingerprint)) = self.away.take() {
            self.disk = disk;
            self.set_full(false);
            self.setup.directory_fingerprint = fingerprint;
            let config = &mut self.setup.config;
            config.set("cluster-id", &[CLUSTER]).expect("it exists");
        }
    }

    /// Starts the node if it does not run. Returns whether it runs: a full disk takes none.
    pub(super) fn start(&mut self) -> bool {
        if self.node.is_some() {
            return true;
        }
        self.life += 1;
        self.setup.seed = self.setup.seed.wrapping_add(1);
        let disk = Arc::new(self.disk.clone());
        let clock = Arc::clone(&self.clock);
        match Node::start(disk, clock, &self.setup) {
            Ok(node) => self.node = Some(node),
            Err(error) => assert!(self.is_full, "a node starts on its own disk: {error}"),
        }
        self.node.is_some()
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

    /// The machine loses power: of what was not synced some is left.
    pub(super) fn lose_power(&mut self, random: &mut Random, uptime: Duration) {
        self.life += 1;
        self.node = None;
        let names_survive = random.chance(1, 2);
        let disk = &self.disk;
        self.disk = disk.after_power_loss(names_survive, |_, _| random.chance(1, 2));
        self.clock.reboot(uptime);
    }

    pub(super) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
        self.disk.set_capacity(is_full.then_some(0));
    }

    pub(super) fn step_wall(&mut self, by_us: i64) {
        self.clock.step_wall(by_us);
    }

    /// Everything the node's threads would do by now. Returns whether the node goes on: one whose log failed ends.
    pub(super) fn work(&mut self) -> bool {
        let Some(node) = self.node.as_mut().filter(|_| !self.is_paused) else {
            return true;
        };
        let is_slow = self.sync_ns > 0;
        for _ in 0..ROUNDS {
            for worker in 0..node.workers() {
                while node.iterate(worker) {}
            }
            let done = match is_slow || node.is_syncing() {
                true => node.begin_log_work(),
                false => node.work_on_log(),
            };
            if done.is_err() {
                return false;
            }
            if node.is_all_written() {
                break;
            }
        }
        for worker in 0..node.workers() {
            while node.iterate(worker) {}
        }
        !node.is_stopping()
    }

    /// Whether it runs and serves, and its disk is well.
    pub(super) fn is_well(&self) -> bool {
        let serves = self.node.as_ref().is_some_and(Node::is_serving);
        serves && !self.is_paused && !self.is_full && self.sync_ns == 0 && !self.is_syncing()
    }

    /// Whether it runs a sync that takes long.
    pub(super) fn is_syncing(&self) -> bool {
        self.node.as_ref().is_some_and(Node::is_syncing)
    }

    pub(super) fn finish_sync(&mut self) {
        self.is_sync_planned = false;
        // A failure shows in the work that follows.
        if let Some(node) = &mut self.node {
            let _ = node.finish_sync();
        }
    }

    /// What comes with time: ticks, syncs of the second, the end of a restart delay. A failure ends the node. What is
    /// never synced is lost in part when the power goes.
    pub(super) fn tick(&mut self) {
        let Some(node) = self.node.as_mut().filter(|_| !self.is_paused) else {
            return;
        };
        if node.is_serving() {
            let _ = node.maintain();
            let is_due = self.sync_due_ns.is_some_and(|at_ns| self.told_ns >= at_ns);
            if is_due && !node.is_syncing() {
                self.sync_due_ns = Some(self.told_ns + SYNC_EVERY_NS);
                let _ = node.sync();
            }
        } else {
            let _ = node.serve_if_due();
        }
    }

    /// The keys that have not expired, and what they hold.
    pub(super) fn keys(&self) -> Vec<(Vec<u8>, StoredValue)> {
        let Some(node) = &self.node else {
            return Vec::new();
        };
        let (Ok(now), Ok(stored)) = (node.now(), node.stored()) else {
            return Vec::new();
        };
        let lives = |one: &Stored| {
            one.deadline
                .is_none_or(|deadline| deadline.left_ms(now) > 0)
        };
        let living = stored.into_iter().filter(lives);
        living.map(|one| (one.key, one.value)).collect()
    }
}

const ROUNDS: usize = 8;
const SYNC_EVERY_NS: u64 = 1_000_000_000;
pub(super) const CLUSTER: &str = "blue";
