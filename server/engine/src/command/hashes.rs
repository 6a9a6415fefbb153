//! Hashes: fields with values under one key. Reentrant locks count their holds in them.

use std::sync::Arc;

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::integer;
use crate::command::lists::{length, remove};
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::collection::Kind;
use crate::keyspace::fields::Fields;
use crate::notifications::Class;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::time::Deadline;

pub(super) const FAMILY: Family = &[
    &HSET, &HMSET, &HSETNX, &HGET, &HMGET, &HEXISTS, &HSTRLEN, &HINCRBY, &HDEL, &HLEN, &HKEYS,
    &HVALS, &HGETALL,
];

const HSET: Spec = Spec::on_key("hset", -4, hset)
    .flags(Flags::GROW_KEYS.with(Flags::FAST))
    .and(Flags::PAIRS.with(Flags::SIMPLE))
    .about(Categories::HASH, &[KeyAccess::UPDATE]);

fn hset(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, pairs) = (arguments[1], &arguments[2..]);
    if pairs.len() % 2 != 0 {
        return Err(ErrorReply::wrong_arity("hset"));
    }
    let found = context.peek(key);
    context.reveal(&found);
    let before = context
        .collection::<Fields>(&found)?
        .map_or(0, Kind::length);
    set_or_create(context, &found, key, pairs)?;
    context.notify(Class::Hash, "hset", key);
    let found = context.peek(key);
    let after = context
        .collection::<Fields>(&found)?
        .map_or(0, Kind::length);
    Ok(Reply::count(after.saturating_sub(before)))
}

/// Sets fields of a hash, which need not exist: fields and values alternate.
pub(super) fn set_or_create(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    key: &[u8],
    pairs: &[&[u8]],
) -> Result<(), ErrorReply> {
    if context.collection::<Fields>(found)?.is_some() {
        let pairs = pairs.chunks_exact(2);
        let changes = pairs.map(|pair| Change::HashSet {
            field: pair[0],
            value: pair[1],
        });
        context.change(found, key, changes)?;
        return Ok(());
    }
    let mut fields = Fields::default();
    for pair in pairs.chunks_exact(2) {
        fields.set(pair[0], pair[1], context.keyspace.seed());
    }
    context.put_collection(found, key, fields, Deadline::NEVER)
}

const HMSET: Spec = HSET.variant("hmset", hmset);

fn hmset(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, pairs) = (arguments[1], &arguments[2..]);
    if pairs.len() % 2 != 0 {
        return Err(ErrorReply::wrong_arity("hmset"));
    }
    let found = context.peek(key);
    context.reveal(&found);
    set_or_create(context, &found, key, pairs)?;
    context.notify(Class::Hash, "hset", key);
    Ok(Reply::Ok)
}

const HSETNX: Spec = Spec::on_key("hsetnx", 4, hsetnx)
    .flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::HASH, &[KeyAccess::ADD]);

fn hsetnx(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, pair) = (arguments[1], &arguments[2..]);
    let found = context.peek(key);
    context.reveal(&found);
    let fields = context.collection::<Fields>(&found)?;
    if fields.is_some_and(|fields| fields.get(pair[0]).is_some()) {
        return Ok(Reply::Integer(0));
    }
    set_or_create(context, &found, key, pair)?;
    context.notify(Class::Hash, "hset", key);
    Ok(Reply::Integer(1))
}

const HGET: Spec = Spec::on_key("hget", 3, hget)
    .flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::HASH, &[KeyAccess::READ]);

fn hget(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let Some((fields, effects)) = context.collection_and_effects::<Fields>(&found)? else {
        return Ok(Reply::Nil);
    };
    let Some(value) = fields.get(arguments[2]) else {
        return Ok(Reply::Nil);
    };
    effects.charge(value.len())?;
    Ok(Reply::value(value))
}

const HMGET: Spec = HGET
    .variant("hmget", hmget)
    .arity(-3)
    .flags(Flags::READ_KEYS.with(Flags::FAST));

