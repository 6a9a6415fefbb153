//! The part of the log that lives under the caller's own lock: it numbers frames and collects their bytes.
//!
//! Invariant: memory only. No I/O, no checksum, and no allocation once its buffer has grown to the size of
//! the usual batch. It places every frame exactly as the writer will, so `room` never allows too much.

use crate::frame;
use crate::header;
use crate::options::LogOptions;
use crate::position::{FrameKind, Position};
use crate::space::Space;
use std::sync::Arc;

/// Numbers frames and collects them until the writer takes them.
#[derive(Debug)]
pub struct Appender {
    space: Arc<Space>,
    pending: FrameBatch,
    next: Position,
    /// What is left of the segment the next frame goes to.
    remaining: u64,
    /// With less than this left of it the next segment is wanted.
    spare_wanted_bytes: u64,
    /// The segments begun beyond the first one.
    entered: u64,
    frame_bytes_max: u64,
    reserve_bytes: u64,
    checkpoint_is_open: bool,
    /// The next frame that finds a segment made ahead begins it.
    rotation_is_due: bool,
}

impl Appender {
    pub(crate) fn new(
        space: Arc<Space>,
        next: Position,
        first_segment_bytes: u64,
        options: &LogOptions,
    ) -> Appender {
        Appender {
            space,
            pending: FrameBatch::default(),
            next,
            remaining: first_segment_bytes.saturating_sub(header::BLOCK_BYTES),
            spare_wanted_bytes: first_segment_bytes.saturating_sub(first_segment_bytes / 4),
            entered: 0,
            frame_bytes_max: options.frame_bytes_max,
            reserve_bytes: options.reserve_bytes,
            checkpoint_is_open: false,
            rotation_is_due: false,
        }
    }

    /// Copies a frame into the pending batch and returns its position. It is not in the log until the
    /// writer has written it. Ask `room` first, except for control records, which use the reserve.
    ///
    /// # Panics
    /// If the payload is larger than the largest frame, or if a checkpoint is completed that was not opened
    /// since the log was opened: the end would count for an opening frame of an earlier start.
    pub fn append(&mut self, kind: FrameKind, node_time_ns: u64, payload: &[u8]) -> Position {
        let payload_bytes = payload.len() as u64;
        assert!(
            payload_bytes <= self.frame_bytes_max,
            "a frame of {payload_bytes} bytes"
        );
        if kind.completes_checkpoint() {
            assert!(
                self.checkpoint_is_open,
                "a checkpoint is completed that was not opened"
            );
        }
        if kind.opens_checkpoint() || kind.completes_checkpoint() {
            self.checkpoint_is_open = kind.opens_checkpoint();
        }
        let frame_bytes = frame::bytes_for(payload_bytes);
        let is_asked = self.rotation_is_due && self.has_spare();
        if is_asked {
            self.pending.begins_segment.push(self.next);
        }
        if is_asked || frame_bytes > self.remaining {
            self.rotation_is_due = false;
            self.space.want_spare();
            self.entered = self.entered.saturating_add(1);
            self.remaining = self.spare_bytes();
            self.space.enter(self.entered);
        }
        self.remaining = self.remaining.saturating_sub(frame_bytes);
        if self.remaining < self.spare_wanted_bytes {
            self.space.want_spare();
        }
        let position = self.next;
        frame::encode(
            &mut self.pending.bytes,
            position,
            kind,
            node_time_ns,
            payload,
        );
        self.next = position.next();
        position
    }

    /// Writes what follows past the page cache, or no longer does so: from the next frame on, which begins a
    /// segment for that, or from the next one made ahead if none is. No segment is written in both ways. Where
    /// the file system has no direct writes nothing changes but the segment.
    pub fn write_direct(&mut self, is_direct: bool) {
        if self.space.set_writes_direct(is_direct) {
            self.rotation_is_due = true;
            self.space.want_spare();
        }
    }

    /// The position the next frame will get.
    pub fn next_position(&self) -> Position {
        self.next
    }

    /// The largest payload that the next frame may have and certainly finds prepared space, with the
    /// reserve for control records left untouched; 0 if there is none for any frame. Asked before every command
    /// that may write.
    ///
    /// When it is short and `is_full` is false, the preparer is only behind: let it prepare, do not refuse.
    pub fn room(&self) -> u64 {
        if self.space.spare_count(self.entered) > 0 {
            // `Options::in_blocks` makes a segment hold the largest frame and the reserve. So whichever of the
            // two segments the frame goes to, the reserve is left in the spare one.
            return self.frame_bytes_max;
        }
        let bytes = self.remaining.saturating_sub(self.reserve_bytes);
        frame::payload_within(bytes).min(self.frame_bytes_max)
    }

    /// Whether the disk had no space for the next segment. Cleared when the preparer could make one.
    pub fn is_full(&self) -> bool {
        self.space.is_full()
    }

    /// Whether that is for want of descriptors, and not of space.
    pub fn is_out_of_files(&self) -> bool {
        self.space.is_out_of_files()
    }

    /// Whether the segment ahead is made, so that a rotation waits for nothing.
    pub fn has_spare(&self) -> bool {
        self.space.spare_count(self.entered) > 0
    }

    /// From now on `needs_preparing` asks for a segment ahead, however little of the first one is filled.
    pub fn want_spare(&self) {
        self.space.want_spare();
    }

    /// Whether the preparer has something to do.
    pub fn needs_preparing(&self) -> bool {
        self.space.needs_preparing()
    }

    /// The segments begun since the log was opened: 0 at first, one more at each rotation.
    pub fn rotations(&self) -> u64 {
        self.entered
    }

    /// Swaps the pending frames for an empty batch. Called under the same lock as `append`, by the thread that
    /// holds the writer: batches must reach the writer in the order they were taken.
    pub fn take(&mut self, spare: FrameBatch) -> FrameBatch {
        debug_assert!(
            spare.is_empty(),
            "the batch handed in would be written again"
        );
        std::mem::replace(&mut self.pending, spare)
    }

    /// How many bytes wait to be taken.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    fn spare_bytes(&self) -> u64 {
        self.space
            .segment_bytes()
            .saturating_sub(header::BLOCK_BYTES)
    }
}

/// Encoded frames on their way from the appender to the writer, consecutive and not yet sealed.
/// `FrameBatch::default()` is an empty one, to be handed to `Appender::take`. A batch that was written is empty and
/// keeps its memory, so that two batches going back and forth need no allocation.
#[derive(Debug, Default)]
pub struct FrameBatch {
    bytes: Vec<u8>,
    /// Frames that begin a segment although they would fit the one before.
    begins_segment: Vec<Position>,
}

impl FrameBatch {
    /// How many bytes there are to write.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The frames, and those of them that begin a segment by request.
    pub(crate) fn parts(&mut self) -> (&mut [u8], &[Position]) {
        (&mut self.bytes, &self.begins_segment)
    }

    /// Empties the batch. After a rare large burst it gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.begins_segment.clear();
    }
}

const KEPT_BYTES_MAX: usize = 4 << 20;
