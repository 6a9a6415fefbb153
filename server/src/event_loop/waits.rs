//! Clients that wait for more than their replies: until something is synced, for an element of a key, or for a
//! segment of the log.
//!
//! Others do that, as tasks; a message says when it is over. Meanwhile the event loop goes on.

use std::sync::atomic::Ordering;

use quorlock_engine::Reply;

use crate::core::state::NodeState;
use crate::core::wait::Wait;
use crate::event_loop::EventLoop;
use crate::event_loop::connection::{Connection, Received, Stage};
use crate::event_loop::message::Task;
use crate::event_loop::stream::Stream;
use crate::session::Blocked;

impl<S: Stream> EventLoop<S> {
    pub(super) fn block(&mut self, slot: usize, blocked: Blocked) {
        let connection = &mut self.connections[slot];
        let counter = &self.node.statistics.blocked;
        counter.fetch_add(1, Ordering::Relaxed);
        connection.stage = Stage::Blocked(blocked);
        if let Some((answer, wait)) = connection.early_answer.take() {
            return self.answer(slot, &answer, wait);
        }
        if !blocked.is_for_element() || blocked.until_raw.is_some() {
            self.tasks.push(Task::Wait {
                connection: slot,
                client_id: connection.session.client.id,
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
        // Nobody would get the element of a client that has gone.
        let has_gone = connection.has_ended()
            && matches!(connection.stage, Stage::Blocked(blocked) if blocked.is_for_element());
        if received == Received::Broken || has_gone {
            self.close(slot);
        }
    }

    /// What a client waited for is over, in one way or the other.
    pub(super) fn end_wait(&mut self, slot: usize, client_id: u64, blocked: Blocked) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        // It may have been answered, and wait for something else.
        let is_waiting =
            matches!(&connection.stage, Stage::Blocked(awaited) if *awaited == blocked);
        if !is_waiting || connection.session.client.id != client_id {
            return;
        }
        let mut wait = Wait::default();
        if blocked.is_for_element() {
            // A node whose lock is poisoned stops.
            let Ok(mut executor) = self.node.lock() else {
                return;
            };
            if !executor.engine.stop_waiting(client_id) {
                // It was served just before: its answer is on its way.
                return;
            }
            wait = executor.sample().wait;
        }
        self.answer(slot, &blocked.reply(&self.node), wait);
    }

    /// Answers a client that waits.
    fn answer(&mut self, slot: usize, reply: &Reply, wait: Wait) {
        let connection = &mut self.connections[slot];
        let counter = &self.node.statistics.blocked;
        counter.fetch_sub(1, Ordering::Relaxed);
        connection.answer(reply, wait);
        connection.session.end_wait(wait.position());
        connection.session.client.touch(self.node.clock.raw());
        self.hold(slot);
    }

    /// An element has come for a client that waits, or is about to.
    pub(super) fn answer_with_element(&mut self, slot: usize, reply: Reply, wait: Wait) {
        let connection = &mut self.connections[slot];
        let Stage::Blocked(blocked) = connection.stage else {
            connection.early_answer = Some((reply, wait));
            return;
        };
        if blocked.until_raw.is_some() {
            let client_id = connection.session.client.id;
            self.tasks.push(Task::StopWaiting { client_id });
        }
        self.answer(slot, &reply, wait);
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
    let client_id = connection.session.client.id;
    if matches!(connection.stage, Stage::Blocked(_)) {
        node.statistics.blocked.fetch_sub(1, Ordering::Relaxed);
        tasks.push(Task::StopWaiting { client_id });
    }
    node.clients.remove(client_id);
}
