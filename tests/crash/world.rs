//! One node with its disk, its clock and its clients, driven step by step.
//!
//! Invariant: a reply reaches its client only when the node says that what it waits for is met. Everything
//! a client was told is in the oracle; nothing else is.

use std::sync::Arc;

use quorlock_engine::NodeTime;
use quorlock_persistence::{Disk, MemoryDisk, Options};
use quorlock_server::config::Config;
use quorlock_server::simulation::{Node, Setup, Syncing, Wait};

use super::check::Violation;
use super::defect::{Defect, DefectiveDisk};
use super::images;
use super::oracle::{Moment, Oracle, Told};
use super::random::Random;
use super::request::Request;
use super::time::WorldClock;
use super::workload::{Ending, Mode, Step};

/// A node and all that surrounds it.
pub(crate) struct World {
    pub(crate) disk: MemoryDisk,
    pub(crate) clock: Arc<WorldClock>,
    pub(crate) oracle: Oracle,
    /// The mode in which the oracle's versions were made.
    pub(crate) mode: Mode,
    /// The mode of the next start.
    next_mode: Mode,
    pub(crate) seed: u64,
    pub(crate) defect: Option<Defect>,
    /// True time less node time; `None` until a start has told.
    pub(crate) ahead_ns: Option<u64>,
    /// Syncs have told of what they did not do.
    pub(crate) has_lied: bool,
    pub(crate) node: Option<Node>,
    syncing: Option<(Syncing, usize)>,
    waiting: Vec<Waiting>,
    /// Everything up to this version is written.
    written: usize,
    /// The step has synced everything up to this version; it counts once the step is settled.
    synced: usize,
    database: u8,
    starts: u64,
}

/// A reply that has not been let through.
struct Waiting {
    wait: Wait,
    tells_of: Vec<Told>,
    /// The mode it was executed in.
    mode: Mode,
}

impl World {
    /// A new node in this mode, made and not started yet.
    pub(crate) fn new(seed: u64, mode: Mode, defect: Option<Defect>) -> Result<World, Violation> {
        let disk = MemoryDisk::with_power_loss();
        disk.seed(seed);
        disk.record_points();
        let clock = Arc::new(WorldClock::new());
        let world = World {
            disk,
            clock,
            oracle: Oracle::new(CAP_NS),
            mode,
            next_mode: mode,
            seed,
            defect,
            ahead_ns: None,
            has_lied: false,
            node: None,
            syncing: None,
            waiting: Vec::new(),
            written: 0,
            synced: 0,
            database: 0,
            starts: 0,
        };
        quorlock_server::simulation::init(world.disk_of_node(), &setup(mode, seed))
            .map_err(|error| Violation::new("a new node cannot be made", error))?;
        Ok(world)
    }

    /// Does one step. What the disk went through is there to be taken from it.
    pub(crate) fn apply(&mut self, step: &Step) {
        match step {
            Step::Advance(by_ns) => self.clock.advance(*by_ns),
            Step::Wall(seconds) => self.clock.step_wall(seconds.saturating_mul(1_000_000)),
            Step::Fault(operations, after, fault) => {
                self.disk.plan_fault(operations, *after, *fault)
            }
            Step::Room(more) => {
                let used = more.map(|more| more + used_bytes(&self.disk));
                self.disk.set_capacity(used);
            }
            // A restart is done in its parts by whoever explores what lies between them.
            Step::Restart(..) => {}
            Step::Request(request) => self.request(request),
            Step::Lie => {
                self.has_lied = true;
                self.disk.lie_about_syncs(true);
            }
            Step::Mode(mode) => {
                if self.configure("appendfsync", mode.name()) {
                    self.mode = *mode;
                }
            }
            Step::Cap(seconds) => {
                if self.configure("restart-delay-max", &format!("{seconds}s")) {
                    self.oracle.cap_ns = seconds * 1_000_000_000;
                }
            }
            Step::Select(database) => {
                self.database = *database;
                let number = database.to_string();
                self.tell(&[b"SELECT", number.as_bytes()]);
            }
            Step::Serve => self.serve(),
            _ => self.work(step),
        }
        if self.ahead_ns.is_some() {
            self.oracle.newest = self.moment().node_ns;
        }
    }

    /// What the step has synced counts as durable now, and its replies reach their clients.
    pub(crate) fn settle(&mut self) {
        if self.defect != Some(Defect::DurableClaimTooEarly) {
            self.oracle.synced(self.synced);
        }
        self.let_through();
    }

