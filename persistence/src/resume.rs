//! Going on in the segment that was read last: a start on a disk that has no space for another segment.
//!
//! Invariant: wherever a crash interrupts this, the directory reads the same, and a log that breaks off still says so: the
//! verdict on the last run rests on that. So where one breaks off, a mark that is no frame is written to the very end of the
//! segment before anything of the break is removed, and it stays until the first frame of this start, which holds the
//! verdict, is durable. Frames are only written where synced zeros are, so that nothing that was left out comes back.

use crate::appender::Appender;
use crate::disk::{DirectoryEntry, Disk, File};
use crate::error::{DiskError, RecoveryError, WriteError};
use crate::frame::Salt;
use crate::header::{BLOCK_BYTES, LogIdentity, SegmentHeader};
use crate::look::OlderSegment;
use crate::options::LogOptions;
use crate::recovery::{Inspection, LogSummary, Recovery, SegmentFile};
use crate::segment_name::{self, Name};
use crate::space::{Preparer, Space};
use crate::writer::{ActiveSegment, END_MARK, EndMark, Log, Writer};
use std::io;
use std::sync::Arc;

impl Log {
    /// Goes on with a log that was read, and for which [`Recovery::into_log`] has found no space: removes what is needed no
    /// more and tries again, or else goes on in the last segment. `refused` is what `into_log` has answered.
    ///
    /// # Errors
    /// `refused`, where it was not about a new segment, or where the last one has no room for the records of a start; else
    /// as `into_log`.
    pub fn resume(
        disk: Arc<dyn Disk>,
        options: &LogOptions,
        identity: LogIdentity,
        refused: WriteError,
    ) -> Result<Log, WriteError> {
        let options = options.in_blocks();
        let Some(mut tail) = Tail::read(&disk, &options)? else {
            return Err(refused);
        };
        if !tail.lacks_segment(&*disk, &refused) {
            return Err(refused);
        }
        let file = tail.open(&*disk)?;
        if tail.summary.break_at.is_some() {
            tail.mark_end(&*disk, &*file)?;
        }
        if tail.free_unneeded(&*disk)? {
            let recovery = Recovery::read(Arc::clone(&disk), &options);
            let recovery = recovery.map_err(|error| read_again(&*disk, error))?;
            let refused = match recovery.into_log(identity) {
                Err(refused @ WriteError::NoSpace(_)) => refused,
                opened => return opened,
            };
            // This one may have failed elsewhere.
            match Tail::read(&disk, &options)? {
                Some(now) if now.lacks_segment(&*disk, &refused) => tail = now,
                _ => return Err(refused),
            }
        }
        match tail.room() < START_BYTES {
            true => Err(refused),
            false => tail.go_on(disk, &options, identity, file),
        }
    }

    /// Where a start would go on with this log, as far as the disk says what space it has.
    ///
    /// # Errors
    /// For the reason for which a start would refuse.
    pub fn start_space(
        disk: &Arc<dyn Disk>,
        options: &LogOptions,
    ) -> Result<StartSpace, WriteError> {
        let options = options.in_blocks();
        let tail = Tail::read(disk, &options)?;
        let measured = disk.volume().map_err(DiskError::at(&**disk, "measure", ""));
        let Some(volume) = measured.map_err(WriteError::Segment)? else {
            return Ok(StartSpace::Segment);
        };
        let unfinished = unfinished_bytes(&**disk).map_err(DiskError::at(&**disk, "list", ""));
        let freed = tail.as_ref().map_or(0, Tail::unneeded_bytes);
        let freed = freed.saturating_add(unfinished.map_err(WriteError::Segment)?);
        let free_bytes = volume.free_bytes.saturating_add(freed);
        let needed = options.first_segment_bytes;
        Ok(match tail {
            _ if free_bytes >= needed => StartSpace::Segment,
            Some(tail) if tail.room() >= START_BYTES => StartSpace::LastSegment,
            _ => StartSpace::None(needed.saturating_sub(free_bytes)),
        })
    }
}

/// Where a start would go on with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartSpace {
    /// In a segment of its own.
    Segment,
    /// In the last one: the disk has no space for another.
    LastSegment,
    /// Nowhere: so many bytes have to be freed.
    None(u64),
}

