//! One worker's event loop without its thread: its connections, and all that is decided about them.
//!
//! One iteration reads what has arrived on all connections that are ready, executes every complete
//! request under one lock of the engine, commits, and sends the replies. Calls of the system stay
//! together and the engine's work stays together, so that neither drives the other out of the
//! processor's caches.
//!
//! Events go in: streams that are ready, messages. Replies go out to the streams, and what others have to
//! do is left as tasks. Nothing here waits: a thread (`runtime/worker.rs`) and the simulation drive it.

mod closing;
pub mod coalescing;
pub(crate) mod connection;
mod discarded;
mod draining;
mod ended_connections;
mod gathering;
mod guard;
mod idle_reaper;
mod iteration;
#[cfg(test)]
mod iteration_tests;
mod limits;
mod memory;
pub mod message;
mod messages;
mod pending;
pub mod pipe;
mod posts;
mod published;
#[cfg(test)]
mod published_tests;
mod sending;
pub mod stream;
#[cfg(test)]
mod tests;
mod waits;
#[cfg(test)]
mod workers_tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::RawTime;
use quorlock_engine::control::Durability;
use slab::Slab;

use crate::core::clients::Client;
use crate::core::commit_queue::{CommitPlan, CommitQueue, Released};
use crate::core::log_queue::LogEvent;
use crate::core::next_commit::Done;
use crate::core::state::NodeState;
use crate::event_loop::coalescing::WakeUpCoalescing;
use crate::event_loop::connection::{Connection, Stage};
use crate::event_loop::draining::Draining;
use crate::event_loop::ended_connections::EndedConnections;
use crate::event_loop::gathering::Gathering;
use crate::event_loop::guard::Guard;
use crate::event_loop::iteration::Iteration;
use crate::event_loop::limits::Reason;
use crate::event_loop::message::{Mailbox, Message, Task};
use crate::event_loop::pending::PendingRequests;
use crate::event_loop::posts::Posts;
use crate::event_loop::sending::Sending;
use crate::event_loop::stream::Stream;
use crate::event_loop::waits::leave;
use crate::session::{Condition, Next, Pending, Session};

/// The connections of one worker.
pub struct EventLoop<S> {
    node: Arc<NodeState>,
    /// The worker's.
    number: usize,
    connections: Slab<Connection<S>>,
    iteration: Iteration,
    queue: CommitQueue,
    released: Vec<Released>,
    /// Some of what waits may leave: it came after others of its connection had left.
    is_release_due: bool,
    ended: EndedConnections<S>,
    /// The streams have been looked at once more since replies were made.
    has_looked_again: bool,
    sending: Sending,
    /// What was published for connections and has not reached them.
    posts: Posts,
    /// Messages for many that wait for others to the same receivers.
    pub gathering: Gathering,
    /// A connection was closed while its replies waited for the log, or wants no replies: what it has
    /// executed is to be written all the same, since others may read it.
    has_abandoned: bool,
    guard: Guard,
    /// Clients that are to make room for others, and those that are after one more look at the streams:
    /// such a connection may be so new that what it has sent was not read yet.
    asked_to_leave: [Vec<Arc<Client>>; 2],
    /// Requests that have no reply yet.
    pending: PendingRequests,
    /// How often a segment of the log was made for them, or could not be.
    segments_made: u64,
    /// For others to do.
    tasks: Vec<Task>,
    /// How the worker waits when nothing has come.
    pub coalescing: WakeUpCoalescing,
    draining: Option<Draining>,
}

impl<S: Stream> EventLoop<S> {
    /// An event loop that serves nobody yet.
    pub fn new(node: Arc<NodeState>, number: usize) -> Self {
        Self {
            number,
            guard: Guard::new(&node),
            node,
            connections: Slab::new(),
            iteration: Iteration::new(number),
            queue: CommitQueue::default(),
            released: Vec::new(),
            is_release_due: false,
            ended: EndedConnections::default(),
            has_looked_again: false,
            sending: Sending::default(),
            posts: Posts::default(),
            gathering: Gathering::default(),
            has_abandoned: false,
            asked_to_leave: Default::default(),
            pending: PendingRequests::default(),
            segments_made: 0,
            tasks: Vec::new(),
            coalescing: WakeUpCoalescing::default(),
            draining: None,
        }
    }

