//! A worker: one thread that polls the sockets of its own connections.
//!
//! One turn reads what has arrived on all of them, executes every complete request under one lock of
//! the engine, commits, and sends the replies. System calls stay together and the engine's work stays
//! together, so that neither drives the other out of the processor's caches.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::fd::AsRawFd;
use rustix::thread::{Timespec, nanosleep, set_current_timer_slack};
use slab::Slab;
use tokio::runtime::Handle;

use crate::net::clients::Client;
use crate::net::connection::{Connection, Received, Sent, Stage};
use crate::net::farewell::Farewell;
use crate::net::guard::Guard;
use crate::net::inbox::{Handover, Inbox, Order};
use crate::net::limits::Reason;
use crate::net::lull::{Lull, REST};
use crate::net::turn::Turn;
use crate::node::alarm::Alarm;
use crate::node::commit::Failure;
use crate::node::commit_queue::{CommitQueue, Plan, Released, refusal};
use crate::node::log_thread::Job;
use crate::node::shared::Shared;
use crate::session::{Blocked, Next, Session};

/// One worker.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    poll: Poll,
    inbox: Inbox,
    orders: Receiver<Order>,
    has_orders: bool,
    /// Where tasks run that wait with a client.
    runtime: Handle,
    connections: Slab<Connection>,
    turn: Turn,
    queue: CommitQueue,
    released: Vec<Released>,
    /// Connections that end with this turn. Their places are not used again before.
    closed: Vec<usize>,
    /// The sockets have been looked at once more since replies were made.
    has_looked_again: bool,
    /// Connections whose replies have not left.
    unsent: usize,
    sent_bytes: u64,
    sent_bytes_told: u64,
    guard: Guard,
    /// Who is to make room for others, and who is after one more look at the sockets: such a
    /// connection may be so new that what it has sent was not read yet.
    in_the_way: Vec<Arc<Client>>,
    in_the_way_next: Vec<Arc<Client>>,
    lull: Lull,
    is_stopping: bool,
}

impl Worker {
    /// A worker that serves nobody yet.
    ///
    /// # Errors
    /// When the system has no descriptors to give.
    pub(crate) fn new(shared: Arc<Shared>, runtime: Handle) -> io::Result<Self> {
        let poll = Poll::new()?;
        let (inbox, orders) = Inbox::new(poll.registry(), INBOX)?;
        Ok(Self {
            guard: Guard::new(&shared),
            in_the_way: Vec::new(),
            in_the_way_next: Vec::new(),
            lull: Lull::default(),
            shared,
            poll,
            inbox,
            orders,
            has_orders: false,
            runtime,
            connections: Slab::new(),
            turn: Turn::default(),
            queue: CommitQueue::default(),
            released: Vec::new(),
            closed: Vec::new(),
            has_looked_again: false,
            unsent: 0,
            sent_bytes: 0,
            sent_bytes_told: 0,
            is_stopping: false,
        })
    }

    pub(crate) fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Serves until it is told to stop, and then until the replies have left.
    pub(crate) fn run(mut self) {
        // Else the system adds up to 50 us to a rest. Where it refuses this, rests are longer.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let shared = Arc::clone(&self.shared);
        let _alarm = Alarm::new(&shared, "a worker");
        let mut events = Events::with_capacity(EVENTS);
        let mut outcome = Ok(());
        while outcome.is_ok() && !self.is_stopping {
            outcome = self.step(&mut events, None);
        }
        let outcome = outcome.and_then(|()| self.say_farewell(&mut events));
        if let Err(error) = outcome {
            let failure = format!("a worker cannot poll its sockets: {error}");
            self.shared.fail(&self.shared.commit.fail(&failure));
        }
        for connection in self.connections.drain() {
            leave(&self.shared, &connection);
        }
    }