    /// The steps of the node's own threads. A failure ends the node, as it ends the process.
    fn work(&mut self, step: &Step) {
        let Some(mut node) = self.node.take() else {
            return;
        };
        let executed = self.oracle.last();
        let outcome = match step {
            Step::Write => node.write().map(|()| self.written = executed),
            Step::Commit => node.commit().map(|()| {
                self.written = executed;
                self.synced = executed;
            }),
            Step::Sync => {
                self.lie_if(Defect::DurableClaimTooEarly);
                node.sync()
                    .map(|()| self.synced = self.synced.max(self.written))
            }
            Step::BeginSync if self.syncing.is_none() => node.begin_sync().map(|syncing| {
                self.syncing = syncing.map(|syncing| (syncing, self.written));
            }),
            Step::FinishSync => match self.syncing.take() {
                Some((syncing, written)) => node
                    .finish_sync(syncing)
                    .map(|()| self.synced = self.synced.max(written)),
                None => Ok(()),
            },
            Step::WorkOnLog => node.work_on_log(),
            Step::Maintain if self.defect == Some(Defect::PromiseLoweredEarly) => {
                node.lower_promise_on_record()
            }
            Step::Maintain => node.maintain().map(|_| ()),
            Step::Compact if self.defect == Some(Defect::EndBeforeParts) => {
                node.compact_end_first()
            }
            Step::Compact => {
                self.lie_if(Defect::RemovalBeforeEnd);
                node.compact().map(|_| ())
            }
            _ => Ok(()),
        };
        // A node whose log failed is kept until the next restart: it must grant nothing more.
        let _ = outcome;
        self.node = Some(node);
    }

    fn lie_if(&self, defect: Defect) {
        if self.defect == Some(defect) {
            self.disk.lie_about_syncs(true);
        }
    }

    fn request(&mut self, request: &Request) {
        let words: Vec<&[u8]> = request.words.iter().map(Vec::as_slice).collect();
        let now = self.moment();
        let Some((reply, wait)) = self.tell(&words) else {
            return;
        };
        let Some(stored) = self.node.as_ref().and_then(|node| node.stored().ok()) else {
            return;
        };
        let change = self.oracle.executed(now, stored, &request.text());
        let own = change.map(|number| self.oracle.own(number));
        let mut tells_of: Vec<Told> = own.into_iter().collect();
        if tells_of.is_empty() && reply.first() != Some(&b'-') {
            tells_of = self.oracle.seen(self.database, &request.reads);
        }
        self.waiting.push(Waiting {
            wait,
            tells_of,
            mode: self.mode,
        });
    }

    /// CONFIG SET; returns whether the node took it.
    fn configure(&mut self, name: &str, value: &str) -> bool {
        let words = [
            b"CONFIG".as_slice(),
            b"SET",
            name.as_bytes(),
            value.as_bytes(),
        ];
        self.tell(&words)
            .is_some_and(|(reply, _)| reply.starts_with(b"+OK"))
    }

    fn tell(&mut self, words: &[&[u8]]) -> Option<(Vec<u8>, Wait)> {
        let node = self.node.as_mut()?;
        Some(match self.defect {
            Some(Defect::PromiseAfterGrant) => node.execute_before_promise(words),
            _ => node.execute(words),
        })
    }

    /// Lets the replies through whose wait is met.
    fn let_through(&mut self) {
        let Some(node) = &self.node else { return };
        if self.disk_lies_now() {
            self.disk.lie_about_syncs(false);
            return;
        }
        let (early, written) = (self.defect, self.written);
        self.waiting.retain(|waiting| {
            let is_written = waiting.tells_of.iter().all(|told| told.number <= written);
            let is_met = match early {
                Some(Defect::ReplyBeforeSync | Defect::PromiseNotDurable) => is_written,
                _ => node.is_met(&waiting.wait),
            };
            if is_met {
                let (is_always, is_logged) =
                    (waiting.mode == Mode::Always, waiting.mode != Mode::Volatile);
                self.oracle.reveal(&waiting.tells_of, is_always, is_logged);
            }
            !is_met
        });
    }

    fn disk_lies_now(&self) -> bool {
        let lying = [Defect::DurableClaimTooEarly, Defect::RemovalBeforeEnd];
        self.defect.is_some_and(|defect| lying.contains(&defect)) && self.disk.lies_about_syncs()
    }

