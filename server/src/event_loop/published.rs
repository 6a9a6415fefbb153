//! Messages for clients that listen, which come behind the replies of a connection and wait for the log as those do;
//! and answers for clients that wait.

use crate::core::deliveries::{Answer, Delivery};
use crate::event_loop::EventLoop;
use crate::event_loop::connection::Stage;
use crate::event_loop::stream::Stream;

impl<S: Stream> EventLoop<S> {
    /// Hands out what was published for clients of this worker.
    pub(super) fn deliver(&mut self) {
        for (slot, deliveries) in self.node.deliveries.take(self.number) {
            self.deliver_to(slot, deliveries);
        }
        for answer in self.node.deliveries.take_answers(self.number) {
            self.deliver_answer(answer);
        }
    }

    fn deliver_answer(&mut self, answer: Answer) {
        let slot = answer.connection;
        let is_here = self.connections.get(slot).is_some_and(|connection| {
            connection.session.client.id == answer.client_id
                && !matches!(connection.stage, Stage::Closed)
        });
        if is_here {
            self.answer_with_element(slot, answer.reply, answer.wait);
        }
    }

    fn deliver_to(&mut self, slot: usize, deliveries: Vec<Delivery>) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let is_closed = matches!(connection.stage, Stage::Closed);
        if is_closed {
            return;
        }
        connection.keep(deliveries);
        // Who does not read must not keep what everybody else is sent.
        if let Some(reason) = self.guard.judge_output(&self.node, connection) {
            return self.close_because(slot, reason);
        }
        if matches!(connection.stage, Stage::Blocked) {
            return self.tell_while_blocked(slot);
        }
        // Elsewhere they follow the replies that are here or will be.
        if matches!(connection.stage, Stage::Reading) && !connection.is_queued {
            self.go_on(slot);
        } else {
            self.guard.count(connection);
        }
    }
}
