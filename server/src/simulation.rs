//! A node without threads, sockets and timers: whoever drives it decides what happens when.
//!
//! It is put together from the parts of the real node: the same start, the same execution of requests, the
//! same commit, the same jobs of the log thread, the same turn of maintenance. Only the shells that wait for
//! sockets and timers are missing. With a disk in memory, a clock that is set by hand and a seed, the same calls
//! give the same bytes on the disk.
//!
//! A crash is nothing more than to drop the node and to start another on what the disk kept.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock_engine::restart::Verdict;
use quorlock_engine::{Command, NodeTime, Stored};
use quorlock_persistence::{Disk, LogOptions, Recovery};

use crate::clock::Clock;
use crate::config::Config;
use crate::node::commit::{self, Failure};
use crate::node::compaction::{Compaction, Step};
use crate::node::core;
use crate::node::error::StartError;
use crate::node::identity;
use crate::node::log_thread::{Job, Jobs, Turn};
use crate::node::maintenance::{self, Ticks};
use crate::node::shared::Shared;
use crate::node::start::{Plan, Reach, begin};
pub use crate::past::{FileNumbers, NumberOf};
use crate::past::{Identity, Place};
use crate::protocol::{Output, reply};
use crate::session::{Batch, Blocked, Next, Session};

/// What a simulated node starts from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The node's configuration. Addresses, workers and the directory have no meaning here.
    pub config: Config,
    /// The sizes of the log; small ones make it rotate often.
    pub sizes: LogOptions,
    /// Bytes of one part of a checkpoint.
    pub part_bytes: usize,
    /// Tells machine and directory from others, as inode numbers do.
    pub place: u64,
    /// Tells files from copies of them: then starts leave markers, as in a directory.
    pub files: Option<FileNumbers>,
    /// Where random bytes come from: identities and hash functions are the same for the same seed.
    pub seed: u64,
    /// Whether other machines could connect: what `first-start auto` goes by.
    pub is_remote: bool,
}

/// A node that does nothing on its own.
pub struct Node {
    shared: Arc<Shared>,
    /// What the log thread would do; `None` once the log has failed.
    jobs: Option<Jobs>,
    log_work: Turn,
    ticks: Ticks,
    compaction: Option<Compaction>,
    part_bytes: usize,
    /// The client that [`Node::execute`] speaks for.
    session: Session,
    connections: Vec<Connection>,
}

/// A client without a socket. What its replies wait for is raised from request to request, as long as they are in one
/// pipeline.
struct Connection {
    session: Session,
    wait: core::Wait,
    blocked: Option<Blocked>,
}

/// What a reply waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait(core::Wait);

impl Wait {
    /// Whether it waits for a sync, not only for a write.
    pub fn is_for_sync(&self) -> bool {
        self.0.synced > 0
    }
}

/// A sync that was begun; it runs in [`Node::finish_sync`].
#[derive(Debug)]
#[must_use = "nothing is synced until it is finished"]
pub struct Syncing(commit::Syncing);

/// Creates a node on an empty disk, as `quorlock node init` does in an empty directory.
///
/// # Errors
/// When the disk fails, or is not empty.
pub fn init(disk: Arc<dyn Disk>, setup: &Setup) -> Result<(), StartError> {
    let recovery = Recovery::read(Arc::clone(&disk), &setup.sizes).map_err(StartError::Log)?;
    let seed = AtomicU64::new(setup.seed);
    let identity = Identity::known(std::array::from_fn(|_| next_byte(&seed)), None);
    identity::create(&*disk, &identity, recovery)
}

impl Node {
    /// Starts on this disk, up to the point where a real node would accept connections. It serves already if there
    /// is nothing to wait for.
    ///
    /// # Errors
    /// As a real node, except for those of sockets and threads.
    pub fn start(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        setup: &Setup,
    ) -> Result<Node, StartError> {
        let random = AtomicU64::new(setup.seed);
        let plan = Plan {
            config: setup.config.clone(),
            clock,
            disk,
            place: Place::simulated(setup.place, setup.files.clone()),
            sizes: setup.sizes,
            random: Box::new(move |bytes| {
                bytes.fill_with(|| next_byte(&random));
                Ok(())
            }),
        };
        let reach = Reach {
            port: 0,
            is_remote: setup.is_remote,
            metrics: None,
        };
        let (shared, preparer, jobs) = begin(plan, reach)?;
        let session = new_session(&shared);
        Ok(Node {
            connections: Vec::new(),
            log_work: Turn::new(Arc::clone(&shared), preparer),
            shared,
            jobs: Some(jobs),
            ticks: Ticks::default(),
            compaction: None,
            part_bytes: setup.part_bytes,
            session,
        })
    }

