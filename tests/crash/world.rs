//! One node with its disk, its clock and its clients, driven step by step.
//!
//! Invariant: clients and node exchange bytes, and nothing else. A reply whose bytes have left the node is acknowledged.
//! Everything a client was told is in the oracle; nothing else is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_node::simulation::Node;
use quorlock_persistence::{DirectoryEntry, Disk, MemoryDisk, Point};

use super::check::{Past, Violation, newest_run};
use super::events::Events;
use super::images;
use super::model::{Moment, Rules};
use super::options::{Backup, Directory, Options, PAGE_BYTES, SEGMENT_BYTES_MIN};
use super::oracle::Oracle;
use super::request::{CONNECTIONS, LISTENERS};
use super::session::{Kind, Learnt, Session};
use super::time::WorldClock;
use super::workload::{Ending, Mode, Step, Workload};
use quorlock_simulation::Random;

/// A node and all that surrounds it.
pub(crate) struct World {
    pub(crate) disk: MemoryDisk,
    pub(crate) clock: Arc<WorldClock>,
    pub(crate) oracle: Oracle,
    /// The mode in which the oracle's versions were made.
    pub(crate) mode: Mode,
    /// What the next start is given, or the running node was given.
    pub(crate) options: Options,
    /// The machine and the directory.
    pub(crate) directory_number: u64,
    /// What operators have put aside after each run, oldest first.
    pub(crate) backups: Vec<Backup>,
    /// The cap that each run was started with.
    pub(crate) caps: BTreeMap<u64, u64>,
    /// The same of the last run; an older directory that is put back may make its number one that was used before.
    carried_limit_ns: Option<u64>,
    started_cap_ns: u64,
    pub(crate) seed: u64,
    /// The raw clock less node time; `None` until a start has told.
    pub(crate) ahead_ns: Option<u64>,
    /// No clock has run at another rate than true time.
    pub(crate) is_exact: bool,
    /// The directory was put back or emptied since the last run: the cap that is on record there.
    pub(crate) gone_back: Option<u64>,
    /// Syncs have told of what they did not do.
    pub(crate) has_lied: bool,
    /// The last run that such a disk remembered when the node was started.
    pub(crate) recorded: Option<u64>,
    pub(crate) node: Option<Node>,
    /// What has happened since it was last asked for, to be looked at in this order.
    pub(crate) happened: Vec<Happened>,
    pub(super) events: Arc<Events>,
    pub(super) sessions: Vec<Session>,
    /// Those whose clients have left: the node may still execute what it had received.
    pub(super) left: Vec<Session>,
    /// So many sessions there were.
    pub(super) session_count: u64,
    /// How long a sync takes, in nanoseconds.
    sync_ns: Arc<AtomicU64>,
    direct_writes: Arc<AtomicU64>,
    /// Everything up to this version was written when the sync began that runs.
    syncing: Option<usize>,
    /// Everything up to this version is written.
    pub(super) written: usize,
    /// Everything up to this version is synced; it counts once the step is settled.
    pub(super) synced: usize,
    pub(super) database: u8,
    starts: u64,
    /// There are clients that listen, track and wait.
    is_listened_to: bool,
    /// How many that waited the node has served.
    pub(super) served: u64,
    /// When the step began.
    pub(super) began: Moment,
}

/// What a crash after it has to be judged by.
#[derive(Debug)]
pub(crate) enum Happened {
    /// The disk has changed.
    Changed(Point),
    /// A client was told something, with this on the disk.
    Told(Kind, Learnt, MemoryDisk),
}

