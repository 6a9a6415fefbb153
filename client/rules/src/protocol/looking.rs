//! Looking who holds a lock without asking for it, and being told of changes: what is asked, and what the replies mean.
//!
//! Invariant: that of `meaning`: what is not understood is no view, never a free lock.

use std::sync::Arc;

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;

use super::meaning::{is_unknown, refusal, time_left};
use super::request::{script, write};
use crate::answer::Sight;
use crate::outcome::Cause;
use crate::token::{TOKEN_BYTES_MAX, Token};

/// What every server understands: the token, and the time left.
const LOOK_SCRIPT: &[u8] = b"return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}";

/// Asks who holds the lock.
pub(crate) fn look(out: &mut Vec<u8>, name: &[u8], is_full: bool) {
    match is_full {
        true => write(out, &[b"LOCK.INFO", name]),
        false => script(out, None, LOOK_SCRIPT, name, &[]),
    }
}

/// Asks to be told of all changes of keys whose name begins so.
pub(crate) fn track(out: &mut Vec<u8>, prefix: &[u8]) {
    let arguments: [&[u8]; 6] = [b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", prefix];
    write(out, &arguments);
}

/// Asks to be told of no changes any more.
pub(crate) fn untrack(out: &mut Vec<u8>) {
    write(out, &[b"CLIENT", b"TRACKING", b"OFF"]);
}

/// What a reply to a look means; none where the node does not know LOCK.INFO.
pub(crate) fn seen(reply: &OwnedFrame, is_full: bool) -> Option<Result<Option<Sight>, Cause>> {
    Some(match reply {
        OwnedFrame::Null if is_full => Ok(None),
        OwnedFrame::Array(facts) if is_full => full(facts).ok_or_else(|| refusal(reply)),
        unknown if is_full && is_unknown(unknown) => return None,
        OwnedFrame::Array(parts) if !is_full => match &parts[..] {
            [OwnedFrame::Null, _] => Ok(None),
            [OwnedFrame::BulkString(holder), left] => token(holder)
                .map(|token| {
                    Some(Sight {
                        token,
                        owner: None,
                        fence: None,
                        left: time_left(left),
                        is_full,
                    })
                })
                .ok_or_else(|| refusal(reply)),
            _ => Err(refusal(reply)),
        },
        other => Err(refusal(other)),
    })
}

/// The facts of LOCK.INFO about a string: what holders of Redlock keep.
fn full(facts: &[OwnedFrame]) -> Option<Option<Sight>> {
    let fact = |name: &str| {
        let mut pairs = facts.chunks_exact(2);
        let is_it = |pair: &&[OwnedFrame]| is_text(&pair[0], name);
        pairs.find(is_it).map(|pair| &pair[1])
    };
    let text = |name| match fact(name) {
        Some(OwnedFrame::BulkString(text)) => Some(text),
        _ => None,
    };
    if text("type")? != b"string" {
        return None;
    }
    let fence = match fact("fence") {
        Some(OwnedFrame::Integer(fence)) => u64::try_from(*fence).ok(),
        _ => None,
    };
    Some(Some(Sight {
        token: token(text("token")?)?,
        owner: text("owner").and_then(|text| std::str::from_utf8(text).ok().map(Arc::from)),
        fence,
        left: fact("ttl-ms").and_then(time_left),
        is_full: true,
    }))
}

fn is_text(frame: &OwnedFrame, text: &str) -> bool {
    matches!(frame, OwnedFrame::BulkString(bytes) if bytes == text.as_bytes())
}

fn token(bytes: &[u8]) -> Option<Token> {
    let is_short = bytes.len() <= TOKEN_BYTES_MAX;
    is_short.then(|| Token::from_bytes(Bytes::copy_from_slice(bytes)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bulk(text: &str) -> OwnedFrame {
        OwnedFrame::BulkString(text.as_bytes().to_vec())
    }

    fn sight(is_full: bool) -> Sight {
        Sight {
            token: Token::from("t"),
            owner: is_full.then(|| Arc::from("10.0.0.7")),
            fence: is_full.then_some(42),
            left: Some(Duration::from_millis(28_500)),
            is_full,
        }
    }

    #[test]
    fn a_full_look_tells_token_owner_fence_and_time() {
        let facts = |kind: &str| {
            let number = OwnedFrame::Integer;
            let pairs = [
                ("type", bulk(kind)),
                ("token", bulk("t")),
                ("ttl-ms", number(28_500)),
                ("extensions", OwnedFrame::Null),
                ("owner", bulk("10.0.0.7")),
                ("fence", number(42)),
            ];
            OwnedFrame::Array(Vec::from(pairs.map(|(name, value)| [bulk(name), value])).concat())
        };
        assert_eq!(seen(&facts("string"), true), Some(Ok(Some(sight(true)))));
        assert!(matches!(seen(&facts("hash"), true), Some(Err(_))));
        assert_eq!(seen(&OwnedFrame::Null, true), Some(Ok(None)));
        let error = |text: &str| OwnedFrame::Error(text.to_owned());
        assert_eq!(seen(&error("ERR unknown command 'LOCK.INFO'"), true), None);
        for odd in [
            OwnedFrame::Integer(1),
            OwnedFrame::Array(vec![]),
            error("ERR x"),
        ] {
            assert!(matches!(seen(&odd, true), Some(Err(_))), "{odd:?}");
        }
    }

    #[test]
    fn a_plain_look_tells_token_and_time() {
        let pair = |holder, left| OwnedFrame::Array(vec![holder, OwnedFrame::Integer(left)]);
        let plain = |reply: OwnedFrame| seen(&reply, false);
        assert_eq!(plain(pair(bulk("t"), 28_500)), Some(Ok(Some(sight(false)))));
        assert_eq!(plain(pair(OwnedFrame::Null, -2)), Some(Ok(None)));
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        for odd in [
            OwnedFrame::Null,
            pair(OwnedFrame::Integer(1), 5),
            pair(bulk(&long), 5),
            OwnedFrame::Error("ERR unknown command".to_owned()),
        ] {
            assert!(matches!(plain(odd.clone()), Some(Err(_))), "{odd:?}");
        }
    }
}
