//! WAIT and WAITAOF: how durable is what this connection has written?

use quorlock_engine::{ErrorReply, Reply, parse_integer};

use crate::core::commit::Failure;
use crate::session::Session;
use crate::session::batch::{Answer, Batch};
use crate::session::pending::{Condition, Pending, acknowledged, is_synced};

pub(crate) fn waitaof(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Result<Answer, Failure> {
    let node = batch.node;
    let WaitedFor {
        wants_local,
        timeout_ms,
    } = match waitaof_arguments(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Answer::Reply(Reply::Error(error))),
    };
    if !node.is_logged() {
        return Ok(Answer::Reply(if wants_local {
            Reply::Error(NO_LOG)
        } else {
            acknowledged(false)
        }));
    }
    let pending = Pending {
        condition: Condition::Synced(session.position),
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

pub(crate) fn wait(
    _: &mut Session,
    _: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Result<Answer, Failure> {
    let parsed = parse_integer(arguments[1])
        .ok_or(ErrorReply::NOT_AN_INTEGER)
        .and_then(|_| timeout(arguments[2]));
    Ok(Answer::Reply(match parsed {
        Ok(_) => Reply::Integer(0),
        Err(error) => Reply::Error(error),
    }))
}

/// What a client asks to wait for.
struct WaitedFor {
    /// The sync of this node's log, and not only of copies that no node has.
    wants_local: bool,
    /// 0 stands for "without end".
    timeout_ms: u64,
}

fn waitaof_arguments(arguments: &[&[u8]]) -> Result<WaitedFor, ErrorReply> {
    let local = parse_integer(arguments[1]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    if !(0..=1).contains(&local) {
        return Err(LOCAL_RANGE);
    }
    let replicas = parse_integer(arguments[2]).ok_or(NOT_POSITIVE)?;
    if replicas < 0 {
        return Err(NOT_POSITIVE);
    }
    Ok(WaitedFor {
        wants_local: local == 1,
        timeout_ms: timeout(arguments[3])?,
    })
}

/// A timeout in milliseconds.
pub(super) fn timeout(word: &[u8]) -> Result<u64, ErrorReply> {
    let timeout_ms = parse_integer(word).ok_or(TIMEOUT_NOT_AN_INTEGER)?;
    u64::try_from(timeout_ms).map_err(|_| TIMEOUT_NEGATIVE)
}

const NO_LOG: ErrorReply = ErrorReply::fixed(
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
);
const LOCAL_RANGE: ErrorReply =
    ErrorReply::fixed("ERR value is out of range, value must between 0 and 1");
const NOT_POSITIVE: ErrorReply = ErrorReply::fixed("ERR value is out of range, must be positive");
const TIMEOUT_NOT_AN_INTEGER: ErrorReply =
    ErrorReply::fixed("ERR timeout is not an integer or out of range");
const TIMEOUT_NEGATIVE: ErrorReply = ErrorReply::fixed("ERR timeout is negative");