impl World {
    /// A new node for this workload, made and not started yet.
    pub(crate) fn new(seed: u64, workload: &Workload) -> Result<World, Violation> {
        let disk = MemoryDisk::with_power_loss();
        disk.seed(seed);
        disk.record_points();
        let options = Options {
            direct_blocks: workload.direct_blocks,
            ..Options::plain(workload.mode)
        };
        let clock = Arc::new(WorldClock::new());
        let mut world = World {
            oracle: Oracle::new(Rules {
                cap_ns: options.cap_ns(),
                requires_ttl: options.requires_ttl,
                run: 0,
            }),
            mode: workload.mode,
            options,
            directory_number: 7,
            backups: Vec::new(),
            caps: BTreeMap::new(),
            carried_limit_ns: None,
            started_cap_ns: 0,
            seed,
            ahead_ns: None,
            is_exact: true,
            gone_back: None,
            has_lied: false,
            recorded: None,
            node: None,
            happened: Vec::new(),
            events: Events::new(disk.clone(), Arc::clone(&clock)),
            sessions: Vec::new(),
            left: Vec::new(),
            session_count: 0,
            sync_ns: Arc::new(AtomicU64::new(0)),
            direct_writes: Arc::new(AtomicU64::new(0)),
            syncing: None,
            written: 0,
            synced: 0,
            database: 0,
            starts: 0,
            is_listened_to: workload.is_listened_to,
            served: 0,
            began: Moment {
                node_ns: 0,
                true_ns: 0,
            },
            clock,
            disk,
        };
        let setup = options.setup(&world.disk, world.directory_number, seed);
        quorlock_node::simulation::init(Arc::new(world.disk.clone()), &setup)
            .map_err(|error| Violation::new("a new node cannot be made", error))?;
        world.collect()?;
        Ok(world)
    }

    /// Does one step. What the disk went through is there to be taken from it.
    pub(crate) fn apply(&mut self, step: &Step) -> Result<(), Violation> {
        self.began = self.moment();
        match step {
            Step::Advance(by_ns) => self.clock.advance(*by_ns),
            Step::Wall(seconds) => self.clock.step_wall(seconds.saturating_mul(1_000_000)),
            Step::Fault(operations, after, fault) => {
                self.disk.plan_fault(operations, *after, *fault)
            }
            Step::Room(more) => {
                // In segments, whatever their length.
                let segments = self.options.segment_bytes() / SEGMENT_BYTES_MIN;
                let used = more.map(|more| more * segments + used_bytes(&self.disk));
                self.disk.set_capacity(used);
            }
            // A restart is done in its parts by whoever explores what lies between them.
            Step::Restart(..) => {}
            Step::Request(request) => self.request(request),
            Step::Lie => {
                self.has_lied = true;
                self.disk.lie_about_syncs(true);
            }
            Step::Mode(mode) => self.configure("appendfsync", mode.name()),
            Step::Cap(seconds) => self.configure("restart-delay-max", &format!("{seconds}s")),
            Step::Select(database) => self.select(*database),
            Step::Leave(connection, leaving) => self.leave(*connection, leaving),
            Step::Reads(connection, bytes) => {
                if let (Some(node), Some(session)) = (&self.node, self.sessions.get(*connection)) {
                    node.set_room(session.client, bytes.unwrap_or(usize::MAX));
                }
            }
            Step::SyncsTake(ns) => self.sync_ns.store(*ns, Ordering::Relaxed),
            Step::Iterate(worker) => self.iterate(*worker)?,
            Step::Serve => self.serve(),
            _ => self.work(step),
        }
        self.collect()?;
        if self.ahead_ns.is_some() {
            self.oracle.newest = self.moment().node_ns;
        }
        Ok(())
    }

    /// What the step has synced counts as durable now.
    pub(crate) fn settle(&mut self) {
        self.oracle.synced(self.synced);
    }

    /// A client knows what it has learnt.
    pub(crate) fn reveal(&mut self, learnt: &Learnt) {
        let is_always = learnt.mode == Mode::Always;
        let syncs_uncovered = self.options.syncs_uncovered && learnt.mode != Mode::Volatile;
        self.oracle
            .reveal(&learnt.tells_of, is_always, syncs_uncovered);
    }

    /// A worker goes on until nothing more has come.
    fn iterate(&mut self, worker: usize) -> Result<(), Violation> {
        for _ in 0..ITERATIONS_MAX {
            let Some(node) = &mut self.node else { break };
            let worker = worker % node.workers();
            let is_more = node.iterate(worker);
            self.collect()?;
            if !is_more {
                break;
            }
        }
        Ok(())
    }

    /// The steps of the node's other threads. A failure ends the node, as it ends the process: it is kept until the
    /// next restart, and must grant nothing more.
    fn work(&mut self, step: &Step) {
        let Some(node) = &mut self.node else { return };
        match step {
            Step::Sync => {
                let is_synced = node.sync().is_ok();
                if is_synced {
                    self.synced = self.synced.max(self.written);
                }
            }
            Step::BeginSync if !node.is_syncing() => {
                let _ = node.begin_log_work();
                if node.is_all_written() {
                    self.written = self.oracle.last();
                }
                self.syncing = node.is_syncing().then_some(self.written);
            }
            Step::FinishSync => {
                if let (Ok(()), Some(written)) = (node.finish_sync(), self.syncing.take()) {
                    self.synced = self.synced.max(written);
                }
            }
            Step::WorkOnLog => {
                self.syncing = None;
                let _ = node.work_on_log();
            }
            // A node in its delay does neither.
            Step::Maintain if node.is_serving() => drop(node.maintain()),
            Step::Compact if node.is_serving() => drop(node.compact()),
            _ => {}
        }
    }

