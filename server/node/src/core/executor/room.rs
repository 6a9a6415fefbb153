//! What the log has room for: what it has prepared bounds what commands, scripts and transactions may write.

use quorlock_engine::{
    Command, ErrorReply, Flags, JOURNAL_BYTES_MAX, LogRoom, NO_FILES, NO_ROOM, Spec,
};

use crate::core::executor::Executor;

impl Executor {
    /// Whether what this command may write does not certainly fit the prepared part of the log. Where no segment is ahead, the
    /// last of it is for commands that add nothing: the disk may be full, and what they remove is then what a checkpoint can make
    /// room of.
    pub(crate) fn lacks_room_for(&self, command: &Command<'_>) -> bool {
        if !self.mode.is_logged() {
            // Its log holds records about the node alone, and a ceiling of fences is the only one that clients ask for.
            let may_raise = command.spec.flags.contains(Flags::RAISES_CEILING);
            return may_raise && self.appender.room() < GROUP_BYTES_MAX;
        }
        let bytes = log_bytes_max(command);
        let kept_back = match !self.appender.has_spare() {
            true if bytes == 0 => 0,
            true if command.spec.flags.contains(Flags::DENY_OOM) => KEPT_BACK_BYTES,
            true => CHECKPOINT_BYTES,
            false => 0,
        };
        self.appender.room() < needed_for(bytes).saturating_add(kept_back)
    }

    /// Bounds what the command, script or transaction that begins may write. Most write little or nothing: a release has to work
    /// for as long as there is room for it.
    pub(super) fn bound_by_room(&mut self) {
        let (for_checkpoint, for_removals) = match !self.appender.has_spare() {
            true => (CHECKPOINT_BYTES, REMOVALS_BYTES),
            false => (0, 0),
        };
        let taken = GROUP_BYTES_MAX.saturating_add(for_checkpoint);
        // Room for more than memory can address is no limit.
        self.effects.room = LogRoom {
            bytes: usize::try_from(self.appender.room().saturating_sub(taken)).ok(),
            kept_back_bytes: for_removals,
            lacks_files: for_removals > 0 && self.appender.is_out_of_files(),
            is_retried: false,
        };
    }

    /// The refusal of a write that the log has no room for, with what it lacks.
    pub(crate) fn no_room(&self) -> ErrorReply {
        match self.appender.is_out_of_files() {
            true => NO_FILES,
            false => NO_ROOM,
        }
    }

    /// Whether a transaction that adds at most so many bytes has to wait for a segment that is to be made.
    pub(crate) fn transaction_waits_for_segment(&self, log_bytes_max: u64) -> bool {
        self.is_segment_late() && self.lacks_room_beside_kept_back(log_bytes_max)
    }

    /// Whether so many bytes would use up what is kept back where no segment is ahead.
    pub(super) fn lacks_room_beside_kept_back(&self, bytes: u64) -> bool {
        self.appender.room() < needed_for(bytes).saturating_add(KEPT_BACK_BYTES)
    }

    /// Whether more room is only a matter of time: no segment is ahead, and the disk is not full.
    pub(crate) fn is_segment_late(&self) -> bool {
        self.mode.is_logged() && !self.appender.is_full() && !self.appender.has_spare()
    }
}

/// Whether the room bounds what a command writes while it runs, since it cannot be foreseen: a script, or what logs a
/// value that it finds. Most write little.
pub(super) fn is_bounded(spec: &Spec) -> bool {
    spec.flags.contains(Flags::SCRIPT) || spec.flags.contains(Flags::WHOLE_VALUE)
}

/// At most how many bytes a command adds to the log.
pub(crate) fn log_bytes_max(command: &Command<'_>) -> u64 {
    let flags = command.spec.flags;
    let beside = match (flags.contains(Flags::SCRIPT), flags.contains(Flags::WRITE)) {
        (true, _) => JOURNAL_BYTES_MAX as u64,
        (_, true) => GROUP_BYTES_MAX,
        _ => return 0,
    };
    (command.mutation_bytes_max() as u64).saturating_add(beside)
}

/// No group is longer than the journal may be.
fn needed_for(bytes: u64) -> u64 {
    bytes.min(JOURNAL_BYTES_MAX as u64)
}

/// What is left on a full disk for a checkpoint alone: some thousand locks fit. Without it nothing would make room.
pub(crate) const CHECKPOINT_BYTES: u64 = 384 << 10;

/// What is left beside it for releases, deletions and renewals: some thousand of them.
const REMOVALS_BYTES: usize = 64 << 10;

/// Both of them.
pub(crate) const KEPT_BACK_BYTES: u64 = CHECKPOINT_BYTES + REMOVALS_BYTES as u64;

/// What the group of a command may hold beside the command's own bytes.
pub(super) const GROUP_BYTES_MAX: u64 = 1024;
