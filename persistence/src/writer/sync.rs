//! A sync that runs without the writer's lock.
//!
//! Invariant: a ticket covers what was written before it was made and nothing later. A failure ends the
//! log before the ticket returns it.

use crate::disk::File;
use crate::error::{DiskError, SyncError, WriteError};
use crate::position::Position;
use crate::segment_name;
use crate::space::{NO_PANIC, Space};
use std::sync::Arc;

/// A sync that was begun.
#[derive(Debug)]
#[must_use = "nothing is synced until the ticket is run"]
pub struct SyncTicket {
    pub(super) space: Arc<Space>,
    /// The segments to sync, older ones first.
    pub(super) files: Vec<(u64, Arc<dyn File>)>,
    pub(super) target: Position,
}

impl SyncTicket {
    /// Syncs, older segments first, and returns the position up to which everything is durable now.
    /// Tickets run one at a time.
    pub fn run(self) -> Result<Position, SyncError> {
        let _one_at_a_time = self.space.syncing.lock().expect(NO_PANIC);
        self.space.check()?;
        for (number, file) in &self.files {
            self.sync_one(*number, &**file)
                .map_err(|error| self.space.fail(error))?;
        }
        Ok(self.target)
    }

    fn sync_one(&self, number: u64, file: &dyn File) -> Result<(), WriteError> {
        let describe = || self.space.disk.describe(&segment_name::segment(number));
        let failed = |cause| WriteError::Sync(DiskError::new("sync", describe(), cause));
        file.sync().map_err(failed)?;
        // A file without a name is synced without an error, and for nothing.
        if file.is_named().map_err(failed)? || self.space.has_removed(number) {
            return Ok(());
        }
        Err(WriteError::Removed { file: describe() })
    }

    /// The position up to which everything will be durable.
    pub fn target(&self) -> Position {
        self.target
    }
}
