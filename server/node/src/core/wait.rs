//! What a reply waits for, and positions of the log as log and engine name them.

use quorlock_engine::LogPosition;
use quorlock_engine::live_mode::DurabilityNeed;
use quorlock_persistence::Position;

/// How far the log must have come before a reply may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurabilityWait {
    /// What must be written.
    pub written: Position,
    /// What must be synced.
    pub synced: Position,
    /// A record that everybody depends on, not this reply alone: its sync is not put off.
    pub urgent: Position,
}

impl DurabilityWait {
    /// Until the log is synced up to this position.
    pub(crate) fn until_synced(synced: Position) -> Self {
        Self {
            written: Position::ZERO,
            synced,
            urgent: Position::ZERO,
        }
    }

    /// The same, for a record whose sync is not put off so that others share it.
    pub(crate) fn until_synced_at_once(synced: Position) -> Self {
        Self {
            urgent: synced,
            ..Self::until_synced(synced)
        }
    }

    /// Waits for this as well.
    pub(crate) fn raise(&mut self, other: DurabilityWait) {
        self.written = self.written.max(other.written);
        self.synced = self.synced.max(other.synced);
        self.urgent = self.urgent.max(other.urgent);
    }

    /// What of this a reply has to wait for that waits for `owed` anyway.
    pub(crate) fn beyond(self, owed: DurabilityWait) -> DurabilityWait {
        let beyond = |position, owed| match position > owed {
            true => position,
            false => Position::ZERO,
        };
        DurabilityWait {
            written: beyond(self.written, owed.written),
            synced: beyond(self.synced, owed.synced),
            urgent: Position::ZERO,
        }
    }

    /// The last position that a reply with this wait reveals or has written.
    pub(crate) fn position(&self) -> Position {
        self.written.max(self.synced)
    }
}

impl From<DurabilityNeed> for DurabilityWait {
    fn from(reach: DurabilityNeed) -> Self {
        Self {
            written: position_of(reach.written),
            synced: position_of(reach.synced),
            urgent: Position::ZERO,
        }
    }
}

/// A position as the engine takes it: it does not know the log.
pub(crate) fn to_engine(position: Position) -> LogPosition {
    LogPosition::from_raw(position.get())
}

/// A position that the engine names.
pub(crate) fn position_of(position: LogPosition) -> Position {
    Position::from_raw(position.get())
}
