//! One node of a cluster: a simulated node, its disk, its clock, and whether it runs.

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::{Stored, StoredValue};
use quorlock_node::clock::SettableClock;
use quorlock_node::config::Config;
use quorlock_node::simulation::{Node, Setup, init};
use quorlock_persistence::{LogOptions, MemoryDisk};

use crate::random::Random;

/// A node of a cluster.
#[derive(Debug)]
pub struct Server {
    disk: MemoryDisk,
    clock: Arc<SettableClock>,
    /// What its clock has been told of true time.
    told_ns: u64,
    setup: Setup,
    /// It, while it runs.
    pub node: Option<Node>,
    /// Counts its lives: connections of an earlier one are dead.
    pub life: u32,
    /// Whether its process is stopped.
    pub is_paused: bool,
    is_without_power: bool,
    /// How long a sync takes, where it takes long.
    pub sync_ns: u64,
    is_full: bool,
    /// Whether whoever drives it has planned the end of the sync that it runs.
    pub is_sync_planned: bool,
    /// When what is written is synced the next time; never where the kernel decides.
    sync_due_ns: Option<u64>,
    /// The disk of the node that answered under the address before.
    away: Option<MemoryDisk>,
    /// What its file system held once, as a process that ends leaves it.
    image: Option<MemoryDisk>,
    /// The node that answers under the address may hold no lock before this time.
    pub is_empty_until_ns: u64,
}

impl Server {
    /// A node that was told these directives, on an empty disk, which runs. Its log has these sizes, and its
    /// clock this rate.
    ///
    /// # Panics
    /// If there is no such directive.
    pub fn new(seed: u64, directives: &[(&str, &str)], sizes: LogOptions, rate_ppm: i32) -> Server {
        let mut config = Config::default();
        for (name, value) in directives {
            let words: Vec<&str> = value.split(' ').collect();
            config.set(name, &words).expect("these directives exist");
        }
        let is_synced = !directives.contains(&("appendfsync", "no"));
        let setup = Setup {
            sizes,
            part_bytes: 4096,
            seed,
            ..Setup::new(config)
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
            is_without_power: false,
            sync_ns: 0,
            is_full: false,
            is_sync_planned: false,
            sync_due_ns: is_synced.then_some(0),
            away: None,
            image: None,
            is_empty_until_ns: 0,
        };
        server.start();
        server.take_image();
        server
    }

    /// Takes an image of the file system while the node runs.
    pub fn take_image(&mut self) {
        self.image = Some(self.disk.after_process_end());
    }

    /// The file system is again what it was when the image was taken. The process has ended.
    pub fn put_image_back(&mut self) {
        if let Some(image) = &self.image {
            self.disk = image.after_process_end();
        }
    }

    /// Another node answers under the address from now on: one with an empty directory, of this cluster or another. The
    /// process of the node before has ended.
    pub fn replace(&mut self, cluster: &str) {
        if self.away.is_some() {
            return;
        }
        let config = &mut self.setup.config;
        config.set("cluster-id", &[cluster]).expect("it exists");
        self.setup.seed = Random::of(&[self.setup.seed, 8]).number();
        let disk = MemoryDisk::with_power_loss();
        init(Arc::new(disk.clone()), &self.setup).expect("an empty disk takes a node");
        self.away = Some(std::mem::replace(&mut self.disk, disk));
    }

    /// The node of before never comes back.
    pub fn forget_away(&mut self) {
        self.away = None;
    }

    /// The node that answered under the address before does so again.
    pub fn bring_back(&mut self, cluster: &str) {
        if let Some(disk) = self.away.take() {
            self.disk = disk;
            self.set_full(false);
            let config = &mut self.setup.config;
            config.set("cluster-id", &[cluster]).expect("it exists");
        }
    }

