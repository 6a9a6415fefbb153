//! Why bytes are no reply, and how much of a reply is kept at most.

use thiserror::Error;

/// Why a node's bytes are no reply. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ReplyError {
    #[error("a reply begins with a byte that none of the expected kinds begins with")]
    UnknownKind,
    #[error("a length, a number or a text in a reply is malformed")]
    Malformed,
    #[error("a line of a reply is too long")]
    LongLine,
    #[error("a string of a reply is too long")]
    LongString,
    #[error("a string of a reply does not end where it should")]
    Unterminated,
}

/// `INFO` has some ten thousand bytes, and no token is longer than a thousand; but where a lock's
/// name is that of somebody's large value, `SET ... GET` answers with all of it.
pub(super) const STRING_BYTES_MAX: usize = 256 * 1024;
