//! Keys that go elsewhere with value and deadline: RENAME, RENAMENX, COPY, MOVE.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option};
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&RENAME, &RENAMENX, &COPY, &MOVE];

const RENAME: Spec = Spec::on_keys("rename", 3, |context, arguments| {
    rename(context, arguments[1], arguments[2], Collision::Replaced).map(|_| Reply::Ok)
})
.keys(KeyPositions::TWO)
.flags(Flags::WRITE_KEYS.with(Flags::WHOLE_VALUE))
.about(
    Categories::KEYSPACE,
    &[KeyAccess::TAKE, KeyAccess::OVERWRITE],
);

const RENAMENX: Spec = RENAME
    .variant("renamenx", |context, arguments| {
        rename(context, arguments[1], arguments[2], Collision::Kept).map(Reply::flag)
    })
    .flags(RENAME.flags.with(Flags::FAST))
    .about(Categories::KEYSPACE, &[KeyAccess::TAKE, KeyAccess::INSERT]);

/// What happens to a key that has the new name already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Collision {
    Replaced,
    Kept,
}

/// False where the other key was kept.
fn rename(
    context: &mut CommandContext<'_>,
    key: &[u8],
    other: &[u8],
    taken: Collision,
) -> Result<bool, ErrorReply> {
    let (from, to) = (context.lookup_to_write(key), context.peek(other));
    if from.live.is_none() {
        return Err(ErrorReply::NO_SUCH_KEY);
    }
    context.reveal(&to);
    if to.live.is_some() && taken == Collision::Kept {
        return Ok(false);
    }
    if key != other {
        context.rename(&from, key, other)?;
        context.notify(Class::Generic, "rename_from", key);
        context.notify(Class::Generic, "rename_to", other);
    }
    Ok(true)
}

const COPY: Spec = Spec::on_keys("copy", -3, copy)
    .keys(KeyPositions::TWO)
    .flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::KEYSPACE, KeyAccess::COPY);

fn copy(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, other) = (arguments[1], arguments[2]);
    let (mut database, mut taken) = (context.caller.database, Collision::Kept);
    let mut options = arguments[3..].iter();
    while let Some(option) = options.next() {
        if is_option(option, "replace") {
            taken = Collision::Replaced;
        } else if is_option(option, "db") {
            database = database_of(context, options.next().ok_or(ErrorReply::SYNTAX)?)?;
        } else {
            return Err(ErrorReply::SYNTAX);
        }
    }
    if key == other && database == context.caller.database {
        return Err(ErrorReply::fixed(
            "ERR source and destination objects are the same",
        ));
    }
    let from = context.lookup(key);
    if from.live.is_none() {
        return Ok(Reply::Integer(0));
    }
    let to = context.keyspace.locate(context.now.node, database, other);
    context.reveal(&to);
    if to.live.is_some() && taken == Collision::Kept {
        return Ok(Reply::Integer(0));
    }
    context.copy(&from, &to, other)?;
    context.notify_in(database, Class::Generic, "copy_to", other);
    Ok(Reply::Integer(1))
}

const MOVE: Spec = Spec::on_key("move", 3, move_key)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::WHOLE_VALUE))
    .about(Categories::KEYSPACE, &[KeyAccess::TAKE]);

fn move_key(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, database) = (arguments[1], database_of(context, arguments[2])?);
    let here = context.caller.database;
    if database == here {
        return Err(ErrorReply::fixed(
            "ERR source and destination objects are the same",
        ));
    }
    let from = context.lookup_to_write(key);
    if from.live.is_none() {
        return Ok(Reply::Integer(0));
    }
    let to = context.keyspace.locate(context.now.node, database, key);
    context.reveal(&to);
    if to.live.is_some() {
        return Ok(Reply::Integer(0));
    }
    context.move_to(&from, &to, key)?;
    context.notify_in(here, Class::Generic, "move_from", key);
    context.notify_in(database, Class::Generic, "move_to", key);
    Ok(Reply::Integer(1))
}

fn database_of(context: &CommandContext<'_>, argument: &[u8]) -> Result<u8, ErrorReply> {
    let number = i32::try_from(integer(argument)?).map_err(|_| NOT_32_BITS)?;
    let database = u8::try_from(number).ok();
    database
        .filter(|&database| database < context.keyspace.rules.databases)
        .ok_or(ErrorReply::fixed("ERR DB index is out of range"))
}

const NOT_32_BITS: ErrorReply =
    ErrorReply::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