    /// The slot that the next connection gets.
    pub fn next_slot(&self) -> usize {
        self.connections.vacant_key()
    }

    /// Serves a client.
    pub fn open(&mut self, stream: S, client: Arc<Client>, now_raw: RawTime) {
        let entry = self.connections.vacant_entry();
        client.note_connection(entry.key());
        let session = Session::new(client, &self.node);
        let connection = entry.insert(Connection::new(stream, session));
        connection.note_login(&self.node);
        self.guard.count(connection);
        // Whoever killed it before could not say where it is.
        if connection.session.client.is_killed() {
            let slot = connection.session.client.connection();
            self.close(slot, now_raw);
        }
    }

    /// Notes that a connection's stream has bytes or its end to read where `is_readable` says so, and
    /// that it takes bytes again.
    pub fn note_ready(
        &mut self,
        slot: usize,
        is_readable: bool,
        is_ending: bool,
        now_raw: RawTime,
    ) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        connection.note_ready(is_readable, is_ending);
        match connection.stage {
            Stage::Reading if connection.has_work() => self.iteration.queue(slot, connection),
            Stage::Sending => self.queue_sending(slot),
            Stage::Pending(_) => self.receive_pending(slot, now_raw),
            Stage::Reading | Stage::Held | Stage::Closed => {}
        }
    }

    /// Takes in what others say.
    pub fn receive(&mut self, message: Message, now_raw: RawTime) {
        match message {
            Message::MakeRoom(client) => self.asked_to_leave[1].push(client),
            // The next iteration sends the replies that may leave, and looks what else has come.
            Message::Synced | Message::Published | Message::TimeMoved => {}
            Message::SegmentMade => self.segments_made += 1,
            Message::Stop => {
                let at_most = self.node.configured(|it| it.shutdown_timeout);
                self.draining
                    .get_or_insert_with(|| Draining::new(at_most, self.sending.bytes, now_raw));
            }
        }
    }

    /// Does all that has come since the last time.
    pub fn iterate(&mut self, now_raw: RawTime) {
        self.send_more(now_raw);
        self.follow_orders(now_raw);
        self.resume_pending(now_raw);
        self.execute(now_raw);
        self.deliver(now_raw);
        self.release(now_raw);
        if self.wants_another_look() {
            return;
        }
        self.commit(now_raw);
        let counter = &self.node.statistics.bytes_out;
        counter.fetch_add(self.sending.take_uncounted(), Ordering::Relaxed);
        // What has arrived is executed now: nobody goes who has just done what was missing.
        self.enforce_limits(now_raw);
        self.ended
            .remove_from(&mut self.connections, &self.node.clients);
    }

    /// Asks the log thread for what is to be done since the last call. Its answers come as messages.
    pub fn hand_over_tasks(&mut self, mailbox: &impl Mailbox) {
        let done = |message| {
            let sent = mailbox.send_on_drop(message);
            Box::new(move || drop(sent)) as Done
        };
        let log_queue = &self.node.log_queue;
        for task in self.tasks.drain(..) {
            match task {
                Task::Commit(request) => {
                    log_queue.commit_for(self.number, request, || done(Message::Synced));
                }
                Task::MakeSegment => {
                    log_queue.send(LogEvent::Prepare(Some(done(Message::SegmentMade))));
                }
            }
        }
    }

    /// The streams of clients that have been sent everything and may still send, since the last call: they lose the last
    /// replies where a stream is closed with bytes unread.
    pub fn take_half_closed(&mut self) -> impl Iterator<Item = S> + '_ {
        self.ended.half_closed.drain(..)
    }

    /// How long nothing is to be done unless something comes; without end where nothing is due.
    pub fn pause(&self, now_raw: RawTime) -> Option<Duration> {
        let is_more = self.has_looked_again
            || !self.iteration.is_empty()
            || !self.sending.queue.is_empty()
            || !self.posts.is_empty()
            || !self.ended.messages.is_empty()
            || self.is_release_due
            || self.has_abandoned
            || !self.asked_to_leave[0].is_empty();
        if is_more {
            return Some(Duration::ZERO);
        }
        let draining = self.draining.is_some().then_some(DRAINING_PAUSE);
        let guard = self.guard.pause(now_raw);
        let all = draining.into_iter().chain(guard);
        all.chain(self.until_pending(now_raw)).min()
    }

    /// Whether no reply waits for the log.
    pub fn is_committed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether it was told to stop, and every reply has left that can.
    pub fn has_ended(&mut self, now_raw: RawTime) -> bool {
        // Of many connections each would be looked at.
        let owes_replies = self.draining.is_some() && self.owes_replies();
        self.draining
            .as_mut()
            .is_some_and(|draining| !owes_replies || draining.is_over(self.sending.bytes, now_raw))
    }

    /// Closes all connections.
    pub fn close_all(&mut self) {
        for mut connection in self.connections.drain() {
            leave(&self.node, &mut connection);
        }
        self.pending = PendingRequests::default();
    }

    /// Whether a client waits for a reply that is on its way. The last sync has ended every wait for
    /// one.
    fn owes_replies(&self) -> bool {
        let is_waiting = |connection: &Connection<S>| match connection.stage {
            Stage::Pending(pending) => pending.condition.traits().is_owed_at_stop,
            _ => false,
        };
        let has_unsent = self.sending.unsent > 0 || !self.posts.is_empty();
        has_unsent || self.connections.iter().any(|(_, one)| is_waiting(one))
    }

    /// One more look at the streams before a commit: what has arrived meanwhile shares its write and
    /// its sync.
    fn wants_another_look(&mut self) -> bool {
        let is_wanted =
            !self.has_looked_again && !self.queue.is_empty() && self.connections.len() > 1;
        self.has_looked_again = is_wanted;
        is_wanted
    }

    /// Reads and executes, and queues the replies for the commit.
    fn execute(&mut self, now_raw: RawTime) {
        if self.iteration.is_empty() {
            return;
        }
        let slots = self
            .iteration
            .run(&self.node, &mut self.connections, &mut self.posts, now_raw);
        for &slot in self.iteration.postponed() {
            self.guard.count(&mut self.connections[slot]);
        }
        for &slot in &slots {
            let connection = &mut self.connections[slot];
            self.coalescing.note(&mut connection.served);
            connection.append_messages();
            let has_had_turn = std::mem::take(&mut connection.has_had_turn);
            let is_over = has_had_turn || connection.then != Next::Wait(PAUSED);
            if connection.ticket.is_some() && is_over {
                self.give_up_ticket(slot);
            }
            let connection = &mut self.connections[slot];
            // Nobody waits for what it has executed, and others may read it.
            self.has_abandoned |= connection.session.take_unanswered();

            if connection.has_replies() {
                if let Some(reason) = self.guard.judge_output(connection, now_raw) {
                    self.has_abandoned = true;
                    self.close_because(slot, reason, now_raw);
                    continue;
                }
                self.hold(slot);
            } else {
                self.go_on(slot, now_raw);
            }
        }
        self.coalescing.measure(now_raw);
        self.iteration.give_back(slots);
    }

    /// The replies of a connection wait for the log, and then leave.
    fn hold(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.stage = Stage::Held;
        self.queue.push(slot, connection.wait);
        self.sending.unsent += 1;
    }

    /// What comes after an iteration of which no reply is left.
    fn go_on(&mut self, slot: usize, now_raw: RawTime) {
        let connection = &mut self.connections[slot];
        if connection.append_messages() {
            return self.hold(slot);
        }
        match connection.take_next() {
            Next::Wait(pending) => self.wait_for(slot, pending, now_raw),
            Next::Close => {
                self.iteration.close_half(connection);
                self.close(slot, now_raw);
            }
            Next::Read => {
                connection.stage = Stage::Reading;
                self.guard.count(connection);
                if connection.has_work() {
                    self.iteration.queue(slot, connection);
                }
            }
        }
    }

    /// Makes the log as durable as the replies need, and sends those that may leave.
    fn commit(&mut self, now_raw: RawTime) {
        if self.queue.is_empty() && !self.has_abandoned {
            return;
        }
        let node = &self.node;
        // With other modes what waits for a sync is on record for all: a bound, a mode.
        let may_linger = node.durability() == Durability::Always && self.draining.is_none();
        let plan = self.queue.plan(&node.commit, may_linger, now_raw);
        let has_abandoned = std::mem::take(&mut self.has_abandoned);
        if let (CommitPlan::Nothing, true) = (plan, has_abandoned)
            && let Err(failure) = node.write_without_waiting()
        {
            node.fail(&failure);
        }
        node.carry_out(plan, now_raw);
        if let CommitPlan::HandOver(request) | CommitPlan::WriteAndHandOver(request) = plan {
            self.tasks.push(Task::Commit(request));
        }
        self.release(now_raw);
    }

    fn close(&mut self, slot: usize, now_raw: RawTime) {
        let connection = &mut self.connections[slot];
        debug_assert!(
            !matches!(connection.stage, Stage::Closed),
            "a connection ends once"
        );
        if let Some(error) = connection.told_error() {
            let client = &connection.session.client;
            self.guard
                .note_protocol_error(&self.node, client, error, now_raw);
        }
        match connection.stage {
            Stage::Held => {
                self.sending.unsent -= 1;
                self.has_abandoned = true;
                if self.queue.forget(slot) {
                    self.node.log_queue.next_commit.note_gone();
                }
            }
            Stage::Sending => {
                self.sending.unsent -= 1;
                if std::mem::take(&mut connection.is_to_be_sent_more) {
                    self.sending.queue.retain(|sending| *sending != slot);
                }
            }
            Stage::Pending(_) => self.pending.remove(slot),
            Stage::Reading | Stage::Closed => {}
        }
        if connection.is_queued {
            self.iteration.forget(slot);
        }
        self.guard.discount(connection);
        leave(&self.node, connection);
        connection.stage = Stage::Closed;
        self.give_up_ticket(slot);
        self.ended.slots.push(slot);
    }

    /// Closes a connection because of a limit.
    fn close_because(&mut self, slot: usize, reason: Reason, now_raw: RawTime) {
        let client = &self.connections[slot].session.client;
        self.guard.note_closed(&self.node, client, reason, now_raw);
        self.close(slot, now_raw);
    }

    /// Closes the connections that have been here for too long or hold too much, and counts what the
    /// others keep.
    fn enforce_limits(&mut self, now_raw: RawTime) {
        for slot in self.queue.take_new() {
            self.guard.count(&mut self.connections[slot]);
        }
        for due in self.guard.due(&self.node, &mut self.connections, now_raw) {
            self.close_because(due.connection, due.reason, now_raw);
        }
        for one in self.guard.excessive(&self.node, &self.connections) {
            self.close_because(one.connection, one.reason, now_raw);
        }
        self.asked_to_leave.swap(0, 1);
        for client in std::mem::take(&mut self.asked_to_leave[1]) {
            let slot = client.connection();
            let is_here = self.connections.get(slot).is_some_and(|connection| {
                connection.session.client.id == client.id
                    && !connection.is_trusted()
                    && !matches!(connection.stage, Stage::Closed)
            });
            if is_here {
                self.close_because(slot, Reason::MakesRoom, now_raw);
            }
            self.node.clients.room.notify_one();
        }
        self.guard.publish(&self.node);
    }
}

const PAUSED: Pending = Pending::on(Condition::PauseOver);

/// How often an event loop that was told to stop looks whether its replies have left.
const DRAINING_PAUSE: Duration = Duration::from_millis(1);
