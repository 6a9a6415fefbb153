//! Strings: SET in all its forms, GET and their kin.

use crate::command::arguments::{TimeForm, integer, is_option};
use crate::command::spec::{Family, Flags, Handler, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;
use crate::time::{Deadline, Moment};

pub(super) const FAMILY: Family = &[&SET, &GET, &SETNX, &SETEX, &PSETEX, &MGET, &STRLEN];

const SET: Spec = Spec {
    name: "set",
    arity: -3,
    flags: Flags::GROW_KEYS,
    keys: KeyPositions::ONE,
    summary: "Sets a key to a string, with conditions and a TTL",
    handler: Handler::Keys(set),
};

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
    let is_refused = match options.condition {
        Condition::None => false,
        Condition::IfAbsent => found.live.is_some(),
        Condition::IfPresent => found.live.is_none(),
    };
    // A bare refusal of NX says no more than that somebody holds the key, which need not wait.
    if !is_refused || options.returns_old || found.live.is_none() {
        context.reveal(&found);
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
        SetExpiry::Past => drop(context.delete(&found, key)?),
    }
    Ok(old)
}

const GET: Spec = Spec {
    name: "get",
    arity: 2,
    flags: Flags::READ_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Returns the string of a key",
    handler: Handler::Keys(get),
};

fn get(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    context.string_reply(&found)
}

const SETNX: Spec = Spec {
    name: "setnx",
    arity: 3,
    flags: Flags::GROW_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Sets a key to a string if the key does not exist",
    handler: Handler::Keys(setnx),
};

fn setnx(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let options = SetOptions {
        condition: Condition::IfAbsent,
        ..SetOptions::default()
    };
    let expiry = SetExpiry::At(Deadline::NEVER);
    let reply = set_string(context, arguments[1], arguments[2], options, expiry)?;
    Ok(Reply::flag(reply == Reply::Ok))
}

const SETEX: Spec = Spec {
    name: "setex",
    arity: 4,
    flags: Flags::GROW_KEYS,
    keys: KeyPositions::ONE,
    summary: "Sets a key to a string with a TTL in seconds",
    handler: Handler::Keys(|context, arguments| {
        set_with_ttl(context, arguments, "setex", TimeForm::SECONDS)
    }),
};

const PSETEX: Spec = Spec {
    name: "psetex",
    summary: "Sets a key to a string with a TTL in milliseconds",
    handler: Handler::Keys(|context, arguments| {
        set_with_ttl(context, arguments, "psetex", TimeForm::MILLISECONDS)
    }),
    ..SETEX
};

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

const MGET: Spec = Spec {
    name: "mget",
    arity: -2,
    flags: Flags::READ_KEYS.with(Flags::FAST),
    keys: KeyPositions::ALL,
    summary: "Returns the strings of several keys",
    handler: Handler::Keys(mget),
};

fn mget(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let mut replies = Vec::new();
    for key in &arguments[1..] {
        let mut found = context.lookup(key);
        if context.string(&found).is_err() {
            // A key of another type is answered as an absent one.
            found.live = None;
        }
        replies.push(context.string_reply(&found)?);
    }
    Ok(Reply::Array(replies))
}

const STRLEN: Spec = Spec {
    name: "strlen",
    arity: 2,
    flags: Flags::READ_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Returns the length of a key's string",
    handler: Handler::Keys(strlen),
};

fn strlen(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    Ok(Reply::count(context.string(&found)?.map_or(0, <[u8]>::len)))
}

/// When a written string ends.
#[derive(Clone, Copy)]
enum SetExpiry {
    At(Deadline),
    /// When the key would have ended anyway.
    Keep,
    /// It has ended already: an absolute time that has passed.
    Past,
}

fn set_deadline(
    command: &str,
    form: TimeForm,
    count: i64,
    now: Moment,
) -> Result<SetExpiry, ErrorReply> {
    if count <= 0 {
        return Err(ErrorReply::invalid_expire(command));
    }
    let deadline = form
        .deadline(count, now)
        .map_err(|_| ErrorReply::invalid_expire(command))?;
    Ok(deadline.map_or(SetExpiry::Past, SetExpiry::At))
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    None,
    IfAbsent,
    IfPresent,
}

#[derive(Clone, Copy)]
enum Expiry<'a> {
    Keep,
    In(TimeForm, &'a [u8]),
}

/// The options after key and value, in any order and case.
#[derive(Clone, Copy, Default)]
struct SetOptions<'a> {
    condition: Condition,
    expiry: Option<Expiry<'a>>,
    returns_old: bool,
}

impl<'a> SetOptions<'a> {
    fn parse(arguments: &[&'a [u8]]) -> Result<SetOptions<'a>, ErrorReply> {
        let mut options = SetOptions::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if is_option(argument, "nx") {
                options.restrict(Condition::IfAbsent)?;
            } else if is_option(argument, "xx") {
                options.restrict(Condition::IfPresent)?;
            } else if is_option(argument, "get") {
                options.returns_old = true;
            } else if is_option(argument, "keepttl") {
                if matches!(options.expiry, Some(Expiry::In(..))) {
                    return Err(ErrorReply::SYNTAX);
                }
                options.expiry = Some(Expiry::Keep);
            } else {
                let form = time_form(argument).ok_or(ErrorReply::SYNTAX)?;
                // The same option may come twice, and then the last one counts, as in Redis.
                let is_other = match options.expiry {
                    None => false,
                    Some(Expiry::Keep) => true,
                    Some(Expiry::In(earlier, _)) => earlier != form,
                };
                if is_other {
                    return Err(ErrorReply::SYNTAX);
                }
                let count = rest.next().ok_or(ErrorReply::SYNTAX)?;
                options.expiry = Some(Expiry::In(form, count));
            }
        }
        Ok(options)
    }

    fn restrict(&mut self, condition: Condition) -> Result<(), ErrorReply> {
        if self.condition != Condition::None && self.condition != condition {
            return Err(ErrorReply::SYNTAX);
        }
        self.condition = condition;
        Ok(())
    }
}

fn time_form(argument: &[u8]) -> Option<TimeForm> {
    let forms = [
        ("px", TimeForm::MILLISECONDS),
        ("ex", TimeForm::SECONDS),
        ("pxat", TimeForm::UNIX_MILLISECONDS),
        ("exat", TimeForm::UNIX_SECONDS),
    ];
    forms
        .into_iter()
        .find(|(name, _)| is_option(argument, name))
        .map(|(_, form)| form)
}
