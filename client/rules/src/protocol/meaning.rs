//! What a node's reply means for the request it answers.
//!
//! Invariant: only the replies the protocol promises are votes; anything unexpected is that
//! node's "no" with its text, never a success. Pure: no I/O, no clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame as _};

use super::agent;
use super::node_reply::InfoText;
use crate::answer::{Answer, ExtendAnswer, FenceAnswer, Info, NodeCeiling, NodeFence};
use crate::outcome::{Cause, NodeRelease};
use crate::register::{LogState, Membership};
use crate::token::{TOKEN_BYTES_MAX, Token};
use crate::votes::Identity;

/// What a reply to a request for the lock means; none where the node does not know `SET ... NX ... GET`: ask without `GET`.
pub(crate) fn taken(
    reply: &OwnedFrame,
    by: &Identity,
    token: &Token,
    with_get: bool,
) -> Option<Answer> {
    let granted = || Answer::Granted(by.clone());
    Some(match reply {
        OwnedFrame::SimpleString(text) if text == b"OK" => granted(),
        OwnedFrame::Null if with_get => granted(),
        OwnedFrame::Null => busy(by, None),
        OwnedFrame::BulkString(holder) if with_get && holder == token.as_bytes() => granted(),
        OwnedFrame::BulkString(holder) if with_get => busy(by, Some(holder)),
        OwnedFrame::Error(text) if with_get && text.starts_with("ERR syntax error") => {
            return None;
        }
        OwnedFrame::Error(text) if text.starts_with(HELD_SHARED) => busy(by, None),
        other => Answer::Not(refusal(other)),
    })
}

/// Whether this is the reply of a node that takes what a holder says about itself. One that refuses it may grant the lock
/// without it: it has no such command, or has lost its fences.
pub(crate) fn takes_text(reply: &OwnedFrame) -> bool {
    match reply {
        OwnedFrame::Error(text) => delay(text).is_some() || text.starts_with("LOADING"),
        _ => true,
    }
}

/// Whether the node has no such command, or this user may not run it.
pub(crate) fn is_unknown(reply: &OwnedFrame) -> bool {
    let codes = ["ERR unknown command", "NOPERM"];
    matches!(reply, OwnedFrame::Error(text) if codes.iter().any(|code| text.starts_with(code)))
}

/// Whether the node grants no lock by a command that tells fences, because it may have lost some.
pub(crate) fn lost_fences(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::Error(text) if text.starts_with("FENCELOST"))
}

/// What a reply to a request for a lock with a fence means.
pub(crate) fn taken_fenced(
    reply: &OwnedFrame,
    by: &Identity,
    token: &Token,
    guess: Option<u64>,
) -> (Answer, Option<NodeFence>) {
    let OwnedFrame::Array(parts) = reply else {
        return (Answer::Not(fence_refusal(reply)), None);
    };
    let [OwnedFrame::Integer(is_granted), fence, more] = &parts[..] else {
        return (Answer::Not(refusal(reply)), None);
    };
    let is_guess = matches!(more, OwnedFrame::Integer(1));
    let fence = number(fence).filter(|fence| !is_guess || Some(*fence) == guess);
    let Some(fence) = fence else {
        return (Answer::Not(refusal(reply)), None);
    };
    let answer = match (is_granted, more) {
        (1, OwnedFrame::Integer(0 | 1)) => Answer::Granted(by.clone()),
        // Sent twice by something on the way: the lock is ours, and it is not known whether its guess was taken.
        (0, OwnedFrame::BulkString(holder)) if holder == token.as_bytes() => {
            Answer::Granted(by.clone())
        }
        (0, OwnedFrame::BulkString(holder)) => busy(by, Some(holder)),
        (0, OwnedFrame::Null) => busy(by, None),
        _ => return (Answer::Not(refusal(reply)), None),
    };
    (answer, Some(NodeFence { fence, is_guess }))
}

