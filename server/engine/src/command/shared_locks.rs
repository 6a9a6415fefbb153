//! Locks that many may hold at a time: what LOCK.ACQUIRE SHARED, LOCK.EXTEND and LOCK.RELEASE do with them.
//!
//! Such a lock is a key with a value of its own: a token and an end for each holder. So every client that takes a lock by SET NX
//! is kept out, and a compare-and-delete finds no string. Nobody holds it shared while the key is anything else. A shared
//! lock has no fence: a resource that many may use at a time cannot refuse the one that comes with the smaller number.

use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::shared_holders::SharedHolders;
use crate::lock_counts::{LockEndReason, LockRefusal};
use crate::notifications::Class;
use crate::queue_name::QueueName;
use crate::reply::Reply;
use crate::time::{Deadline, NodeTime};

/// Granted or not, and the token that keeps this one out: its own where it has the lock already; nothing where a writer
/// waits, or the key is no lock.
pub(super) fn acquire(
    context: &mut CommandContext<'_>,
    (name, token): (&[u8], &[u8]),
    deadline: Deadline,
    owner: Option<&str>,
) -> Result<Reply, ErrorReply> {
    let found = context.peek(name);
    let now = context.now.node;
    let Ok(holders) = context.collection::<SharedHolders>(&found) else {
        context.count_refusal(name, LockRefusal::Held);
        let holder = context.string(&found).ok().flatten();
        return Ok(refused(holder));
    };
    if holders.is_some_and(|holders| holders.end_of(token, now).is_some()) {
        context.reveal(&found);
        return Ok(refused(Some(token)));
    }
    let queue = QueueName::new(context.caller.database, name);
    let queues = &context.keyspace.lock_queues;
    if !queues.admits_reader(&queue, token, now) {
        context.keyspace.lock_queues.note_kept_out(&queue, now);
        context.count_refusal(name, LockRefusal::WriterWaits);
        return Ok(refused(None));
    }
    let ended = match holders {
        None => Vec::new(),
        Some(holders) => make_room(holders, token, now)?,
    };
    context.reveal(&found);
    if found.live.is_some() {
        let set = Change::HolderSet {
            token,
            end: deadline,
        };
        let ended = ended.iter().map(|token| Change::HolderRemove { token });
        // Others hold the lock: it never has no holder, and so there is a key throughout.
        let changes: Vec<_> = ended.chain(std::iter::once(set)).collect();
        context.change_holders(&found, name, &changes)?;
    } else {
        let mut holders = SharedHolders::default();
        holders.set(token, deadline, context.keyspace.seed());
        context.put_collection(&found, name, holders, deadline)?;
    }
    context.note_shared_taking(name, token, owner);
    let keyspace = &mut *context.keyspace;
    if let Some(since) = keyspace.lock_queues.waits_since(&queue, token) {
        let waited = now.saturating_since(since);
        keyspace.lock_counts.count_wait(name, waited);
    }
    keyspace.lock_queues.note_reader(&queue, token);
    context.notify(Class::Module, "lock.acquire", name);
    context.notify(Class::Generic, "expire", name);
    Ok(Reply::Array(vec![Reply::flag(true), Reply::Nil]))
}

fn refused(holder: Option<&[u8]>) -> Reply {
    let holder = holder.map_or(Reply::Nil, Reply::bulk);
    Reply::Array(vec![Reply::flag(false), holder])
}

/// The holders that leave for a new one: some of those whose time is over. One of the same token is among them, so that nothing
/// of it stays.
fn make_room(
    holders: &SharedHolders,
    token: &[u8],
    now: NodeTime,
) -> Result<Vec<Box<[u8]>>, ErrorReply> {
    let own = holders.contains(token).then_some(token);
    let others = holders.ended(now).filter(|ended| *ended != token);
    let ended = own.into_iter().chain(others).take(DROPPED_AT_ONCE);
    let ended: Vec<Box<[u8]>> = ended.map(Box::from).collect();
    let left = holders.len().saturating_sub(ended.len());
    match left < HOLDERS_MAX {
        true => Ok(ended),
        false => Err(ErrorReply::fixed(
            "ERR 65536 clients share this lock, and no more may: try again after some time",
        )),
    }
}

/// Lets a holder end later, and never earlier. Says whether this token holds the lock.
pub(super) fn extend(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    (name, token): (&[u8], &[u8]),
    deadline: Deadline,
) -> Result<bool, ErrorReply> {
    let Some(end) = end_of(context, found, token) else {
        return Ok(false);
    };
    if deadline > end {
        let change = Change::HolderSet {
            token,
            end: deadline,
        };
        context.change_holders(found, name, &[change])?;
        context.notify(Class::Generic, "expire", name);
    }
    Ok(true)
}

/// Takes one holder out, and the key with the last one. Says whether this token held the lock.
pub(super) fn release(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    (name, token): (&[u8], &[u8]),
    how: LockEndReason,
) -> Result<bool, ErrorReply> {
    let now = context.now.node;
    if end_of(context, found, token).is_none() {
        return Ok(false);
    }
    let holders = context.collection::<SharedHolders>(found)?;
    let is_last = holders.is_none_or(|holders| holders.live(now).nth(1).is_none());
    if is_last {
        context.end_key(found, name, how)?;
        context.notify(Class::Generic, "del", name);
    } else {
        context.change_holders(found, name, &[Change::HolderRemove { token }])?;
        context.notify(Class::Module, "lock.release", name);
    }
    Ok(true)
}

/// When this token's hold on a shared lock ends; nothing where it does not hold one.
pub(super) fn end_of(
    context: &CommandContext<'_>,
    found: &KeySlot,
    token: &[u8],
) -> Option<Deadline> {
    let holders = context.collection::<SharedHolders>(found).ok().flatten();
    holders.and_then(|holders| holders.end_of(token, context.now.node))
}

/// All of them are gone in time: each one that comes takes more than one away.
const DROPPED_AT_ONCE: usize = 4;

/// With the longest tokens 64 MiB, below what a collection may take by default.
const HOLDERS_MAX: usize = 1 << 16;

pub(super) const NO_FENCE: ErrorReply = ErrorReply::fixed(
    "ERR a lock that is held shared has no fence: a resource that many use at a time cannot tell by a number who is late",
);
