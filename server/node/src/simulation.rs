//! A node without threads, sockets and timers: the driver decides what happens when.
//!
//! It is put together from the parts of the real node: the same start, the same execution of requests, the
//! same commit, the same work of the log thread, the same steps of maintenance. Only the shells that wait for
//! sockets and timers are missing. With a disk in memory, a clock that is set by hand and a seed, the same calls
//! give the same bytes on the disk.
//!
//! A crash is nothing more than to drop the node and to start another on what the disk kept.

mod setup;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::restart::RestartVerdict;
use quorlock_engine::{NodeTime, RawTime, Stored};
use quorlock_persistence::{Disk, Position};

use crate::clock::Clock;
use crate::core::commit::Failure;
use crate::core::executor::locks::LockReport;
use crate::core::log_queue::{LogEvent, LogEvents};
use crate::core::log_schedule::Ready;
use crate::core::log_work::{BegunJob, LogWork};
use crate::core::maintenance::{Maintenance, Wake, Work};
use crate::core::state::NodeState;
use crate::event_loop::message::Message;
pub use crate::event_loop::pipe::Observer;
use crate::event_loop::pipe::Pipe;
use crate::protocol::reply::write_request;
pub use crate::simulation::setup::{Setup, init};
use crate::simulation::worker::SimulatedWorker;
use crate::start::{Begun, StartError, StopMark};

/// A node that does nothing on its own.
pub struct Node {
    node: Arc<NodeState>,
    workers: Vec<SimulatedWorker>,
    /// All clients that ever connected, and the worker of each.
    clients: Vec<(usize, Pipe)>,
    /// The client that [`Node::execute`] speaks for.
    own: Option<Client>,
    /// What the log thread is asked for.
    log_events: LogEvents,
    log_work: LogWork,
    /// The sync that the log thread runs.
    syncing: Option<BegunJob>,
    maintenance: Maintenance,
    stop_mark: StopMark,
}

