//! Parts of a collection, some at a time or any: HSCAN, SSCAN, HRANDFIELD, SRANDMEMBER and their like.
//!
//! A small collection is returned whole by one scan. A large one is walked from its last part to its
//! first: a part that is removed leaves its offset to the last one, which has been returned by then,
//! so that a part which is there from the first call to the last is never missed.

use std::collections::HashMap;
use std::ops::Deref;

use crate::command::arguments::{integer, is_option};
use crate::command::scan::{ScanOptions, cursor};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::collection::Kind;
use crate::keyspace::table::{Named, Table};
use crate::reply::Reply;

/// Adds the part at an offset to a reply, charged before.
pub(super) type Add<K> = fn(&K, usize, &mut Effects, &mut Vec<Reply>) -> Result<(), ErrorReply>;

/// HSCAN and its like: `key cursor [MATCH pattern] [COUNT count]`.
pub(super) fn scan<K: Kind + Deref<Target = Table<T>>, T: Named>(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    add: Add<K>,
) -> Result<Reply, ErrorReply> {
    let start = cursor(arguments[2])?;
    let found = context.lookup(arguments[1]);
    let Some((collection, effects)) = context.collection_and_effects::<K>(&found)? else {
        return Ok(page(0, Vec::new()));
    };
    // In Redis's order: options count only where there is a collection.
    let mut options = ScanOptions::of_parts(&arguments[3..])?;
    let mut items = Vec::new();
    let table: &Table<T> = collection;
    let mut look_at = |offset| match table.at(offset).map(T::name) {
        Some(name) if options.filter.admits_name(name)? => {
            add(collection, offset, effects, &mut items)
        }
        _ => Ok(()),
    };
    let length = table.len();
    if table.is_small() {
        (0..length).try_for_each(look_at)?;
        return Ok(page(0, items));
    }
    let from = match usize::try_from(start) {
        Ok(offset @ 1..) => offset.min(length),
        _ => length,
    };
    let count = usize::try_from(options.count).map_or(length, |count| count.min(length));
    let to = from.saturating_sub(count);
    (to..from).rev().try_for_each(&mut look_at)?;
    Ok(page(to, items))
}

fn page(next: usize, items: Vec<Reply>) -> Reply {
    let cursor = Reply::bulk(itoa::Buffer::new().format(next));
    Reply::Array(vec![cursor, Reply::Array(items)])
}

/// How many random parts are asked for: different ones or, with a negative count, any.
pub(super) fn count_of(argument: &[u8]) -> Result<i64, ErrorReply> {
    match integer(argument)? {
        i64::MIN => Err(OUT_OF_RANGE),
        count => Ok(count),
    }
}

/// What HRANDFIELD and ZRANDMEMBER are asked for: how many parts, where that is said, and whether with what belongs to them.
pub(super) fn sampling(
    arguments: &[&[u8]],
    option: &str,
) -> Result<(Option<i64>, bool), ErrorReply> {
    match *arguments {
        [] => Ok((None, false)),
        [count] => Ok((Some(count_of(count)?), false)),
        [count, word] => {
            let count = count_of(count)?;
            if !is_option(word, option) {
                return Err(ErrorReply::SYNTAX);
            }
            if count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
                return Err(ErrorReply::fixed("ERR value is out of range"));
            }
            Ok((Some(count), true))
        }
        [count, ..] => Err(count_of(count).err().unwrap_or(ErrorReply::SYNTAX)),
    }
}

/// Random parts of a collection: `count` different ones, or all; any ones with a negative count.
/// Nothing without a collection.
pub(super) fn sample<K: Kind>(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    count: i64,
    add: impl Fn(&K, usize, &mut Effects, &mut Vec<Reply>) -> Result<(), ErrorReply>,
) -> Result<Vec<Reply>, ErrorReply> {
    let length = context.collection::<K>(found)?.map_or(0, K::length);
    let mut replies = Vec::new();
    if length == 0 || count == 0 {
        return Ok(replies);
    }
    if let Ok(count) = usize::try_from(count) {
        let offsets = different(context, length, count);
        if let Some((collection, effects)) = context.collection_and_effects::<K>(found)? {
            for offset in offsets {
                add(collection, offset, effects, &mut replies)?;
            }
        }
        return Ok(replies);
    }
    // As many as there is room for in a reply.
    for _ in 0..count.unsigned_abs() {
        let offset = any_offset(context, length);
        if let Some((collection, effects)) = context.collection_and_effects::<K>(found)? {
            add(collection, offset, effects, &mut replies)?;
        }
    }
    Ok(replies)
}

/// A random offset below `length`.
pub(super) fn any_offset(context: &mut CommandContext<'_>, length: usize) -> usize {
    context.keyspace.random_below(numbered(length)) as usize
}

/// Random offsets below `length`, none of them twice: all in their order if so many are asked for.
pub(super) fn different(
    context: &mut CommandContext<'_>,
    length: usize,
    count: usize,
) -> Vec<usize> {
    if count >= length {
        return (0..length).collect();
    }
    // A shuffle of all offsets of which only the first ones are taken, and only those kept that it has
    // moved: few out of many cost little.
    let (mut offsets, mut moved) = (Vec::with_capacity(count), HashMap::new());
    for chosen in 0..count {
        let other = any_offset(context, length.saturating_sub(chosen));
        let other = chosen.saturating_add(other);
        let displaced = moved.remove(&chosen).unwrap_or(chosen);
        offsets.push(match other == chosen {
            true => displaced,
            false => moved.insert(other, displaced).unwrap_or(other),
        });
    }
    offsets
}

fn numbered(length: usize) -> u32 {
    u32::try_from(length).expect("the bytes of a value are bounded far below 4 GiB")
}

const OUT_OF_RANGE: ErrorReply = ErrorReply::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
