//! Encoded frames on their way from the appender to the writer.
//!
//! Invariant: the frames are consecutive and not yet sealed. A batch that was written is empty and keeps
//! its memory, so that two batches going back and forth need no allocation.

use crate::frame;
use crate::position::{Kind, Position};

/// Encoded frames. `Batch::default()` is an empty one, to be handed to `Appender::take`.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes the frames take in the file.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn push(&mut self, position: Position, kind: Kind, time_ns: u64, payload: &[u8]) {
        frame::encode(&mut self.bytes, position, kind, time_ns, payload);
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Empties the batch. One rare large burst does not hold its memory for ever.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }
}

const KEPT_BYTES_MAX: usize = 4 << 20;