fn hmget(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let mut replies = Vec::new();
    let Some((fields, effects)) = context.collection_and_effects::<Fields>(&found)? else {
        for _ in &arguments[2..] {
            context.effects.charge(0)?;
            replies.push(Reply::Nil);
        }
        return Ok(Reply::Array(replies));
    };
    for field in &arguments[2..] {
        let value = fields.get(field);
        effects.charge(value.map_or(0, |value| value.len()))?;
        replies.push(value.map_or(Reply::Nil, Reply::value));
    }
    Ok(Reply::Array(replies))
}

const HEXISTS: Spec = HGET
    .variant("hexists", hexists)
    .about(Categories::HASH, &[KeyAccess::LOOK]);

fn hexists(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let fields = context.collection::<Fields>(&found)?;
    Ok(Reply::flag(
        fields.is_some_and(|fields| fields.get(arguments[2]).is_some()),
    ))
}

const HSTRLEN: Spec = HGET
    .variant("hstrlen", hstrlen)
    .about(Categories::HASH, &[KeyAccess::LOOK]);

fn hstrlen(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let value = context
        .collection::<Fields>(&found)?
        .and_then(|fields| fields.get(arguments[2]));
    Ok(Reply::count(value.map_or(0, |value| value.len())))
}

const HINCRBY: Spec = Spec::on_key("hincrby", 4, hincrby)
    .flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::HASH, &[KeyAccess::CHANGE]);

fn hincrby(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, field) = (arguments[1], arguments[2]);
    let increment = integer(arguments[3])?;
    let found = context.peek(key);
    context.reveal(&found);
    let fields = context.collection::<Fields>(&found)?;
    let old = match fields.and_then(|fields| fields.get(field)) {
        None => 0,
        Some(digits) => {
            parse_integer(digits).ok_or(ErrorReply::fixed("ERR hash value is not an integer"))?
        }
    };
    let sum = old
        .checked_add(increment)
        .ok_or(ErrorReply::WOULD_OVERFLOW)?;
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(sum).as_bytes();
    set_or_create(context, &found, key, &[field, digits])?;
    context.notify(Class::Hash, "hincrby", key);
    Ok(Reply::Integer(sum))
}

const HDEL: Spec = Spec::on_key("hdel", -3, |context, arguments| {
    let deleted = |field| Change::HashDelete { field };
    remove::<Fields>(context, arguments, Class::Hash, "hdel", deleted)
})
.flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
.about(Categories::HASH, &[KeyAccess::SUBTRACT]);

const HLEN: Spec = Spec::on_key("hlen", 2, length::<Fields>)
    .flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::HASH, &[KeyAccess::LOOK]);

const HKEYS: Spec = Spec::on_key("hkeys", 2, hkeys)
    .flags(Flags::READ_KEYS)
    .about(Categories::HASH, &[KeyAccess::READ]);

fn hkeys(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let names = of_each(context, arguments[1], |field, _, effects| {
        effects.charge(field.len())?;
        Ok(Reply::bulk(field))
    });
    names.map(Reply::Array)
}

const HVALS: Spec = HKEYS.variant("hvals", hvals);

fn hvals(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let values = of_each(context, arguments[1], |_, value, effects| {
        effects.charge(value.len())?;
        Ok(Reply::value(value))
    });
    values.map(Reply::Array)
}

const HGETALL: Spec = HKEYS.variant("hgetall", hgetall);

fn hgetall(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let pairs = of_each(context, arguments[1], |field, value, effects| {
        effects.charge(field.len())?;
        effects.charge(value.len())?;
        Ok((Reply::bulk(field), Reply::value(value)))
    });
    pairs.map(Reply::Map)
}

/// What is told of each field, in their order.
fn of_each<T>(
    context: &mut CommandContext<'_>,
    key: &[u8],
    tell: impl Fn(&[u8], &Arc<[u8]>, &mut Effects) -> Result<T, ErrorReply>,
) -> Result<Vec<T>, ErrorReply> {
    let found = context.lookup(key);
    let Some((fields, effects)) = context.collection_and_effects::<Fields>(&found)? else {
        return Ok(Vec::new());
    };
    let mut told = Vec::new();
    for (field, value) in fields.iter() {
        told.push(tell(field, value, effects)?);
    }
    Ok(told)
}
