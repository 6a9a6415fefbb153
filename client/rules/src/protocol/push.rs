//! What a node says although it was not asked: that a lock is free, that others want it, and that keys have changed.
//!
//! Invariant: what is not understood means nothing. A change that may be of any key is one of all.

use bytes::Bytes;
use redis_protocol::resp2::types::OwnedFrame;

use crate::token::Token;

/// A message that answers no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// The lock is free, and it is the turn of this token.
    LockFree(Bytes, Token),
    /// Readers want the lock, and the node asks whether the client still stands in line for it.
    LockWanted(Bytes),
    /// The value or the deadline of these keys has changed, or they have come or gone.
    Changed(Vec<Bytes>),
    /// Any key may have changed.
    AllChanged,
}

impl Push {
    /// What a push means, if it is one of these.
    pub(crate) fn of(push: Vec<OwnedFrame>) -> Option<Self> {
        let mut parts = push.into_iter();
        match parts.next()? {
            OwnedFrame::BulkString(kind) if kind == b"lock-free" => {
                match <[OwnedFrame; 2]>::try_from(parts.collect::<Vec<_>>()).ok()? {
                    [OwnedFrame::BulkString(name), OwnedFrame::BulkString(token)] => {
                        Some(Self::LockFree(Bytes::from(name), Token::from_bytes(token)))
                    }
                    _ => None,
                }
            }
            OwnedFrame::BulkString(kind) if kind == b"lock-wanted" => match parts.next()? {
                OwnedFrame::BulkString(name) => Some(Self::LockWanted(Bytes::from(name))),
                _ => None,
            },
            OwnedFrame::BulkString(kind) if kind == b"invalidate" => {
                let mut names = Vec::new();
                for part in parts {
                    match part {
                        OwnedFrame::BulkString(name) => names.push(Bytes::from(name)),
                        // A flush, or more names than are kept.
                        OwnedFrame::Null => return Some(Self::AllChanged),
                        _ => return None,
                    }
                }
                Some(Self::Changed(names))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_about_locks_in_line_and_changed_keys_and_nothing_else() {
        let bulk = |text: &str| OwnedFrame::BulkString(text.as_bytes().to_vec());
        let of = |words: &[&str]| Push::of(words.iter().map(|word| bulk(word)).collect());
        let names = |names: &[&str]| {
            let names = names
                .iter()
                .map(|name| Bytes::copy_from_slice(name.as_bytes()));
            Some(Push::Changed(names.collect()))
        };
        assert_eq!(
            of(&["lock-free", "a", "t"]),
            Some(Push::LockFree("a".into(), Token::from("t")))
        );
        assert_eq!(
            of(&["lock-wanted", "a", "t"]),
            Some(Push::LockWanted("a".into()))
        );
        assert_eq!(of(&["invalidate", "a", "b"]), names(&["a", "b"]));
        assert_eq!(of(&["invalidate"]), names(&[]));
        let flush = vec![bulk("invalidate"), OwnedFrame::Null];
        assert_eq!(Push::of(flush), Some(Push::AllChanged));
        for other in [
            &["lock-free", "a"][..],
            &["lock-free", "a", "t", "u"],
            &["lock-wanted"],
            &["message", "a", "b"],
            &[],
        ] {
            assert_eq!(of(other), None, "{other:?}");
        }
        let odd = vec![bulk("invalidate"), OwnedFrame::Integer(1)];
        assert_eq!(Push::of(odd), None);
    }
}
