//! Reading a log back: what it holds, where it breaks off, and whether that is explained by a crash.
//!
//! Invariant: reading writes nothing. What is returned is verified and consecutive, from the last complete
//! checkpoint (or position 1) to the first break. A break is only accepted if nothing that follows it
//! says that the lost data had been synced. What the frames mean is for the caller to judge.

use crate::disk::Disk;
use crate::error::{RecoveryError, WriteError};
use crate::log::Log;
use crate::options::{Identity, Options};
use crate::position::Position;
use std::sync::Arc;

mod chain;
mod directory;
mod frames;
mod inspection;
mod reopen;
mod repair;
mod rewrite;
mod scan;

pub use frames::Frames;
pub use inspection::{
    Content, InspectedFrame, Inspection, Judgement, Part, SegmentFile, SegmentHeader, SegmentState,
};
pub use repair::{Repair, Repaired};

use chain::{Chain, Keep};
use directory::Directory;
use scan::Scan;

/// A log that was read and verified, and can be replayed and then gone on with.
#[derive(Debug)]
pub struct Recovery {
    disk: Arc<dyn Disk>,
    options: Options,
    directory: Directory,
    /// The segments to replay, in order.
    run: Vec<Scan>,
    /// Where in the first of them the replay starts.
    start_offset: usize,
    summary: Summary,
}

/// What a log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The position of the last frame; `ZERO` if there is none.
    pub last: Position,
    /// The opening frame of the checkpoint that the replay starts with, if it starts with one.
    pub checkpoint: Option<Position>,
    /// The largest node time of the frames that were read, in nanoseconds.
    pub newest_node_time_ns: u64,
    /// Where the log breaks off, if it does not simply end. What followed is not in the log any more.
    pub break_at: Option<Break>,
    /// Nothing but zeros after the last frame: no write was cut off, as far as anyone can tell.
    pub only_zeros_follow: bool,
    /// There are no frames at all.
    pub is_empty: bool,
    /// The frames to replay.
    pub frames: u64,
    /// The bytes of the frames to replay.
    pub bytes: u64,
    /// The segments to replay.
    pub segments: usize,
    /// The node named in the headers; `None` if there is no segment.
    pub node_id: Option<[u8; 20]>,
    /// The newest header's identity.
    pub newest_identity: Option<Identity>,
    /// Files in the directory that are not the log's. They are left alone.
    pub foreign_files: Vec<String>,
    /// Damage that did no harm, in words: a header of which one copy was good.
    pub remarks: Vec<String>,
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

impl Recovery {
    /// Reads and verifies the log in this directory. Writes nothing.
    pub fn read(disk: Arc<dyn Disk>, options: &Options) -> Result<Recovery, RecoveryError> {
        let options = options.in_blocks();
        let directory = Directory::read(&*disk, &options)?;
        let chain = chain::assemble(&*disk, &directory, Keep::Bytes)?;
        let summary = Summary::of(&directory, &chain);
        Ok(Recovery {
            disk,
            options,
            directory,
            start_offset: chain.start_offset,
            run: chain.run,
            summary,
        })
    }

    /// What the log holds.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The frames to replay, in order: from the opening frame of the last complete checkpoint, or else
    /// from position 1. Frames of an unfinished checkpoint come as any others: its parts repeat what the frames
    /// before them have said.
    pub fn frames(&self) -> Frames<'_> {
        Frames::new(&self.run, self.start_offset)
    }

    /// Goes on after the last frame, in a fresh segment that is zero-filled and synced. What was read is
    /// made durable first: what no sync is known to have covered is written again as it is, since an earlier
    /// sync may have failed, and all of it is synced. A tail is neither cut nor reused.
    pub fn into_log(self, identity: Identity) -> Result<Log, WriteError> {
        reopen::reopen(self, identity)
    }
}

impl Summary {
    fn of(directory: &Directory, chain: &Chain) -> Summary {
        let last = chain.run.last().map_or(Position::ZERO, Scan::last);
        let bytes: usize = chain.run.iter().map(Scan::frame_bytes).sum();
        let skipped = chain
            .run
            .first()
            .map_or(0, |first| chain.start_offset.saturating_sub(first.begin()));
        let first = chain.start_position;
        let newest_identity = directory.newest_header().map(|header| header.identity);
        Summary {
            last,
            checkpoint: chain.starts_with_checkpoint.then_some(first),
            newest_node_time_ns: chain
                .run
                .iter()
                .map(Scan::newest_time_ns)
                .max()
                .unwrap_or(0),
            only_zeros_follow: chain.break_at.is_none(),
            break_at: chain.break_at.clone(),
            is_empty: last == Position::ZERO,
            frames: chain.frames(),
            bytes: bytes.saturating_sub(skipped) as u64,
            segments: chain.run.len(),
            node_id: newest_identity.map(|identity| identity.node_id),
            newest_identity,
            foreign_files: directory.foreign.clone(),
            remarks: directory.remarks.clone(),
        }
    }
}