/// The end of a log as a start reads it.
struct Tail {
    segments: Vec<SegmentFile>,
    /// The segment that was read last.
    header: SegmentHeader,
    /// The offset behind its last frame.
    end: u64,
    /// The first segment that is needed.
    needed_from: u64,
    summary: LogSummary,
}

impl Tail {
    /// `None` where there is no segment.
    fn read(disk: &Arc<dyn Disk>, options: &LogOptions) -> Result<Option<Tail>, WriteError> {
        let inspection = Inspection::open(Arc::clone(disk)).map_err(WriteError::Segment)?;
        let judgement = inspection.judge(options);
        let judgement = judgement.map_err(|error| read_again(&**disk, error))?;
        let segments = inspection.segments().to_vec();
        let last = judgement.parts.last();
        let header = last.and_then(|last| {
            let file = segments.iter().find(|file| file.number == last.number);
            file.and_then(SegmentFile::header).copied()
        });
        let (Some(last), Some(header)) = (last, header) else {
            return Ok(None);
        };
        let first = judgement.parts.first().map_or(0, |first| first.number);
        let has_checkpoint = judgement.summary.checkpoint.is_some();
        Ok(Some(Tail {
            header,
            end: last.end.unwrap_or(header.segment_bytes),
            needed_from: if has_checkpoint { first } else { 0 },
            summary: judgement.summary,
            segments,
        }))
    }

    /// Whether a start was refused because there is no space for the segment that would follow, and none has come into
    /// being: what was read is durable only then, and a segment that has its name already says where this one ends.
    fn lacks_segment(&self, disk: &dyn Disk, refused: &WriteError) -> bool {
        let WriteError::NoSpace(error) = refused else {
            return false;
        };
        error.file == disk.describe(&segment_name::unfinished(self.next_number()))
    }

    /// The number that a new segment would have.
    fn next_number(&self) -> u64 {
        let newest = self.segments.last().map_or(0, |newest| newest.number);
        newest.saturating_add(1)
    }

    /// What a start would free: segments that a checkpoint has made superfluous, and those behind the stream, used or not.
    /// Where a break has no place for its mark, those behind it stay.
    fn unneeded_bytes(&self) -> u64 {
        let is_unneeded = |segment: &&SegmentFile| {
            let is_behind = segment.number > self.header.number;
            let is_freed = self.room() > 0 || self.summary.break_at.is_none();
            segment.number < self.needed_from || is_behind && is_freed
        };
        let unneeded = self.segments.iter().filter(is_unneeded);
        unneeded.map(|segment| segment.bytes).sum()
    }

    /// Where the mark is, if there is one: behind every frame.
    fn mark_offset(&self) -> u64 {
        self.header
            .segment_bytes
            .saturating_sub(END_MARK.len() as u64)
    }

    /// What is left for frames.
    fn room(&self) -> u64 {
        self.mark_offset().saturating_sub(self.end)
    }

    fn open(&self, disk: &dyn Disk) -> Result<Arc<dyn File>, WriteError> {
        let number = self.header.number;
        let opened = disk.open(&segment_name::segment(number));
        let opened = opened.map_err(DiskError::at_segment(disk, "open", number));
        opened.map_err(WriteError::Segment)
    }

    /// From now on the log breaks off here, whatever becomes of what lies behind the break.
    fn mark_end(&self, disk: &dyn Disk, file: &dyn File) -> Result<(), WriteError> {
        if self.room() == 0 {
            return Ok(());
        }
        self.write(disk, file, self.mark_offset(), &END_MARK)?;
        self.sync(disk, file)
    }

    /// Removes what lies behind the stream, and what a checkpoint has made superfluous. Newest first and oldest first, so that a
    /// crash in between leaves no gap. Says whether that was anything.
    fn free_unneeded(&self, disk: &dyn Disk) -> Result<bool, WriteError> {
        let numbers = || self.segments.iter().map(|segment| segment.number);
        let left_out = numbers().rev().take_while(|&it| it > self.header.number);
        // Without the mark nothing would tell that they were there.
        let left_out = left_out.filter(|_| self.room() > 0);
        let obsolete = numbers().take_while(|&it| it < self.needed_from);
        let mut has_freed = false;
        for number in left_out.chain(obsolete) {
            let removed = disk
                .remove(&segment_name::segment(number))
                .and_then(|()| disk.sync_dir());
            let failed = DiskError::at_segment(disk, "remove", number);
            removed.map_err(failed).map_err(WriteError::Segment)?;
            has_freed = true;
        }
        Ok(has_freed)
    }

