//! Clients that wait for more than their replies: until something is synced, for an element of a key, for a segment
//! of the log, or for the end of a pause; and what other clients make of that.
//!
//! Others do that, as tasks; a message says when it is over. Meanwhile the event loop goes on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::{ErrorReply, Reply};

use crate::core::clients::Waiting;
use crate::core::deliveries::What;
use crate::core::state::NodeState;
use crate::core::wait::Wait;
use crate::event_loop::EventLoop;
use crate::event_loop::connection::{Connection, EarlyAnswer, Received, Stage};
use crate::event_loop::message::Task;
use crate::event_loop::stream::Stream;
use crate::session::{Blocked, Next};

impl<S: Stream> EventLoop<S> {
    pub(super) fn block(&mut self, slot: usize, blocked: Blocked) {
        let connection = &mut self.connections[slot];
        let client = &connection.session.client;
        client.count_as_blocked(&self.node.statistics.blocked);
        connection.stage = Stage::Blocked;
        connection.blocked = Some(blocked);
        let client_id = connection.session.client.id;
        connection
            .session
            .client
            .note_waiting(match blocked.is_for_element() {
                // Who waits for an element is on the engine's list: only who takes it off ends the wait.
                true => Waiting::Element,
                false => Waiting::Blocked,
            });
        if let Some(early) = connection.early_answer.take() {
            return self.answer(slot, &early.reply, early.wait);
        }
        if !blocked.is_for_element() || blocked.until_raw.is_some() {
            self.tasks.push(Task::Wait {
                connection: slot,
                client_id,
                blocked,
            });
        }
        if connection.has_work() {
            self.receive_blocked(slot);
        } else {
            self.guard.count(connection);
        }
    }

    pub(super) fn receive_blocked(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let received = self.iteration.receive_waiting(&self.node, connection);
        self.guard.count(connection);
        // Nobody would get the element of a client that has gone, nor hold the lock that it asks for. As with Redis
        // that is so for one that sends no more. What it has sent may fill all that is read of it.
        let has_gone = connection.has_ended() && connection.waits_for_itself_only();
        if received == Received::Broken || has_gone {
            self.close(slot);
        }
    }