    /// Changes directives for the next start.
    ///
    /// # Panics
    /// If there is no such directive.
    pub fn configure<V: AsRef<str>>(&mut self, directives: &[(&str, V)]) {
        for (name, value) in directives {
            let value = value.as_ref();
            let config = &mut self.setup.config;
            config.set(name, &[value]).expect("these directives exist");
            if *name == "appendfsync" {
                self.sync_due_ns = (value != "no").then_some(self.told_ns);
            }
        }
    }

    /// Starts the node if it does not run. Returns whether it runs: a full disk takes none.
    pub fn start(&mut self) -> bool {
        if self.node.is_some() {
            return true;
        }
        self.life += 1;
        self.is_without_power = false;
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
    pub fn kill(&mut self) {
        if self.node.take().is_some() {
            self.life += 1;
            self.disk = self.disk.after_process_end();
        }
    }

    /// The process is stopped in an orderly way, and starts again later.
    pub fn stop(&mut self) {
        if let Some(node) = &mut self.node {
            // A failure shows in what the next start finds.
            let _ = node.stop();
            node.drain();
        }
        self.kill();
    }

    /// Its clock goes on to this moment of true time.
    pub fn tell_time(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.told_ns);
        self.clock.advance(Duration::from_nanos(passed));
        self.told_ns = now_ns;
    }

    /// Of what its disk is asked to do, so many changes are still done, and none after them: the power goes between two.
    pub fn end_after(&self, changes: u64) {
        self.disk.end_after(changes);
    }

    /// The machine loses power: of what was not synced some is left, and the next start is in another boot.
    pub fn lose_power(&mut self, random: &mut Random, uptime: Duration) {
        self.life += 1;
        self.is_without_power = true;
        self.node = None;
        let names_survive = random.chance(1, 2);
        let disk = &self.disk;
        self.disk = disk.after_power_loss(names_survive, |_, _| random.chance(1, 2));
        self.clock.reboot(uptime);
    }

    /// The machine loses power, and everything that was not synced with it.
    pub fn lose_unsynced(&mut self, uptime: Duration) {
        self.life += 1;
        self.is_without_power = true;
        self.node = None;
        self.disk = self.disk.after_power_loss(false, |_, _| false);
        self.clock.reboot(uptime);
    }

    /// Whether its machine has lost power, and has not started again.
    pub fn is_without_power(&self) -> bool {
        self.is_without_power
    }

    /// Its disk has no space left, or has some again.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
        self.disk.set_capacity(is_full.then_some(0));
    }

    /// Its wall clock is set.
    pub fn step_wall(&mut self, by_us: i64) {
        self.clock.step_wall(by_us);
    }

    /// Everything the node's threads would do by now. Returns whether the node goes on: one whose log failed ends.
    pub fn work(&mut self) -> bool {
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
    pub fn is_well(&self) -> bool {
        let serves = self.node.as_ref().is_some_and(Node::is_serving);
        serves && !self.is_paused && !self.is_full && self.sync_ns == 0 && !self.is_syncing()
    }

    /// Whether it runs a sync that takes long.
    pub fn is_syncing(&self) -> bool {
        self.node.as_ref().is_some_and(Node::is_syncing)
    }

    /// Somebody asks for a sync, which is done at once.
    ///
    /// # Panics
    /// If it fails: nobody asks a disk that is not well.
    pub fn sync(&mut self) {
        if let Some(node) = &mut self.node {
            node.sync().expect("the disk is well");
        }
    }

    /// The sync that takes long ends.
    pub fn finish_sync(&mut self) {
        self.is_sync_planned = false;
        // A failure shows in the work that follows.
        if let Some(node) = &mut self.node {
            let _ = node.finish_sync();
        }
    }

    /// What comes with time: ticks, syncs of the second, the end of a restart delay. A failure ends the node. What is
    /// never synced is lost in part when the power goes.
    pub fn tick(&mut self) {
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
    pub fn keys(&self) -> Vec<(Vec<u8>, StoredValue)> {
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