    /// What the node made of its past.
    pub fn verdict(&self) -> Verdict {
        self.shared.verdict
    }

    /// How often it was started, this time included.
    pub fn incarnation(&self) -> u64 {
        self.shared.start.incarnation
    }

    /// Whether it takes part.
    pub fn is_serving(&self) -> bool {
        *self.shared.signals.serving.borrow()
    }

    /// Its time now.
    ///
    /// # Errors
    /// When the log failed.
    pub fn now(&self) -> Result<NodeTime, Failure> {
        Ok(self.shared.lock()?.time.node_now(&*self.shared.clock))
    }

    /// All its keys, those whose deadline has come included as long as they are in memory.
    ///
    /// # Errors
    /// When the log failed.
    pub fn stored(&self) -> Result<Vec<Stored>, Failure> {
        let mut stored: Vec<Stored> = self.shared.lock()?.engine.stored().collect();
        stored.sort_unstable();
        Ok(stored)
    }

    /// Executes one request of a client and returns the reply's bytes, and what they have to wait for before
    /// the client may see them.
    pub fn execute(&mut self, arguments: &[&[u8]]) -> (Vec<u8>, Wait) {
        self.make_room(arguments);
        let (mut wait, mut output) = (core::Wait::default(), Output::default());
        Batch::new(&self.shared).execute(&mut self.session, arguments, &mut wait, &mut output);
        (bytes(&output), Wait(wait))
    }

    /// There is no thread to wait for: the segment that a command may need is made here.
    fn make_room(&mut self, arguments: &[&[u8]]) {
        if let Ok(command) = Command::parse(arguments)
            && self
                .shared
                .lock()
                .is_ok_and(|core| core.waits_for_segment(&command))
        {
            // If that fails, nobody does any more jobs.
            let prepared = self.log_work.handle(Job::Prepare);
            if self.noted(prepared).is_err() {
                self.jobs = None;
            }
        }
    }

    /// Executes one request of a connection, behind those of its pipeline. Returns the reply's bytes, none where the
    /// client is blocked, and what all replies of the pipeline so far wait for.
    pub fn execute_on(&mut self, connection: usize, arguments: &[&[u8]]) -> (Vec<u8>, Wait) {
        self.make_room(arguments);
        while self.connections.len() <= connection {
            let session = new_session(&self.shared);
            self.connections.push(Connection {
                session,
                wait: core::Wait::default(),
                blocked: None,
            });
        }
        let Connection {
            session,
            wait,
            blocked,
        } = &mut self.connections[connection];
        let mut output = Output::default();
        let next = Batch::new(&self.shared).execute(session, arguments, wait, &mut output);
        if let Next::Wait(until) = next {
            *blocked = Some(until);
        }
        (bytes(&output), Wait(*wait))
    }