/// What a reply to a request for a lock that is held already, with its fence, means; none where the node takes no fence, or not
/// this one: ask without, as a plain lock. Whether it has taken the fence is no vote: its own may be above all that others took, since it has
/// started again.
pub(crate) fn retaken(
    reply: &OwnedFrame,
    by: &Identity,
    token: &Token,
    fence: Option<u64>,
) -> Option<Answer> {
    match reply {
        _ if fence.is_none() => taken(reply, by, token, false),
        OwnedFrame::Error(text) if takes_no_fence(text) => None,
        _ => Some(taken_fenced(reply, by, token, fence).0),
    }
}

fn takes_no_fence(text: &str) -> bool {
    text.starts_with("FENCELOST") || text.contains("unknown command") || text.starts_with(TOO_HIGH)
}

/// What a reply to the request to take a fence means.
pub(crate) fn fenced(reply: &OwnedFrame, by: &Identity, fence: u64) -> FenceAnswer {
    if *reply == OwnedFrame::Null {
        return FenceAnswer::WithoutLock;
    }
    let parts = match reply {
        OwnedFrame::Error(text) if text.starts_with(TOO_HIGH) => return FenceAnswer::TooHigh,
        OwnedFrame::Array(parts) => &parts[..],
        _ => &[],
    };
    match parts {
        [OwnedFrame::Integer(1), taken] if number(taken) == Some(fence) => {
            FenceAnswer::Taken(by.clone())
        }
        [OwnedFrame::Integer(0), known] => match number(known) {
            Some(known) => FenceAnswer::Refused(known),
            None => FenceAnswer::Not(refusal(reply)),
        },
        _ => FenceAnswer::Not(fence_refusal(reply)),
    }
}

/// What a node tells of its fences.
pub(crate) fn ceiling(reply: &OwnedFrame, by: &Identity) -> Result<NodeCeiling, Cause> {
    let parts = match reply {
        OwnedFrame::Array(parts) => &parts[..],
        _ => &[],
    };
    let [ceiling, OwnedFrame::Integer(is_certain @ (0 | 1))] = parts else {
        return Err(fence_refusal(reply));
    };
    Ok(NodeCeiling {
        by: by.clone(),
        ceiling: number(ceiling).ok_or_else(|| refusal(reply))?,
        is_certain: *is_certain == 1,
    })
}

/// The same from a node that has taken over a ceiling.
pub(crate) fn adopted(reply: &OwnedFrame, by: &Identity) -> Result<NodeCeiling, Cause> {
    Ok(NodeCeiling {
        by: by.clone(),
        ceiling: number(reply).ok_or_else(|| fence_refusal(reply))?,
        is_certain: true,
    })
}

