//! Hashes: fields with values under one key. Reentrant locks count their holds in them.

use crate::command::arguments::integer;
use crate::command::{Action, Family, Flags, KeyPositions, Spec};
use crate::error::ErrorReply;
use crate::integer::parse_integer;
use crate::keyspace::fields::Fields;
use crate::reply::Reply;
use crate::time::Deadline;
use crate::turn::Turn;

pub(super) const FAMILY: Family = &[
    &HSET, &HGET, &HEXISTS, &HINCRBY, &HDEL, &HLEN, &HKEYS, &HGETALL,
];

const HSET: Spec = Spec {
    name: "hset",
    arity: -4,
    flags: Flags::GROW_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Sets fields of a hash; returns how many are new",
    action: Action::Data(hset),
};

fn hset(turn: &mut Turn<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, pairs) = (arguments[1], &arguments[2..]);
    if pairs.len() % 2 != 0 {
        return Err(ErrorReply::wrong_arity("hset"));
    }
    let place = turn.peek(key);
    turn.reveal(&place);
    let Some(fields) = turn.fields(&place)? else {
        let mut fields = Fields::default();
        for pair in pairs.chunks_exact(2) {
            fields.set(pair[0], pair[1], turn.keyspace.seed());
        }
        let added = fields.len();
        turn.put_hash(&place, key, fields, Deadline::NEVER)?;
        return Ok(Reply::count(added));
    };
    let before = fields.len();
    turn.set_fields(&place, key, pairs)?;
    let after = turn.fields(&place)?.map_or(0, Fields::len);
    Ok(Reply::count(after.saturating_sub(before)))
}

const HGET: Spec = Spec {
    name: "hget",
    arity: 3,
    flags: Flags::READ_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Returns a field of a hash",
    action: Action::Data(hget),
};

fn hget(turn: &mut Turn<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let place = turn.lookup(arguments[1]);
    let Some((fields, effects)) = turn.fields_and_effects(&place)? else {
        return Ok(Reply::Nil);
    };
    let Some(value) = fields.get(arguments[2]) else {
        return Ok(Reply::Nil);
    };
    effects.charge(value.len())?;
    Ok(Reply::value(value))
}

const HEXISTS: Spec = Spec {
    name: "hexists",
    summary: "Tells whether a hash has a field",
    action: Action::Data(hexists),
    ..HGET
};

fn hexists(turn: &mut Turn<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let place = turn.lookup(arguments[1]);
    let fields = turn.fields(&place)?;
    Ok(Reply::flag(
        fields.is_some_and(|fields| fields.get(arguments[2]).is_some()),
    ))
}

const HINCRBY: Spec = Spec {
    name: "hincrby",
    arity: 4,
    flags: Flags::GROW_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Adds to the number in a hash's field, which begins at 0",
    action: Action::Data(hincrby),
};

fn hincrby(turn: &mut Turn<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, field) = (arguments[1], arguments[2]);
    let increment = integer(arguments[3])?;
    let place = turn.peek(key);
    turn.reveal(&place);
    let fields = turn.fields(&place)?;
    let old = match fields.and_then(|fields| fields.get(field)) {
        None => 0,
        Some(digits) => {
            parse_integer(digits).ok_or(ErrorReply::fixed("ERR hash value is not an integer"))?
        }
    };
    let is_new_key = fields.is_none();
    let sum = old
        .checked_add(increment)
        .ok_or(ErrorReply::WOULD_OVERFLOW)?;
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(sum).as_bytes();
    if is_new_key {
        let mut fields = Fields::default();
        fields.set(field, digits, turn.keyspace.seed());
        turn.put_hash(&place, key, fields, Deadline::NEVER)?;
    } else {
        turn.set_fields(&place, key, &[field, digits])?;
    }
    Ok(Reply::Integer(sum))
}

const HDEL: Spec = Spec {
    name: "hdel",
    arity: -3,
    flags: Flags::WRITE_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Removes fields of a hash, and the key with its last field",
    action: Action::Data(hdel),
};

fn hdel(turn: &mut Turn<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let place = turn.peek(key);
    turn.reveal(&place);
    Ok(Reply::count(turn.remove_fields(
        &place,
        key,
        &arguments[2..],
    )?))
}

const HLEN: Spec = Spec {
    name: "hlen",
    arity: 2,
    flags: Flags::READ_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Returns the number of fields of a hash",
    action: Action::Data(hlen),
};

fn hlen(turn: &mut Turn<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let place = turn.lookup(arguments[1]);
    Ok(Reply::count(turn.fields(&place)?.map_or(0, Fields::len)))
}

const HKEYS: Spec = Spec {
    name: "hkeys",
    arity: 2,
    flags: Flags::READ_KEYS,
    keys: KeyPositions::ONE,
    summary: "Returns the names of the fields of a hash",
    action: Action::Data(hkeys),
};

fn hkeys(turn: &mut Turn<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let place = turn.lookup(arguments[1]);
    let Some((fields, effects)) = turn.fields_and_effects(&place)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let mut names = Vec::new();
    for (field, _) in fields.iter() {
        effects.charge(field.len())?;
        names.push(Reply::bulk(field));
    }
    Ok(Reply::Array(names))
}

const HGETALL: Spec = Spec {
    name: "hgetall",
    summary: "Returns the fields of a hash with their values",
    action: Action::Data(hgetall),
    ..HKEYS
};

fn hgetall(turn: &mut Turn<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let place = turn.lookup(arguments[1]);
    let Some((fields, effects)) = turn.fields_and_effects(&place)? else {
        return Ok(Reply::Map(Vec::new()));
    };
    let mut pairs = Vec::new();
    for (field, value) in fields.iter() {
        effects.charge(field.len())?;
        effects.charge(value.len())?;
        pairs.push((Reply::bulk(field), Reply::value(value)));
    }
    Ok(Reply::Map(pairs))
}
