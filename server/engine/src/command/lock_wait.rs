//! Waiting for a lock: LOCK.WAIT and LOCK.UNWAIT. The rule, and why it is a subscription, is in `lock_queues`.

use std::time::Duration;

use crate::caller::Protocol;
use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option};
use crate::command::locks::admit_token;
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::lock_queues::{QueueRefusal, Request, TURN_LASTS, TURN_MAX, TURN_MIN, Woken};
use crate::queue_name::QueueName;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&WAIT, &UNWAIT];

// Whoever may not take the lock has nothing to wait for, and would hold up those behind it: it inserts.
const WAIT: Spec = Spec::on_key("lock.wait", -3, wait)
    .flags(Flags::READ_KEYS.with(Flags::FAST))
    .and(Flags::NO_SCRIPT.with(Flags::NO_MULTI))
    .and(Flags::SENDS_LATER)
    .about(Categories::STRING, &[KeyAccess::INSERT]);

/// How many wait, this client included, or 0 where it is its turn. It is a reply about the key: it waits until what has made
/// the key what it is is on record.
fn wait(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, token) = (arguments[1], arguments[2]);
    admit_token(token)?;
    let (is_shared, turn) = options(&arguments[3..])?;
    if context.caller.protocol != Protocol::Resp3 {
        return Err(NEEDS_RESP3);
    }
    let found = context.look_at(key);
    let name = QueueName::new(context.caller.database, key);
    let keyspace = &mut *context.keyspace;
    let (queues, holder) = keyspace.queues_and_holder(&found);
    if found.live.is_some() && holder.is_none() {
        return Err(ErrorReply::WRONG_TYPE);
    }
    let request = Request {
        client: context.caller.client_id,
        token,
        is_shared,
        turn,
    };
    let waiting = queues
        .join(request, &name, holder, context.now.node)
        .map_err(refusal)?;
    Ok(Reply::Integer(
        i64::try_from(waiting).expect("few can wait"),
    ))
}

/// Whether it wants to read, and how long its turn is to last.
fn options(arguments: &[&[u8]]) -> Result<(bool, Duration), ErrorReply> {
    let (mut is_shared, mut turn, mut rest) = (false, None, arguments);
    loop {
        rest = match *rest {
            [] => return Ok((is_shared, turn.unwrap_or(TURN_LASTS))),
            [option, ref behind @ ..] if is_option(option, "shared") && !is_shared => {
                is_shared = true;
                behind
            }
            [option, millis, ref behind @ ..] if is_option(option, "turn") && turn.is_none() => {
                let millis = u64::try_from(integer(millis)?).map_err(|_| TURN_LENGTH)?;
                let length = Duration::from_millis(millis);
                if !(TURN_MIN..=TURN_MAX).contains(&length) {
                    return Err(TURN_LENGTH);
                }
                turn = Some(length);
                behind
            }
            _ => return Err(ErrorReply::SYNTAX),
        };
    }
}

const UNWAIT: Spec = WAIT
    .variant("lock.unwait", unwait)
    .arity(-2)
    .keys(KeyPositions::ALL);

/// In how many of them it stood. No message about them comes behind the reply.
fn unwait(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (mut left, mut woken) = (0_i64, Vec::new());
    for key in &arguments[1..] {
        let name = QueueName::new(context.caller.database, key);
        let queues = &mut context.keyspace.lock_queues;
        let (client, now) = (context.caller.client_id, context.now.node);
        let has_left = queues.leave(client, &name, now, &mut woken);
        left = left.saturating_add(i64::from(has_left));
    }
    let messages = woken.into_iter().map(Woken::into_message);
    context.effects.published.extend(messages);
    Ok(Reply::Integer(left))
}

fn refusal(refusal: QueueRefusal) -> ErrorReply {
    ErrorReply::fixed(match refusal {
        QueueRefusal::NamesOfClient => {
            "ERR a connection may wait for 16384 locks: give up some with LOCK.UNWAIT, or open another connection"
        }
        QueueRefusal::Bytes => {
            "ERR those who wait for locks here take 256 MiB, and may take no more: try again after some time without waiting"
        }
    })
}

const TURN_LENGTH: ErrorReply =
    ErrorReply::fixed("ERR the TURN of LOCK.WAIT lasts from 20 to 2000 milliseconds");

const NEEDS_RESP3: ErrorReply = ErrorReply::fixed(
    "ERR LOCK.WAIT sends a message when the lock is free, which a client can tell from replies in RESP3 only: send HELLO 3 \
     first",
);