    fn go_on(
        self,
        disk: Arc<dyn Disk>,
        options: &LogOptions,
        identity: LogIdentity,
        file: Arc<dyn File>,
    ) -> Result<Log, WriteError> {
        let is_marked = self.summary.break_at.is_some();
        let limit = match is_marked {
            true => self.mark_offset(),
            false => self.header.segment_bytes,
        };
        self.clear(&*disk, &*file, limit)?;
        let (number, last) = (self.header.number, self.summary.last);
        let older = self.segments.iter().filter(|segment| {
            let is_needed = segment.number >= self.needed_from;
            is_needed && segment.number < number
        });
        let older = older.map(|segment| {
            let name = segment_name::segment(segment.number);
            let id =
                disk.id_of(&name)
                    .map_err(DiskError::at_segment(&*disk, "look at", segment.number));
            Ok(OlderSegment {
                number: segment.number,
                // One that is gone by now is no file at all, and is missed at the first look.
                id: id.map_err(WriteError::Segment)?.unwrap_or_default(),
                length: segment.bytes,
            })
        });
        let older = older.collect::<Result<_, WriteError>>()?;
        let active = ActiveSegment {
            file: Arc::clone(&file),
            // It may have been written through the page cache before.
            blocks: None,
            number,
            salt: Salt::new(self.header.salt),
            offset: self.end,
            length: self.header.segment_bytes,
        };
        let space = Arc::new(Space::new(
            Arc::clone(&disk),
            options,
            number.saturating_add(1),
        ));
        space.begin_full();
        let room = limit.saturating_sub(self.end).saturating_add(BLOCK_BYTES);
        let bytes = self.summary.bytes;
        let mut writer = Writer::new(Arc::clone(&space), identity, active, last, older, bytes);
        if is_marked {
            writer.keep_mark(EndMark {
                number,
                file,
                offset: limit,
                until: last.next(),
            });
        }
        Ok(Log {
            appender: Appender::new(Arc::clone(&space), last.next(), room, options),
            writer,
            preparer: Preparer::new(space),
        })
    }

    /// Zeros from the last frame up to `limit`, as in a segment that was just made.
    fn clear(&self, disk: &dyn Disk, file: &dyn File, limit: u64) -> Result<(), WriteError> {
        let mut offset = self.end;
        while offset < limit {
            let left = limit.saturating_sub(offset).min(ZEROS.len() as u64);
            let zeros = usize::try_from(left).map_or(&ZEROS[..], |left| &ZEROS[..left]);
            self.write(disk, file, offset, zeros)?;
            offset = offset.saturating_add(zeros.len() as u64);
        }
        self.sync(disk, file)
    }

    fn write(
        &self,
        disk: &dyn Disk,
        file: &dyn File,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), WriteError> {
        let failed = DiskError::at_segment(disk, "write", self.header.number);
        let written = file.write_at(offset, bytes).map_err(failed);
        written.map_err(|error| WriteError::full_or(error, WriteError::Write))
    }

    fn sync(&self, disk: &dyn Disk, file: &dyn File) -> Result<(), WriteError> {
        let failed = DiskError::at_segment(disk, "sync", self.header.number);
        file.sync().map_err(failed).map_err(WriteError::Sync)
    }
}

/// What segments take that were being made when a process ended: every start removes them.
fn unfinished_bytes(disk: &dyn Disk) -> io::Result<u64> {
    let entries = disk.list()?.into_iter();
    let unfinished = entries.filter(|entry| {
        let name = segment_name::parse(&entry.name);
        entry.is_file && matches!(name, Name::Unfinished(_))
    });
    // One that cannot be measured is not counted on.
    let length = |entry: DirectoryEntry| disk.open(&entry.name).and_then(|file| file.len());
    let lengths = unfinished.map(|entry| length(entry).unwrap_or(0));
    Ok(lengths.fold(0, u64::saturating_add))
}

/// It was read a moment ago, so this is about the disk, or somebody has changed it.
fn read_again(disk: &dyn Disk, error: RecoveryError) -> WriteError {
    let failed = DiskError::at(disk, "read the log again in", "");
    WriteError::Segment(failed(io::Error::other(error)))
}

/// What the records of a start and of its end take at most: with less a start would have to end before it is on record.
const START_BYTES: u64 = 1 << 10;
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
