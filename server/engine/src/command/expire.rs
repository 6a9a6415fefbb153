//! Deadlines: setting them, reading them, taking them away.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{TimeForm, integer, is_option};
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::shared_holders::SharedHolders;
use crate::notifications::Class;
use crate::reply::Reply;
use crate::time::{Deadline, Moment, saturated};

pub(super) const FAMILY: Family = &[
    &EXPIRE,
    &PEXPIRE,
    &EXPIREAT,
    &PEXPIREAT,
    &TTL,
    &PTTL,
    &EXPIRETIME,
    &PEXPIRETIME,
    &PERSIST,
];

const EXPIRE: Spec = Spec::on_key("expire", -3, |context, arguments| {
    expire(context, arguments, "expire", TimeForm::SECONDS)
})
.flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
.about(Categories::KEYSPACE, &[KeyAccess::UPDATE]);

const PEXPIRE: Spec = EXPIRE.variant("pexpire", |context, arguments| {
    expire(context, arguments, "pexpire", TimeForm::MILLISECONDS)
});

const EXPIREAT: Spec = EXPIRE.variant("expireat", |context, arguments| {
    expire(context, arguments, "expireat", TimeForm::UNIX_SECONDS)
});

const PEXPIREAT: Spec = EXPIRE.variant("pexpireat", |context, arguments| {
    expire(context, arguments, "pexpireat", TimeForm::UNIX_MILLISECONDS)
});

fn expire(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    name: &str,
    form: TimeForm,
) -> Result<Reply, ErrorReply> {
    let conditions = ExpireConditions::parse(&arguments[3..])?;
    let key = arguments[1];
    let deadline = form
        .deadline(integer(arguments[2])?, context.now)
        .map_err(|_| ErrorReply::invalid_expire(name))?;
    let found = context.peek(key);
    context.reveal(&found);
    refuse_shared_lock(context, &found)?;
    // A deadline that has passed compares as now: before every deadline of a key that exists.
    let wanted = deadline.unwrap_or(Deadline::at(context.now.node));
    if found.live.is_none() || !conditions.allow(context.deadline(&found), wanted) {
        return Ok(Reply::Integer(0));
    }
    let event = match deadline {
        Some(deadline) => {
            context.set_deadline(&found, key, deadline)?;
            "expire"
        }
        None => {
            context.delete(&found, key)?;
            "del"
        }
    };
    context.notify(Class::Generic, event, key);
    Ok(Reply::Integer(1))
}

/// When a deadline may be set.
#[derive(Clone, Copy, Default)]
struct ExpireConditions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

impl ExpireConditions {
    fn parse(arguments: &[&[u8]]) -> Result<ExpireConditions, ErrorReply> {
        let mut conditions = ExpireConditions::default();
        for argument in arguments {
            if is_option(argument, "nx") {
                conditions.if_none = true;
            } else if is_option(argument, "xx") {
                conditions.if_any = true;
            } else if is_option(argument, "gt") {
                conditions.if_later = true;
            } else if is_option(argument, "lt") {
                conditions.if_earlier = true;
            } else {
                let mut text = b"ERR Unsupported option ".to_vec();
                // Redis takes it for a text of C, which a zero byte ends.
                let shown = argument.split(|&byte| byte == 0).next();
                text.extend_from_slice(shown.unwrap_or_default());
                return Err(ErrorReply::new(text));
            }
        }
        if conditions.if_none && (conditions.if_any || conditions.if_later || conditions.if_earlier)
        {
            return Err(ErrorReply::fixed(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if conditions.if_later && conditions.if_earlier {
            return Err(ErrorReply::fixed(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    /// A key without a TTL counts as one that ends later than every deadline.
    fn allow(self, old: Deadline, wanted: Deadline) -> bool {
        let has_deadline = old != Deadline::NEVER;
        !(self.if_none && has_deadline
            || self.if_any && !has_deadline
            || self.if_later && wanted <= old
            || self.if_earlier && wanted >= old)
    }
}

const TTL: Spec = Spec::on_key("ttl", 2, |context, arguments| {
    remaining(context, arguments[1], |deadline, now| {
        to_seconds(deadline.left_ms(now.node))
    })
})
.flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
.about(Categories::KEYSPACE, &[KeyAccess::READ]);

const PTTL: Spec = TTL.variant("pttl", |context, arguments| {
    remaining(context, arguments[1], |deadline, now| {
        deadline.left_ms(now.node)
    })
});

const EXPIRETIME: Spec = TTL.variant("expiretime", |context, arguments| {
    remaining(context, arguments[1], |deadline, now| {
        to_seconds(unix_ms(deadline, now))
    })
});

const PEXPIRETIME: Spec = TTL.variant("pexpiretime", |context, arguments| {
    remaining(context, arguments[1], unix_ms)
});

fn remaining(
    context: &mut CommandContext<'_>,
    key: &[u8],
    shown: fn(Deadline, Moment) -> u64,
) -> Result<Reply, ErrorReply> {
    let found = context.lookup_unread(key);
    if found.live.is_none() {
        return Ok(Reply::Integer(-2));
    }
    let Some(deadline) = context.deadline(&found).unless_never() else {
        return Ok(Reply::Integer(-1));
    };
    let shown = shown(deadline, context.now);
    // What was asked for fits; it may not any more where the wall clock has been set forward.
    Ok(Reply::Integer(
        i64::try_from(shown.min(INTEGER_MAX)).expect("just cut"),
    ))
}

/// To the nearest second, as Redis shows it.
fn to_seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1000
}

/// To the nearest millisecond: the deadline was given as a whole one, and the two clocks it was
/// converted with are read to different precisions.
fn unix_ms(deadline: Deadline, now: Moment) -> u64 {
    let left_us = deadline.left_nanos(now.node) / 1000;
    // A far deadline was rounded up to a millisecond already.
    let half_us = if deadline.is_far() { 0 } else { 500 };
    let unix_us = left_us
        .saturating_add(u128::from(now.wall_us))
        .saturating_add(half_us);
    saturated(unix_us / 1000)
}

const INTEGER_MAX: u64 = i64::MAX.unsigned_abs();

const PERSIST: Spec = Spec::on_key("persist", 2, persist)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::KEYSPACE, &[KeyAccess::UPDATE]);

fn persist(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let found = context.peek(key);
    context.reveal(&found);
    refuse_shared_lock(context, &found)?;
    if context.deadline(&found) == Deadline::NEVER {
        return Ok(Reply::Integer(0));
    }
    context.set_deadline(&found, key, Deadline::NEVER)?;
    context.notify(Class::Generic, "persist", key);
    Ok(Reply::Integer(1))
}

/// Its end is that of the last holder, and each holder has its own.
fn refuse_shared_lock(context: &CommandContext<'_>, found: &KeySlot) -> Result<(), ErrorReply> {
    match context.collection::<SharedHolders>(found) {
        Ok(Some(_)) => Err(ErrorReply::fixed(
            "WRONGTYPE a lock that is held shared ends with its holders: LOCK.EXTEND moves the end of one",
        )),
        _ => Ok(()),
    }
}
