//! Messages that were published for a connection and come behind its replies.

use std::collections::VecDeque;
use std::sync::Arc;

use quorlock_engine::channels::PushMessage;
use quorlock_engine::{Protocol, Reply};

use crate::core::deliveries::Post;
use crate::core::shared_message::{MESSAGE_BYTES, SHARED_ONCE_BYTES, SharedMessage};
use crate::core::wait::DurabilityWait;
use crate::protocol::{Output, reply};
use crate::session::Session;

/// In the order in which they were published.
#[derive(Default)]
pub(crate) struct Messages {
    kept: VecDeque<(Arc<SharedMessage>, DurabilityWait)>,
    bytes: usize,
}

impl Messages {
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Keeps a message.
    pub(crate) fn keep(&mut self, post: &Post) {
        self.bytes += post.message.bytes();
        self.kept.push_back((Arc::clone(&post.message), post.wait));
    }

    /// Appends the oldest, at most so many, to replies of fewer than so many bytes, and raises what those wait for. Returns
    /// how many.
    pub(crate) fn append_to(
        &mut self,
        replies: &mut Output,
        wait: &mut DurabilityWait,
        understood: Understood,
        at_most: usize,
        bytes_max: usize,
    ) -> usize {
        let mut count = 0;
        while count < at_most && replies.len() < bytes_max {
            let Some((message, its_wait)) = self.kept.pop_front() else {
                self.kept = VecDeque::new();
                break;
            };
            self.bytes -= message.bytes();
            understood.append(&message, its_wait, replies, wait);
            count += 1;
        }
        count
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Drops the oldest, at most so many.
    pub(crate) fn drop_oldest(&mut self, count: usize) {
        for (message, _) in self.kept.drain(..count.min(self.kept.len())) {
            self.bytes -= message.bytes();
        }
    }

    /// What they count.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What of that they share with others.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.bytes - self.kept.len() * MESSAGE_BYTES
    }

    /// What they take, once for all who have the same ones.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.bytes + self.kept.len() * SHARED_ONCE_BYTES
    }
}

/// What a connection understands.
#[derive(Clone, Copy)]
pub(crate) struct Understood {
    protocol: Protocol,
    /// It listens to a channel.
    is_listening: bool,
    /// It watches all requests.
    is_monitor: bool,
}

impl Understood {
    pub(crate) fn by(session: &Session) -> Self {
        Self {
            protocol: session.protocol(),
            is_listening: session.is_listening(),
            is_monitor: session.is_monitor(),
        }
    }

    /// Appends a message to replies, if it is understood, and raises what those wait for.
    pub(crate) fn append(
        self,
        message: &SharedMessage,
        its_wait: DurabilityWait,
        replies: &mut Output,
        wait: &mut DurabilityWait,
    ) {
        let before = replies.len();
        self.write(message, replies);
        if replies.len() > before {
            wait.raise(its_wait);
        }
    }

    /// Writes a message, if it is understood: without RESP3 a connection that listens is told of keys as on a channel,
    /// in the place of others only.
    fn write(self, message: &SharedMessage, replies: &mut Output) {
        let Self {
            protocol,
            is_listening,
            is_monitor,
        } = self;
        match (&message.message, protocol) {
            (PushMessage::Published(_), _)
            | (PushMessage::Invalidated(_) | PushMessage::LockFree(_), Protocol::Resp3)
            | (PushMessage::Redirected { .. }, Protocol::Resp3) => {
                replies.append(message.rendered(protocol));
            }
            (PushMessage::Monitored(_), _) if is_monitor => {
                replies.append(message.rendered(protocol));
            }
            (PushMessage::Redirected { push, .. }, _) if is_listening => {
                let keys = match &**push {
                    Reply::Push(parts) => parts.last().cloned(),
                    _ => None,
                };
                let parts = [Reply::bulk("message"), Reply::bulk(INVALIDATE)];
                let message = Reply::Push(parts.into_iter().chain(keys).collect());
                reply::write(replies, &message, protocol);
            }
            (PushMessage::RedirectionBroken { target }, Protocol::Resp3) => {
                let target = i64::try_from(*target).expect("clients are counted from 1");
                let parts = [Reply::bulk("tracking-redir-broken"), Reply::Integer(target)];
                reply::write(replies, &Reply::Push(parts.into()), protocol);
            }
            _ => {}
        }
    }
}

/// The channel of messages about keys.
const INVALIDATE: &str = "__redis__:invalidate";