    /// Goes on until every reply has left that can.
    fn say_farewell(&mut self, events: &mut Events) -> io::Result<()> {
        let at_most = self.shared.config.shutdown_timeout;
        let clock = Arc::clone(&self.shared.clock);
        let mut farewell = Farewell::new(at_most, self.sent_bytes, clock.raw_ns());
        while self.owes_replies() && !farewell.is_over(self.sent_bytes, clock.raw_ns()) {
            self.step(events, Some(FAREWELL_PAUSE))?;
        }
        Ok(())
    }

    /// Waits for something to do, at most as long as given, and does it.
    fn step(&mut self, events: &mut Events, at_most: Option<Duration>) -> io::Result<()> {
        let pause = [at_most, self.pause()].into_iter().flatten().min();
        self.wait(events, pause)?;
        for event in &*events {
            match event.token() {
                INBOX => self.has_orders = true,
                Token(place) => self.note(place, event),
            }
        }
        if std::mem::take(&mut self.has_orders) {
            self.take_orders();
        }
        self.execute();
        self.release();
        if self.wants_another_look() {
            return Ok(());
        }
        self.commit();
        let sent = self.sent_bytes - std::mem::replace(&mut self.sent_bytes_told, self.sent_bytes);
        let counter = &self.shared.statistics.bytes_out;
        counter.fetch_add(sent, Ordering::Relaxed);
        // What has arrived is executed now: nobody goes who has just done what was missing.
        self.enforce_limits();
        for place in self.closed.drain(..) {
            self.connections.remove(place);
        }
        Ok(())
    }

    /// Waits for events, in a crowd after a rest; not while replies wait for the log.
    fn wait(&mut self, events: &mut Events, pause: Option<Duration>) -> io::Result<()> {
        let may_rest = pause != Some(Duration::ZERO) && self.queue.is_empty();
        if may_rest && self.lull.is_crowded() {
            self.poll(events, Some(Duration::ZERO))?;
            if events.is_empty() {
                sleep(REST);
                self.poll(events, Some(Duration::ZERO))?;
                self.lull.note_rest(events.iter().count());
            }
            // The poll tells of each arrival once.
            if !events.is_empty() {
                return Ok(());
            }
        }
        self.poll(events, pause)
    }