pub(super) fn number(reply: &OwnedFrame) -> Option<u64> {
    match reply {
        OwnedFrame::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// A refusal to take a lock or a fence, where fences are asked for.
fn fence_refusal(reply: &OwnedFrame) -> Cause {
    match reply {
        OwnedFrame::Error(text) if text.starts_with("FENCELOST") => Cause::FencesLost,
        OwnedFrame::Error(text) if text.contains("unknown command") => Cause::WithoutFences,
        _ => refusal(reply),
    }
}

pub(super) fn busy(by: &Identity, holder: Option<&Vec<u8>>) -> Answer {
    let short = holder.filter(|holder| holder.len() <= TOKEN_BYTES_MAX);
    Answer::Busy {
        by: by.clone(),
        holder: short.map(|holder| Token::from_bytes(Bytes::copy_from_slice(holder))),
    }
}

/// What a reply to this script means; none where the node does not have the script: send its text.
pub(crate) fn extended(reply: &OwnedFrame, by: &Identity) -> Option<ExtendAnswer> {
    Some(match reply {
        OwnedFrame::Integer(1) => ExtendAnswer::Extended(by.clone()),
        OwnedFrame::Integer(0) => ExtendAnswer::Gone(by.clone()),
        OwnedFrame::Integer(-1) => ExtendAnswer::Other(by.clone()),
        OwnedFrame::Error(text) if text.starts_with(OTHER_TYPE) => ExtendAnswer::Other(by.clone()),
        OwnedFrame::Error(text) if text.starts_with("NOSCRIPT") => return None,
        other => ExtendAnswer::Not(refusal(other)),
    })
}

/// The same for the script that releases.
pub(crate) fn released(reply: &OwnedFrame) -> Option<NodeRelease> {
    Some(match reply {
        OwnedFrame::Integer(1) => NodeRelease::Freed,
        OwnedFrame::Integer(0) => NodeRelease::NotHeld,
        OwnedFrame::Error(text) if text.starts_with(OTHER_TYPE) => NodeRelease::NotHeld,
        // A server without locks for readers has none of them.
        OwnedFrame::Error(text) if text.starts_with("ERR unknown command 'LOCK.RELEASE'") => {
            NodeRelease::NotHeld
        }
        OwnedFrame::Error(text) if text.starts_with("NOSCRIPT") => return None,
        other => NodeRelease::Not(refusal(other)),
    })
}

/// The time a key has left; nothing if it has no end or is not there.
pub(crate) fn time_left(reply: &OwnedFrame) -> Option<Duration> {
    match reply {
        OwnedFrame::Integer(millis) => u64::try_from(*millis).ok().map(Duration::from_millis),
        _ => None,
    }
}

pub(crate) fn exists(reply: &OwnedFrame) -> Option<bool> {
    match reply {
        OwnedFrame::Integer(keys) => Some(*keys > 0),
        _ => None,
    }
}

pub(crate) fn info(reply: &OwnedFrame) -> Result<Info, Cause> {
    let OwnedFrame::BulkString(text) = reply else {
        return agent::withheld_info(reply).ok_or_else(|| refusal(reply));
    };
    Ok(info_of(&InfoText::new(text)))
}

/// What a node's INFO says that the client goes by.
pub(crate) fn info_of(text: &InfoText<'_>) -> Info {
    let field = |name: &str| text.field(name).filter(|value| value.len() <= ID_BYTES_MAX);
    let cluster = || field("quorlock_cluster_id").map(Arc::from);
    let counted = || {
        let id = field("quorlock_node_id")?;
        let incarnation = field("quorlock_incarnation")?.parse().ok()?;
        Some(Identity {
            id: Arc::from(id),
            incarnation,
            cluster: cluster(),
        })
    };
    let drawn = || {
        Some(Identity {
            // Some proxies and managed services show zeros.
            id: Arc::from(field("run_id").filter(|id| id.bytes().any(|digit| digit != b'0'))?),
            incarnation: 0,
            cluster: cluster(),
        })
    };
    let size = |name| text.number::<usize>(name).filter(|size| *size > 0);
    let delay_ms = text.number::<u64>("restart_delay_remaining_ms");
    let log = || {
        Some(LogState {
            recovered: text.number("quorlock_log_recovered")?,
            synced: text.number("quorlock_log_synced")?,
        })
    };
    Info {
        log: log(),
        identity: counted().or_else(drawn),
        delay_left: delay_ms.filter(|left| *left > 0).map(Duration::from_millis),
        is_loading: field("loading") == Some("1"),
        is_agent: field("quorlock_agent") == Some("1"),
        membership: Membership {
            cluster_id: cluster(),
            cluster_size: size("quorlock_cluster_size"),
            next_size: size("quorlock_cluster_size_next"),
        },
    }
}

/// A reply that is not the one hoped for, as a cause.
pub(crate) fn refusal(reply: &OwnedFrame) -> Cause {
    match reply {
        OwnedFrame::Error(text) => {
            let shown = shown(text);
            match delay(text) {
                Some(left) => Cause::Delayed { left, text: shown },
                None => Cause::Refused(shown),
            }
        }
        other => Cause::Refused(Arc::from(format!(
            "unexpected reply of kind {:?}",
            other.kind()
        ))),
    }
}

/// The refusal of a node that will serve nothing on this connection, whatever is asked.
pub(crate) fn login_refused(reply: &OwnedFrame) -> Option<Cause> {
    let OwnedFrame::Error(text) = reply else {
        return None;
    };
    let codes = [
        "WRONGPASS",
        "NOAUTH",
        "DENIED",
        "ERR AUTH",
        "ERR max number of clients",
    ];
    let is_final = codes.iter().any(|code| text.starts_with(code));
    is_final.then(|| Cause::LoginRefused(shown(text)))
}

/// How long a node says, or seems, to take no requests at all, if it will take them after that.
pub(crate) fn passes_after(cause: &Cause) -> Option<Duration> {
    match cause {
        Cause::Delayed { left, .. } => Some(*left),
        Cause::Refused(text) if text.starts_with("LOADING") => Some(Duration::ZERO),
        _ => None,
    }
}

/// The time left in `RESTARTDELAY <ms> <node id> <sentence>`, or in the same with `LOADING`.
fn delay(text: &str) -> Option<Duration> {
    let mut fields = text.split(' ');
    let code = fields.next()?;
    let left = fields.next().and_then(|millis| millis.parse().ok());
    match (code, left) {
        ("RESTARTDELAY" | "LOADING", Some(millis)) => Some(Duration::from_millis(millis)),
        // A node that does not say how long is asked again soon.
        ("RESTARTDELAY", None) => Some(Duration::from_millis(100)),
        _ => None,
    }
}

/// A node's words as they may be shown: no control characters, and not many.
pub(super) fn shown(text: &str) -> Arc<str> {
    let cut = text.chars().take(TEXT_CHARACTERS_MAX);
    Arc::from(
        cut.map(|c| if c.is_control() { ' ' } else { c })
            .collect::<String>(),
    )
}

/// How a node refuses a fence that is too far above its own.
const TOO_HIGH: &str = "ERR this fence is more than ";
/// How a node refuses a writer while others read.
const HELD_SHARED: &str = "WRONGTYPE readers hold this lock";
/// How a node answers a writer's script about a key that is no string: readers, or something else, hold the name.
pub(super) const OTHER_TYPE: &str = "WRONGTYPE ";
const ID_BYTES_MAX: usize = 128;
const TEXT_CHARACTERS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;

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
    fn with_get_nil_and_our_own_token_are_grants() {
        let token = Token::from("mine");
        let mine = OwnedFrame::BulkString(b"mine".to_vec());
        let other = OwnedFrame::BulkString(b"other".to_vec());
        let granted = Some(Answer::Granted(by()));
        assert_eq!(taken(&OwnedFrame::Null, &by(), &token, true), granted);
        // The node-redlock defect: a key that already holds our own value is not a refusal.
        assert_eq!(taken(&mine, &by(), &token, true), granted);
        let holder = Some(Token::from("other"));
        let busy = Some(Answer::Busy { by: by(), holder });
        assert_eq!(taken(&other, &by(), &token, true), busy);
        assert_eq!(taken(&error("ERR syntax error"), &by(), &token, true), None);
    }

    #[test]
    fn without_get_only_ok_is_a_grant() {
        let token = Token::from("mine");
        let ok = OwnedFrame::SimpleString(b"OK".to_vec());
        assert_eq!(
            taken(&ok, &by(), &token, false),
            Some(Answer::Granted(by()))
        );
        let busy = Some(Answer::Busy {
            by: by(),
            holder: None,
        });
        assert_eq!(taken(&OwnedFrame::Null, &by(), &token, false), busy);
        for odd in [
            OwnedFrame::BulkString(b"mine".to_vec()),
            OwnedFrame::SimpleString(b"QUEUED".to_vec()),
            OwnedFrame::Integer(1),
            OwnedFrame::Array(vec![]),
            error("ERR syntax error"),
        ] {
            let answer = taken(&odd, &by(), &token, false);
            assert!(
                matches!(answer, Some(Answer::Not(_))),
                "{odd:?}: {answer:?}"
            );
        }
    }

    #[test]
    fn scripts_answer_numbers_and_nothing_else_counts() {
        let is_not = |answer: &Option<ExtendAnswer>| matches!(answer, Some(ExtendAnswer::Not(_)));
        let extend = |reply: OwnedFrame| extended(&reply, &by());
        assert_eq!(
            extend(OwnedFrame::Integer(0)),
            Some(ExtendAnswer::Gone(by()))
        );
        assert_eq!(extend(error("NOSCRIPT No matching")), None);
        assert!(is_not(&extend(OwnedFrame::Integer(2))));
        assert!(is_not(&extend(error("ERR x"))));
        let other = Some(ExtendAnswer::Other(by()));
        assert_eq!(extend(error("WRONGTYPE x")), other, "readers hold it");
        assert_eq!(released(&error("WRONGTYPE x")), Some(NodeRelease::NotHeld));
        let unknown = error("ERR unknown command 'LOCK.RELEASE', with args beginning with: 'a' ");
        assert_eq!(released(&unknown), Some(NodeRelease::NotHeld));
        assert_eq!(released(&OwnedFrame::Integer(1)), Some(NodeRelease::Freed));
        assert_eq!(released(&error("NOSCRIPT x")), None);
    }

    #[test]
    fn a_restart_delay_is_read_from_the_refusal() {
        let left_ms = |text: &str| match refusal(&error(text)) {
            Cause::Delayed { left, .. } => Some(left.as_millis()),
            _ => None,
        };
        let sentence = "ab this node is in its restart delay for another 9 s (unclean stop)";
        assert_eq!(
            left_ms(&format!("RESTARTDELAY 1234 {sentence}")),
            Some(1234)
        );
        assert_eq!(left_ms(&format!("LOADING 1234 {sentence}")), Some(1234));
        assert_eq!(left_ms("RESTARTDELAY"), Some(100));
        assert_eq!(left_ms(&format!("RESTARTDELAY -1 {sentence}")), Some(100));
        assert_eq!(left_ms(&format!("RESTARTDELAYED 1234 {sentence}")), None);
        assert!(matches!(
            refusal(&error("LOADING Redis is loading")),
            Cause::Refused(_)
        ));
        let Cause::Refused(text) = refusal(&error("ERR a\x1b[31m")) else {
            panic!("no text")
        };
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn identity_is_the_node_id_or_the_run_id() {
        let read = |text: &str| info(&OwnedFrame::BulkString(text.as_bytes().to_vec())).unwrap();
        let quorlock = "# Server\r\nrun_id:r\r\nquorlock_node_id:n1\r\nquorlock_incarnation:3\r\n";
        assert_eq!(read(quorlock).identity, Some(by()));
        let redis = read("run_id:abc\r\nloading:1\r\n");
        assert_eq!(
            redis.identity,
            Some(Identity {
                id: Arc::from("abc"),
                incarnation: 0,
                cluster: None,
            })
        );
        assert!(redis.is_loading && !redis.is_agent);
        assert!(read("quorlock_agent:1\r\n").is_agent && !read("quorlock_agent:0\r\n").is_agent);
        assert_eq!(read("redis_version:7\r\nrun_id:\r\n").identity, None);
        assert_eq!(read("run_id:0000000000000000\r\n").identity, None);
        let member = read("quorlock_cluster_id:blue\r\nquorlock_cluster_size:5\r\n").membership;
        assert_eq!(
            (member.cluster_id.as_deref(), member.cluster_size),
            (Some("blue"), Some(5))
        );
        let changing =
            read("quorlock_cluster_size:5\r\nquorlock_cluster_size_next:6\r\n").membership;
        assert_eq!(
            (changing.cluster_size, changing.next_size),
            (Some(5), Some(6))
        );
        let alone =
            read("quorlock_cluster_id:\r\nquorlock_cluster_size:0\r\nquorlock_cluster_size_next:0")
                .membership;
        assert_eq!(alone, Membership::default());
        let waiting = read("restart_delay:1\r\nrestart_delay_remaining_ms:250\r\n");
        assert_eq!(waiting.delay_left, Some(Duration::from_millis(250)));
        assert!(info(&error("NOPERM no INFO for you")).is_err());
    }
}
