//! The part of the log that writes: it seals frames, places them in segments and makes them durable.
//!
//! Invariant: frames reach the file in the order of their positions, none spans two segments, and what
//! `durable` reports was synced. After the first failure every call returns that failure: a retry could
//! succeed although data is gone.

use crate::batch::Batch;
use crate::disk::{Disk, File};
use crate::error::{DiskError, SyncError, WriteError};
use crate::frame::{self, Salt};
use crate::header::{self, Header};
use crate::options::Identity;
use crate::position::{Kind, Position};
use crate::segment_name;
use crate::space::Space;
use std::sync::Arc;

mod sync;

pub use sync::SyncTicket;

/// Writes and syncs frames.
#[derive(Debug)]
pub struct Writer {
    space: Arc<Space>,
    identity: Identity,
    active: Active,
    written: Position,
    durable: Position,
    /// Segments that were left for the next one and are not yet known to be durable.
    left: Vec<Left>,
    /// Older segments still in the directory, oldest first: number and length.
    older: Vec<(u64, u64)>,
    checkpoint: Checkpoint,
}

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) file: Arc<dyn File>,
    pub(crate) number: u64,
    pub(crate) salt: Salt,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A segment that was left for the next one.
#[derive(Debug)]
struct Left {
    number: u64,
    file: Arc<dyn File>,
    /// The position of its last frame.
    last: Position,
}

/// How far the current checkpoint has come, and the bytes written since the last complete one.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    /// Bytes of frames since the opening frame of the last complete checkpoint.
    pub(crate) bytes_since: u64,
    /// The segment of the opening frame, and what `bytes_since` was before it.
    opened: Option<(u64, u64)>,
    /// The same, once the closing frame, at this position, was written.
    closed: Option<(u64, u64, Position)>,
}

impl Writer {
    pub(crate) fn new(
        space: Arc<Space>,
        identity: Identity,
        active: Active,
        last: Position,
        older: Vec<(u64, u64)>,
        bytes_since_checkpoint: u64,
    ) -> Writer {
        let checkpoint = Checkpoint {
            bytes_since: bytes_since_checkpoint,
            ..Default::default()
        };
        let left = Vec::new();
        Writer {
            space,
            identity,
            active,
            written: last,
            durable: last,
            left,
            older,
            checkpoint,
        }
    }

    /// Seals and writes the frames of `batch`, with one write per segment, and empties it for reuse.
    /// Returns the position of the last frame written. A killed process loses none of them any more; for a
    /// power loss they need a sync.
    pub fn write(&mut self, batch: &mut Batch) -> Result<Position, WriteError> {
        let result = self
            .space
            .check()
            .and_then(|()| self.write_frames(batch.bytes()));
        batch.clear();
        result.map_err(|error| self.space.fail(error))?;
        Ok(self.written)
    }

    /// Makes everything written so far durable, and returns the position up to which it is.
    pub fn sync(&mut self) -> Result<Position, SyncError> {
        let position = self.begin_sync().run()?;
        self.finish_sync(position);
        Ok(self.durable)
    }

    /// Begins a sync of everything written so far. The ticket's `run` needs no lock, so that others may go
    /// on writing; its result goes to `finish_sync`. A ticket that is dropped has synced nothing.
    pub fn begin_sync(&mut self) -> SyncTicket {
        let left = self.left.iter();
        let mut files: Vec<_> = left
            .map(|left| (left.number, Arc::clone(&left.file)))
            .collect();
        if self.durable < self.written {
            files.push((self.active.number, Arc::clone(&self.active.file)));
        }
        SyncTicket {
            space: Arc::clone(&self.space),
            files,
            target: self.written,
        }
    }

    /// Takes note of what a ticket's `run` returned. Tickets may be finished in any order.
    pub fn finish_sync(&mut self, position: Position) {
        assert!(
            position <= self.written,
            "a position that was synced was written before"
        );
        self.durable = self.durable.max(position);
        let durable = self.durable;
        self.left.retain(|left| left.last > durable);
        self.retire_segments();
    }

    /// The position of the last frame written.
    pub fn written(&self) -> Position {
        self.written
    }

    /// Everything up to this position is durable.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Whether the preparer has something to do.
    pub fn needs_preparing(&self) -> bool {
        self.space.needs_preparing()
    }

    /// The bytes of frames written since the last complete checkpoint was opened (or since the beginning).
    pub fn bytes_since_checkpoint(&self) -> u64 {
        self.checkpoint.bytes_since
    }

