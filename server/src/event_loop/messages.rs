//! Messages that were published for a connection and come behind its replies.

use std::collections::VecDeque;
use std::sync::Arc;

use quorlock_engine::Reply;

use crate::core::wait::Wait;

/// In the order in which they were published.
#[derive(Default)]
pub(crate) struct Messages {
    kept: VecDeque<(Arc<Reply>, Wait)>,
    bytes: usize,
}

impl Messages {
    /// Keeps a message, and what it waits for.
    pub(crate) fn push(&mut self, message: Arc<Reply>, wait: Wait) {
        self.bytes += bytes_of(&message);
        self.kept.push_back((message, wait));
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self) -> Option<(Arc<Reply>, Wait)> {
        let oldest = self.kept.pop_front();
        match &oldest {
            Some((message, _)) => self.bytes -= bytes_of(message),
            None => self.kept = VecDeque::new(),
        }
        oldest
    }

    /// What they count.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Its bytes are shared with others who listen, but who does not read keeps them.
fn bytes_of(message: &Reply) -> usize {
    let Reply::Push(parts) = message else {
        return MESSAGE_BYTES;
    };
    let bytes = |part: &Reply| match part {
        Reply::Shared(bytes) => bytes.len(),
        _ => 0,
    };
    parts.iter().map(bytes).sum::<usize>() + MESSAGE_BYTES
}

/// What a message takes beside its bytes.
const MESSAGE_BYTES: usize = 64;
