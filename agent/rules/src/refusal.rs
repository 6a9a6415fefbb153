//! What an agent answers to a request that it cannot carry out.
//!
//! Invariant: each of them begins with a code of its own, and says what happened, what that means for the lock, and what to do.
//! None of them can be taken for an answer about a lock.

use quorlock_client_rules::outcome::{AcquireError, ExtendError, ReadError, Release};
use quorlock_engine::ErrorReply;

/// A request that is no step of a lock, for this reason and with this remedy. Nothing has changed anywhere.
pub(crate) fn not_a_lock(reason: &str) -> ErrorReply {
    ErrorReply::new(format!("NOTALOCK {reason}. Nothing was changed"))
}

pub(crate) fn not_read(error: &ReadError) -> ErrorReply {
    no_quorum(&error.to_string(), "Nothing was changed")
}

pub(crate) fn not_acquired(error: &AcquireError) -> ErrorReply {
    match error {
        // The lease that it speaks of is longer than the ttl that the caller knows.
        AcquireError::TimedOut { .. } => too_late(),
        error => no_quorum(&error.to_string(), "The lock is not held"),
    }
}

pub(crate) fn too_late() -> ErrorReply {
    no_quorum(
        "a majority of the nodes did not grant the lock in time for its ttl",
        "It is not held, and what was taken is being released. Use a longer ttl, or look whether nodes are slow or silent",
    )
}

pub(crate) fn extended_too_late() -> ErrorReply {
    no_quorum(
        "a majority of the nodes answered too late for the new ttl",
        "The lock may end before it, and before it would have ended. Treat it as lost",
    )
}

pub(crate) fn not_extended(error: &ExtendError) -> ErrorReply {
    no_quorum(
        &error.to_string(),
        "The lock may end at the new time or at the old one. Treat it as lost at the earlier of both",
    )
}

/// The same of an extension that never lets a lock end sooner.
pub(crate) fn not_longer_in_time() -> ErrorReply {
    no_quorum(
        "a majority of the nodes answered too late for the new ttl",
        LASTS_AS_BEFORE,
    )
}

pub(crate) fn not_longer(error: &ExtendError) -> ErrorReply {
    no_quorum(&error.to_string(), LASTS_AS_BEFORE)
}

pub(crate) fn not_released(release: &Release) -> ErrorReply {
    no_quorum(
        &release.to_string(),
        "Where it is still held, nodes that come back before its ttl is over free it, and others end it then",
    )
}

/// The same of one that has freed the lock under the token of one attempt, and of another attempt nothing is known.
pub(crate) fn not_read_again(error: &ReadError) -> ErrorReply {
    no_quorum(
        &error.to_string(),
        "The lock was released under the token that was found, and it may be held under that of another attempt of the same caller",
    )
}

pub(crate) fn no_quorum(what: &str, meaning: &str) -> ErrorReply {
    // Replies are lines.
    let what = what.replace('\n', "; ");
    ErrorReply::new(format!("NOQUORUM {what}. {meaning}"))
}

const LASTS_AS_BEFORE: &str = "The lock lasts as long as it did before, and may last longer. Treat it as lost when that is over";

/// The lock changed hands each time the request was executed.
pub(crate) const TRY_AGAIN: ErrorReply = ErrorReply::fixed(
    "TRYAGAIN the lock is being taken or released by others, and a majority of the nodes did not say the same for as long as was \
     waited. What was asked for was not done: send the request again",
);

pub(crate) const TOO_MANY: ErrorReply = ErrorReply::fixed(
    "BUSY the agent has too many requests under way. Nothing was changed: send the request again",
);
