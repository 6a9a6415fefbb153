//! Reading a log back: what it holds, where it breaks off, and whether that is explained by a crash.
//!
//! Invariant: reading writes nothing. What is returned is verified and consecutive, from the last complete
//! checkpoint (or position 1) to the first break. A break is only accepted if nothing that follows it
//! says that the lost data had been synced. What the frames mean is for the caller to judge.

use crate::disk::Disk;
use crate::error::{RecoveryError, WriteError};
use crate::header::LogIdentity;
use crate::options::LogOptions;
use crate::writer::Log;
use std::sync::Arc;

mod assembly;
mod chain;
mod directory;
mod inspection;
mod reopen;
mod repair;
mod rewrite;
mod scan;
mod summary;
mod window;

pub use chain::{Break, Frames};
pub use directory::SegmentState;
pub use inspection::{
    InspectedFrame, Inspection, Judgement, SegmentContent, SegmentFile, SegmentPart,
};
pub use repair::{Repair, RepairCut, Repaired};
pub use summary::LogSummary;

use chain::Chain;
use directory::LogDirectory;

/// A log that was read and verified, and can be replayed and then gone on with.
#[derive(Debug)]
pub struct Recovery {
    disk: Arc<dyn Disk>,
    options: LogOptions,
    directory: LogDirectory,
    chain: Chain,
    summary: LogSummary,
}

impl Recovery {
    /// Reads and verifies the log in this directory. Writes nothing.
    pub fn read(disk: Arc<dyn Disk>, options: &LogOptions) -> Result<Recovery, RecoveryError> {
        let options = options.in_blocks();
        let directory = LogDirectory::read(&*disk, &options)?;
        let chain = assembly::assemble(&*disk, &directory)?;
        let summary = LogSummary::of(&directory, &chain);
        Ok(Recovery {
            disk,
            options,
            directory,
            chain,
            summary,
        })
    }

    /// What the log holds.
    pub fn summary(&self) -> &LogSummary {
        &self.summary
    }

    /// The frames to replay, in order: from the opening frame of the last complete checkpoint, or else
    /// from position 1. Frames of an unfinished checkpoint come as any others: its parts repeat what the frames
    /// before them have said. The files are read again for it, so errors of the disk may come up.
    pub fn frames(&self) -> Frames<'_> {
        self.chain.frames(&*self.disk, &self.directory)
    }

    /// Goes on after the last frame, in a fresh segment that is zero-filled and synced. What was read is
    /// made durable first: what no sync is known to have covered is written again as it is, since an earlier
    /// sync may have failed, and all of it is synced. A tail is neither cut nor reused.
    pub fn into_log(self, identity: LogIdentity) -> Result<Log, WriteError> {
        reopen::reopen(
            self.disk,
            &self.options,
            self.directory,
            self.chain,
            identity,
        )
    }
}
