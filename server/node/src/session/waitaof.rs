//! WAIT and WAITAOF: how durable is what this connection has written?

use quorlock_engine::{ErrorReply, Reply, parse_integer};

use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::pending::{Condition, Pending, acknowledged, is_synced};

pub(crate) fn waitaof(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Answered {
    let node = batch.node;
    let local = parse_integer(arguments[1]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    if !(0..=1).contains(&local) {
        return Err(LOCAL_RANGE.into());
    }
    // Else only for copies, which no node has.
    let wants_local = local == 1;
    parse_integer(arguments[2])
        .filter(|replicas| *replicas >= 0)
        .ok_or(NOT_POSITIVE)?;
    // 0 stands for "without end".
    let timeout_ms = timeout(arguments[3])?;
    let is_elsewhere = batch.has_upstream();
    if is_elsewhere || !node.is_logged() {
        return match wants_local {
            true if is_elsewhere => Err(ON_NODES.into()),
            true => Err(NO_LOG.into()),
            false => Ok(Answer::Reply(acknowledged(false))),
        };
    }
    let pending = Pending {
        condition: Condition::Synced,
        position: session.position,
        until_raw: (timeout_ms > 0).then(|| {
            let timeout_ns = timeout_ms.saturating_mul(1_000_000);
            batch.raw().plus_nanos(timeout_ns)
        }),
    };
    let is_synced = is_synced(node, session.position);
    if !wants_local || is_synced {
        return Ok(Answer::Reply(acknowledged(is_synced)));
    }
    Ok(Answer::Wait(pending))
}

pub(crate) fn wait(_: &mut Session, _: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    parse_integer(arguments[1]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    timeout(arguments[2])?;
    Ok(Answer::Reply(Reply::Integer(0)))
}

/// A timeout in milliseconds.
pub(super) fn timeout(word: &[u8]) -> Result<u64, ErrorReply> {
    let timeout_ms = parse_integer(word).ok_or(TIMEOUT_NOT_AN_INTEGER)?;
    u64::try_from(timeout_ms).map_err(|_| TIMEOUT_NEGATIVE)
}

const NO_LOG: ErrorReply = ErrorReply::fixed(
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
);
/// What an upstream keeps is on no disk of this node.
const ON_NODES: ErrorReply = ErrorReply::fixed(
    "NOTALOCK an agent writes nothing to disk, and what its nodes have on theirs is said by the appendfsync of each: leave WAITAOF out",
);
const LOCAL_RANGE: ErrorReply =
    ErrorReply::fixed("ERR value is out of range, value must between 0 and 1");
const NOT_POSITIVE: ErrorReply = ErrorReply::fixed("ERR value is out of range, must be positive");
const TIMEOUT_NOT_AN_INTEGER: ErrorReply =
    ErrorReply::fixed("ERR timeout is not an integer or out of range");
const TIMEOUT_NEGATIVE: ErrorReply = ErrorReply::fixed("ERR timeout is negative");
