//! The part of the log that writes: it seals frames, places them in segments and makes them durable. A sync runs
//! as a ticket, without the writer's lock.
//!
//! Invariant: frames reach the file in the order of their positions, none spans two segments, and what
//! `durable` reports was synced. After the first failure every call returns that failure: a retry could
//! succeed although data is gone.

use crate::appender::{Appender, FrameBatch};
use crate::block_writer::BlockWriter;
use crate::disk::File;
use crate::error::{DiskError, SyncError, WriteError};
use crate::frame::{self, Salt};
use crate::header::{self, Cut, LogIdentity, SegmentHeader};
use crate::look::{LOOKED_AT_ONCE, Look, OlderSegment, refuse_unless_whole};
use crate::position::{FrameKind, Position};
use crate::segment_name;
use crate::space::{NO_PANIC, Preparer, Space};
use std::io;
use std::sync::Arc;

/// A log that can be written, in three parts, so that the caller decides about locks and threads: each may
/// live under a lock of its own, or on a thread of its own.
#[derive(Debug)]
pub struct Log {
    /// Numbers frames and collects them. Lives where the order of frames is decided.
    pub appender: Appender,
    /// Writes and syncs what was collected.
    pub writer: Writer,
    /// Makes segments ahead. Nothing is ahead yet when a log is opened: call `prepare` soon.
    pub preparer: Preparer,
}

/// Writes and syncs frames.
#[derive(Debug)]
pub struct Writer {
    space: Arc<Space>,
    identity: LogIdentity,
    active: ActiveSegment,
    written: Position,
    durable: Position,
    /// Segments that are full and not yet known to be durable.
    unsynced: Vec<UnsyncedSegment>,
    /// Older segments still in the directory, oldest first.
    older: Vec<OlderSegment>,
    /// The number of the one that was looked at last.
    looked_at: u64,
    checkpoint: CheckpointProgress,
    /// No frame of the active segment reaches beyond.
    limit: u64,
    end_mark: Option<EndMark>,
}

/// No frame, wherever it stands: too short for one, and its first four bytes are a mark that no salt has.
pub(crate) const END_MARK: [u8; 8] = *b"\0\0\0\0LOST";

