//! Locks with fences: LOCK.ACQUIRE, LOCK.EXTEND, LOCK.RELEASE, LOCK.FENCE, and the ceiling of a node's fences.
//!
//! A lock is a key with a string, its token, and a deadline: what SET NX PX makes. So the locks of all clients exclude each
//! other, and GET, PTTL and a compare-and-delete work on them. Only the fence is new; the rules are in `fences`. A lock
//! that is held shared is in `shared_locks`.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{TimeForm, integer, is_option};
use crate::command::set_options::{SetExpiry, set_deadline};
use crate::command::shared_locks;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::control::Ceiling;
use crate::error::ErrorReply;
use crate::fences::{FenceName, FenceRefusal};
use crate::keyspace::KeySlot;
use crate::lock_counts::{LockEndReason, LockRefusal};
use crate::lock_queues::TOKEN_BYTES_MAX;
use crate::notifications::Class;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::time::{Deadline, saturated};

pub(super) const FAMILY: Family = &[&ACQUIRE, &EXTEND, &RELEASE, &FENCE, &CEILING, &ADOPT];

const ACQUIRE: Spec = Spec::on_key("lock.acquire", -4, acquire)
    .flags(Flags::GROW_KEYS.with(Flags::FAST).with(NOT_AMONG_OTHERS))
    .about(Categories::STRING, &[KeyAccess::INSERT]);

/// Granted, the fence of the name, and whether the guess was taken; or refused, the fence, and the token that holds the lock.
fn acquire(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (name, token) = (arguments[1], arguments[2]);
    admit_token(token)?;
    let deadline = lock_deadline(context, "lock.acquire", arguments[3])?;
    let AcquireOptions {
        is_shared,
        guess,
        owner,
    } = AcquireOptions::parse(&arguments[4..])?;
    if is_shared || guess.is_some() {
        admit_deadline(context, deadline)?;
    }
    if is_shared {
        return shared_locks::acquire(context, (name, token), deadline, owner);
    }
    admit_fences(context)?;
    context.effects.tells_fence = true;
    let fence_name = FenceName::new(context.caller.database, name);
    let found = context.peek(name);
    let fences = &mut context.keyspace.fences;
    let current = fences.of(&fence_name);
    if found.live.is_none() {
        fences.disown(&fence_name);
    }
    let judged = guess.map(|guess| fences.judge(&fence_name, token, guess));
    if judged == Some(Err(FenceRefusal::TooHigh)) {
        return Err(too_high(current));
    }
    if found.live.is_some() {
        context.note_writer(&found, name);
        context.count_refusal(name, LockRefusal::Held);
        let holder = context.string(&found).ok().flatten();
        let holder = holder.map_or(Reply::Nil, Reply::bulk);
        return Ok(fence_reply(false, current, Some(holder)));
    }
    context.reveal(&found);
    context.put_string(&found, name, token, deadline)?;
    if let (Some(owner), Some(slot)) = (owner, context.peek(name).live) {
        context.keyspace.holders.note_owner(slot, owner);
    }
    context.notify(Class::String, "set", name);
    context.notify(Class::Generic, "expire", name);
    Ok(match guess {
        Some(guess) if take(context, fence_name, token, guess).is_ok() => {
            fence_reply(true, guess, Some(Reply::flag(true)))
        }
        _ => fence_reply(true, current, Some(Reply::flag(false))),
    })
}

#[derive(Default)]
struct AcquireOptions<'a> {
    is_shared: bool,
    guess: Option<u64>,
    owner: Option<&'a str>,
}

