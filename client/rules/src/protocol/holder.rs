//! Under which token a node holds a lock.

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;

use crate::outcome::Cause;
use crate::protocol::meaning::refusal;
use crate::token::Token;
use crate::votes::Identity;

/// Under which token a node holds a lock, if it does.
pub(crate) fn holder(
    reply: &OwnedFrame,
    by: &Identity,
) -> Result<(Identity, Option<Token>), Cause> {
    match reply {
        OwnedFrame::Null => Ok((by.clone(), None)),
        OwnedFrame::BulkString(token) => {
            let token = Token::from_bytes(Bytes::copy_from_slice(token));
            Ok((by.clone(), Some(token)))
        }
        other => Err(refusal(other)),
    }
}
