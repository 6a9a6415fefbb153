//! A sync that runs without the writer's lock.
//!
//! Invariant: a ticket covers what was written before it was made and nothing later. A failure ends the
//! log before the ticket returns it.

use crate::disk::File;
use crate::error::{DiskError, SyncError, WriteError};
use crate::position::Position;
use crate::space::{NO_PANIC, Space};
use std::sync::Arc;

/// A sync that was begun.
#[derive(Debug)]
#[must_use = "nothing is synced until the ticket is run"]
pub struct SyncTicket {
    pub(super) space: Arc<Space>,
    pub(super) left: Vec<Arc<dyn File>>,
    pub(super) active: Option<Arc<dyn File>>,
    pub(super) target: Position,
}

impl SyncTicket {
    /// Syncs, older segments first, and returns the position up to which everything is durable now.
    /// Tickets run one at a time.
    pub fn run(self) -> Result<Position, SyncError> {
        let _one_at_a_time = self.space.syncing.lock().expect(NO_PANIC);
        self.space.check()?;
        for file in self.left.iter().chain(&self.active) {
            if let Err(cause) = file.sync() {
                let directory = self.space.disk.describe("");
                let error = WriteError::Sync(DiskError::new("sync the log in", directory, cause));
                return Err(self.space.fail(error));
            }
        }
        Ok(self.target)
    }

    /// The position up to which everything will be durable.
    pub fn target(&self) -> Position {
        self.target
    }
}
