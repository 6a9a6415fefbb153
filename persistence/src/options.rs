//! The sizes of a log, and whose log is expected.
//!
//! Invariant: the sizes that are used always leave room for the largest frame in a segment.

use crate::disk::Volume;
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
    /// The same sizes on a file system: a small one holds segments of an eighth of it, so that it is not full of two or three while
    /// a checkpoint needs another. The largest frame still fits each.
    #[must_use]
    pub fn on(self, volume: Option<Volume>) -> LogOptions {
        let share = volume.map_or(u64::MAX, |volume| volume.total_bytes / SHARE);
        LogOptions {
            segment_bytes: self.segment_bytes.min(share),
            ..self
        }
    }

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
            ..self
        }
    }
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes
        .min(SEGMENT_BYTES_LIMIT)
        .next_multiple_of(header::BLOCK_BYTES)
}

/// So many segments fit a small file system.
const SHARE: u64 = 8;
/// Together with the header and what a frame has besides its payload these fit the longest segment.
const FRAME_BYTES_LIMIT: u64 = 32 << 20;
const RESERVE_BYTES_LIMIT: u64 = 16 << 20;
/// Four times the longest segment that a node of any version has written. A longer file is not read, whatever its
/// header says: its length must not decide how long a start takes.
pub(crate) const SEGMENT_BYTES_LIMIT: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_volume_holds_small_segments_and_a_large_one_the_usual() {
        let on = |total_mib: u64| {
            let volume = Volume {
                total_bytes: total_mib << 20,
                free_bytes: 0,
            };
            LogOptions::default().on(Some(volume)).in_blocks()
        };
        let largest_frame = frame::bytes_for(LogOptions::default().frame_bytes_max);
        assert_eq!(on(96).segment_bytes, 12 << 20);
        for total_mib in [0, 1, 40, 48] {
            let bytes = on(total_mib).segment_bytes;
            assert!((largest_frame..9 << 20).contains(&bytes), "{bytes}");
        }
        for usual in [on(128), on(1 << 20), LogOptions::default().on(None)] {
            assert_eq!(usual.segment_bytes, 16 << 20);
        }
    }

    #[test]
    fn the_largest_frame_and_reserve_fit_the_longest_segment() {
        let largest = LogOptions {
            first_segment_bytes: u64::MAX,
            segment_bytes: u64::MAX,
            frame_bytes_max: u64::MAX,
            reserve_bytes: u64::MAX,
            ..LogOptions::default()
        };
        let used = largest.in_blocks();
        let frame = frame::bytes_for(used.frame_bytes_max);
        assert_eq!(used.segment_bytes, SEGMENT_BYTES_LIMIT);
        assert!(header::BLOCK_BYTES + frame + used.reserve_bytes <= used.segment_bytes);
    }
}
