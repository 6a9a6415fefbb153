//! A look at the segments before the active one: whether each still has its name and its length.
//!
//! Invariant: what a node has acknowledged is in files that the next start finds. A segment that the log itself has removed is not
//! missed.

use crate::disk::{FileId, Presence};
use crate::error::{DiskError, WriteError};
use crate::segment_name;
use crate::space::Space;
use std::sync::Arc;

/// A segment before the active one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OlderSegment {
    pub(crate) number: u64,
    pub(crate) id: FileId,
    pub(crate) length: u64,
}

/// A look at segments that are not written any more. It needs no lock.
#[derive(Debug)]
#[must_use = "nothing is looked at until it is run"]
pub struct Look {
    pub(crate) space: Arc<Space>,
    pub(crate) segments: Vec<OlderSegment>,
}

impl Look {
    /// Whether the segments have their names and lengths. One that has not ends the log before this returns the error.
    pub fn run(self) -> Result<(), WriteError> {
        let disk = &*self.space.disk;
        for &OlderSegment { number, id, length } in &self.segments {
            let kept = disk.keeps(&segment_name::segment(number), id, length);
            let kept = kept.map_err(DiskError::at_segment(disk, "look at", number));
            kept.map_err(WriteError::Segment)
                .and_then(|kept| refuse_unless_whole(&self.space, number, length, kept))
                .map_err(|error| self.space.fail(error))?;
        }
        Ok(())
    }
}

/// Refuses a segment that has not its name and its length any more.
pub(crate) fn refuse_unless_whole(
    space: &Space,
    number: u64,
    expected: u64,
    found: Presence,
) -> Result<(), WriteError> {
    let file = || space.disk.describe(&segment_name::segment(number));
    match found {
        Presence::Whole => Ok(()),
        Presence::Gone if space.has_removed(number) => Ok(()),
        Presence::Gone => Err(WriteError::Removed { file: file() }),
        Presence::Length(found) => Err(WriteError::Resized {
            file: file(),
            found,
            expected,
        }),
    }
}

/// A look takes a hundred microseconds at most, however long the log is.
pub(crate) const LOOKED_AT_ONCE: usize = 64;
