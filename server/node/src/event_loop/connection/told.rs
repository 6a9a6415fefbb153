//! How a connection is told what was published for it: behind its replies, and before the replies to what it asks next.

use crate::event_loop::connection::Connection;
use crate::event_loop::connection::requests::REPLY_BYTES_PER_ITERATION;
use crate::event_loop::messages::Understood;
use crate::event_loop::posts::Posts;
use crate::event_loop::stream::Stream;
use crate::session::Batch;

impl<S: Stream> Connection<S> {
    /// Takes the messages of a part that are new to it: behind its replies if nothing comes between, else they are kept
    /// until earlier ones have left.
    pub(crate) fn take_part(&mut self, posts: &Posts, is_free: bool) {
        let understood = Understood::by(&self.session);
        for post in posts.of_part(&mut self.looked) {
            let is_free = is_free && self.messages.is_empty();
            if is_free && self.replies.len() < REPLY_BYTES_PER_ITERATION {
                let (replies, wait) = (&mut self.replies, &mut self.wait);
                understood.append(&post.message, post.wait, replies, wait);
            } else {
                self.messages.keep(post);
            }
        }
    }

    /// A client that is told of changes, or of messages, is told before it is sent what followed them.
    pub(super) fn catch_up(&mut self, batch: &mut Batch<'_>, posts: &mut Posts) {
        if self.is_told() {
            let listener = self.session.client.listener();
            posts.extend(batch.take_published(listener.worker));
            for post in posts.of_listener(&mut self.looked, listener) {
                self.messages.keep(post);
            }
            self.append_messages();
        }
    }

    /// Whether there may be something for it that was published.
    fn is_told(&self) -> bool {
        self.session.is_listening() || self.session.client.may_be_told()
    }

    /// Keeps what was published for it before an answer to it, which is number `behind` of the posts of its worker.
    pub(crate) fn catch_up_to(&mut self, posts: &Posts, behind: u64) {
        if self.is_told() {
            let listener = self.session.client.listener();
            for post in posts.of_listener_before(&mut self.looked, listener, behind) {
                self.messages.keep(post);
            }
        }
    }

    /// Appends what was kept to the replies, as far as it comes before an early answer. Says whether there was anything.
    pub(crate) fn append_messages(&mut self) -> bool {
        let understood = Understood::by(&self.session);
        let (replies, wait) = (&mut self.replies, &mut self.wait);
        let early = self.early_answer.as_mut();
        let mut unlimited = usize::MAX;
        let left = early.map_or(&mut unlimited, |early| &mut early.messages_before);
        let bytes_max = REPLY_BYTES_PER_ITERATION;
        *left -= self
            .messages
            .append_to(replies, wait, understood, *left, bytes_max);
        self.has_replies()
    }
}
