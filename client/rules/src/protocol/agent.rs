//! What an agent replies as no node does: to LOCK.ACQUIRE, and to a command that its user may not send.
//!
//! Invariant: a node's reply to LOCK.ACQUIRE has two parts or three, and its refusal names no place, so none is taken for an agent's.

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;

use crate::answer::Info;
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

/// What the refusal of INFO says of an agent whose user has no right to it; none where it is no agent's.
pub(crate) fn withheld_info(reply: &OwnedFrame) -> Option<Info> {
    let OwnedFrame::Error(text) = reply else {
        return None;
    };
    let is_agents = text.starts_with("NOPERM ") && text.ends_with(ON_AGENT);
    is_agents.then(|| Info {
        is_agent: true,
        ..Info::default()
    })
}

/// Where a command is refused, in the words of an agent.
const ON_AGENT: &str = " on this agent";

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

    #[test]
    fn only_a_refusal_in_the_name_of_an_agent_is_an_agents() {
        let of = |text: &str| withheld_info(&OwnedFrame::Error(text.to_owned()));
        let node = "NOPERM this user has no permissions to run the 'info' command";
        let agent = format!("{node} on this agent");
        assert!(of(&agent).is_some_and(|info| info.is_agent && info.identity.is_none()));
        for other in [
            node,
            "LOADING on this agent",
            "NOPERM on this agent, ask again",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        let text = OwnedFrame::BulkString(agent.into_bytes());
        assert_eq!(withheld_info(&text), None);
    }
}
