//! What a node keeps under the name of a lock.

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;

use crate::answer::Kept;
use crate::outcome::Cause;
use crate::protocol::meaning::{OTHER_TYPE, refusal};
use crate::token::Token;
use crate::votes::Identity;

/// What a node keeps under the name of a lock, by its reply to GET.
pub(crate) fn holder(reply: &OwnedFrame, by: &Identity) -> Result<(Identity, Kept), Cause> {
    let kept = match reply {
        OwnedFrame::Null => Kept::Nothing,
        OwnedFrame::BulkString(token) => {
            Kept::Token(Token::from_bytes(Bytes::copy_from_slice(token)))
        }
        OwnedFrame::Error(text) if text.starts_with(OTHER_TYPE) => Kept::OtherType,
        other => return Err(refusal(other)),
    };
    Ok((by.clone(), kept))
}
