//! The worker of clients in the node's own process: an event loop on connections in memory that runs where it is needed.
//!
//! Who sends a request runs the event loop, up to the reply, so that no other thread has to wake up. Where it runs already
//! it takes the request along. A thread of its own does what nobody is there for: it goes on where a commit has ended, where
//! a message has come, or where time is up. It is started with the first connection. In `appendfsync always` it does all
//! the work: no thread of the program waits for a disk.
//!
//! Invariant: whoever adds to what has come tries to run the event loop afterwards, and whoever has run it looks again once
//! it is released. So nothing that has come stays there. A call that lets others go first does so when it is polled again or dropped;
//! until then whoever else runs the event loop executes it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use quorlock_engine::RawTime;
use quorlock_engine::control::Durability;

use crate::clock::saturated_nanos;
use crate::runtime::alarm::Alarm;
use crate::runtime::inbox::{Inbox, InboxItem, WorkerWaker};
use quorlock_node::core::clients::{Client, Endpoints};
use quorlock_node::core::state::NodeState;
use quorlock_node::event_loop::EventLoop;
use quorlock_node::event_loop::message::Message;
use quorlock_node::event_loop::pipe::{PendingWakers, Pipe, PipeStream};
use quorlock_node::sync::channel;

/// The worker. Its number is the one behind those of the workers with sockets.
pub(crate) struct InProcess {
    node: Arc<NodeState>,
    number: usize,
    /// Nobody waits for this lock: who does not get it leaves the work to who has it.
    connections: Mutex<Connections>,
    changes: Mutex<Changes>,
    /// Tasks of the program; woken once the event loop is released.
    woken: Arc<PendingWakers>,
    inbox: Inbox<Signal>,
    /// The raw clock's reading at which the thread looks again at the latest.
    looks_at_raw_ns: AtomicU64,
    has_ended: AtomicBool,
    /// So many calls are executed at once before one waits for others again.
    calls_alone: AtomicUsize,
    thread: Mutex<Thread>,
    thread_id: OnceLock<ThreadId>,
}

struct Connections {
    event_loop: EventLoop<PipeStream>,
    messages: channel::Receiver<InboxItem>,
    /// The changes of this turn; kept for its memory.
    changes: Changes,
}

/// What clients have done.
#[derive(Default)]
struct Changes {
    opened: Vec<(Pipe, Arc<Client>)>,
    changed: Vec<Pipe>,
}

/// Says that something has come, and wakes the thread.
struct Signal {
    has_come: AtomicBool,
    sender: SyncSender<()>,
}

/// The thread, from before its start to after its end.
enum Thread {
    Awaited(Receiver<()>),
    Runs(JoinHandle<()>),
    Ended,
}

impl WorkerWaker for Signal {
    fn wake(&self) -> io::Result<()> {
        self.has_come.store(true, Ordering::SeqCst);
        // A signal that is there already is enough; a thread that has ended needs none.
        let _ = self.sender.try_send(());
        Ok(())
    }
}

impl InProcess {
    /// A worker whose thread is not started yet.
    pub(crate) fn new(node: Arc<NodeState>) -> Arc<Self> {
        let number = node.facts.workers;
        let (sender, signals) = sync_channel(1);
        let (inbox, messages) = Inbox::waking(Arc::new(Signal {
            has_come: AtomicBool::new(false),
            sender,
        }));
        let told = inbox.clone();
        let wake = move || {
            let _ = told.send(InboxItem::Message(Message::Published));
        };
        node.deliveries.wake_with(number, Box::new(wake));
        let told = inbox.clone();
        let look_again = move || told.send(InboxItem::Message(Message::TimeMoved));
        node.clock.when_moved(Box::new(look_again));
        Arc::new(Self {
            connections: Mutex::new(Connections {
                event_loop: EventLoop::new(Arc::clone(&node), number),
                messages,
                changes: Changes::default(),
            }),
            node,
            number,
            changes: Mutex::default(),
            woken: Arc::default(),
            inbox,
            looks_at_raw_ns: AtomicU64::new(u64::MAX),
            has_ended: AtomicBool::new(false),
            calls_alone: AtomicUsize::new(0),
            thread: Mutex::new(Thread::Awaited(signals)),
            thread_id: OnceLock::new(),
        })
    }

    /// A connection of a client in this process.
    ///
    /// # Errors
    /// When the node has stopped, or the system has no thread to give.
    pub(crate) fn connect(self: &Arc<Self>) -> io::Result<Pipe> {
        self.start_thread()?;
        let now_raw = self.node.clock.raw();
        let clients = &self.node.clients;
        let client = clients.add(Endpoints::IN_PROCESS, now_raw, self.number);
        let pipe = Pipe::new(usize::MAX, None);
        pipe.set_room(RECEIVED_BYTES_MAX);
        pipe.wake_later(&self.woken);
        self.changes().opened.push((pipe.clone(), client));
        self.run_now();
        Ok(pipe)
    }