/// What says, at the end of a segment that a start goes on in, that the log broke off before that start.
#[derive(Debug)]
pub(crate) struct EndMark {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn File>,
    /// Where it is: no frame reaches beyond.
    pub(crate) offset: u64,
    /// Once this position is durable it says nothing more.
    pub(crate) until: Position,
}

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct ActiveSegment {
    pub(crate) file: Arc<dyn File>,
    /// The way past the page cache, if this segment is written that way.
    pub(crate) blocks: Option<BlockWriter>,
    pub(crate) number: u64,
    pub(crate) salt: Salt,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A segment that the stream has left.
#[derive(Debug)]
struct UnsyncedSegment {
    file: SyncTarget,
    /// The position of its last frame.
    last: Position,
}

/// What a sync has to reach: the file of a segment, which keeps its name and its length.
#[derive(Clone, Debug)]
struct SyncTarget {
    number: u64,
    file: Arc<dyn File>,
    length: u64,
}

/// How far the current checkpoint has come, and the bytes written since the last complete one.
#[derive(Debug, Default)]
struct CheckpointProgress {
    /// Bytes of frames since the opening frame of the last complete checkpoint.
    bytes_since: u64,
    opened: Option<OpenedCheckpoint>,
    /// The one whose closing frame was written last.
    closed: Option<ClosedCheckpoint>,
}

/// Where a checkpoint was opened and closed.
#[derive(Clone, Copy, Debug)]
struct ClosedCheckpoint {
    opened: OpenedCheckpoint,
    /// The position of its closing frame.
    end: Position,
}

/// Where a checkpoint was opened.
#[derive(Clone, Copy, Debug)]
struct OpenedCheckpoint {
    /// The segment of the opening frame.
    segment: u64,
    /// What `bytes_since` was before that frame.
    bytes_before: u64,
}

impl ActiveSegment {
    fn segment_file(&self) -> SyncTarget {
        SyncTarget {
            number: self.number,
            file: Arc::clone(&self.file),
            length: self.length,
        }
    }

    /// Writes these bytes behind those before.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.blocks {
            Some(blocks) => blocks.append(bytes)?,
            None => self.file.write_at(self.offset, bytes)?,
        }
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

impl Writer {
    pub(crate) fn new(
        space: Arc<Space>,
        identity: LogIdentity,
        active: ActiveSegment,
        last: Position,
        older: Vec<OlderSegment>,
        bytes_since_checkpoint: u64,
    ) -> Writer {
        Writer {
            space,
            identity,
            limit: active.length,
            active,
            written: last,
            durable: last,
            unsynced: Vec::new(),
            older,
            looked_at: 0,
            checkpoint: CheckpointProgress {
                bytes_since: bytes_since_checkpoint,
                ..CheckpointProgress::default()
            },
            end_mark: None,
        }
    }

    /// Keeps this mark until it says nothing more, and frames away from it.
    pub(crate) fn keep_mark(&mut self, end_mark: EndMark) {
        self.limit = end_mark.offset;
        self.end_mark = Some(end_mark);
    }

    /// Seals and writes the frames of `batch`, with one write per segment (a few where a large batch goes past the
    /// page cache), and empties it for reuse.
    /// Returns the position of the last frame written. A killed process loses none of them any more; for a
    /// power loss they need a sync.
    pub fn write(&mut self, batch: &mut FrameBatch) -> Result<Position, WriteError> {
        let result = self.space.check().and_then(|()| self.write_frames(batch));
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
        let unsynced = self.unsynced.iter();
        let mut files: Vec<_> = unsynced.map(|segment| segment.file.clone()).collect();
        if self.durable < self.written {
            files.push(self.active.segment_file());
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
        self.unsynced.retain(|segment| segment.last > durable);
        self.retire_segments();
    }

    /// Begins a look at segments before the one that is written: the next few, in turn. What was synced into them is needed
    /// until a checkpoint makes them obsolete.
    pub fn begin_look(&mut self) -> Look {
        let next = self
            .older
            .partition_point(|older| older.number <= self.looked_at);
        let chosen = self.older[next..].iter().take(LOOKED_AT_ONCE);
        let segments: Vec<_> = chosen.copied().collect();
        let is_last = next.saturating_add(segments.len()) == self.older.len();
        let last = segments.last().filter(|_| !is_last);
        self.looked_at = last.map_or(0, |last| last.number);
        Look {
            space: Arc::clone(&self.space),
            segments,
        }
    }

    /// The position of the last frame written.
    pub fn written(&self) -> Position {
        self.written
    }

    /// Everything up to this position is durable.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Whether writes go past the page cache now, and so take as long as the device needs.
    pub fn writes_direct(&self) -> bool {
        self.active.blocks.is_some()
    }

    /// The number of the segment that is written now.
    pub fn segment(&self) -> u64 {
        self.active.number
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
        self.older_bytes().saturating_add(self.active.length)
    }

    /// The bytes of the segments before the one that is written: what a checkpoint makes obsolete, unless it spans them.
    pub fn older_bytes(&self) -> u64 {
        let lengths = self.older.iter().map(|segment| segment.length);
        lengths.fold(0, u64::saturating_add)
    }

    fn write_frames(&mut self, batch: &mut FrameBatch) -> Result<(), WriteError> {
        let (bytes, begins_segment) = batch.parts();
        let mut begins_segment = begins_segment.iter().peekable();
        let mut begin = 0;
        let mut end = 0;
        if let Some(mark) = self.end_mark.take_if(|mark| mark.until <= self.durable) {
            let cleared = mark.file.write_at(mark.offset, &[0; END_MARK.len()]);
            let failed = DiskError::at_segment(&*self.space.disk, "write", mark.number);
            cleared.map_err(failed).map_err(WriteError::Write)?;
        }
        while end < bytes.len() {
            let frame = frame::peek(&bytes[end..]);
            let position = frame.position;
            let next = end.saturating_add(frame.bytes);
            let taken = next.saturating_sub(begin) as u64;
            let is_asked = begins_segment.next_if_eq(&&position).is_some();
            if is_asked || self.active.offset.saturating_add(taken) > self.limit {
                self.flush(&bytes[begin..end], position)?;
                self.rotate(position)?;
                begin = end;
            }
            frame::seal(&mut bytes[end..next], self.active.salt, self.durable);
            self.checkpoint
                .note(frame.kind, position, self.active.number, frame.bytes as u64);
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
        let written = self.active.append(bytes);
        let failed = DiskError::at_segment(&*self.space.disk, "write", self.active.number);
        written.map_err(failed).map_err(WriteError::Write)
    }

    /// Goes on in the next segment. Its header says where this one ends.
    fn rotate(&mut self, first_position: Position) -> Result<(), WriteError> {
        let disk = Arc::clone(&self.space.disk);
        let spare = self.space.take_spare()?;
        let failed = |operation| DiskError::at_segment(&*disk, operation, spare.number);
        let salt = disk.random().map_err(failed("choose a salt for"));
        let salt = salt.map_err(WriteError::Write)?;
        let length = self.space.segment_bytes();
        let header = SegmentHeader {
            version: header::NEWEST,
            is_repaired: false,
            identity: self.identity,
            number: spare.number,
            segment_bytes: length,
            salt,
            previous: Cut {
                segment: self.active.number,
                offset: self.active.offset,
            },
            first_position,
            durable: self.durable,
        };
        let direct = spare.made.direct.filter(|_| self.space.writes_direct());
        let mut next = ActiveSegment {
            file: spare.made.file,
            blocks: direct.map(|direct| BlockWriter::new(direct, &[])),
            number: spare.number,
            salt: Salt::new(salt),
            offset: 0,
            length,
        };
        let written = next.append(&header.encode()).map_err(failed("write"));
        written.map_err(WriteError::Write)?;
        let full = std::mem::replace(&mut self.active, next);
        self.limit = length;
        self.older.push(OlderSegment {
            number: full.number,
            id: full.file.id(),
            length: full.length,
        });
        self.unsynced.push(UnsyncedSegment {
            file: full.segment_file(),
            last: self.written,
        });
        Ok(())
    }

    /// Hands the segments before a checkpoint that has become durable to the preparer.
    fn retire_segments(&mut self) {
        let Some(ClosedCheckpoint { opened: begun, end }) = self.checkpoint.closed else {
            return;
        };
        if end > self.durable {
            return;
        }
        self.checkpoint.closed = None;
        let since = self.checkpoint.bytes_since;
        self.checkpoint.bytes_since = since.saturating_sub(begun.bytes_before);
        if let Some(opened) = &mut self.checkpoint.opened {
            let before = opened.bytes_before;
            opened.bytes_before = before.saturating_sub(begun.bytes_before);
        }
        let is_obsolete = |segment: &OlderSegment| segment.number < begun.segment;
        let obsolete = self.older.partition_point(is_obsolete);
        let obsolete = self.older.drain(..obsolete);
        self.space
            .add_obsolete(obsolete.map(|segment| segment.number));
    }
}

impl CheckpointProgress {
    fn note(&mut self, kind: FrameKind, position: Position, segment: u64, frame_bytes: u64) {
        if kind.opens_checkpoint() {
            self.opened = Some(OpenedCheckpoint {
                segment,
                bytes_before: self.bytes_since,
            });
        }
        if kind.completes_checkpoint()
            && let Some(opened) = self.opened.take()
        {
            self.closed = Some(ClosedCheckpoint {
                opened,
                end: position,
            });
        }
        self.bytes_since = self.bytes_since.saturating_add(frame_bytes);
    }
}

/// A sync that was begun. It covers what was written before it was made and nothing later.
#[derive(Debug)]
#[must_use = "nothing is synced until the ticket is run"]
pub struct SyncTicket {
    space: Arc<Space>,
    /// The segments to sync, older ones first.
    files: Vec<SyncTarget>,
    target: Position,
}

impl SyncTicket {
    /// Syncs, older segments first, and returns the position up to which everything is durable now.
    /// Tickets run one at a time. A failure ends the log before this returns it.
    pub fn run(self) -> Result<Position, SyncError> {
        let _one_at_a_time = self.space.syncing.lock().expect(NO_PANIC);
        self.space.check()?;
        for segment in &self.files {
            self.sync_one(segment)
                .map_err(|error| self.space.fail(error))?;
        }
        Ok(self.target)
    }

    /// The position up to which everything will be durable.
    pub fn target(&self) -> Position {
        self.target
    }

    fn sync_one(&self, segment: &SyncTarget) -> Result<(), WriteError> {
        let SyncTarget {
            number,
            ref file,
            length,
        } = *segment;
        let (disk, name) = (&*self.space.disk, segment_name::segment(number));
        let synced = file.sync();
        // A file without its name is synced without an error, and for nothing.
        let held = synced.and_then(|()| disk.holds(&name, &**file, length));
        let held = held.map_err(DiskError::at_segment(disk, "sync", number));
        refuse_unless_whole(&self.space, number, length, held.map_err(WriteError::Sync)?)
    }
}