/// A client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client(usize);

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
        let workers = setup.config.workers.max(1);
        let Begun {
            node,
            maintenance,
            stop_mark,
            preparer,
            log_events,
        } = setup.begin(disk, clock)?;
        let worker = |number| SimulatedWorker::new(Arc::clone(&node), number);
        Ok(Node {
            workers: (0..workers).map(worker).collect(),
            clients: Vec::new(),
            own: None,
            syncing: None,
            log_work: LogWork::new(Arc::clone(&node), preparer),
            node,
            log_events,
            maintenance,
            stop_mark,
        })
    }

    /// What the node made of its past.
    pub fn verdict(&self) -> RestartVerdict {
        self.node.facts.verdict
    }

    /// How often it was started, this time included.
    pub fn incarnation(&self) -> u64 {
        self.node.facts.start.incarnation
    }

    /// Whether it serves locks.
    pub fn is_serving(&self) -> bool {
        self.node.signals.serving.is_set()
    }

    /// Its time now.
    ///
    /// # Errors
    /// When the log failed.
    pub fn now(&self) -> Result<NodeTime, Failure> {
        Ok(self.node.lock_now()?.1.node)
    }

    /// What its metrics say of locks now.
    ///
    /// # Errors
    /// When the log failed.
    pub fn lock_report(&self) -> Result<LockReport, Failure> {
        let (mut executor, now) = self.node.lock_now()?;
        Ok(executor.lock_report(now.node))
    }

    /// How many clients that waited for an element it has served.
    ///
    /// # Errors
    /// When the log failed.
    pub fn served(&self) -> Result<u64, Failure> {
        Ok(self.node.lock()?.served_count())
    }

    /// All its keys, those whose deadline has come included as long as they are in memory.
    ///
    /// # Errors
    /// When the log failed.
    pub fn stored(&self) -> Result<Vec<Stored>, Failure> {
        let mut stored: Vec<Stored> = self.node.lock()?.engine.stored().collect();
        stored.sort_unstable();
        Ok(stored)
    }

    /// A client connects; connections are dealt out to the workers in turn. Each call of its stream moves at most
    /// so many bytes.
    pub fn connect(
        &mut self,
        call_bytes_max: usize,
        observer: Option<Arc<dyn Observer>>,
    ) -> Client {
        let client = Client(self.clients.len());
        let worker = client.0 % self.workers.len();
        let pipe = Pipe::new(call_bytes_max, observer);
        self.workers[worker].open(&pipe);
        self.clients.push((worker, pipe));
        client
    }

    /// A client sends bytes. They are read by the next iteration of its worker.
    pub fn send(&self, client: Client, bytes: &[u8]) {
        self.pipe(client).send(bytes);
    }

    /// A client sends no more, and still reads.
    pub fn end(&self, client: Client) {
        self.pipe(client).end();
    }

    /// A client goes and reads nothing more.
    pub fn reset(&self, client: Client) {
        self.pipe(client).reset();
    }

    /// So many bytes more are taken by the client and its kernel; at first there is no bound.
    pub fn set_room(&self, client: Client, bytes: usize) {
        self.pipe(client).set_room(bytes);
    }

    /// What has come to a client since the last call.
    pub fn take_received(&self, client: Client) -> Vec<u8> {
        self.pipe(client).take_received()
    }

    /// Whether the node has closed a client's connection.
    pub fn is_closed(&self, client: Client) -> bool {
        self.pipe(client).is_closed()
    }

    fn pipe(&self, client: Client) -> &Pipe {
        &self.clients[client.0].1
    }

    /// How many event loops there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// One iteration of a worker's event loop. Returns whether the next one would follow at once.
    pub fn iterate(&mut self, worker: usize) -> bool {
        self.workers[worker].iterate()
    }

    /// A client of its own sends a request; its worker and the log thread go on until the reply is there. The reply
    /// is empty where the node closes the connection without one, or blocks it.
    pub fn execute(&mut self, arguments: &[&[u8]]) -> Vec<u8> {
        let is_usable = |own: &Client| !self.is_closed(*own);
        let own = match self.own.filter(is_usable) {
            Some(own) => own,
            None => self.connect(usize::MAX, None),
        };
        self.own = Some(own);
        self.send(own, &request_bytes(arguments));
        let worker = self.clients[own.0].0;
        for _ in 0..ITERATIONS_MAX {
            self.iterate(worker);
            let reply = self.take_received(own);
            if !reply.is_empty() || self.is_closed(own) {
                return reply;
            }
            // A failure shows in the reply.
            let _ = self.work_on_log();
        }
        Vec::new()
    }

    /// Whether all that was executed is written.
    pub fn is_all_written(&self) -> bool {
        self.is_reached(self.node.commit.written())
    }

    /// Whether all that was executed is synced.
    pub fn is_all_synced(&self) -> bool {
        self.is_reached(self.node.commit.synced())
    }

    fn is_reached(&self, position: Position) -> bool {
        let executor = self.node.lock();
        executor.is_ok_and(|executor| position.next() >= executor.appender.next_position())
    }

    /// Syncs what is written, as the log thread does every second.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub fn sync(&mut self) -> Result<(), Failure> {
        let mut sync = self
            .log_work
            .begin(Ready::SyncOfSecond, self.node.clock.raw());
        self.log_work.finish(&mut sync)
    }

    /// The log thread begins its next job. A sync that it asks for is only begun: workers go on meanwhile. A commit
    /// may be put off, so that clients that were just answered share it.
    ///
    /// # Errors
    /// When the log failed.
    pub fn begin_log_work(&mut self) -> Result<(), Failure> {
        if self.syncing.is_some() {
            return Ok(());
        }
        let now_raw = self.node.clock.raw();
        let mut begun = match self.ready(now_raw) {
            Ready::Wait(_) | Ready::Stop => return Ok(()),
            ready => self.log_work.begin(ready, now_raw),
        };
        if !begun.is_sync() {
            return self.log_work.finish(&mut begun);
        }
        self.syncing = Some(begun);
        Ok(())
    }

    /// Whether the log thread runs a sync.
    pub fn is_syncing(&self) -> bool {
        self.syncing.is_some()
    }

    /// The sync that the log thread runs ends.
    ///
    /// # Errors
    /// When it failed: the log is then finished.
    pub fn finish_sync(&mut self) -> Result<(), Failure> {
        let ended = |mut sync: BegunJob| self.log_work.finish(&mut sync);
        self.syncing.take().map_or(Ok(()), ended)
    }

    /// Does what is waiting for the log thread: syncs, also one that is put off, making segments ahead, removing old
    /// ones. The sync of every second is left to [`Node::sync`].
    ///
    /// # Errors
    /// When the log failed.
    pub fn work_on_log(&mut self) -> Result<(), Failure> {
        self.finish_sync()?;
        loop {
            let now_raw = self.node.clock.raw();
            let ready = match self.ready(now_raw) {
                Ready::Wait(Some(_)) => Ready::Commit,
                Ready::Wait(None) | Ready::Stop => return Ok(()),
                ready => ready,
            };
            let mut begun = self.log_work.begin(ready, now_raw);
            self.log_work.finish(&mut begun)?;
        }
    }

    /// What the log thread would do now. The sync of every second is left to [`Node::sync`].
    fn ready(&mut self, now_raw: RawTime) -> Ready {
        while let Some(event) = self.log_events.take() {
            if !matches!(event, LogEvent::SyncSoon) {
                self.log_work.receive(event);
            }
        }
        self.log_work.ready(now_raw)
    }

    /// One step of maintenance, a step of the checkpoint if one is under way. Returns after how long the real node
    /// would come again; none where only a write can make work.
    ///
    /// # Errors
    /// When the log failed.
    pub fn maintain(&mut self) -> Result<Option<Duration>, Failure> {
        let now_raw = self.node.clock.raw();
        let step = self.node.next_step(&mut self.maintenance, now_raw);
        let (step, _) = self.noted(step)?;
        let ended_raw = self.node.clock.raw();
        self.node.note_part(&mut self.maintenance, ended_raw);
        match step.work {
            // There is no thread to wait for: the segment is made here.
            Work::MakeSegment => {
                let asked = Ready::Prepare(vec![Box::new(|| {})]);
                self.log_work
                    .finish(&mut self.log_work.begin(asked, now_raw))?;
            }
            work => self.noted(self.node.perform(work, now_raw))?,
        }
        self.node.conclude(&step);
        Ok(match step.wake {
            Wake::Soon => Some(Duration::ZERO),
            Wake::After(pause) => Some(pause),
            Wake::At { raw, .. } => {
                let left_ns = raw.nanos_since(self.node.clock.raw());
                Some(Duration::from_nanos(left_ns))
            }
        })
    }

    /// What is left of the restart delay; `None` where the node does not wait.
    ///
    /// # Errors
    /// When the log failed.
    pub fn delay_left(&self) -> Result<Option<Duration>, Failure> {
        let (executor, now) = self.node.lock_now()?;
        Ok(executor.delay_left(now.node))
    }

    /// Begins to serve if the delay is over; returns whether it did.
    ///
    /// # Errors
    /// When the log failed.
    pub fn serve_if_due(&mut self) -> Result<bool, Failure> {
        if self.delay_left()? != Some(Duration::ZERO) {
            return Ok(false);
        }
        // SERVING goes on record, and once that is durable the node serves.
        self.maintain()?;
        self.maintain()?;
        Ok(self.is_serving())
    }

    /// One step of a checkpoint, the first if none is under way. Returns whether there are more.
    ///
    /// # Errors
    /// When the log failed.
    pub fn compact(&mut self) -> Result<bool, Failure> {
        let rewrites = &self.node.rewrites;
        if !rewrites.is_running.load(Ordering::Acquire) {
            rewrites.is_asked.store(true, Ordering::Release);
        }
        self.maintain()?;
        Ok(self.node.rewrites.is_running.load(Ordering::Acquire))
    }

    /// The orderly stop: SHUTDOWN is synced last, and what is asked after it is refused.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub fn stop(&mut self) -> Result<(), Failure> {
        let now_raw = self.node.clock.raw();
        self.node.shut_down(&mut self.maintenance, now_raw)?;
        self.stop_mark.leave();
        Ok(())
    }

    /// The workers of a node that has stopped let the replies leave that may.
    pub fn drain(&mut self) {
        for worker in &mut self.workers {
            worker.tell(Message::Stop);
            for _ in 0..ITERATIONS_MAX {
                worker.iterate();
                if worker.has_ended() {
                    break;
                }
            }
        }
    }

    /// Whether the node was told to stop, or stopped because its log failed.
    pub fn is_stopping(&self) -> bool {
        self.node.signals.stop.is_set()
    }

    /// As the real threads do: a failure ends the node.
    fn noted<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        outcome.inspect_err(|failure| self.node.fail(failure))
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Node({})", self.node.facts.identity.id)
    }
}

/// A request as clients send it.
pub fn request_bytes(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_request(&mut bytes, arguments);
    bytes
}

/// More iterations than a reply can need: one to read, one more look, one after a segment, one after a sync.
const ITERATIONS_MAX: usize = 16;
