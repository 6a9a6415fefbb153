//! Messages for clients that listen, which come behind the replies of a connection and wait for the log as those do;
//! and answers for clients that wait.

use crate::core::deliveries::{Content, Delivery};
use crate::event_loop::EventLoop;
use crate::event_loop::connection::Stage;
use crate::event_loop::stream::Stream;

impl<S: Stream> EventLoop<S> {
    /// Hands out what was published for clients of this worker.
    pub(super) fn deliver(&mut self) {
        for delivery in self.node.deliveries.take(self.number) {
            self.deliver_one(delivery);
        }
    }

    fn deliver_one(&mut self, delivery: Delivery) {
        let slot = delivery.connection;
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let is_closed = matches!(connection.stage, Stage::Closed);
        if is_closed || connection.session.client.id != delivery.client_id {
            return;
        }
        let message = match delivery.content {
            Content::Message(message) => message,
            Content::Answer(reply) => return self.answer_with_element(slot, reply, delivery.wait),
        };
        connection.keep(message, delivery.wait);
        // Who does not read must not keep what everybody else is sent.
        if let Some(reason) = self.guard.judge_output(&self.node, connection) {
            return self.close_because(slot, reason);
        }
        // Elsewhere they follow the replies that are here or will be.
        if matches!(connection.stage, Stage::Reading) && !connection.is_queued {
            self.go_on(slot);
        } else {
            self.guard.count(connection);
        }
    }
}
