//! One node with its disk, its clock and its clients, driven step by step.
//!
//! Invariant: a reply reaches its client only when the node says that what it waits for is met. Everything
//! a client was told is in the oracle; nothing else is.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorlock_persistence::{Disk, MemoryDisk};
use quorlock_server::simulation::{Node, Syncing, Wait};

use super::check::{Past, Violation, newest_run};
use super::images;
use super::model::{Moment, Rules};
use super::options::{Backup, Directory, Options};
use super::oracle::{Oracle, Told};
use super::random::Random;
use super::request::{CONNECTIONS, Request};
use super::time::WorldClock;
use super::workload::{Ending, Mode, Step};

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
    pub(crate) place: u64,
    /// What operators have put aside after each run, oldest first.
    pub(crate) backups: Vec<Backup>,
    /// The cap that each run was started with.
    pub(crate) caps: BTreeMap<u64, u64>,
    /// The same of the last run; an older directory that is put back may make its number one that was used before.
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
    syncing: Option<(Syncing, usize)>,
    waiting: Vec<Waiting>,
    /// What each connection was or will be told of in this run.
    known: BTreeMap<usize, Vec<Told>>,
    turn: u64,
    /// Everything up to this version is written.
    written: usize,
    /// The step has synced everything up to this version; it counts once the step is settled.
    synced: usize,
    database: u8,
    starts: u64,
}

/// A reply that has not been let through.
struct Waiting {
    connection: usize,
    /// The turn of the worker in which it was executed.
    turn: u64,
    /// `None` where the client is blocked until all it knows of is synced.
    wait: Option<Wait>,
    tells_of: Vec<Told>,
    /// The mode it was executed in.
    mode: Mode,
}

impl World {
    /// A new node in this mode, made and not started yet.
    pub(crate) fn new(seed: u64, mode: Mode) -> Result<World, Violation> {
        let disk = MemoryDisk::with_power_loss();
        disk.seed(seed);
        disk.record_points();
        let options = Options::plain(mode);
        let world = World {
            clock: Arc::new(WorldClock::new()),
            oracle: Oracle::new(Rules {
                cap_ns: options.cap_ns(),
                requires_ttl: options.requires_ttl,
                run: 0,
            }),
            mode,
            options,
            place: 7,
            backups: Vec::new(),
            caps: BTreeMap::new(),
            started_cap_ns: 0,
            seed,
            ahead_ns: None,
            is_exact: true,
            gone_back: None,
            has_lied: false,
            recorded: None,
            node: None,
            syncing: None,
            waiting: Vec::new(),
            known: BTreeMap::new(),
            turn: 0,
            written: 0,
            synced: 0,
            database: 0,
            starts: 0,
            disk,
        };
        let setup = options.setup(&world.disk, world.place, seed);
        quorlock_server::simulation::init(Arc::new(world.disk.clone()), &setup)
            .map_err(|error| Violation::new("a new node cannot be made", error))?;
        Ok(world)
    }

