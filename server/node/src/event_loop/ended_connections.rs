//! Connections that end with an iteration, and what is left of them.

use slab::Slab;

use crate::core::clients::Clients;
use crate::event_loop::connection::Connection;
use crate::event_loop::discarded::DiscardedMessages;
use crate::event_loop::stream::Stream;

/// Connections of one worker that have ended.
pub(super) struct EndedConnections<S> {
    /// Of this iteration. Their slots are not used again before its end.
    pub(super) slots: Vec<usize>,
    /// Streams of those whose clients may still send: to be closed in the node's direction first.
    pub(super) half_closed: Vec<S>,
    /// What they were not told any more.
    pub(super) messages: DiscardedMessages,
}

impl<S> Default for EndedConnections<S> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            half_closed: Vec::new(),
            messages: DiscardedMessages::default(),
        }
    }
}

impl<S: Stream> EndedConnections<S> {
    /// The iteration is over: takes its connections out, and frees a bounded part of what earlier ones have left.
    pub(super) fn remove_from(&mut self, connections: &mut Slab<Connection<S>>, clients: &Clients) {
        for slot in self.slots.drain(..) {
            let mut connection = connections.remove(slot);
            let messages = std::mem::take(&mut connection.messages);
            self.messages.add(messages, clients);
            if connection.is_half_closed {
                self.half_closed.push(connection.into_stream());
            }
        }
        self.messages.free_some(clients);
    }
}
