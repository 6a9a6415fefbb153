//! What a node answers to requests about lines.

use redis_protocol::resp2::types::OwnedFrame;

use crate::outcome::Cause;
use crate::protocol::meaning::{number, refusal};

/// How many stand in a line, as far as the node has lines.
pub(crate) fn in_line(reply: &OwnedFrame) -> Result<u64, Cause> {
    number(reply).ok_or_else(|| refusal(reply))
}

/// Whether a node that answers so to a request about lines will never answer otherwise on this connection.
pub(crate) fn has_no_lines(reply: &OwnedFrame) -> bool {
    let OwnedFrame::Error(text) = reply else {
        return false;
    };
    let codes = [
        "ERR unknown command",
        "NOPERM",
        "NOPROTO",
        "ERR LOCK.WAIT sends",
    ];
    codes.iter().any(|code| text.starts_with(code))
}

/// Whether a node that answers so to `LOCK.WAIT ... TURN` may know it without.
pub(crate) fn knows_no_turns(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::Error(text) if text.starts_with("ERR syntax error"))
}
