//! What a node's reply to a request to read beside others means.
//!
//! Invariant: that of `meaning`: anything unexpected is that node's "no", never a success.

use redis_protocol::resp2::types::OwnedFrame;

use super::meaning::{busy, refusal};
use crate::answer::Answer;
use crate::outcome::Cause;
use crate::token::Token;
use crate::votes::Identity;

/// What a reply to a request to read beside others means.
pub(crate) fn taken_shared(reply: &OwnedFrame, by: &Identity, token: &Token) -> Answer {
    let parts = match reply {
        OwnedFrame::Array(parts) => &parts[..],
        // One of an earlier version does not know the option.
        OwnedFrame::Error(text)
            if text.contains("unknown command") || text.starts_with("ERR syntax error") =>
        {
            return Answer::Not(Cause::WithoutSharedLocks);
        }
        _ => &[],
    };
    match parts {
        [OwnedFrame::Integer(1), OwnedFrame::Null] => Answer::Granted(by.clone()),
        // Sent twice by something on the way.
        [OwnedFrame::Integer(0), OwnedFrame::BulkString(holder)] if holder == token.as_bytes() => {
            Answer::Granted(by.clone())
        }
        [OwnedFrame::Integer(0), OwnedFrame::BulkString(holder)] => busy(by, Some(holder)),
        [OwnedFrame::Integer(0), OwnedFrame::Null] => busy(by, None),
        _ => Answer::Not(refusal(reply)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::meaning::taken;

    fn by() -> Identity {
        Identity {
            id: Arc::from("n1"),
            incarnation: 3,
            cluster: None,
        }
    }

    fn error(text: &str) -> OwnedFrame {
        OwnedFrame::Error(text.to_owned())
    }

    #[test]
    fn readers_are_granted_by_their_own_reply_only_and_busy_where_a_writer_comes_first() {
        let token = Token::from("mine");
        let bulk = |text: &str| OwnedFrame::BulkString(text.as_bytes().to_vec());
        let reply = |flag, more| OwnedFrame::Array(vec![OwnedFrame::Integer(flag), more]);
        let read = |reply: OwnedFrame| taken_shared(&reply, &by(), &token);
        let busy = |holder: Option<&str>| Answer::Busy {
            by: by(),
            holder: holder.map(Token::from),
        };
        assert_eq!(read(reply(1, OwnedFrame::Null)), Answer::Granted(by()));
        assert_eq!(read(reply(0, bulk("mine"))), Answer::Granted(by()));
        assert_eq!(read(reply(0, bulk("other"))), busy(Some("other")));
        assert_eq!(read(reply(0, OwnedFrame::Null)), busy(None));
        for text in ["ERR unknown command 'LOCK.ACQUIRE'", "ERR syntax error"] {
            let without = Answer::Not(Cause::WithoutSharedLocks);
            assert_eq!(read(error(text)), without, "{text}");
        }
        for odd in [
            reply(1, bulk("mine")),
            reply(2, OwnedFrame::Null),
            OwnedFrame::Null,
            OwnedFrame::SimpleString(b"OK".to_vec()),
            OwnedFrame::Integer(1),
        ] {
            assert!(matches!(read(odd.clone()), Answer::Not(_)), "{odd:?}");
        }
        // A writer is told the same of readers.
        let shared = error("WRONGTYPE readers hold this lock: it is held shared");
        assert_eq!(taken(&shared, &by(), &token, true), Some(busy(None)));
    }
}
