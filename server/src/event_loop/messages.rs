//! Messages that were published for a connection and come behind its replies.

use std::collections::VecDeque;

use quorlock_engine::channels::Message;
use quorlock_engine::{Protocol, Reply};

use crate::core::deliveries::Delivery;
use crate::core::wait::Wait;
use crate::protocol::{Output, reply};
use crate::session::Session;

/// In the order in which they were published.
#[derive(Default)]
pub(crate) struct Messages {
    kept: VecDeque<(Message, Wait)>,
    bytes: usize,
}

impl Messages {
    /// Keeps messages for a client. Another one may have had its connection before.
    pub(crate) fn keep(&mut self, deliveries: Vec<Delivery>, client_id: u64) {
        for delivery in deliveries {
            if delivery.client_id == client_id {
                self.bytes += bytes_of(&delivery.message);
                self.kept.push_back((delivery.message, delivery.wait));
            }
        }
    }

    /// Appends the oldest to replies of fewer than so many bytes, and raises what those wait for.
    pub(crate) fn append_to(
        &mut self,
        replies: &mut Output,
        wait: &mut Wait,
        understood: Understood,
        bytes_max: usize,
    ) {
        while replies.len() < bytes_max {
            let Some((message, its_wait)) = self.kept.pop_front() else {
                self.kept = VecDeque::new();
                return;
            };
            self.bytes -= bytes_of(&message);
            let before = replies.len();
            understood.write(&message, replies);
            if replies.len() > before {
                wait.raise(its_wait);
            }
        }
    }

    /// What they count.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Its bytes are shared with others who listen, but who does not read keeps them.
fn bytes_of(message: &Message) -> usize {
    let bytes = match message {
        Message::Published(reply) => shared_bytes(reply),
        Message::Invalidated(push) | Message::Redirected { push, .. } => shared_bytes(push),
        Message::RedirectionBroken { .. } => 0,
    };
    bytes + MESSAGE_BYTES
}

/// The depth of a message is a constant, hence the recursion.
fn shared_bytes(reply: &Reply) -> usize {
    match reply {
        Reply::Shared(bytes) => bytes.len(),
        Reply::Push(parts) | Reply::Array(parts) => parts.iter().map(shared_bytes).sum(),
        _ => 0,
    }
}

/// What a connection understands.
#[derive(Clone, Copy)]
pub(crate) struct Understood {
    protocol: Protocol,
    /// It listens to a channel.
    is_listening: bool,
}

impl Understood {
    pub(crate) fn by(session: &Session) -> Self {
        Self {
            protocol: session.protocol(),
            is_listening: session.is_listening(),
        }
    }

    /// Writes a message, if it is understood: without RESP3 a connection that listens is told of keys as on a channel,
    /// in the place of others only.
    fn write(self, message: &Message, replies: &mut Output) {
        let Self {
            protocol,
            is_listening,
        } = self;
        match (message, protocol) {
            (Message::Published(reply), _) => reply::write(replies, reply, protocol),
            (Message::Invalidated(push) | Message::Redirected { push, .. }, Protocol::Resp3) => {
                reply::write(replies, push, protocol)
            }
            (Message::Redirected { push, .. }, _) if is_listening => {
                let keys = match &**push {
                    Reply::Push(parts) => parts.last().cloned(),
                    _ => None,
                };
                let parts = [Reply::bulk("message"), Reply::bulk(INVALIDATE)];
                let message = Reply::Push(parts.into_iter().chain(keys).collect());
                reply::write(replies, &message, protocol);
            }
            (Message::RedirectionBroken { target }, Protocol::Resp3) => {
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

/// What a message takes beside its bytes.
const MESSAGE_BYTES: usize = 64;