impl<'a> AcquireOptions<'a> {
    fn parse(arguments: &[&'a [u8]]) -> Result<AcquireOptions<'a>, ErrorReply> {
        let mut options = AcquireOptions::default();
        let mut rest = arguments;
        while !rest.is_empty() {
            let (words, behind) = match rest {
                [option, behind @ ..] if is_option(option, "shared") => (&rest[..1], behind),
                [_, _, behind @ ..] => (&rest[..2], behind),
                _ => return Err(ErrorReply::SYNTAX),
            };
            rest = behind;
            match *words {
                [_] if !options.is_shared => options.is_shared = true,
                [option, guess] if is_option(option, "guess") && options.guess.is_none() => {
                    options.guess = Some(fence_number(guess)?);
                }
                [option, text] if is_option(option, "owner") && options.owner.is_none() => {
                    options.owner = Some(owner(text)?);
                }
                _ => return Err(ErrorReply::SYNTAX),
            }
        }
        match options.is_shared && options.guess.is_some() {
            true => Err(shared_locks::NO_FENCE),
            false => Ok(options),
        }
    }
}

const EXTEND: Spec = Spec::on_key("lock.extend", 4, extend)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::STRING, &[KeyAccess::CHANGE]);

/// An extension that comes late shortens nothing: one that was sent after it may have come before it.
fn extend(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let name = arguments[1];
    let deadline = lock_deadline(context, "lock.extend", arguments[3])?;
    let found = context.look_at(name);
    let holder = (name, arguments[2]);
    let is_plain = is_held_by(context, &found, holder.1);
    if !is_plain && shared_locks::end_of(context, &found, holder.1).is_none() {
        return Ok(Reply::flag(false));
    }
    // Whether it has a fence a node does not know for certain: it forgets who took which.
    admit_deadline(context, deadline)?;
    if !is_plain {
        let is_extended = shared_locks::extend(context, &found, holder, deadline)?;
        return Ok(Reply::flag(is_extended));
    }
    if deadline > context.deadline(&found) {
        context.set_deadline(&found, name, deadline)?;
        context.notify(Class::Generic, "expire", name);
    }
    Ok(Reply::flag(true))
}

const RELEASE: Spec = EXTEND
    .variant("lock.release", release)
    .arity(3)
    .about(Categories::STRING, &[KeyAccess::REMOVE]);

fn release(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let name = arguments[1];
    let found = context.look_at(name);
    let is_held = is_held_by(context, &found, arguments[2]);
    if !is_held {
        let is_released = shared_locks::release(
            context,
            &found,
            (name, arguments[2]),
            LockEndReason::Released,
        )?;
        return Ok(Reply::flag(is_released));
    }
    context.delete(&found, name)?;
    context.notify(Class::Generic, "del", name);
    Ok(Reply::flag(true))
}

// Its ceilings take room of the log, which a full disk keeps for releases.
const FENCE: Spec = Spec::on_key("lock.fence", 4, fence)
    .flags(Flags::GROW_KEYS.with(Flags::FAST).with(NOT_AMONG_OTHERS))
    .about(Categories::STRING, &[KeyAccess::CHANGE]);

/// Taken or not, and the fence of the name; nothing where the token does not hold the lock.
fn fence(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (name, token) = (arguments[1], arguments[2]);
    admit_token(token)?;
    let number = fence_number(arguments[3])?;
    admit_fences(context)?;
    let found = context.look_at(name);
    if shared_locks::end_of(context, &found, token).is_some() {
        return Err(shared_locks::NO_FENCE);
    }
    if !is_held_by(context, &found, token) {
        return Ok(Reply::Nil);
    }
    admit_deadline(context, context.deadline(&found))?;
    context.effects.tells_fence = true;
    let fence_name = FenceName::new(context.caller.database, name);
    let current = context.keyspace.fences.of(&fence_name);
    match take(context, fence_name, token, number) {
        Ok(()) => Ok(fence_reply(true, number, None)),
        Err(FenceRefusal::TooLow) => Ok(fence_reply(false, current, None)),
        Err(FenceRefusal::TooHigh) => Err(too_high(current)),
    }
}

const CEILING: Spec = Spec::on_keys("lock.ceiling", 1, |context, _| {
    let ceiling = context.keyspace.fences.ceiling();
    context.effects.tells_fence = true;
    let is_certain = matches!(ceiling, Ceiling::Known(_));
    Ok(Reply::Array(vec![
        number_reply(ceiling.value()),
        Reply::flag(is_certain),
    ]))
})
.flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::NO_SCRIPT))
.about(Categories::NONE, &[]);

const ADOPT: Spec = Spec::on_keys("lock.adopt", 2, adopt)
    .flags(Flags::WRITE_KEYS.with(Flags::ADMIN).with(NOT_AMONG_OTHERS))
    .about(Categories::NONE, &[]);

/// Returns the ceiling from here on.
fn adopt(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let number = parse_integer(arguments[1]).and_then(|number| u64::try_from(number).ok());
    let number = number.ok_or(ErrorReply::fixed(
        "ERR the ceiling must be a number from 0 to 9223372036854775807: the largest that LOCK.CEILING returns on a \
         majority of the other nodes",
    ))?;
    let ceiling = context.keyspace.fences.adopt(number);
    context.effects.ceiling = Some(ceiling);
    context.effects.tells_fence = true;
    Ok(number_reply(ceiling.value()))
}

fn take(
    context: &mut CommandContext<'_>,
    name: FenceName,
    token: &[u8],
    fence: u64,
) -> Result<(), FenceRefusal> {
    let taken = context.keyspace.fences.take(name, token, fence)?;
    context.effects.ceiling = taken.ceiling.or(context.effects.ceiling);
    Ok(())
}