    fn poll(&mut self, events: &mut Events, pause: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, pause) {
            // Then there are no events.
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a client waits for a reply that is on its way. The last sync has ended every wait for
    /// one.
    fn owes_replies(&self) -> bool {
        let is_waiting = |connection: &Connection| matches!(connection.stage, Stage::Waiting(_));
        self.unsent > 0 || self.connections.iter().any(|(_, one)| is_waiting(one))
    }

    /// How long the next poll may take; without end where nothing is due.
    fn pause(&self) -> Option<Duration> {
        if self.has_looked_again || !self.turn.is_empty() || !self.in_the_way.is_empty() {
            return Some(Duration::ZERO);
        }
        self.guard.pause(|| self.shared.clock.raw_ns())
    }

    /// One more look at the sockets before a commit: what has arrived meanwhile shares its write and
    /// its sync.
    fn wants_another_look(&mut self) -> bool {
        let is_wanted =
            !self.has_looked_again && !self.queue.is_empty() && self.connections.len() > 1;
        self.has_looked_again = is_wanted;
        is_wanted
    }

    fn note(&mut self, place: usize, event: &Event) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        let is_ending = event.is_read_closed() || event.is_error();
        if event.is_readable() || is_ending {
            connection.note_readable(is_ending);
        }
        match connection.stage {
            Stage::Reading if connection.has_work() => self.turn.queue(place, connection),
            Stage::Sending => self.send(place),
            Stage::Waiting(_) => {
                let received = self.turn.receive_waiting(&self.shared, connection);
                self.guard.count(connection);
                if received == Received::End {
                    self.close(place);
                }
            }
            Stage::Reading | Stage::Held | Stage::Closed => {}
        }
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Serve(handover) => self.open(handover),
                Order::Over {
                    connection,
                    client_id,
                    blocked,
                } => self.answer(connection, client_id, blocked),
                Order::MakeRoom(client) => self.in_the_way_next.push(client),
                Order::Synced => self.queue.note_synced(),
                Order::Stop => self.is_stopping = true,
            }
        }
    }

    fn open(&mut self, Handover { stream, client }: Handover) {
        let entry = self.connections.vacant_entry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(
            &mut SourceFd(&stream.as_raw_fd()),
            Token(entry.key()),
            interest,
        );
        if let Err(error) = registered {
            tracing::warn!("cannot serve a client: {error}");
            self.shared.clients.remove(client.id);
            return;
        }
        client.note_connection(entry.key());
        let session = Session::new(client, &self.shared);
        let connection = entry.insert(Connection::new(stream, session));
        self.guard.count(connection);
    }

    /// Reads and executes, and hands the replies to the gate.
    fn execute(&mut self) {
        if self.turn.is_empty() {
            return;
        }
        let places = self.turn.run(&self.shared, &mut self.connections);
        for &place in self.turn.postponed() {
            self.guard.count(&mut self.connections[place]);
        }
        for &place in &places {
            let connection = &mut self.connections[place];
            self.lull.note(&mut connection.served);
            if connection.has_replies() {
                if let Some(reason) = self.guard.judge_output(&self.shared, connection) {
                    self.close_because(place, reason);
                    continue;
                }
                connection.stage = Stage::Held;
                self.queue.push(place, connection.wait);
                self.unsent += 1;
            } else {
                self.go_on(place);
            }
        }
        self.lull.measure(|| self.shared.clock.raw_ns());
        self.turn.give_back(places);
    }

    /// What comes after a turn of which no reply is left.
    fn go_on(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        match connection.take_blocked() {
            Some(blocked) => self.wait_with(place, blocked),
            None if connection.then == Next::Close => self.close(place),
            None => {
                connection.stage = Stage::Reading;
                self.guard.count(connection);
                if connection.has_work() {
                    self.turn.queue(place, connection);
                }
            }
        }
    }

    fn wait_with(&mut self, place: usize, blocked: Blocked) {
        let connection = &mut self.connections[place];
        let (shared, inbox) = (Arc::clone(&self.shared), self.inbox.clone());
        let client_id = connection.session.client.id;
        let task = self.runtime.spawn(async move {
            blocked.over(&shared).await;
            inbox.send(Order::Over {
                connection: place,
                client_id,
                blocked,
            });
        });
        connection.stage = Stage::Waiting(task.abort_handle());
        let has_ended = connection.has_work()
            && self.turn.receive_waiting(&self.shared, connection) == Received::End;
        self.guard.count(connection);
        if has_ended {
            self.close(place);
        }
    }

    fn answer(&mut self, place: usize, client_id: u64, blocked: Blocked) {
        let Some(connection) = self.connections.get_mut(place) else {
            return;
        };
        let is_waiting = matches!(connection.stage, Stage::Waiting(_));
        if !is_waiting || connection.session.client.id != client_id {
            return;
        }
        connection.answer(&blocked.reply(&self.shared));
        connection.session.client.touch(self.shared.clock.raw_ns());
        connection.stage = Stage::Held;
        self.queue.push(place, connection.wait);
        self.unsent += 1;
    }

    /// Makes the log as durable as the replies need, and sends those that may leave.
    fn commit(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        if let Err(failure) = self.make_durable() {
            self.shared.fail(&failure);
        }
        self.shared.log_thread.after_write(&self.shared);
        self.release();
    }

    fn make_durable(&mut self) -> Result<(), Failure> {
        let shared = &self.shared;
        match self.queue.plan(&shared.commit) {
            Plan::Nothing => Ok(()),
            Plan::Write => shared.log_writer.write(&shared.core),
            Plan::Commit => shared.log_writer.write_and_sync(&shared.core),
            Plan::WriteAndHandOver => {
                // Also where the write fails the queue is told that no sync runs.
                let ended = self.inbox.synced_on_drop();
                shared.log_writer.write(&shared.core)?;
                let job = Job::SyncNow(Box::new(move || drop(ended)));
                shared.log_thread.send(job);
                Ok(())
            }
        }
    }

    fn release(&mut self) {
        let mut released = std::mem::take(&mut self.released);
        self.queue.release(&self.shared.commit, &mut released);
        for replies in released.drain(..) {
            if let (true, Some(failure)) = (replies.is_withheld, self.shared.commit.failure()) {
                self.connections[replies.connection].withhold(&refusal(failure));
            }
            self.send(replies.connection);
        }
        self.released = released;
    }

    fn send(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        let sent_before = self.sent_bytes;
        match connection.send(&mut self.sent_bytes) {
            Sent::All => {
                if matches!(connection.stage, Stage::Sending) {
                    // It was reading all the while.
                    let now_raw_ns = self.shared.clock.raw_ns();
                    connection.session.client.touch(now_raw_ns);
                }
                self.unsent -= 1;
                connection.renew_partial(|| self.shared.clock.raw_ns());
                connection.stage = Stage::Reading;
                self.go_on(place);
            }
            Sent::Partly => {
                let has_taken = self.sent_bytes > sent_before;
                connection.note_unsent(has_taken, || self.shared.clock.raw_ns());
                self.guard.count(connection);
            }
            Sent::Broken => self.close(place),
        }
    }

    fn close(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        debug_assert!(
            !matches!(connection.stage, Stage::Closed),
            "a connection ends once"
        );
        if let Some(error) = connection.told() {
            let client = &connection.session.client;
            self.guard.note_protocol_error(&self.shared, client, error);
        }
        match connection.stage {
            Stage::Held => {
                self.unsent -= 1;
                self.queue.forget(place);
            }
            Stage::Sending => self.unsent -= 1,
            Stage::Reading | Stage::Waiting(_) | Stage::Closed => {}
        }
        if connection.is_queued {
            self.turn.forget(place);
        }
        self.guard.discount(connection);
        leave(&self.shared, connection);
        connection.stage = Stage::Closed;
        self.closed.push(place);
    }

    /// Closes a connection because of a limit.
    fn close_because(&mut self, place: usize, reason: Reason) {
        let client = &self.connections[place].session.client;
        self.guard.note_closed(&self.shared, client, reason);
        self.close(place);
    }

    /// Closes the connections that have been here for too long or hold too much, and counts what the
    /// others keep.
    fn enforce_limits(&mut self) {
        for place in self.queue.take_new() {
            self.guard.count(&mut self.connections[place]);
        }
        for (place, reason) in self.guard.due(&self.shared, &mut self.connections) {
            self.close_because(place, reason);
        }
        for (place, reason) in self.guard.excessive(&self.shared, &self.connections) {
            self.close_because(place, reason);
        }
        let next = std::mem::take(&mut self.in_the_way_next);
        for client in std::mem::replace(&mut self.in_the_way, next) {
            let place = client.connection();
            let is_here = self.connections.get(place).is_some_and(|connection| {
                connection.session.client.id == client.id
                    && !connection.session.is_trusted()
                    && !matches!(connection.stage, Stage::Closed)
            });
            if is_here {
                self.close_because(place, Reason::MakesRoom);
            }
            self.shared.clients.room.notify_one();
        }
        self.guard.publish(&self.shared);
    }
}

/// Sleeps whatever comes, or less after a signal.
fn sleep(rest: Duration) {
    let tv_nsec = i64::from(rest.subsec_nanos());
    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec });
}

/// Takes a client off the node's list and ends what waits for it.
fn leave(shared: &Shared, connection: &Connection) {
    if let Stage::Waiting(task) = &connection.stage {
        task.abort();
    }
    shared.clients.remove(connection.session.client.id);
}

const INBOX: Token = Token(usize::MAX);
const EVENTS: usize = 1024;

/// How often a stopping worker looks whether its replies have left.
const FAREWELL_PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
