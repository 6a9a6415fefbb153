//! Some fields of a hash: HSCAN and HRANDFIELD.
//!
//! A small hash is returned whole by one HSCAN. A large one is walked from its last field to its
//! first: a field that is removed leaves its location to the last one, which has been returned by
//! then, so that a field which is there from the first call to the last is never missed.

use crate::command::arguments::{integer, is_option};
use crate::command::scan::{ScanOptions, cursor};
use crate::command::spec::{Family, Flags, Handler, KeyPositions, Spec};
use crate::context::{CommandContext, Protocol};
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::fields::Fields;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&HSCAN, &HRANDFIELD];

const HSCAN: Spec = Spec {
    name: "hscan",
    arity: -3,
    flags: Flags::READ_KEYS,
    keys: KeyPositions::ONE,
    summary: "Returns some fields of a hash and the cursor with which to go on, 0 at the end",
    handler: Handler::Keys(hscan),
};

fn hscan(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let start = cursor(arguments[2])?;
    let found = context.lookup(arguments[1]);
    let Some((fields, effects)) = context.collection_and_effects::<Fields>(&found)? else {
        return Ok(page(0, Vec::new()));
    };
    // In Redis's order: options count only where there is a hash.
    let mut options = ScanOptions::of_fields(&arguments[3..])?;
    let length = fields.len();
    let mut items = Vec::new();
    if fields.is_small() {
        for offset in 0..length {
            add_pair(fields, offset, &mut options, effects, &mut items)?;
        }
        return Ok(page(0, items));
    }
    let from = match usize::try_from(start) {
        Ok(offset @ 1..) => offset.min(length),
        _ => length,
    };
    let count = usize::try_from(options.count).map_or(length, |count| count.min(length));
    let to = from.saturating_sub(count);
    for offset in (to..from).rev() {
        add_pair(fields, offset, &mut options, effects, &mut items)?;
    }
    Ok(page(to, items))
}

fn add_pair(
    fields: &Fields,
    offset: usize,
    options: &mut ScanOptions<'_>,
    effects: &mut Effects,
    items: &mut Vec<Reply>,
) -> Result<(), ErrorReply> {
    let Some((field, value)) = fields.at(offset) else {
        return Ok(());
    };
    if options.filter.admits_name(field)? {
        effects.charge(field.len())?;
        effects.charge(value.len())?;
        items.extend([Reply::bulk(field), Reply::value(value)]);
    }
    Ok(())
}

fn page(next: usize, items: Vec<Reply>) -> Reply {
    let cursor = Reply::bulk(itoa::Buffer::new().format(next));
    Reply::Array(vec![cursor, Reply::Array(items)])
}

const HRANDFIELD: Spec = Spec {
    name: "hrandfield",
    arity: -2,
    flags: Flags::READ_KEYS,
    keys: KeyPositions::ONE,
    summary: "Returns any field of a hash, or several: different ones, or any with a negative count",
    handler: Handler::Keys(hrandfield),
};

fn hrandfield(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (count, with_values) = match arguments[2..] {
        [] => return one_field(context, arguments[1]),
        [count] => (count_of(count)?, false),
        [count, option] => {
            let count = count_of(count)?;
            if !is_option(option, "withvalues") {
                return Err(ErrorReply::SYNTAX);
            }
            if count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
                return Err(ErrorReply::fixed("ERR value is out of range"));
            }
            (count, true)
        }
        [count, ..] => return Err(count_of(count).err().unwrap_or(ErrorReply::SYNTAX)),
    };
    let found = context.lookup(arguments[1]);
    let length = context.collection::<Fields>(&found)?.map_or(0, Fields::len);
    if length == 0 || count == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    let mut replies = Vec::new();
    if let Ok(count) = usize::try_from(count) {
        let offsets = different(context, length, count);
        for offset in offsets {
            add_field(context, arguments[1], offset, with_values, &mut replies)?;
        }
        return Ok(Reply::Array(replies));
    }
    let number = numbered(length);
    // As many as there is room for in a reply.
    for _ in 0..count.unsigned_abs() {
        let offset = context.keyspace.random_below(number);
        add_field(
            context,
            arguments[1],
            offset as usize,
            with_values,
            &mut replies,
        )?;
    }
    Ok(Reply::Array(replies))
}

fn count_of(argument: &[u8]) -> Result<i64, ErrorReply> {
    match integer(argument)? {
        i64::MIN => Err(ErrorReply::OUT_OF_SYMMETRIC_RANGE),
        count => Ok(count),
    }
}

fn one_field(context: &mut CommandContext<'_>, key: &[u8]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(key);
    let length = context.collection::<Fields>(&found)?.map_or(0, Fields::len);
    let offset = context.keyspace.random_below(numbered(length));
    let Some((fields, effects)) = context.collection_and_effects::<Fields>(&found)? else {
        return Ok(Reply::Nil);
    };
    let Some((field, _)) = fields.at(offset as usize) else {
        return Ok(Reply::Nil);
    };
    effects.charge(field.len())?;
    Ok(Reply::bulk(field))
}

/// Offsets below `length`, none of them twice: all in their order if so many are asked for.
fn different(context: &mut CommandContext<'_>, length: usize, count: usize) -> Vec<usize> {
    let mut offsets: Vec<usize> = (0..length).collect();
    if count >= length {
        return offsets;
    }
    for chosen in 0..count {
        let left = numbered(length.saturating_sub(chosen));
        let other = context.keyspace.random_below(left) as usize;
        offsets.swap(chosen, chosen.saturating_add(other));
    }
    offsets.truncate(count);
    offsets
}

fn add_field(
    context: &mut CommandContext<'_>,
    key: &[u8],
    offset: usize,
    with_values: bool,
    replies: &mut Vec<Reply>,
) -> Result<(), ErrorReply> {
    let is_resp3 = context.caller.protocol == Protocol::Resp3;
    let found = context.peek(key);
    let Some((fields, effects)) = context.collection_and_effects::<Fields>(&found)? else {
        return Ok(());
    };
    let Some((field, value)) = fields.at(offset) else {
        return Ok(());
    };
    effects.charge(field.len())?;
    if !with_values {
        replies.push(Reply::bulk(field));
        return Ok(());
    }
    effects.charge(value.len())?;
    let pair = [Reply::bulk(field), Reply::value(value)];
    if is_resp3 {
        effects.charge(0)?;
        replies.push(Reply::Array(pair.into()));
    } else {
        replies.extend(pair);
    }
    Ok(())
}

fn numbered(length: usize) -> u32 {
    u32::try_from(length).expect("the bytes of a hash are bounded far below 4 GiB")
}
