//! The part of the log that works ahead: it makes the next segment and removes those no longer needed.
//!
//! Invariant: it never touches a segment that is being written. Who calls it, and when, is the caller's
//! business: `needs_preparing` of appender or writer says that there is something to do.

use crate::error::WriteError;
use crate::space::Space;
use std::sync::Arc;

/// Makes segments ahead and removes obsolete ones.
#[derive(Debug)]
pub struct Preparer {
    space: Arc<Space>,
}

impl Preparer {
    pub(crate) fn new(space: Arc<Space>) -> Preparer {
        Preparer { space }
    }

    /// Removes obsolete segments and makes the next one, if there is none. `Ok(true)`: a segment is
    /// ready. `Ok(false)`: the disk is full; try again after a while (a second, say), for nothing tells when
    /// space has become free. An error is final for the whole log.
    pub fn prepare(&mut self) -> Result<bool, WriteError> {
        self.space.check()?;
        let removed = self.space.remove_obsolete();
        removed
            .and_then(|()| self.space.make_spares())
            .map_err(|error| self.space.fail(error))
    }

    /// Whether `prepare` has something to do. It stays so while the disk is full.
    pub fn needs_preparing(&self) -> bool {
        self.space.needs_preparing()
    }
}
