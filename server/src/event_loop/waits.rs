//! Clients that wait for more than their replies: until something is synced, or for a segment of the log.
//!
//! Others do that, as tasks; a message says when it is over. Meanwhile the event loop goes on.

use std::sync::atomic::Ordering;

use crate::core::state::NodeState;
use crate::event_loop::EventLoop;
use crate::event_loop::connection::{Connection, Received, Stage};
use crate::event_loop::message::Task;
use crate::event_loop::stream::Stream;
use crate::session::Blocked;

impl<S: Stream> EventLoop<S> {
    pub(super) fn block(&mut self, slot: usize, blocked: Blocked) {
        let connection = &mut self.connections[slot];
        self.tasks.push(Task::Wait {
            connection: slot,
            client_id: connection.session.client.id,
            blocked,
        });
        let counter = &self.node.statistics.blocked;
        counter.fetch_add(1, Ordering::Relaxed);
        connection.stage = Stage::Blocked;
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
        if received == Received::Broken {
            self.close(slot);
        }
    }

    pub(super) fn answer(&mut self, slot: usize, client_id: u64, blocked: Blocked) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let is_waiting = matches!(connection.stage, Stage::Blocked);
        if !is_waiting || connection.session.client.id != client_id {
            return;
        }
        let counter = &self.node.statistics.blocked;
        counter.fetch_sub(1, Ordering::Relaxed);
        connection.answer(&blocked.reply(&self.node));
        connection.session.client.touch(self.node.clock.raw());
        connection.stage = Stage::Held;
        self.queue.push(slot, connection.wait);
        self.unsent += 1;
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
    if matches!(connection.stage, Stage::Blocked) {
        node.statistics.blocked.fetch_sub(1, Ordering::Relaxed);
        tasks.push(Task::StopWaiting { client_id });
    }
    node.clients.remove(client_id);
}
