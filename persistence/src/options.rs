//! The sizes of a log, and whose log is expected.
//!
//! Invariant: the sizes that are used always leave room for the largest frame in a segment.

use crate::frame;
use crate::header;

/// The sizes of a log. The defaults are for a node; tests use smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The first segment of each start. Small, because a start waits until it is zero-filled.
    pub first_segment_bytes: u64,
    /// Every later segment. Raised where needed to hold the largest frame.
    pub segment_bytes: u64,
    /// The largest payload of one frame.
    pub frame_bytes_max: u64,
    /// Space that [`crate::Appender::room`] never offers, kept for control records.
    pub reserve_bytes: u64,
    /// Whether segments may be written past the page cache at all: then each is tried for it when it is made.
    pub allows_direct: bool,
    /// Write past the page cache, where that is allowed and the file system can: for logs whose every write is
    /// synced. The log can change it later: [`crate::Appender::write_direct`].
    pub writes_direct: bool,
    /// The node whose log is expected; a log of another one is refused. `None` accepts any.
    pub expected_node: Option<[u8; 20]>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            first_segment_bytes: 1 << 20,
            segment_bytes: 16 << 20,
            frame_bytes_max: 8 << 20,
            reserve_bytes: 64 << 10,
            allows_direct: true,
            writes_direct: false,
            expected_node: None,
        }
    }
}

impl LogOptions {
    /// The same sizes in whole blocks, each large enough, so that no later code has to check again.
    pub(crate) fn in_blocks(self) -> LogOptions {
        let frame_bytes_max = self.frame_bytes_max.min(FRAME_BYTES_LIMIT);
        let reserve_bytes = self
            .reserve_bytes
            .min(RESERVE_BYTES_LIMIT)
            .next_multiple_of(8);
        let largest_frame = frame::bytes_for(frame_bytes_max);
        let segment_least = header::BLOCK_BYTES
            .saturating_add(largest_frame)
            .saturating_add(reserve_bytes);
        let first_least = (header::BLOCK_BYTES * 2).saturating_add(reserve_bytes);
        LogOptions {
            first_segment_bytes: whole_blocks(self.first_segment_bytes.max(first_least)),
            segment_bytes: whole_blocks(self.segment_bytes.max(segment_least)),
            frame_bytes_max,
            reserve_bytes,
            allows_direct: self.allows_direct,
            writes_direct: self.writes_direct,
            expected_node: self.expected_node,
        }
    }
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes
        .min(SEGMENT_BYTES_LIMIT)
        .next_multiple_of(header::BLOCK_BYTES)
}

/// A length is stored in four bytes; this leaves room for the frame's header and padding.
const FRAME_BYTES_LIMIT: u64 = 1 << 30;
const RESERVE_BYTES_LIMIT: u64 = 1 << 30;
/// A longer file is not read: its length must not decide how long a start takes.
pub(crate) const SEGMENT_BYTES_LIMIT: u64 = 1 << 34;
