//! Messages for clients that listen, which come behind the replies of a connection and wait for the log as those do;
//! and answers for clients that wait.

use quorlock_engine::RawTime;
use quorlock_engine::channels::Subscriber;

use crate::core::deliveries::UnblockedReply;
use crate::event_loop::EventLoop;
use crate::event_loop::connection::Stage;
use crate::event_loop::posts::{BYTES_PER_ITERATION, Posts};
use crate::event_loop::stream::Stream;
use crate::session::Outcome;

impl<S: Stream> EventLoop<S> {
    /// Hands out what was published for clients of this worker, and the answers to those who waited.
    pub(super) fn deliver(&mut self, now_raw: RawTime) {
        let mut posts = std::mem::take(&mut self.posts);
        // In this order: what was published before an answer is here then.
        let answers = self.node.deliveries.take_answers(self.number);
        posts.extend(self.node.deliveries.take(self.number));
        for answer in answers {
            self.deliver_answer(answer, &posts, now_raw);
        }
        if !self.gathers(&posts) {
            self.hand_out(&mut posts, now_raw);
        }
        self.posts = posts;
    }

    /// Whether the next messages wait for others. Nobody waits for those who are told to stop.
    fn gathers(&mut self, posts: &Posts) -> bool {
        let next = posts.next_group().filter(|_| self.draining.is_none());
        let (messages, receivers) = next.unwrap_or_default();
        self.gathering.waits(messages, receivers)
    }

    /// As much as an iteration may.
    fn hand_out(&mut self, posts: &mut Posts, now_raw: RawTime) {
        let mut budget = BYTES_PER_ITERATION;
        while let Some(part) = posts.next_part(&mut budget) {
            for listener in &part.receivers[part.range.clone()] {
                self.deliver_part(*listener, posts, now_raw);
            }
            posts.note_handed_out(&part, &self.node.deliveries);
        }
    }

    /// A client that waited has its answer behind what was published before it was served, and before what its own
    /// command has published.
    fn deliver_answer(&mut self, answer: UnblockedReply, posts: &Posts, now_raw: RawTime) {
        let slot = answer.connection;
        let is_here = self.connections.get(slot).is_some_and(|connection| {
            connection.session.client.id == answer.client_id
                && !matches!(connection.stage, Stage::Closed)
        });
        if is_here {
            self.connections[slot].catch_up_to(posts, answer.behind);
            let session = &mut self.connections[slot].session;
            let reply = session.finish_subscription(&self.node, answer.reply.make());
            self.answer_with_element(slot, reply, answer.wait, now_raw);
        }
    }

    fn deliver_part(&mut self, listener: Subscriber, posts: &Posts, now_raw: RawTime) {
        let slot = listener.connection;
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        // Another client may have had the connection before.
        let is_another = connection.session.client_id() != listener.client;
        if is_another || matches!(connection.stage, Stage::Closed) {
            return;
        }
        let is_free = matches!(connection.stage, Stage::Reading) && !connection.is_queued;
        connection.take_part(posts, is_free);
        // Who does not read must not keep what everybody else is sent.
        if let Some(reason) = self.guard.judge_output(connection, now_raw) {
            return self.close_because(slot, reason, now_raw);
        }
        if let Stage::Pending(pending) = connection.stage
            && pending.condition.traits().outcome == Outcome::Answer
        {
            return self.tell_while_pending(slot, pending);
        }
        // Elsewhere they follow the replies that are here or will be.
        if is_free {
            self.go_on(slot, now_raw);
        } else {
            self.guard.count(connection);
        }
    }
}