    /// What a client waited for is over, in one way or the other.
    pub(super) fn end_wait(&mut self, slot: usize, client_id: u64, blocked: Blocked) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let client = &connection.session.client;
        // The end of an earlier wait may still be on its way; and where somebody else has ended this one,
        // that is on its way.
        let is_closed = matches!(connection.stage, Stage::Closed);
        if is_closed || client.id != client_id || connection.blocked != Some(blocked) {
            return;
        }
        let mut wait = Wait::default();
        let is_ended_here = match blocked.is_for_element() {
            false => client.claim_wait(Waiting::None),
            // A node whose lock is poisoned stops.
            true => self.node.lock().is_ok_and(|mut executor| {
                wait = executor.sample().wait;
                executor.engine.stop_waiting(client_id)
            }),
        };
        if is_ended_here {
            self.answer(slot, &blocked.reply(&self.node), wait);
        }
    }

    /// Answers a client that is blocked; nobody waits with it any more.
    fn answer(&mut self, slot: usize, reply: &Reply, wait: Wait) {
        let connection = &mut self.connections[slot];
        let client = &connection.session.client;
        client.discount_as_blocked(&self.node.statistics.blocked);
        connection.blocked = None;
        connection.answer(reply, wait);
        connection.session.end_wait(wait.position());
        connection.session.client.note_waiting(Waiting::None);
        connection.session.client.touch(self.node.clock.raw());
        if let Reply::Error(error) = reply {
            self.count_error(slot, error);
        }
        self.hold(slot);
    }

    /// An error that ends a wait counts as one that is answered at once does.
    fn count_error(&self, slot: usize, error: &ErrorReply) {
        let statistics = &self.node.statistics;
        statistics.errors.fetch_add(1, Ordering::Relaxed);
        statistics.error_codes.note(error.as_bytes());
        let client = &self.connections[slot].session.client;
        let command = client.introduction().last_command.0;
        let calls = &self.node.calls;
        if let Some(number) = calls.number_of(command) {
            calls.table(self.number).note_failed(number);
        }
    }

    /// An element has come for a client that waits, or is about to.
    pub(super) fn answer_with_element(&mut self, slot: usize, reply: Reply, wait: Wait) {
        let connection = &mut self.connections[slot];
        let Some(blocked) = connection.blocked else {
            connection.early_answer = Some(EarlyAnswer {
                reply,
                wait,
                messages_before: connection.messages.len(),
            });
            return;
        };
        if blocked.until_raw.is_some() {
            let client_id = connection.session.client.id;
            self.tasks.push(Task::StopWaiting { client_id });
        }
        connection.append_messages();
        self.answer(slot, &reply, wait);
    }

    /// A client that waits is told what others are told at once: its wait is interrupted for as long as that takes.
    pub(super) fn tell_while_blocked(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let Some(blocked) = connection.blocked else {
            return self.guard.count(connection);
        };
        if !connection.append_messages() {
            return self.guard.count(connection);
        }
        connection.blocked = None;
        connection.then = Next::Wait(blocked);
        let client = &connection.session.client;
        client.note_waiting(Waiting::None);
        client.discount_as_blocked(&self.node.statistics.blocked);
        self.tasks.push(Task::StopWaiting {
            client_id: client.id,
        });
        self.hold(slot);
    }

    /// Does what other clients want of connections of this worker.
    pub(super) fn follow_orders(&mut self) {
        for order in self.node.deliveries.take_orders(self.number) {
            let slot = order.connection;
            let is_here = self.connections.get(slot).is_some_and(|connection| {
                connection.session.client.id == order.client_id
                    && !matches!(connection.stage, Stage::Closed)
            });
            match order.what {
                _ if !is_here => {}
                What::Close => self.close(slot),
                What::Unblock { is_error } => self.unblock(slot, is_error),
            }
        }
    }

    /// CLIENT UNBLOCK. Who ordered it has claimed the wait, so that nobody else ends it.
    fn unblock(&mut self, slot: usize, is_error: bool) {
        let connection = &mut self.connections[slot];
        let error = is_error.then_some(Reply::Error(UNBLOCKED));
        let Some(blocked) = connection.blocked else {
            // It is about to wait for an element: the engine's list had it already.
            let reply = error.unwrap_or(Reply::NilArray);
            connection.early_answer = Some(EarlyAnswer {
                reply,
                wait: Wait::default(),
                messages_before: connection.messages.len(),
            });
            return;
        };
        let client_id = connection.session.client.id;
        self.tasks.push(Task::StopWaiting { client_id });
        let reply = error.unwrap_or_else(|| blocked.reply(&self.node));
        self.answer(slot, &reply, Wait::default());
    }

    /// A request that a pause holds up is kept with what came after it.
    pub(super) fn wait_for_pause(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.stage = Stage::Paused;
        let client = &connection.session.client;
        client.note_waiting(Waiting::Paused);
        client.count_as_blocked(&self.node.statistics.blocked);
        // Another pause does not send it to the end of the queue.
        let pause = &self.node.pause;
        let ticket = connection.ticket;
        let ticket = ticket.unwrap_or_else(|| pause.enqueue(self.number));
        connection.ticket = Some(ticket);
        self.paused.insert(ticket, slot);
        if connection.has_work() {
            self.receive_blocked(slot);
        } else {
            self.guard.count(connection);
        }
    }

    /// What is left of a pause.
    pub(super) fn pause_left(&self) -> Option<Duration> {
        self.node.pause.left(self.node.clock.raw())
    }

    /// After how long connections are to be resumed, unless another worker comes before.
    pub(super) fn until_resumed(&self) -> Option<Duration> {
        let (first, _) = self.paused.first_key_value()?;
        let is_due = || self.node.pause.last_due(self.number) >= Some(*first);
        self.pause_left()
            .or_else(|| is_due().then_some(Duration::ZERO))
    }

    /// Executes what a pause has held up, once it is over: of all workers in the order in which it came. The next iteration
    /// executes connections in the order in which they are queued here.
    pub(super) fn resume_paused(&mut self) {
        if self.paused.is_empty() || self.pause_left().is_some() {
            return;
        }
        let Some(last) = self.node.pause.last_due(self.number) else {
            return;
        };
        let due = self.paused.extract_if(..=last, |_, _| true);
        for (_, slot) in due {
            let connection = &mut self.connections[slot];
            connection.stage = Stage::Reading;
            let client = &connection.session.client;
            client.note_waiting(Waiting::None);
            client.discount_as_blocked(&self.node.statistics.blocked);
            self.iteration.queue(slot, connection);
        }
    }

    /// A connection has had its turn behind a pause, or ends: the next one's worker is woken.
    pub(super) fn give_up_ticket(&mut self, slot: usize) {
        let Some(ticket) = self.connections[slot].ticket.take() else {
            return;
        };
        self.paused.remove(&ticket);
        if let Some(next) = self.node.pause.leave(ticket)
            && next != self.number
        {
            self.node.deliveries.wake_worker(next);
        }
    }

    pub(super) fn wait_for_segment(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.stage = Stage::LacksSegment;
        self.guard.count(connection);
        if self.lacking_segment.is_empty() {
            self.tasks.push(Task::MakeSegment);
        }
        self.lacking_segment.push(slot);
    }

    pub(super) fn retry_with_segment(&mut self) {
        for slot in self.lacking_segment.drain(..) {
            let connection = &mut self.connections[slot];
            connection.stage = Stage::Reading;
            self.iteration.queue(slot, connection);
        }
    }
}

/// Takes a client off the node's list and ends what waits for it.
pub(super) fn leave<S: Stream>(
    node: &NodeState,
    tasks: &mut Vec<Task>,
    connection: &mut Connection<S>,
) {
    connection.session.leave(node);
    let client = &connection.session.client;
    client.discount_as_blocked(&node.statistics.blocked);
    let client_id = client.id;
    if matches!(connection.stage, Stage::Blocked) {
        tasks.push(Task::StopWaiting { client_id });
    }
    node.clients.remove(client_id);
}

const UNBLOCKED: ErrorReply = ErrorReply::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");
