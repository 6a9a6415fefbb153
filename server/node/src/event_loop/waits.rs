//! Connections whose requests have no reply yet: how they begin to wait, how they go on, and what other clients make of
//! that.
//!
//! Whoever changes what they wait for wakes this worker; each iteration looks what is met by then.

use std::iter::successors;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::{ErrorReply, RawTime, Reply};

use crate::core::clients::WaitState;
use crate::core::deliveries::What;
use crate::core::next_commit::CommitRequest;
use crate::core::pause::Ticket;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::event_loop::EventLoop;
use crate::event_loop::connection::{Connection, Received, Stage};
use crate::event_loop::limits::Reason;
use crate::event_loop::message::Task;
use crate::event_loop::stream::Stream;
use crate::session::{Batch, Condition, Next, Outcome, Pending};

impl<S: Stream> EventLoop<S> {
    /// A connection's request has no reply yet.
    pub(super) fn wait_for(&mut self, slot: usize, pending: Pending, now_raw: RawTime) {
        let connection = &mut self.connections[slot];
        connection.stage = Stage::Pending(pending);
        if let Some(waiting) = pending.condition.traits().shown_as {
            let client = &connection.session.client;
            client.count_as_blocked(&self.node.statistics.blocked);
            client.note_waiting(waiting);
        }
        if let Some(early) = connection.early_answer.take() {
            return self.answer(slot, &early.reply, early.wait, now_raw);
        }
        let number = self.awaited(slot, pending);
        let awaited = number.map(|number| (pending.condition, number));
        self.pending.insert(slot, awaited, pending.until_raw);
        if self.connections[slot].has_work() {
            self.receive_pending(slot, now_raw);
        } else {
            self.guard.count(&mut self.connections[slot]);
        }
    }

    /// Which number has to be reached for a request to go on, if it waits for one. Others are asked for what has to be done for it.
    fn awaited(&mut self, slot: usize, pending: Pending) -> Option<u64> {
        match pending.condition {
            Condition::Element
            | Condition::Time
            | Condition::Upstream
            | Condition::UpstreamWait => None,
            Condition::Synced => {
                if self.node.commit.synced() < pending.position {
                    self.tasks.push(Task::Commit(CommitRequest::URGENT));
                }
                Some(pending.position.get())
            }
            Condition::Segment => {
                // Those that wait for an earlier one have it, and are yet to go on.
                let next = self.segments_made + 1;
                if !self.pending.is_awaited(Condition::Segment, next) {
                    self.tasks.push(Task::MakeSegment);
                }
                Some(next)
            }
            Condition::PauseOver => {
                // Another pause does not send it to the end of the queue.
                let ticket = &mut self.connections[slot].ticket;
                let ticket = *ticket.get_or_insert_with(|| self.node.pause.enqueue(self.number));
                Some(ticket.number())
            }
            // It is met for all at once, and they go on in the order in which they came.
            _ => Some(self.pending.next_place()),
        }
    }

    /// The number that is reached by now.
    fn reached(&self, condition: Condition, now_raw: RawTime) -> u64 {
        match condition {
            Condition::Synced => match self.node.commit.failure() {
                Some(_) => u64::MAX,
                None => self.node.commit.synced().get(),
            },
            Condition::Segment => self.segments_made,
            // Of all workers in the order in which they came.
            Condition::PauseOver if self.pause_left(now_raw).is_some() => 0,
            Condition::PauseOver => {
                let last = self.node.pause.last_due(self.number);
                last.map_or(0, Ticket::number)
            }
            Condition::BacklogBelow if self.node.deliveries.is_below() => u64::MAX,
            Condition::BacklogBelow => 0,
            // What ends these comes as a delivery, or with the time.
            Condition::Element
            | Condition::Time
            | Condition::Upstream
            | Condition::UpstreamWait => 0,
        }
    }

    /// How long until a pending request goes on, unless somebody wakes this worker before.
    pub(super) fn until_pending(&self, now_raw: RawTime) -> Option<Duration> {
        let is_met = |condition: Condition| {
            let first = self.pending.first(condition);
            first.is_some_and(|first| first <= self.reached(condition, now_raw))
        };
        if self.pending.is_empty() {
            return None;
        }
        if self.pending.first(Condition::BacklogBelow).is_some() {
            // Before it is looked at: who makes it less in between wakes this worker.
            self.node.deliveries.await_less(self.number);
        }
        let behind = |last: &Condition| self.pending.next_condition(Some(*last));
        if successors(self.pending.next_condition(None), behind).any(is_met) {
            return Some(Duration::ZERO);
        }
        let until = |until: RawTime| until.saturating_since(now_raw);
        let paused = self.pending.first(Condition::PauseOver);
        let pause = paused.and_then(|_| self.pause_left(now_raw));
        let deadline = self.pending.next_deadline().map(until);
        pause.into_iter().chain(deadline).min()
    }

    /// What is left of a pause.
    fn pause_left(&self, now_raw: RawTime) -> Option<Duration> {
        self.node.pause.left(now_raw)
    }

    /// Goes on with what has got what it waited for, and with what has waited long enough. The next iteration executes
    /// connections in the order in which they are queued here.
    pub(super) fn resume_pending(&mut self, now_raw: RawTime) {
        if self.pending.is_empty() {
            return;
        }
        let mut last = None;
        while let Some(condition) = self.pending.next_condition(last) {
            let reached = self.reached(condition, now_raw);
            while let Some(slot) = self.pending.take_met(condition, reached) {
                self.go_on_after_wait(slot, now_raw);
            }
            last = Some(condition);
        }
        if self.pending.next_deadline().is_some() {
            while let Some(slot) = self.pending.take_due(now_raw) {
                self.go_on_after_wait(slot, now_raw);
            }
        }
    }

