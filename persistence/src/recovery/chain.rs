//! The stream to replay: segments one after the other, and the frames in them.
//!
//! Invariant: every frame was verified when its segment was read, and positions are consecutive, but for those
//! that a repair has left out between two segments.

use super::scan::{Mark, Scan};
use crate::frame::Frame;
use crate::header::{Cut, SegmentHeader};
use crate::position::Position;
use std::collections::VecDeque;

/// The stream to replay.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) run: Vec<Scan>,
    /// The opening frame of the checkpoint with which the replay starts; it lies in the first segment.
    pub(super) checkpoint: Option<Mark>,
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

    /// The frames to replay.
    pub(super) fn frames(&self) -> Frames<'_> {
        Frames {
            run: &self.run,
            offset: self.start_offset(),
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

/// Iterates over the frames to replay.
#[derive(Debug)]
pub struct Frames<'a> {
    run: &'a [Scan],
    offset: usize,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        loop {
            let scan = self.run.first()?;
            if let Some(parsed) = scan.frame_at(self.offset) {
                self.offset = self.offset.saturating_add(parsed.bytes);
                return Some(parsed.frame);
            }
            self.run = &self.run[1..];
            self.offset = self.run.first().map_or(0, Scan::begin);
        }
    }
}