    /// The replies of a connection have left: its next request begins a pipeline.
    pub fn end_pipeline(&mut self, connection: usize) {
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.wait = core::Wait::default();
        }
    }

    /// What a blocked client is told, once what it waits for is synced.
    pub fn unblocked(&mut self, connection: usize) -> Option<Vec<u8>> {
        let connection = self.connections.get_mut(connection)?;
        let until = connection.blocked?;
        if !until.is_synced(&self.shared) {
            return None;
        }
        connection.blocked = None;
        let mut output = Output::default();
        let answer = until.reply(&self.shared);
        reply::write(&mut output, &answer, connection.session.protocol());
        Some(bytes(&output))
    }

    /// A client goes, and another one comes.
    pub fn close(&mut self, connection: usize) {
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.session = new_session(&self.shared);
            connection.wait = core::Wait::default();
            connection.blocked = None;
        }
    }

    /// Whether a reply that waits for this may leave.
    pub fn is_met(&self, wait: &Wait) -> bool {
        self.shared.commit.is_met(wait.0)
    }

    /// Writes what was executed, as a worker does at the end of its turn.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub fn write(&mut self) -> Result<(), Failure> {
        let written = self.shared.commit.write(&self.shared.core);
        self.shared.log_thread.after_write(&self.shared);
        self.noted(written)
    }

    /// Writes and syncs what was executed, as a worker does while syncs are short.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub fn commit(&mut self) -> Result<(), Failure> {
        let synced = self.shared.commit.write_and_sync(&self.shared.core);
        self.shared.log_thread.after_write(&self.shared);
        self.noted(synced)
    }

    /// Syncs what is written, as the log thread does every second.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub fn sync(&mut self) -> Result<(), Failure> {
        let synced = self.log_work.sync_of_this_second();
        self.noted(synced)
    }

    /// Begins a sync of what is written; `None` where all of it is synced. Others go on meanwhile.
    ///
    /// # Errors
    /// When the log failed before.
    pub fn begin_sync(&mut self) -> Result<Option<Syncing>, Failure> {
        let begun = self.shared.commit.begin_sync();
        self.noted(begun).map(|ticket| ticket.map(Syncing))
    }

    /// Runs a sync that was begun.
    ///
    /// # Errors
    /// When it failed: the log is then finished.
    pub fn finish_sync(&mut self, syncing: Syncing) -> Result<(), Failure> {
        let synced = self.shared.commit.finish_sync(syncing.0);
        self.noted(synced)
    }

    /// Does what is waiting for the log thread: making segments ahead, removing old ones. The sync of every
    /// second is left to [`Node::sync`].
    ///
    /// # Errors
    /// When the log failed.
    pub fn work_on_log(&mut self) -> Result<(), Failure> {
        while let Some(job) = self.jobs.as_mut().and_then(|jobs| jobs.try_recv().ok()) {
            let done = self.log_work.handle(job);
            self.noted(done)?;
        }
        Ok(())
    }

    /// One turn of maintenance: frees expired keys, keeps time on record, asks for space. Returns when the real
    /// node would come again.
    ///
    /// # Errors
    /// When the log failed.
    pub fn maintain(&mut self) -> Result<Option<Duration>, Failure> {
        let next = maintenance::turn(&self.shared, &mut self.ticks);
        self.noted(next).map(maintenance::Next::pause)
    }

    /// What is left of the restart delay; `None` where the node does not wait.
    ///
    /// # Errors
    /// When the log failed.
    pub fn delay_left(&self) -> Result<Option<Duration>, Failure> {
        maintenance::delay_left(&self.shared)
    }

    /// Begins to serve if the delay is over; returns whether it did.
    ///
    /// # Errors
    /// When the log failed.
    pub fn serve_if_due(&mut self) -> Result<bool, Failure> {
        if self.delay_left()? != Some(Duration::ZERO) {
            return Ok(false);
        }
        let served = maintenance::begin_serving(&self.shared);
        self.noted(served).map(|()| true)
    }

    /// One step of a checkpoint, the first if none is under way. Returns whether there are more.
    ///
    /// # Errors
    /// When the log failed.
    pub fn compact(&mut self) -> Result<bool, Failure> {
        let part_bytes = self.part_bytes;
        let compaction = self
            .compaction
            .get_or_insert_with(|| Compaction::new(part_bytes));
        let step = compaction.step(&self.shared);
        if step.is_err() {
            self.compaction = None;
        }
        let step = self.noted(step)?;
        match step {
            Step::More => {}
            Step::LacksSync => self.commit()?,
            // There is no thread to wait for: the segment is made here.
            Step::LacksSegment => {
                let made = self.log_work.handle(Job::Prepare);
                self.noted(made)?;
            }
            Step::Complete | Step::GivenUp => {
                self.compaction = None;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The orderly stop: SHUTDOWN is synced last, and what is asked after it is refused.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub fn stop(&mut self) -> Result<(), Failure> {
        maintenance::shut_down(&self.shared)?;
        let shared = &self.shared;
        shared.place.rest(&*shared.disk, shared.start.incarnation);
        Ok(())
    }

    /// Whether the node was told to stop, or stopped because its log failed.
    pub fn is_stopping(&self) -> bool {
        *self.shared.signals.stop.borrow()
    }

    /// As the real threads do: a failure ends the node.
    fn noted<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        outcome.inspect_err(|failure| self.shared.fail(failure))
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Node({})", self.shared.identity.id)
    }
}

fn bytes(output: &Output) -> Vec<u8> {
    output.runs().collect::<Vec<_>>().concat()
}

fn new_session(shared: &Arc<Shared>) -> Session {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let client = shared
        .clients
        .add((nobody, nobody), shared.clock.raw_ns(), 0);
    Session::new(client, shared)
}

/// SplitMix64, a byte at a time.
fn next_byte(state: &AtomicU64) -> u8 {
    let add = 0x9e37_79b9_7f4a_7c15_u64;
    let number = state.fetch_add(add, Ordering::Relaxed).wrapping_add(add);
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).to_le_bytes()[0]
}