    fn go_on_after_wait(&mut self, slot: usize, now_raw: RawTime) {
        let connection = &mut self.connections[slot];
        let Stage::Pending(pending) = connection.stage else {
            debug_assert!(false, "{:?} waits for nothing", connection.stage);
            return;
        };
        match pending.condition.traits().outcome {
            Outcome::Answer => self.end_wait(slot, pending, now_raw),
            Outcome::Execute => {
                connection.stage = Stage::Reading;
                connection.note_waited(&self.node);
                self.iteration.queue(slot, connection);
            }
        }
    }

    pub(super) fn receive_pending(&mut self, slot: usize, now_raw: RawTime) {
        let connection = &mut self.connections[slot];
        let received = self.iteration.receive_waiting(&self.node, connection);
        self.guard.count(connection);
        // Nobody would get the element of a client that has gone, nor hold the lock that it asks for. As with Redis
        // that is so for one that sends no more. What it has sent may fill all that is read of it.
        let has_gone = connection.has_ended() && connection.waits_for_itself_only();
        if received == Received::Broken || has_gone {
            self.close(slot, now_raw);
        }
    }

    /// What a client waited for is over, in one way or the other. Where somebody else has ended it, that is on its way.
    fn end_wait(&mut self, slot: usize, pending: Pending, now_raw: RawTime) {
        let client = &self.connections[slot].session.client;
        let client_id = client.id;
        let mut wait = DurabilityWait::default();
        let is_ended_here = match pending.condition {
            // A node whose lock is poisoned stops.
            Condition::Element => self.node.lock().is_ok_and(|mut executor| {
                wait = executor.sample().wait;
                executor.engine.stop_waiting(client_id)
            }),
            _ => client.claim_wait(WaitState::None),
        };
        if is_ended_here {
            self.answer(slot, &pending.reply(&self.node), wait, now_raw);
        }
    }

    /// Answers a pending request.
    fn answer(&mut self, slot: usize, reply: &Reply, wait: DurabilityWait, now_raw: RawTime) {
        self.pending.remove(slot);
        let connection = &mut self.connections[slot];
        connection.note_waited(&self.node);
        connection.answer(reply, wait);
        connection.session.end_wait(wait.position());
        connection.session.client.touch(now_raw);
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
    pub(super) fn answer_with_element(
        &mut self,
        slot: usize,
        reply: Reply,
        wait: DurabilityWait,
        now_raw: RawTime,
    ) {
        let connection = &mut self.connections[slot];
        if connection.session.has_denials() {
            // Its rights may have been taken away. A node that has failed reports it elsewhere.
            let _ = Batch::new(&self.node, now_raw).note_denials(&connection.session);
        }
        if !matches!(connection.stage, Stage::Pending(_)) {
            return connection.answer_early(reply, wait);
        }
        connection.append_messages();
        self.answer(slot, &reply, wait, now_raw);
    }

    /// A client that waits is told what others are told at once: its wait is interrupted for as long as that takes.
    pub(super) fn tell_while_pending(&mut self, slot: usize, pending: Pending) {
        let connection = &mut self.connections[slot];
        if !connection.append_messages() {
            return self.guard.count(connection);
        }
        self.pending.remove(slot);
        connection.then = Next::Wait(pending);
        connection.note_waited(&self.node);
        self.hold(slot);
    }

    /// Does what other clients want of connections of this worker.
    pub(super) fn follow_orders(&mut self, now_raw: RawTime) {
        for order in self.node.deliveries.take_orders(self.number) {
            let slot = order.connection;
            let is_here = self.connections.get(slot).is_some_and(|connection| {
                connection.session.client.id == order.client_id
                    && !matches!(connection.stage, Stage::Closed)
            });
            match order.what {
                _ if !is_here => {}
                What::Close => self.close(slot, now_raw),
                What::CloseMissed => self.close_because(slot, Reason::MissedMessages, now_raw),
                What::Unblock { is_error } => self.unblock(slot, is_error, now_raw),
            }
        }
    }

    /// CLIENT UNBLOCK. Who ordered it has claimed the wait, so that nobody else ends it.
    fn unblock(&mut self, slot: usize, is_error: bool, now_raw: RawTime) {
        let connection = &mut self.connections[slot];
        let error = is_error.then_some(Reply::Error(UNBLOCKED));
        match connection.stage {
            Stage::Pending(pending) => {
                let reply = error.unwrap_or_else(|| pending.reply(&self.node));
                self.answer(slot, &reply, DurabilityWait::default(), now_raw);
            }
            // It is about to wait: the engine's list had it already, or it is told something in between.
            _ => {
                let reply = error.unwrap_or_else(|| match connection.then {
                    Next::Wait(pending) => pending.reply(&self.node),
                    _ => Reply::NilArray,
                });
                connection.answer_early(reply, DurabilityWait::default());
            }
        }
    }

    /// A connection has had its turn behind a pause, or ends: the next one's worker is woken.
    pub(super) fn give_up_ticket(&mut self, slot: usize) {
        let Some(ticket) = self.connections[slot].ticket.take() else {
            return;
        };
        if let Some(next) = self.node.pause.leave(ticket)
            && next != self.number
        {
            self.node.deliveries.wake_worker(next);
        }
    }
}

/// Takes a client off the node's list.
pub(super) fn leave<S: Stream>(node: &NodeState, connection: &mut Connection<S>) {
    connection.session.leave(node);
    let client = &connection.session.client;
    client.discount_as_blocked(&node.statistics.blocked);
    node.clients.remove(client.id);
    if let Some(upstream) = &node.upstream {
        upstream.left(client.id);
    }
}

const UNBLOCKED: ErrorReply = ErrorReply::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");