/// The lock with this token, where the key holds it as a string.
fn is_held_by(context: &CommandContext<'_>, found: &KeySlot, token: &[u8]) -> bool {
    matches!(context.string(found), Ok(Some(held)) if held == token)
}

fn admit_fences(context: &CommandContext<'_>) -> Result<(), ErrorReply> {
    match context.keyspace.fences.ceiling() {
        Ceiling::Known(_) => Ok(()),
        Ceiling::Uncertain(_) => Err(FENCES_LOST),
    }
}

pub(super) fn admit_token(token: &[u8]) -> Result<(), ErrorReply> {
    match token.len() {
        1..=TOKEN_BYTES_MAX => Ok(()),
        _ => Err(ErrorReply::fixed(
            "ERR the token of a lock has 1 to 1024 bytes: make one of 20 random bytes for each acquisition",
        )),
    }
}

/// It is shown to people, so nothing in it may change what they see beside it.
fn owner(text: &[u8]) -> Result<&str, ErrorReply> {
    let shown = std::str::from_utf8(text).ok();
    let shown = shown.filter(|text| !text.chars().any(char::is_control));
    let shown = shown.filter(|text| (1..=OWNER_BYTES_MAX).contains(&text.len()));
    shown.ok_or(ErrorReply::fixed(
        "ERR the owner of a lock is a text of 1 to 256 bytes in UTF-8 without control characters",
    ))
}

fn lock_deadline(
    context: &CommandContext<'_>,
    command: &str,
    milliseconds: &[u8],
) -> Result<Deadline, ErrorReply> {
    let count = integer(milliseconds)?;
    match set_deadline(command, TimeForm::MILLISECONDS, count, context.now)? {
        SetExpiry::At(deadline) => Ok(deadline),
        SetExpiry::Keep | SetExpiry::Past => Err(ErrorReply::invalid_expire(command)),
    }
}

/// A restart delay must cover a lock with a fence, or one that readers hold: else a node that lost it could take its fence from
/// another one, or grant it to a writer.
fn admit_deadline(context: &CommandContext<'_>, deadline: Deadline) -> Result<(), ErrorReply> {
    if deadline == Deadline::NEVER {
        return Err(ErrorReply::fixed(
            "ERR a key without a TTL takes no fence: no restart delay would cover it. Take the lock with LOCK.ACQUIRE",
        ));
    }
    let longest = context.keyspace.rules.restart_delay_max;
    let longest_ms = saturated(longest.as_millis());
    let count = deadline.left_ms(context.now.node);
    if count <= longest_ms {
        return Ok(());
    }
    Err(ErrorReply::new(format!(
        "ERR a lock of {count} ms is longer than restart-delay-max, {longest_ms} ms: no restart delay would cover it. \
         Extend a shorter one while it is needed, or raise restart-delay-max on every node"
    )))
}

fn fence_number(argument: &[u8]) -> Result<u64, ErrorReply> {
    let number = parse_integer(argument).and_then(|number| u64::try_from(number).ok());
    let number = number.filter(|number| (1..=Ceiling::MAX).contains(number));
    number.ok_or(ErrorReply::fixed(
        "ERR a fence is a number from 1 to 9223372036854775807",
    ))
}

fn too_high(current: u64) -> ErrorReply {
    ErrorReply::new(format!(
        "ERR this fence is more than 1099511627776 above {current}, which the name has here: nobody comes so far by \
         counting. Nothing was changed; take one more than the largest fence of a majority of the nodes"
    ))
}

fn fence_reply(is_so: bool, fence: u64, more: Option<Reply>) -> Reply {
    let mut parts = vec![Reply::flag(is_so), number_reply(fence)];
    parts.extend(more);
    Reply::Array(parts)
}

fn number_reply(number: u64) -> Reply {
    Reply::Integer(i64::try_from(number).expect("fences and ceilings have 63 bits"))
}

const FENCES_LOST: ErrorReply = ErrorReply::fixed(
    "FENCELOST this node may have lost fences that it took, so it takes none: it is new among others, was emptied, \
     restored or repaired, or its machine lost power without trust-fsync yes. No lock is affected, and plain locks work. \
     Ask LOCK.CEILING on a majority of the other nodes, where only answers that end in 1 count, and give the largest to \
     LOCK.ADOPT here; where all nodes of a cluster are new, give 0 to each",
);

/// A fence that was taken is not taken back, so nothing that can be undone takes one.
const NOT_AMONG_OTHERS: Flags = Flags::RAISES_CEILING
    .with(Flags::NO_SCRIPT)
    .with(Flags::NO_MULTI);

const OWNER_BYTES_MAX: usize = 256;
