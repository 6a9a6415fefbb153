//! The stream to replay: segments one after the other, and the frames in them.
//!
//! Invariant: every frame was verified when its segment was read, and positions are consecutive, but for those
//! that a repair has left out between two segments. A replay reads the files a second time and gives
//! out only what is still the frame that was verified.

use super::directory::LogDirectory;
use super::scan::{CheckpointMark, Scan, changed};
use super::window::Window;
use crate::disk::Disk;
use crate::error::DiskError;
use crate::frame::{Frame, OwnedFrame};
use crate::header::{Cut, SegmentHeader};
use crate::position::Position;
use std::collections::VecDeque;
use std::slice::Iter;

/// The stream to replay.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) run: Vec<Scan>,
    /// The opening frame of the checkpoint with which the replay starts; it lies in the first segment.
    pub(super) checkpoint: Option<CheckpointMark>,
    pub(super) break_at: Option<Break>,
}

/// Where a log breaks off, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The file.
    pub file: String,
    /// Where in the file the first lost frame should begin.
    pub offset: u64,
    /// What was found there.
    pub reason: &'static str,
}

impl Chain {
    /// The whole run, which begins with the first frame of all.
    pub(super) fn from_beginning(run: VecDeque<Scan>) -> Chain {
        Chain {
            run: run.into(),
            checkpoint: None,
            break_at: None,
        }
    }

    /// Cuts the run down to what the last complete checkpoint needs, if it holds one.
    pub(super) fn from_checkpoint(run: &mut VecDeque<Scan>) -> Option<Chain> {
        let marks = || {
            run.iter()
                .enumerate()
                .flat_map(|(index, scan)| scan.marks.iter().map(move |mark| (index, *mark)))
                .rev()
        };
        let mut from_end = marks().skip_while(|(_, mark)| !mark.kind.completes_checkpoint());
        let (index, mark) = from_end.find(|(_, mark)| mark.kind.opens_checkpoint())?;
        Some(Chain {
            run: run.drain(index..).collect(),
            checkpoint: Some(mark),
            break_at: None,
        })
    }

    /// The frames to replay, from the files of this directory.
    pub(super) fn frames<'a>(
        &'a self,
        disk: &'a dyn Disk,
        directory: &'a LogDirectory,
    ) -> Frames<'a> {
        Frames {
            disk,
            directory,
            run: self.run.iter(),
            current: None,
            offset: self.start_offset(),
            next: self.checkpoint.map_or(Position::ZERO, |mark| mark.position),
        }
    }

    /// How many frames there are to replay. A repair may have left out positions between two segments.
    pub(super) fn frame_count(&self) -> u64 {
        let start = self.checkpoint.map_or(Position::ZERO, |mark| mark.position);
        let count = |scan: &Scan| {
            let first = scan.header.first_position.max(start);
            scan.next().get().saturating_sub(first.get())
        };
        self.run.iter().map(count).sum()
    }

    /// The bytes of the frames to replay.
    pub(super) fn frame_bytes(&self) -> u64 {
        let all: usize = self.run.iter().map(Scan::frame_bytes).sum();
        let begin = self.run.first().map_or(0, Scan::begin);
        all.saturating_sub(self.start_offset().saturating_sub(begin)) as u64
    }

    /// Where in the first segment the replay starts.
    pub(super) fn start_offset(&self) -> usize {
        let begin = self.run.first().map_or(0, Scan::begin);
        self.checkpoint.map_or(begin, |mark| mark.offset)
    }

    /// The position of the last frame; `ZERO` if there is none.
    pub(super) fn last(&self) -> Position {
        self.run.last().map_or(Position::ZERO, Scan::last)
    }

    /// Where the stream ends.
    pub(super) fn end(&self) -> Cut {
        self.run.last().map_or(Cut::BEGINNING, |scan| Cut {
            segment: scan.header.number,
            offset: scan.end() as u64,
        })
    }
}

/// Whether a segment with this header follows on a stream whose next position is `next`. A repair leaves
/// out positions, so that none is ever used twice.
pub(super) fn continues(header: &SegmentHeader, next: Position) -> bool {
    header.first_position == next || (header.is_repaired && header.first_position > next)
}

/// The frames to replay, one at a time.
#[derive(Debug)]
pub struct Frames<'a> {
    disk: &'a dyn Disk,
    directory: &'a LogDirectory,
    /// The segments that are not yet begun.
    run: Iter<'a, Scan>,
    current: Option<(&'a Scan, Window<'a>)>,
    offset: usize,
    /// The position of the next frame.
    next: Position,
}

impl Frames<'_> {
    /// The next frame; `None` after the last one.
    ///
    /// # Errors
    /// If a file cannot be read, or does not hold any more what was verified.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, DiskError> {
        while self.is_at_end() {
            let Some(scan) = self.run.next() else {
                return Ok(None);
            };
            let number = scan.header.number;
            let name = self.directory.name_of(number);
            let failed = DiskError::at(self.disk, "read", &name);
            let window = self.directory.window(number).map_err(failed)?;
            // Only the first segment may be begun behind its first frame.
            if self.current.replace((scan, window)).is_some() {
                self.offset = scan.begin();
            }
            if self.offset == scan.begin() {
                self.next = scan.header.first_position;
            }
        }
        let Some((scan, window)) = &mut self.current else {
            return Ok(None);
        };
        let number = scan.header.number;
        let (disk, directory) = (self.disk, self.directory);
        let failed = |cause| DiskError::at(disk, "read", &directory.name_of(number))(cause);
        match scan.frame_at(window, self.offset) {
            Ok(Some(parsed)) if parsed.frame.position == self.next => {
                self.offset = self.offset.saturating_add(parsed.bytes);
                self.next = self.next.next();
                Ok(Some(parsed.frame))
            }
            Ok(_) => Err(failed(changed())),
            Err(cause) => Err(failed(cause)),
        }
    }

    fn is_at_end(&self) -> bool {
        let current = self.current.as_ref();
        current.is_none_or(|(scan, _)| self.offset >= scan.end())
    }

    /// The frames that are left, all in memory at once: for logs that are known to be small.
    ///
    /// # Errors
    /// As for [`Frames::next_frame`].
    pub fn collect(mut self) -> Result<Vec<OwnedFrame>, DiskError> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next_frame()? {
            frames.push(frame.into());
        }
        Ok(frames)
    }
}
