//! Deletion by comparison: DELEX as Redis 8.4 has it, DELIFEQ as Valkey 9 has it.
//!
//! A lock is released with one of them where its holder's token is the value, without a script.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::is_option;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&DELEX, &DELIFEQ];

const DELEX: Spec = Spec::on_key("delex", -2, delex)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST))
    .about(Categories::STRING, &[KeyAccess::REMOVE]);

fn delex(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let (option, compared) = match arguments[2..] {
        [] => return Ok(Reply::count(context.delete_all(&[key])?)),
        [option, compared] => (option, compared),
        _ => return Err(ErrorReply::wrong_arity("delex")),
    };
    let found = context.lookup_to_write(key);
    // In Redis's order: a key that is not there is none, whatever the condition says.
    let Some(value) = context.string(&found).map_err(|_| NOT_A_STRING)? else {
        return Ok(Reply::Integer(0));
    };
    let is_equal = value == compared;
    let is_wanted = if is_option(option, "ifeq") {
        is_equal
    } else if is_option(option, "ifne") {
        !is_equal
    } else {
        return Err(UNKNOWN_CONDITION);
    };
    delete_if(context, &found, key, is_wanted)
}

const DELIFEQ: Spec = Spec::on_key("delifeq", 3, delifeq)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST))
    .about(Categories::STRING, &[KeyAccess::REMOVE]);

fn delifeq(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let found = context.lookup_to_write(key);
    let is_equal = context.string(&found)? == Some(arguments[2]);
    delete_if(context, &found, key, is_equal)
}

fn delete_if(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    key: &[u8],
    is_wanted: bool,
) -> Result<Reply, ErrorReply> {
    let is_deleted = is_wanted && context.delete(found, key)?;
    if is_deleted {
        context.notify(Class::Generic, "del", key);
    }
    Ok(Reply::flag(is_deleted))
}

const NOT_A_STRING: ErrorReply =
    ErrorReply::fixed("ERR Key should be of string type if conditions are specified");

/// Redis names two more, by a digest of the value, which are not here.
const UNKNOWN_CONDITION: ErrorReply = ErrorReply::fixed("ERR Invalid condition. Use IFEQ or IFNE");