    /// The bytes of all segments in use, the one made ahead not counted.
    pub fn total_bytes(&self) -> u64 {
        let older = self.older.iter().map(|(_, length)| length);
        older.fold(self.active.length, |sum, length| {
            sum.saturating_add(*length)
        })
    }

    fn write_frames(&mut self, bytes: &mut [u8]) -> Result<(), WriteError> {
        let mut begin = 0;
        let mut end = 0;
        while end < bytes.len() {
            let (frame_bytes, position, kind) = frame::peek(&bytes[end..]);
            let next = end.saturating_add(frame_bytes);
            let taken = next.saturating_sub(begin) as u64;
            if self.active.offset.saturating_add(taken) > self.active.length {
                self.flush(&bytes[begin..end], position)?;
                self.rotate(position)?;
                begin = end;
            }
            frame::seal(&mut bytes[end..next], self.active.salt, self.durable);
            self.checkpoint
                .note(kind, position, self.active.number, frame_bytes as u64);
            end = next;
            self.written = position;
        }
        self.flush(&bytes[begin..end], self.written.next())
    }

    /// Writes frames to the active segment; `next` is the position of the frame after them.
    fn flush(&mut self, bytes: &[u8], next: Position) -> Result<(), WriteError> {
        if bytes.is_empty() {
            return Ok(());
        }
        debug_assert_eq!(next, self.written.next());
        let active = &mut self.active;
        active
            .file
            .write_at(active.offset, bytes)
            .map_err(|cause| {
                WriteError::Write(disk_error(&*self.space.disk, "write", active.number, cause))
            })?;
        active.offset = active.offset.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Goes on in the next segment. Its header says where this one ends.
    fn rotate(&mut self, first_position: Position) -> Result<(), WriteError> {
        let disk = Arc::clone(&self.space.disk);
        let spare = self.space.take_spare()?;
        let failed = |operation, cause| {
            WriteError::Write(disk_error(&*disk, operation, spare.number, cause))
        };
        let salt = disk
            .random()
            .map_err(|cause| failed("choose a salt for", cause))?;
        let length = self.space.segment_bytes();
        let header = Header {
            version: header::NEWEST,
            is_repaired: false,
            identity: self.identity,
            number: spare.number,
            segment_bytes: length,
            salt,
            previous_number: self.active.number,
            previous_cut: self.active.offset,
            first_position,
            durable: self.durable,
        };
        spare
            .file
            .write_at(0, &header.encode())
            .map_err(|cause| failed("write", cause))?;
        let next = Active {
            file: spare.file,
            number: spare.number,
            salt: Salt::new(salt),
            offset: header::BLOCK_BYTES,
            length,
        };
        let left = std::mem::replace(&mut self.active, next);
        self.older.push((left.number, left.length));
        self.left.push(Left {
            number: left.number,
            file: left.file,
            last: self.written,
        });
        Ok(())
    }

    /// Lets go of the segments before a checkpoint that has become durable.
    fn retire_segments(&mut self) {
        let Some((segment, bytes_before, end)) = self.checkpoint.closed else {
            return;
        };
        if end > self.durable {
            return;
        }
        self.checkpoint.closed = None;
        let since = self.checkpoint.bytes_since;
        self.checkpoint.bytes_since = since.saturating_sub(bytes_before);
        if let Some((_, before)) = &mut self.checkpoint.opened {
            *before = before.saturating_sub(bytes_before);
        }
        let kept = self.older.partition_point(|(number, _)| *number < segment);
        self.space
            .add_obsolete(self.older.drain(..kept).map(|(number, _)| number));
    }
}

impl Checkpoint {
    fn note(&mut self, kind: Kind, position: Position, segment: u64, frame_bytes: u64) {
        if kind.opens_checkpoint() {
            self.opened = Some((segment, self.bytes_since));
        }
        if kind.completes_checkpoint()
            && let Some((segment, bytes_before)) = self.opened.take()
        {
            self.closed = Some((segment, bytes_before, position));
        }
        self.bytes_since = self.bytes_since.saturating_add(frame_bytes);
    }
}

fn disk_error(
    disk: &dyn Disk,
    operation: &'static str,
    number: u64,
    cause: std::io::Error,
) -> DiskError {
    DiskError::new(
        operation,
        disk.describe(&segment_name::segment(number)),
        cause,
    )
}