    fn serve(&mut self) {
        let Some(node) = &mut self.node else { return };
        let Ok(Some(left)) = node.delay_left() else {
            return;
        };
        self.clock
            .advance_raw(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        // A failure shows in what follows.
        let _ = node.serve_if_due();
    }

    /// The node ends. What it still did is settled afterwards, as after any other step.
    pub(crate) fn end(&mut self, ending: Ending) -> Result<(), Violation> {
        self.syncing = None;
        // A node that has served leaves no delay of an earlier start.
        self.carried_limit_ns = self.carried_limit_ns();
        if ending != Ending::Stop {
            self.node = None;
            return self.collect();
        }
        let Some(node) = &mut self.node else {
            return Ok(());
        };
        if node.stop().is_ok() {
            self.synced = self.oracle.last();
        }
        // A client that asks while the process ends.
        let reply = node.execute(&[b"SET", b"late", b"token", b"NX", b"PX", b"80"]);
        if reply.first() == Some(&b'+') {
            let detail = String::from_utf8_lossy(&reply).into_owned();
            return Err(Violation::new(
                "a node that is stopping executes a request",
                detail,
            ));
        }
        node.drain();
        self.collect()
    }

    /// What the node left is found by the next process, after some time and perhaps not where it was left.
    pub(crate) fn pass_on(&mut self, ending: Ending, options: Options) {
        self.node = None;
        self.sessions.clear();
        self.left.clear();
        let disk = match ending {
            Ending::PowerLoss(0) => images::total_loss(&self.disk).disk,
            Ending::PowerLoss(seed) => {
                let random = &mut Random::of(&[self.seed, seed]);
                images::whole_sectors(&self.disk, random).disk
            }
            // What a failed sync gave up may be read back from the cache for a while, and then not.
            _ if self.evicts() => self.disk.after_eviction(),
            _ => self.disk.after_process_end(),
        };
        if matches!(ending, Ending::PowerLoss(_)) || self.disk.has_abandoned() && self.evicts() {
            self.oracle.lost_power();
        }
        self.options = options;
        self.gone_back = None;
        if self.has_lied {
            // An operator who trusts such a disk, or moves what is on it, gets what it has.
            self.options.trusts_fsync = false;
            self.options.directory = Directory::Same;
        }
        self.disk = self.changed_directory(disk);
        self.disk.record_points();
        self.disk.lie_about_syncs(self.has_lied);
        self.clock
            .advance(1 + Random::of(&[self.seed, self.starts]).below(3_000_000_000));
        if matches!(ending, Ending::PowerLoss(_) | Ending::KillAndReboot) {
            self.clock.reboot(options.rate_ppm);
            self.is_exact &= options.rate_ppm == 0;
        }
        self.ahead_ns = None;
    }

    /// What becomes of the directory before the next start; before that it is put aside for later.
    fn changed_directory(&mut self, disk: MemoryDisk) -> MemoryDisk {
        let changed = self.options.directory.change(&disk, &self.backups);
        if self.options.directory == Directory::Moved {
            self.directory_number += 1;
        }
        if !self.caps.is_empty() {
            self.backups.push(Backup {
                disk: disk.after_process_end(),
                cap_ns: self.started_cap_ns,
            });
        }
        let Some(changed) = changed else { return disk };
        self.gone_back = changed.is_older.then_some(changed.cap_ns);
        changed.disk
    }

    fn evicts(&self) -> bool {
        Random::of(&[self.seed, self.starts, 3]).chance(1, 2)
    }

    /// Starts the node on what its disk holds.
    pub(crate) fn start(&mut self) -> Result<(), Violation> {
        self.starts += 1;
        self.recorded = self.has_lied.then(|| newest_run(&self.disk));
        let setup = self
            .options
            .setup(&self.disk, self.directory_number, self.seed ^ self.starts);
        self.served = 0;
        self.events = Events::new(self.disk.clone(), Arc::clone(&self.clock));
        let started = self.options.start(&self.disk, self.clock.clone(), &setup);
        let node = started.map_err(Violation::refusal)?;
        self.node = Some(node);
        self.collect()
    }

    /// How long the delay lasts that the node waits out, where the operator of an earlier start has limited it: in another
    /// boot it begins anew, by the clock of that.
    pub(crate) fn carried_limit_ns(&self) -> Option<u64> {
        let is_serving = self.node.as_ref().is_some_and(Node::is_serving);
        self.carried_limit_ns.filter(|_| !is_serving)
    }

    /// From here on the oracle goes by what the node has read.
    pub(crate) fn go_on(&mut self) -> Result<(), Violation> {
        let Some(node) = &self.node else {
            return Ok(());
        };
        let past = Past::read(self, &self.clock, node)?;
        let kept = past.kept(0);
        let limit_ns = self.options.limit_ns();
        let may_serve_from = limit_ns.map(|ns| past.true_ns + self.clock.true_for_raw(ns));
        let lost = past.owed(kept, may_serve_from);
        let (now, run) = (past.now(), node.incarnation());
        let stored = past.stored;
        self.carried_limit_ns = limit_ns.or(self.carried_limit_ns);
        self.mode = self.options.mode;
        self.oracle.rules = Rules {
            cap_ns: self.options.cap_ns(),
            requires_ttl: self.options.requires_ttl,
            run,
        };
        self.started_cap_ns = self.options.cap_ns();
        self.caps.insert(run, self.started_cap_ns);
        let is_logged = self.mode != Mode::Volatile;
        // Of an older directory nothing is known, not even where it has the same.
        let known = kept.filter(|_| self.gone_back.is_none());
        self.oracle.restarted(known, lost, now, &stored, is_logged);
        self.ahead_ns = Some(self.clock.raw_ns().wrapping_sub(now.node_ns));
        self.gone_back = None;
        self.written = 0;
        self.synced = 0;
        self.database = 0;
        let listeners = if self.is_listened_to { LISTENERS } else { 0 };
        (0..CONNECTIONS + listeners).for_each(|connection| self.replace(connection));
        let (clock, sync_ns) = (Arc::clone(&self.clock), Arc::clone(&self.sync_ns));
        self.disk.on_sync(Arc::new(move || {
            clock.advance(sync_ns.load(Ordering::Relaxed))
        }));
        let direct_writes = Arc::clone(&self.direct_writes);
        self.disk.on_direct_write(Arc::new(move || {
            direct_writes.fetch_add(1, Ordering::Relaxed);
        }));
        Ok(())
    }

    /// The block, where the log of each write is written directly in larger ones than a page.
    fn large_block(&self) -> Option<usize> {
        let is_direct = self.mode == Mode::Always;
        self.options
            .direct_blocks
            .filter(|block| is_direct && *block > PAGE_BYTES)
    }

    /// How many writes went out in large blocks since this was last asked.
    pub(crate) fn take_large_writes(&self) -> u64 {
        let count = self.direct_writes.swap(0, Ordering::Relaxed);
        self.large_block().map_or(0, |_| count)
    }

    /// Whether a segment goes on behind its first large block.
    pub(crate) fn has_filled_block(&self) -> bool {
        let Some(block) = self.large_block() else {
            return false;
        };
        let goes_on = |entry: &DirectoryEntry| {
            let mut frame = [0; 64];
            let file = self.disk.open(&entry.name);
            let read = file.and_then(|file| file.read_at(block as u64, &mut frame));
            read.is_ok() && frame != [0; 64]
        };
        let entries = self.disk.list().unwrap_or_default();
        entries.iter().any(goes_on)
    }

    pub(super) fn moment(&self) -> Moment {
        Moment {
            node_ns: self.clock.raw_ns().wrapping_sub(self.ahead_ns.unwrap_or(0)),
            true_ns: self.clock.true_ns(),
        }
    }
}

/// What all files take.
pub(crate) fn used_bytes(disk: &MemoryDisk) -> u64 {
    let length = |name: &str| disk.open(name).and_then(|file| file.len()).unwrap_or(0);
    let entries = disk.list().unwrap_or_default();
    entries.iter().map(|entry| length(&entry.name)).sum()
}

/// More iterations than it takes to read what came, piece by piece.
const ITERATIONS_MAX: u32 = 64;