    /// The client's end of this connection has changed.
    pub(crate) fn note_changed(&self, pipe: &Pipe) {
        if self.list(pipe) {
            self.run_now();
        }
    }

    /// Puts a connection on the list of those that have changed, for the next turn. Says whether it was not on it.
    /// [`run_now`](Self::run_now) is to follow.
    pub(crate) fn list(&self, pipe: &Pipe) -> bool {
        let is_new = !pipe.set_listed(true);
        if is_new {
            self.changes().changed.push(pipe.clone());
        }
        is_new
    }

    /// Whether a call is to let other tasks make theirs before it is executed: together they share an iteration and a write. Where the
    /// last one that did was alone, the next ones do not.
    pub(crate) fn waits_for_others(&self) -> bool {
        // A guess: what two threads lose of it costs a call a little time.
        let left = self.calls_alone.load(Ordering::Relaxed);
        self.calls_alone
            .store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    /// Executes the request of a call that has waited for others, and theirs with it, unless one of them has done so.
    pub(crate) fn run_together(&self, pipe: &Pipe) {
        if pipe.is_listed() {
            let is_alone = self.changes().changed.len() == 1;
            let calls_alone = if is_alone { CALLS_ALONE } else { 0 };
            self.calls_alone.store(calls_alone, Ordering::Relaxed);
            self.run_now();
        }
    }

    /// Ends it once the replies have left, and waits for that.
    ///
    /// # Errors
    /// When its thread panicked.
    pub(crate) fn end(&self) -> std::thread::Result<()> {
        self.inbox.send(InboxItem::Message(Message::Stop));
        let thread = std::mem::replace(&mut *self.thread(), Thread::Ended);
        let ended = match thread {
            Thread::Runs(handle) => handle.join(),
            Thread::Awaited(_) | Thread::Ended => Ok(()),
        };
        // A thread that panicked has closed nothing.
        self.has_ended.store(true, Ordering::SeqCst);
        self.inbox.waker().has_come.store(true, Ordering::SeqCst);
        self.run();
        self.woken.wake();
        ended
    }

    /// Whether this is its own thread, which the node's end waits for.
    pub(crate) fn is_this_thread(&self) -> bool {
        self.thread_id.get() == Some(&std::thread::current().id())
    }

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        let mut thread = self.thread();
        if let Thread::Runs(_) = *thread {
            return Ok(());
        }
        let Thread::Awaited(signals) = std::mem::replace(&mut *thread, Thread::Ended) else {
            let why = "the node has stopped: it serves nobody any more, in this process either";
            return Err(io::Error::new(io::ErrorKind::NotConnected, why));
        };
        let worker = Arc::clone(self);
        let handle = std::thread::Builder::new()
            .name("quorlock-local".to_owned())
            .spawn(move || worker.run_thread(&signals))?;
        *thread = Thread::Runs(handle);
        Ok(())
    }

    fn run_thread(&self, signals: &Receiver<()>) {
        // There is one such thread.
        let _ = self.thread_id.set(std::thread::current().id());
        let _alarm = Alarm::new(&self.node, "the thread of clients in this process");
        loop {
            self.looks_at_raw_ns.store(u64::MAX, Ordering::SeqCst);
            self.run();
            self.woken.wake();
            if self.has_ended.load(Ordering::SeqCst) {
                return;
            }
            let until_raw = RawTime::from_nanos(self.looks_at_raw_ns.load(Ordering::SeqCst));
            let left = until_raw.saturating_since(self.node.clock.raw());
            // The worker has the sender.
            let _: Result<(), RecvTimeoutError> = signals.recv_timeout(left);
        }
    }

    /// What has come is done now: by this thread, by the one that runs the event loop, or by the worker's own.
    pub(crate) fn run_now(&self) {
        let signal = self.inbox.waker();
        // A thread of the program does not wait for a disk.
        if self.node.durability() == Durability::Always {
            let _ = signal.wake();
            // Else the thread will look.
            if !self.has_ended.load(Ordering::SeqCst) {
                return;
            }
        }
        signal.has_come.store(true, Ordering::SeqCst);
        if self.run() {
            let _ = signal.sender.try_send(());
        }
        self.woken.wake();
    }

