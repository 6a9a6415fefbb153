//! What an event loop is told, and what it asks of others.
//!
//! Threads and the simulation bring the one and carry out the other, each in its own way.

use std::sync::Arc;

use crate::core::clients::Client;
use crate::core::next_commit::CommitRequest;

/// What an event loop is told by others than its streams.
#[derive(Debug)]
pub enum Message {
    /// A commit that was asked for has ended, in one way or the other.
    Synced,
    /// Something was published for clients of this worker.
    Published,
    /// A test has moved the clock.
    TimeMoved,
    /// The same for a segment.
    SegmentMade,
    /// Close this client if it has not authenticated, so that another one can be served.
    MakeRoom(Arc<Client>),
    /// The log is as durable as it gets: let the replies leave, then end.
    Stop,
}

/// The way to an event loop for other threads.
pub trait Mailbox: Clone + Send + 'static {
    /// Sends a message and wakes the loop.
    fn send_message(&self, message: Message);

    /// Sends a message once the result is dropped: a job that is dropped has ended as well as one that was done.
    fn send_on_drop(&self, message: Message) -> SendOnDrop<Self> {
        SendOnDrop(self.clone(), Some(message))
    }
}

/// A message that is sent when this is dropped.
pub struct SendOnDrop<M: Mailbox>(M, Option<Message>);

impl<M: Mailbox> Drop for SendOnDrop<M> {
    fn drop(&mut self) {
        if let Some(message) = self.1.take() {
            self.0.send_message(message);
        }
    }
}

/// What an event loop asks of others, to be answered by a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Write what is appended and sync it, beside this loop: [`Message::Synced`].
    Commit(CommitRequest),
    /// Make the next segment, or find that there is no room for it: [`Message::SegmentMade`].
    MakeSegment,
}