    /// Does one step. What the disk went through is there to be taken from it.
    pub(crate) fn apply(&mut self, step: &Step) -> Result<(), Violation> {
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
            Step::Request(request) => self.request(request)?,
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
                    self.oracle.rules.cap_ns = seconds * 1_000_000_000;
                }
            }
            Step::Select(database) => self.select(*database),
            Step::Close(connection) => self.close(*connection),
            Step::Serve => self.serve(),
            _ => self.work(step),
        }
        if self.ahead_ns.is_some() {
            self.oracle.newest = self.moment().node_ns;
        }
        Ok(())
    }

    /// What the step has synced counts as durable now, and its replies reach their clients.
    pub(crate) fn settle(&mut self) {
        self.oracle.synced(self.synced);
        self.let_through();
    }

    /// The steps of the node's own threads. A failure ends the node, as it ends the process.
    fn work(&mut self, step: &Step) {
        let Some(mut node) = self.node.take() else {
            return;
        };
        let executed = self.oracle.last();
        self.turn += u64::from(matches!(step, Step::Write | Step::Commit));
        let outcome = match step {
            Step::Write => node.write().map(|()| self.written = executed),
            Step::Commit => node.commit().map(|()| {
                self.written = executed;
                self.synced = executed;
            }),
            Step::Sync => node
                .sync()
                .map(|()| self.synced = self.synced.max(self.written)),
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
            // A node in its delay does neither.
            Step::Maintain if node.is_serving() => node.maintain().map(|_| ()),
            Step::Compact if node.is_serving() => node.compact().map(|_| ()),
            _ => Ok(()),
        };
        // A node whose log failed is kept until the next restart: it must grant nothing more.
        let _ = outcome;
        self.node = Some(node);
    }

    fn request(&mut self, request: &Request) -> Result<(), Violation> {
        let connection = request.connection;
        // A connection executes nothing while replies of its earlier turn have not left, or while it is blocked.
        let is_behind = |waiting: &Waiting| {
            let is_old = waiting.turn < self.turn || waiting.wait.is_none();
            waiting.connection == connection && is_old
        };
        if self.waiting.iter().any(is_behind) {
            return Ok(());
        }
        let words: Vec<&[u8]> = request.words.iter().map(Vec::as_slice).collect();
        let now = self.moment();
        let Some(node) = &mut self.node else {
            return Ok(());
        };
        let (reply, wait) = node.execute_on(connection, &words);
        let Ok(stored) = node.stored() else {
            return Ok(());
        };
        let (tells_of, wait) = if request.is_for_sync() {
            let known = self.known.get(&connection).cloned();
            let is_told = reply.is_empty() || reply == SYNCED;
            // An answer that it need not wait for is true now.
            let tells_of = known.filter(|_| is_told).unwrap_or_default();
            (tells_of, (!reply.is_empty()).then_some(wait))
        } else {
            let seen = (reply.as_slice(), stored.as_slice());
            let change = self.oracle.executed(now, self.database, request, seen)?;
            let mut tells_of: Vec<Told> = change
                .map(|number| self.oracle.own(number))
                .into_iter()
                .collect();
            if tells_of.is_empty() && reply.first() != Some(&b'-') {
                tells_of = self.oracle.seen(self.database, &request.reads);
            }
            let known = self.known.entry(connection).or_default();
            known.extend(tells_of.iter().cloned());
            (tells_of, Some(wait))
        };
        self.waiting.push(Waiting {
            connection,
            turn: self.turn,
            wait,
            tells_of,
            // Such an answer promises as much as `always`.
            mode: if request.is_for_sync() && self.mode != Mode::Volatile {
                Mode::Always
            } else {
                self.mode
            },
        });
        Ok(())
    }

    /// All connections go over to another database, those that wait excepted: they lose their replies.
    fn select(&mut self, database: u8) {
        self.database = database;
        let number = database.to_string();
        for connection in 0..CONNECTIONS {
            if self
                .waiting
                .iter()
                .any(|waiting| waiting.connection == connection)
            {
                self.close(connection);
            }
            if let Some(node) = &mut self.node {
                node.execute_on(connection, &[b"SELECT", number.as_bytes()]);
                node.end_pipeline(connection);
            }
        }
    }

    /// The client of a connection never learns what it has not read.
    fn close(&mut self, connection: usize) {
        self.waiting
            .retain(|waiting| waiting.connection != connection);
        self.known.remove(&connection);
        if let Some(node) = &mut self.node {
            node.close(connection);
            let number = self.database.to_string();
            node.execute_on(connection, &[b"SELECT", number.as_bytes()]);
            node.end_pipeline(connection);
        }
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
        Some(self.node.as_mut()?.execute(words))
    }

    /// Lets the replies of each connection through, in order, once all that its pipeline waits for is met; then the
    /// answer of one that was blocked.
    fn let_through(&mut self) {
        let Some(node) = &mut self.node else { return };
        let syncs_uncovered = self.options.syncs_uncovered;
        for connection in 0..CONNECTIONS {
            let own = |waiting: &&Waiting| waiting.connection == connection;
            let last = self
                .waiting
                .iter()
                .filter(own)
                .filter_map(|waiting| waiting.wait)
                .next_back();
            let is_met = last.is_none_or(|wait| node.is_met(&wait));
            let is_over = is_met && node.unblocked(connection).is_some();
            if is_met && last.is_some() {
                node.end_pipeline(connection);
            }
            self.waiting.retain(|waiting| {
                let leaves = if waiting.wait.is_some() {
                    is_met
                } else {
                    is_over
                };
                if waiting.connection != connection || !leaves {
                    return true;
                }
                let is_always = waiting.mode == Mode::Always;
                let syncs_uncovered = syncs_uncovered && waiting.mode != Mode::Volatile;
                self.oracle
                    .reveal(&waiting.tells_of, is_always, syncs_uncovered);
                false
            });
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
        if ending != Ending::Stop {
            self.node = None;
            return Ok(());
        }
        let Some(node) = &mut self.node else {
            return Ok(());
        };
        if node.stop().is_ok() {
            self.synced = self.oracle.last();
        }
        // A client that asks while the process ends.
        let (reply, _) = node.execute(&[b"SET", b"late", b"token", b"NX", b"PX", b"80"]);
        if reply.first() != Some(&b'-') {
            let detail = String::from_utf8_lossy(&reply).into_owned();
            return Err(Violation::new(
                "a node that is stopping executes a request",
                detail,
            ));
        }
        Ok(())
    }

    /// What the node left is found by the next process, after some time and perhaps not where it was left.
    pub(crate) fn pass_on(&mut self, ending: Ending, options: Options) {
        self.node = None;
        self.waiting.clear();
        self.known.clear();
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
            self.place += 1;
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
            .setup(&self.disk, self.place, self.seed ^ self.starts);
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let node = Node::start(disk, self.clock.clone(), &setup).map_err(Violation::refusal)?;
        self.node = Some(node);
        Ok(())
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
        self.mode = self.options.mode;
        self.oracle.rules = Rules {
            cap_ns: self.options.cap_ns(),
            requires_ttl: self.options.requires_ttl,
            run,
        };
        self.started_cap_ns = self.options.cap_ns();
        self.caps.insert(run, self.started_cap_ns);
        let is_logged = self.mode != Mode::Volatile;
        self.oracle.restarted(kept, lost, now, &stored, is_logged);
        self.ahead_ns = Some(self.clock.raw().wrapping_sub(now.node_ns));
        self.gone_back = None;
        self.written = 0;
        self.synced = 0;
        self.database = 0;
        Ok(())
    }

    fn moment(&self) -> Moment {
        Moment {
            node_ns: self.clock.raw().wrapping_sub(self.ahead_ns.unwrap_or(0)),
            true_ns: self.clock.true_ns(),
        }
    }
}

fn used_bytes(disk: &MemoryDisk) -> u64 {
    let length = |name: &str| disk.open(name).and_then(|file| file.len()).unwrap_or(0);
    let entries = disk.list().unwrap_or_default();
    entries.iter().map(|entry| length(&entry.name)).sum()
}

/// What WAITAOF answers once everything is synced.
const SYNCED: &[u8] = b"*2\r\n:1\r\n:0\r\n";