    /// Runs the event loop until nothing is left that has come, unless another thread does. Says whether its own thread would
    /// look again too late.
    fn run(&self) -> bool {
        let signal = self.inbox.waker();
        // Dropped after the lock is.
        let _panic = WakeAfterPanic(signal);
        for _ in 0..TURNS_MAX {
            let mut connections = match self.connections.try_lock() {
                Ok(connections) => connections,
                // Who has it looks again once it is released.
                Err(TryLockError::WouldBlock) => return false,
                // A thread panicked in it, and the node has failed.
                Err(TryLockError::Poisoned(connections)) => {
                    let mut connections = connections.into_inner();
                    self.close_all(&mut connections);
                    connections
                }
            };
            signal.has_come.store(false, Ordering::SeqCst);
            let pause = self.turn(&mut connections);
            drop(connections);
            if !signal.has_come.load(Ordering::SeqCst) {
                return self.look_again_in(pause);
            }
            self.woken.wake();
        }
        // Others send without end, and this thread has something else to do.
        let _ = signal.wake();
        false
    }

    /// Does what has come, and what follows from it at once. Returns how long nothing is to be done unless something comes.
    fn turn(&self, connections: &mut Connections) -> Option<Duration> {
        let _alarm = Alarm::new(&self.node, "the event loop of clients in this process");
        std::mem::swap(&mut *self.changes(), &mut connections.changes);
        if self.has_ended.load(Ordering::SeqCst) {
            self.close_all(connections);
            return None;
        }
        let mut now_raw = self.node.clock.raw();
        connections.open_new(now_raw);
        while let Ok(incoming) = connections.messages.try_recv() {
            if let InboxItem::Message(message) = incoming {
                connections.event_loop.receive(message, now_raw);
            }
        }
        loop {
            connections.note_changes(now_raw);
            let event_loop = &mut connections.event_loop;
            event_loop.iterate(now_raw);
            // Nothing that was sent is lost here when a stream is closed.
            event_loop.take_half_closed().for_each(drop);
            event_loop.hand_over_tasks(&self.inbox);
            if event_loop.has_ended(now_raw) {
                self.close_all(connections);
                return None;
            }
            let pause = connections.event_loop.pause(now_raw);
            connections.changes.changed.retain(Pipe::has_changed);
            if connections.changes.changed.is_empty() && pause != Some(Duration::ZERO) {
                return pause;
            }
            now_raw = self.node.clock.raw();
        }
    }

    fn close_all(&self, connections: &mut Connections) {
        self.has_ended.store(true, Ordering::SeqCst);
        // Its own thread may wait for something to do.
        let _ = self.inbox.waker().sender.try_send(());
        connections.event_loop.close_all();
        for (pipe, client) in connections.changes.opened.drain(..) {
            self.node.clients.remove(client.id);
            pipe.close();
        }
        connections.changes.changed.clear();
    }

    /// The thread is to look again after this time at the latest. Says whether it would be later.
    fn look_again_in(&self, pause: Option<Duration>) -> bool {
        let Some(pause) = pause else {
            return false;
        };
        let at_raw = self.node.clock.raw().plus_nanos(saturated_nanos(pause));
        let planned = (self.looks_at_raw_ns).fetch_min(at_raw.as_nanos(), Ordering::SeqCst);
        at_raw.as_nanos() < planned
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().expect("no holder of a list can panic")
    }

    fn thread(&self) -> MutexGuard<'_, Thread> {
        self.thread.lock().expect("no holder of a handle can panic")
    }
}

/// A thread that panics in the event loop does not look again, so the worker's own does, once the lock is released.
struct WakeAfterPanic<'a>(&'a Signal);

impl Drop for WakeAfterPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.wake();
        }
    }
}

impl Connections {
    fn open_new(&mut self, now_raw: RawTime) {
        for (pipe, client) in self.changes.opened.drain(..) {
            pipe.note_slot(self.event_loop.next_slot());
            self.event_loop.open(pipe.stream(), client, now_raw);
        }
    }

    /// Tells the event loop which connections have changed; they stay in the list.
    fn note_changes(&mut self, now_raw: RawTime) {
        for pipe in &self.changes.changed {
            pipe.set_listed(false);
            // The number of one that is closed may be another's by now.
            if let Some(ready) = pipe.take_readiness()
                && !pipe.is_closed()
            {
                let (slot, is_ending) = (pipe.slot(), ready.is_ending);
                self.event_loop
                    .note_ready(slot, ready.is_readable, is_ending, now_raw);
            }
        }
    }
}

/// A reply that is longer waits until the client has read the beginning.
const RECEIVED_BYTES_MAX: usize = 256 * 1024;

/// After a call that waited for others and was alone, so many do not wait.
const CALLS_ALONE: usize = 16;

/// So often a thread of the program goes on with what others have sent meanwhile.
const TURNS_MAX: usize = 16;
