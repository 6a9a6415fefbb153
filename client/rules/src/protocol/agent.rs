//! What an agent replies to LOCK.ACQUIRE, as no node does.
//!
//! Invariant: a node's reply has two parts or three, so none is taken for an agent's.

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;

use crate::token::Token;

/// Under which token an agent has taken the lock, if this is its reply and it has; none where it is the reply of a node.
pub(crate) fn taken(reply: &OwnedFrame) -> Option<Option<Token>> {
    let OwnedFrame::Array(parts) = reply else {
        return None;
    };
    let [OwnedFrame::Integer(is_taken @ (0 | 1)), _, token, _] = &parts[..] else {
        return None;
    };
    Some(match token {
        OwnedFrame::BulkString(token) if *is_taken == 1 => {
            Some(Token::from_bytes(Bytes::copy_from_slice(token)))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reply_of_four_parts_is_an_agents() {
        let number = OwnedFrame::Integer;
        let bulk = |text: &str| OwnedFrame::BulkString(text.as_bytes().to_vec());
        let of = |parts: Vec<OwnedFrame>| taken(&OwnedFrame::Array(parts));
        let took = of(vec![
            number(1),
            OwnedFrame::Null,
            bulk("t~sharing-1"),
            number(5_000),
        ]);
        assert_eq!(took, Some(Some(Token::from("t~sharing-1"))));
        // Somebody else has it, under the token that is named.
        let busy = of(vec![
            number(0),
            OwnedFrame::Null,
            bulk("other"),
            number(5_000),
        ]);
        assert_eq!(busy, Some(None));
        let unknown = of(vec![
            number(0),
            OwnedFrame::Null,
            OwnedFrame::Null,
            OwnedFrame::Null,
        ]);
        assert_eq!(unknown, Some(None));
        for node in [
            vec![number(1), OwnedFrame::Null],
            vec![number(1), number(7), number(1)],
            vec![number(2), OwnedFrame::Null, bulk("t"), number(1)],
        ] {
            assert_eq!(of(node), None);
        }
        assert_eq!(taken(&OwnedFrame::Null), None);
    }
}
