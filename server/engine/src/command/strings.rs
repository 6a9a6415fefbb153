//! Strings: SET in all its forms, GET and their kin.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{TimeForm, integer};
use crate::command::set_options::{
    Expiry, GetOptions, SetCondition, SetExpiry, SetOptions, set_deadline,
};
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::lock_counts::LockRefusal;
use crate::notifications::Class;
use crate::reply::Reply;
use crate::time::Deadline;

pub(super) const FAMILY: Family = &[
    &SET, &GET, &SETNX, &SETEX, &PSETEX, &GETSET, &GETDEL, &GETEX,
];

const SET: Spec = Spec::on_key("set", -3, set)
    .flags(Flags::GROW_KEYS.with(Flags::BRIEF).with(Flags::SIMPLE))
    .about(Categories::STRING, &[KeyAccess::CHANGE]);

fn set(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let options = SetOptions::parse(&arguments[3..])?;
    let expiry = match options.expiry {
        None => SetExpiry::At(Deadline::NEVER),
        Some(Expiry::Keep) => SetExpiry::Keep,
        Some(Expiry::In(form, count)) => set_deadline("set", form, integer(count)?, context.now)?,
    };
    set_string(context, arguments[1], arguments[2], options, expiry)
}

fn set_string(
    context: &mut CommandContext<'_>,
    key: &[u8],
    value: &[u8],
    options: SetOptions<'_>,
    expiry: SetExpiry,
) -> Result<Reply, ErrorReply> {
    let found = context.peek(key);
    // A bare refusal of NX says no more than that somebody holds the key, which need not wait.
    let is_bare = options.condition == SetCondition::IfAbsent && !options.returns_old;
    if !is_bare || found.live.is_none() {
        context.reveal(&found);
    }
    let is_refused = match options.condition {
        SetCondition::None => false,
        SetCondition::IfAbsent => found.live.is_some(),
        SetCondition::IfPresent => found.live.is_none(),
        SetCondition::IfEqual(wanted) => context.string(&found)? != Some(wanted),
        SetCondition::IfNotEqual(unwanted) => context.string(&found)? == Some(unwanted),
    };
    if is_refused && options.condition == SetCondition::IfAbsent {
        context.count_refusal(key, LockRefusal::Held);
    }
    if is_refused
        && options.condition == SetCondition::IfAbsent
        && context.note_writer(&found, key)
        && options.returns_old
    {
        return Err(HELD_SHARED);
    }
    if options.returns_old && found.live.is_none() {
        context.notify(Class::KeyMiss, "keymiss", key);
    }
    let old = if options.returns_old {
        // Refused before anything is written where it may not be sent.
        context.string_reply(&found)?
    } else {
        Reply::Ok
    };
    if is_refused {
        return Ok(if options.returns_old { old } else { Reply::Nil });
    }
    match expiry {
        SetExpiry::At(deadline) => context.put_string(&found, key, value, deadline)?,
        SetExpiry::Keep => context.put_string(&found, key, value, context.deadline(&found))?,
        SetExpiry::Past => {
            if !context.delete(&found, key)? {
                context.note_change(&found);
                context.notify(Class::New, "new", key);
            }
        }
    }
    context.notify(Class::String, "set", key);
    if !matches!(expiry, SetExpiry::Keep | SetExpiry::At(Deadline::NEVER)) {
        context.notify(Class::Generic, "expire", key);
    }
    if matches!(expiry, SetExpiry::Past) {
        context.notify(Class::Expired, "expired", key);
    }
    Ok(old)
}

/// What the key holds is no string to be returned, and clients tell by it that the lock is busy.
const HELD_SHARED: ErrorReply =
    ErrorReply::fixed("WRONGTYPE readers hold this lock: it is held shared");

const GET: Spec = Spec::on_key("get", 2, get)
    .flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::STRING, &[KeyAccess::READ]);

fn get(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    context.string_reply(&found)
}

const SETNX: Spec = Spec::on_key("setnx", 3, setnx)
    .flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::STRING, &[KeyAccess::INSERT]);

fn setnx(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let options = SetOptions {
        condition: SetCondition::IfAbsent,
        ..SetOptions::default()
    };
    let expiry = SetExpiry::At(Deadline::NEVER);
    let reply = set_string(context, arguments[1], arguments[2], options, expiry)?;
    Ok(Reply::flag(reply == Reply::Ok))
}

const SETEX: Spec = Spec::on_key("setex", 4, |context, arguments| {
    set_with_ttl(context, arguments, "setex", TimeForm::SECONDS)
})
.flags(Flags::GROW_KEYS.with(Flags::SIMPLE))
.about(Categories::STRING, &[KeyAccess::OVERWRITE]);

const PSETEX: Spec = SETEX.variant("psetex", |context, arguments| {
    set_with_ttl(context, arguments, "psetex", TimeForm::MILLISECONDS)
});

fn set_with_ttl(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    name: &str,
    form: TimeForm,
) -> Result<Reply, ErrorReply> {
    let expiry = set_deadline(name, form, integer(arguments[2])?, context.now)?;
    let options = SetOptions::default();
    set_string(context, arguments[1], arguments[3], options, expiry)
}

const GETSET: Spec = Spec::on_key("getset", 3, getset)
    .flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::STRING, &[KeyAccess::CHANGE]);

fn getset(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let options = SetOptions {
        returns_old: true,
        ..SetOptions::default()
    };
    let expiry = SetExpiry::At(Deadline::NEVER);
    set_string(context, arguments[1], arguments[2], options, expiry)
}

const GETDEL: Spec = Spec::on_key("getdel", 2, getdel)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::STRING, &[KeyAccess::TAKE]);

fn getdel(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let found = context.lookup(key);
    let old = context.string_reply(&found)?;
    if context.delete(&found, key)? {
        context.notify(Class::Generic, "del", key);
    }
    Ok(old)
}

const GETEX: Spec = Spec::on_key("getex", -2, getex)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST))
    .about(Categories::STRING, &[KeyAccess::CHANGE]);

fn getex(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let options = GetOptions::parse(&arguments[2..])?;
    let found = context.lookup(key);
    if context.string(&found)?.is_none() {
        return context.string_reply(&found);
    }
    let expiry = match options {
        GetOptions::Leave => SetExpiry::Keep,
        GetOptions::Persist => SetExpiry::At(Deadline::NEVER),
        GetOptions::In(form, count) => set_deadline("getex", form, integer(count)?, context.now)?,
    };
    let old = context.string_reply(&found)?;
    match expiry {
        SetExpiry::Keep => {}
        SetExpiry::At(Deadline::NEVER) if context.deadline(&found) == Deadline::NEVER => {}
        SetExpiry::At(deadline) => {
            if deadline != context.deadline(&found) {
                context.set_deadline(&found, key, deadline)?;
            } else {
                context.note_rewritten(&found, key);
            }
            let event = match deadline {
                Deadline::NEVER => "persist",
                _ => "expire",
            };
            context.notify(Class::Generic, event, key);
        }
        SetExpiry::Past => {
            context.delete(&found, key)?;
            context.notify(Class::Generic, "del", key);
        }
    }
    Ok(old)
}
