//! What a node's reply to a request for several names means.
//!
//! Invariant: that of `meaning`: anything unexpected is that node's "no", never a success.

use redis_protocol::resp2::types::OwnedFrame;

use super::meaning::{OTHER_TYPE, busy, refusal};
use crate::answer::Answer;
use crate::votes::Identity;

/// What a reply to a request for several names means. `may_have_readers`: whether the node may have locks that are held shared.
pub(crate) fn taken_all(reply: &OwnedFrame, by: &Identity, may_have_readers: bool) -> Answer {
    match reply {
        OwnedFrame::Integer(1) => Answer::Granted(by.clone()),
        OwnedFrame::BulkString(holder) => busy(by, Some(holder)),
        // Readers hold one of them. Where there are none, something that is no lock has its name, and no wait helps.
        OwnedFrame::Error(text) if may_have_readers && text.starts_with(OTHER_TYPE) => {
            busy(by, None)
        }
        other => Answer::Not(refusal(other)),
    }
}

/// Whether the script that releases all has stopped at a key of another type, and those behind it are not released.
pub(crate) fn stopped_at_other_type(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::Error(text) if text.starts_with(OTHER_TYPE))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::token::Token;

    #[test]
    fn of_several_names_only_one_is_a_grant_and_what_readers_hold_is_busy() {
        let by = Identity {
            id: Arc::from("n1"),
            incarnation: 3,
            cluster: None,
        };
        let error = |text: &str| OwnedFrame::Error(text.to_owned());
        let one = OwnedFrame::Integer(1);
        assert_eq!(taken_all(&one, &by, true), Answer::Granted(by.clone()));
        let busy = |holder: Option<&str>| Answer::Busy {
            by: by.clone(),
            holder: holder.map(Token::from),
        };
        let other = OwnedFrame::BulkString(b"other".to_vec());
        assert_eq!(taken_all(&other, &by, true), busy(Some("other")));
        let other_type = error("WRONGTYPE x");
        assert_eq!(taken_all(&other_type, &by, true), busy(None));
        let of_data = taken_all(&other_type, &by, false);
        assert!(matches!(of_data, Answer::Not(_)), "{of_data:?}");
        for odd in [
            OwnedFrame::Integer(0),
            OwnedFrame::Integer(2),
            OwnedFrame::Null,
            OwnedFrame::SimpleString(b"OK".to_vec()),
            error("OOM command not allowed"),
        ] {
            assert!(
                matches!(taken_all(&odd, &by, true), Answer::Not(_)),
                "{odd:?}"
            );
        }
    }
}
