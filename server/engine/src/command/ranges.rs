//! Parts of strings: STRLEN, GETRANGE, SETRANGE, APPEND.
//!
//! A write to a part of a string is logged as the whole string it makes, so these are for short ones.

use std::ops::Range;

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::integer;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&STRLEN, &GETRANGE, &SUBSTR, &SETRANGE, &APPEND];

const STRLEN: Spec = Spec::on_key("strlen", 2, strlen)
    .flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::STRING, &[KeyAccess::LOOK]);

fn strlen(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    Ok(Reply::count(context.string(&found)?.map_or(0, <[u8]>::len)))
}

const GETRANGE: Spec = Spec::on_key("getrange", 4, getrange)
    .flags(Flags::READ_KEYS)
    .about(Categories::STRING, &[KeyAccess::READ]);

const SUBSTR: Spec = GETRANGE.variant("substr", getrange);

fn getrange(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (start, end) = (integer(arguments[2])?, integer(arguments[3])?);
    let found = context.lookup(arguments[1]);
    let range = range_of(start, end, context.string(&found)?.map_or(0, <[u8]>::len));
    context.effects.charge(range.len())?;
    let part = context.string(&found)?.and_then(|bytes| bytes.get(range));
    Ok(Reply::bulk(part.unwrap_or_default()))
}

/// The bytes from `start` to `end`, both included and counted from the end where negative.
fn range_of(start: i64, end: i64, length: usize) -> Range<usize> {
    let signed = i64::try_from(length).expect("a string is in memory");
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let offset = |index: i64| {
        let index = if index < 0 {
            index.saturating_add(signed)
        } else {
            index
        };
        usize::try_from(index.clamp(0, signed)).expect("it is within the string")
    };
    let (start, end) = (offset(start), offset(end).saturating_add(1).min(length));
    if start < end { start..end } else { 0..0 }
}

const SETRANGE: Spec = Spec::on_key("setrange", 4, setrange)
    .flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::STRING, &[KeyAccess::UPDATE]);

fn setrange(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, part) = (arguments[1], arguments[3]);
    let offset = usize::try_from(integer(arguments[2])?)
        .map_err(|_| ErrorReply::fixed("ERR offset is out of range"))?;
    let found = context.peek(key);
    context.reveal(&found);
    let old = context.string(&found)?.unwrap_or_default();
    if part.is_empty() {
        return Ok(Reply::count(old.len()));
    }
    let end = offset.saturating_add(part.len());
    let length = old.len().max(end);
    context.admit_value(length)?;
    let mut value = Vec::with_capacity(length);
    value.extend_from_slice(old);
    value.resize(length, 0);
    value[offset..end].copy_from_slice(part);
    let deadline = context.deadline(&found);
    context.put_string(&found, key, &value, deadline)?;
    context.notify(Class::String, "setrange", key);
    Ok(Reply::count(length))
}

const APPEND: Spec = Spec::on_key("append", 3, append)
    .flags(Flags::GROW_KEYS.with(Flags::FAST))
    .and(Flags::WHOLE_VALUE.with(Flags::SIMPLE))
    .about(Categories::STRING, &[KeyAccess::ADD]);

fn append(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, part) = (arguments[1], arguments[2]);
    let found = context.peek(key);
    context.reveal(&found);
    let old = context.string(&found)?.unwrap_or_default();
    let length = old.len().saturating_add(part.len());
    context.admit_value(length)?;
    let value = [old, part].concat();
    let deadline = context.deadline(&found);
    context.put_string(&found, key, &value, deadline)?;
    context.notify(Class::String, "append", key);
    Ok(Reply::count(length))
}
