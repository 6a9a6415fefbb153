//! What a reply waits for.

use quorlock_engine::live_mode::Reach;

/// How far the log must have come before a reply may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) written: u64,
    pub(crate) synced: u64,
}

impl Wait {
    /// Waits for this as well.
    pub(crate) fn raise(&mut self, reach: Reach) {
        self.written = self.written.max(reach.written);
        self.synced = self.synced.max(reach.synced);
    }

    /// What of this a reply has to wait for that waits for `owed` anyway.
    pub(crate) fn beyond(self, owed: Wait) -> Wait {
        let beyond = |position: u64, owed: u64| if position > owed { position } else { 0 };
        Wait {
            written: beyond(self.written, owed.written),
            synced: beyond(self.synced, owed.synced),
        }
    }

    /// The last position that a reply with this wait reveals or has written.
    pub(crate) fn position(&self) -> u64 {
        self.written.max(self.synced)
    }
}
