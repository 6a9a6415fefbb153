//! What a command gives the node to do: bytes to log, and what its reply must wait for.
//!
//! The engine fills this in and touches nothing else. One command, script or transaction is one group of
//! mutations and becomes one frame of the log.

use std::time::Duration;

use crate::channels::Published;
use crate::command_guard::CommandGuard;
use crate::control::Ceiling;
use crate::error::ErrorReply;
use crate::position::LogPosition;
use crate::reply::ReplyBudget;
use crate::script_counts::ScriptCounts;
use crate::time::NodeTime;

/// How much of the log a reply depends on. Positions are those of the log's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dependency {
    /// The reply reveals effects up to this position.
    pub any: LogPosition,
    /// Up to this position the effects must be synced in every mode, because no restart delay
    /// covers their loss.
    pub synced: LogPosition,
}

impl Dependency {
    /// Raises both positions; they never fall while a command runs.
    pub fn raise(&mut self, other: Dependency) {
        self.any = self.any.max(other.any);
        self.synced = self.synced.max(other.synced);
    }
}

/// How long a client waits for an element at most; `None` is without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLimit(pub Option<Duration>);

/// What the log has room for, as the node says before each command.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogRoom {
    /// What the journal may hold, if the log has prepared space for less than a whole group. A
    /// script's writes cannot be foreseen: the one that no longer fits is refused.
    pub bytes: Option<usize>,
    /// So much of it is kept back from commands that grow what keys hold, for those that remove.
    pub kept_back_bytes: usize,
    /// It is bounded for want of file descriptors, and not of space.
    pub lacks_files: bool,
    /// There will be more soon, and the command is then run again: what runs out of room is taken back first.
    pub is_retried: bool,
}

/// The effects of one command, script or transaction. The node owns it and uses it again for the next one.
#[derive(Debug, Default)]
pub struct Effects {
    /// The encoded mutations; empty when there is nothing to log.
    pub journal: Vec<u8>,
    /// The position the group's frame will get.
    pub position: LogPosition,
    /// What the reply depends on besides its own group.
    pub depends: Dependency,
    /// The latest deadline this group has set.
    pub longest_deadline: Option<NodeTime>,
    /// The latest of them that a restart delay covers.
    pub longest_covered: Option<NodeTime>,
    /// The group created, changed or deleted a key that no restart delay covers (one without a TTL
    /// or with a deadline beyond the cap), so that it must be synced before the reply.
    pub uncovered: bool,
    /// The ceiling of fences that is to be put on record before the reply.
    pub ceiling: Option<Ceiling>,
    /// The reply tells of a fence: it waits until the ceiling is synced, in every mode.
    pub tells_fence: bool,
    /// What the log has room for.
    pub room: LogRoom,
    /// The command grows what keys hold.
    pub(crate) grows: bool,
    /// Keys took more than they may when the script began: what it calls may not add to them before it has written.
    pub(crate) denies_growth: bool,
    /// A write was refused because the log has no room for it.
    pub ran_out_of_room: bool,
    /// A write was refused because the group would have been too large for a frame.
    pub was_too_large: bool,
    /// Why the transaction, of which these are the effects, may not go on.
    pub(crate) ended: Option<ErrorReply>,
    /// What was published. It is to be sent when the reply may leave.
    pub published: Vec<Published>,
    /// Bytes of it.
    pub(crate) published_bytes: usize,
    /// The command may wait for what it does not find: it stands alone, in no script or transaction.
    pub may_wait: bool,
    /// It has found nothing, and waits at most so long if it may.
    pub wait_limit: Option<WaitLimit>,
    /// Bytes of events of keys, which are published as well.
    pub(crate) notified_bytes: usize,
    /// What the reply has taken; the engine knows how much it may take.
    pub reply: ReplyBudget,
    /// What TIME shows to the command or script that runs, once it has asked.
    pub(crate) shown_wall_us: Option<u64>,
    /// Asked before each command that a script calls. It stays until another one is set.
    pub script_guard: Option<CommandGuard>,
    /// Of all scripts since the node last counted anew.
    pub script_counts: ScriptCounts,
}

impl Effects {
    /// Refuses a command of a script that its user may not call.
    pub(crate) fn check_script_command(&self, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
        match &self.script_guard {
            Some(guard) => guard.check(arguments),
            None => Ok(()),
        }
    }

    /// Makes ready for the next command, whose group would get `position`. Positions start at 1.
    pub fn begin(&mut self, position: LogPosition) {
        self.journal.clear();
        // The memory of one huge script is given back.
        self.journal.shrink_to(JOURNAL_BYTES_KEPT);
        self.position = position;
        self.depends = Dependency::default();
        self.longest_deadline = None;
        self.longest_covered = None;
        self.uncovered = false;
        self.ceiling = None;
        self.tells_fence = false;
        self.room = LogRoom::default();
        self.grows = false;
        self.denies_growth = false;
        self.ran_out_of_room = false;
        self.was_too_large = false;
        self.ended = None;
        self.published.clear();
        self.published_bytes = 0;
        self.may_wait = false;
        self.wait_limit = None;
        self.notified_bytes = 0;
        self.reply = ReplyBudget::default();
    }

    /// What the journal may hold while the command runs that was called last, if the log's room bounds it.
    pub(crate) fn journal_bytes_max(&self) -> Option<usize> {
        let kept_back = if self.grows {
            self.room.kept_back_bytes
        } else {
            0
        };
        Some(self.room.bytes?.saturating_sub(kept_back))
    }

    /// Whether the command is to be run again, with more room. Nothing of it has stayed.
    pub fn lacks_room(&self) -> bool {
        self.room.is_retried && self.ran_out_of_room && self.journal.is_empty()
    }

    /// The refusal of a write that the log has no room for.
    pub(crate) fn no_room(&self) -> ErrorReply {
        match self.room.lacks_files {
            true => NO_FILES,
            false => NO_ROOM,
        }
    }

    /// Charges an element of the reply, before it is made and before the command writes anything.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), ErrorReply> {
        self.reply.charge(bytes).map_err(|error| {
            // A command charges before it writes, so what there is was written by commands before
            // it, of the same script or transaction.
            if self.journal.is_empty() {
                error.of_command()
            } else {
                error.of_command_after_writes()
            }
        })
    }
}

/// The refusal of a write that the log has no room for, because the disk is full.
pub const NO_ROOM: ErrorReply = ErrorReply::fixed(
    "MISCONF the log has no room for this write: the disk is full. Locks held here end by their \
     TTL, and no new ones are granted until space is freed in the data directory",
);

/// The same where the process has no descriptor for the log's next file.
pub const NO_FILES: ErrorReply = ErrorReply::fixed(
    "MISCONF the log has no room for this write: the node's process can open no further file (too many open files). Locks \
     held here end by their TTL, and no new ones are granted until files or connections are closed, or the limit of open \
     files is raised",
);

/// The journal's memory that is kept from command to command.
const JOURNAL_BYTES_KEPT: usize = 64 << 10;