    fn serve(&mut self) {
        let defect = self.defect;
        let Some(node) = &mut self.node else { return };
        let Ok(Some(left)) = node.delay_left() else {
            return;
        };
        self.clock
            .advance(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        // A failure shows in what follows.
        let _ = match defect {
            Some(Defect::ServingUnsynced) => node.serve_at_once(),
            _ => node.serve_if_due().map(|_| ()),
        };
    }

    /// The node ends. What it still did is settled afterwards, as after any other step.
    pub(crate) fn end(&mut self, ending: Ending) {
        self.syncing = None;
        if ending != Ending::Stop {
            self.node = None;
            return;
        }
        let Some(mut node) = self.node.take() else {
            return;
        };
        let owes = matches!(node.delay_left(), Ok(Some(_)));
        let stopped = match self.defect {
            Some(Defect::DelayClearedByStop) if owes => node.stop_without_debt(),
            Some(Defect::ShutdownNotLast) if !owes => {
                // What fails shows in the state that it leaves.
                let _ = node.stop_early();
                self.synced = self.oracle.last();
                self.node = Some(node);
                self.request(&Request::late());
                self.work(&Step::Write);
                return;
            }
            _ => node.stop(),
        };
        if stopped.is_ok() {
            self.synced = self.oracle.last();
        }
    }

    /// What the node left is found by the next process, after some time.
    pub(crate) fn pass_on(&mut self, ending: Ending, mode: Mode) {
        self.node = None;
        self.waiting.clear();
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
        disk.record_points();
        if matches!(ending, Ending::PowerLoss(_)) || self.disk.has_abandoned() && self.evicts() {
            self.oracle.lost_power();
        }
        self.disk = disk;
        self.clock
            .advance(1 + Random::of(&[self.seed, self.starts]).below(3_000_000_000));
        if matches!(ending, Ending::PowerLoss(_) | Ending::KillAndReboot) {
            self.clock.reboot();
        }
        self.ahead_ns = None;
        self.next_mode = mode;
    }

    fn evicts(&self) -> bool {
        Random::of(&[self.seed, self.starts, 3]).chance(1, 2)
    }

    /// Starts the node on what its disk holds.
    pub(crate) fn start(&mut self) -> Result<(), Violation> {
        self.starts += 1;
        let setup = setup(self.next_mode, self.seed ^ self.starts);
        let clock = Arc::clone(&self.clock);
        let node = Node::start(self.disk_of_node(), clock, &setup)
            .map_err(|error| Violation::new("the node does not start again", error))?;
        self.node = Some(node);
        Ok(())
    }

    /// From here on the oracle goes by what the node has read.
    pub(crate) fn go_on(&mut self) -> Result<(), Violation> {
        let Some(node) = &self.node else {
            return Ok(());
        };
        let failed = |error| Violation::new("the node failed at its start", error);
        let (now, stored) = (node.now().map_err(failed)?, node.stored().map_err(failed)?);
        let kept = self.oracle.version_of(&stored, 0).unwrap_or(0);
        let true_ns = self.clock.true_ns();
        self.oracle.restarted(kept, moment(now, true_ns), &stored);
        self.ahead_ns = Some(true_ns.wrapping_sub(now.as_nanos()));
        self.mode = self.next_mode;
        self.oracle.cap_ns = CAP_NS;
        self.written = 0;
        self.synced = 0;
        self.database = 0;
        Ok(())
    }

    fn moment(&self) -> Moment {
        let true_ns = self.clock.true_ns();
        Moment {
            node_ns: true_ns.wrapping_sub(self.ahead_ns.unwrap_or(0)),
            true_ns,
        }
    }

    fn disk_of_node(&self) -> Arc<dyn Disk> {
        DefectiveDisk::around(&self.disk, self.defect)
    }
}

/// What a node is set up with.
pub(crate) fn setup(mode: Mode, seed: u64) -> Setup {
    let mut config = Config::default();
    let (logged, fsync) = match mode {
        Mode::Always => ("yes", "always"),
        Mode::Everysec => ("yes", "everysec"),
        Mode::No => ("yes", "no"),
        Mode::Volatile => ("no", "always"),
    };
    for (name, value) in [
        ("appendonly", logged),
        ("appendfsync", fsync),
        ("first-start", "wait"),
    ] {
        config.set(name, &[value]).expect("these directives exist");
    }
    Setup {
        config,
        sizes: Options {
            first_segment_bytes: 10 << 10,
            segment_bytes: 10 << 10,
            frame_bytes_max: 4 << 10,
            reserve_bytes: 1 << 10,
            expected_node: None,
        },
        part_bytes: 256,
        place: 7,
        seed,
        is_remote: true,
    }
}

pub(crate) fn moment(node: NodeTime, true_ns: u64) -> Moment {
    Moment {
        node_ns: node.as_nanos(),
        true_ns,
    }
}

fn used_bytes(disk: &MemoryDisk) -> u64 {
    let length = |name: &str| disk.open(name).and_then(|file| file.len()).unwrap_or(0);
    let entries = disk.list().unwrap_or_default();
    entries.iter().map(|entry| length(&entry.name)).sum()
}

/// `restart-delay-max` as it is by default.
pub(crate) const CAP_NS: u64 = 60_000_000_000;
