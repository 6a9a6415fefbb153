//! Keys of any type: DEL, UNLINK, EXISTS, TOUCH, TYPE, RANDOMKEY.

use crate::command::about::{Categories, Docs, KeyAccess};
use crate::command::scan::is_visible;
use crate::command::spec::{Family, Flags, Handler, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&DEL, &UNLINK, &EXISTS, &TOUCH, &TYPE, &RANDOMKEY];

const DEL: Spec = Spec {
    name: "del",
    about: Docs::new("1.0.0", Categories::KEYSPACE, &[KeyAccess::REMOVE]),
    arity: -2,
    flags: Flags::WRITE_KEYS.with(Flags::BRIEF).with(Flags::SIMPLE),
    keys: KeyPositions::ALL,
    summary: "Deletes keys",
    syntax: "key [key ...]",
    handler: Handler::Keys(del),
};

const UNLINK: Spec = Spec {
    name: "unlink",
    about: Docs::new("4.0.0", Categories::KEYSPACE, &[KeyAccess::REMOVE]),
    arity: -2,
    flags: Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE),
    keys: KeyPositions::ALL,
    summary: "Deletes keys; the same as DEL",
    syntax: "key [key ...]",
    handler: Handler::Keys(del),
};

fn del(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    Ok(Reply::count(context.delete_all(&arguments[1..])?))
}

const EXISTS: Spec = Spec {
    name: "exists",
    about: Docs::new("1.0.0", Categories::KEYSPACE, &[KeyAccess::LOOK]),
    arity: -2,
    flags: Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE),
    keys: KeyPositions::ALL,
    summary: "Counts which of the keys exist; a key named twice counts twice",
    syntax: "key [key ...]",
    handler: Handler::Keys(exists),
};

fn exists(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = arguments[1..]
        .iter()
        .filter(|key| context.lookup_unread(key).live.is_some())
        .count();
    Ok(Reply::count(found))
}

const TOUCH: Spec = Spec {
    name: "touch",
    about: Docs::new("3.2.1", Categories::KEYSPACE, &[KeyAccess::LOOK]),
    summary: "Counts which of the keys exist, which counts as reading them",
    handler: Handler::Keys(touch),
    ..EXISTS
};

fn touch(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = arguments[1..]
        .iter()
        .filter(|key| context.lookup(key).live.is_some())
        .count();
    Ok(Reply::count(found))
}

const TYPE: Spec = Spec {
    name: "type",
    about: Docs::new("1.0.0", Categories::KEYSPACE, &[KeyAccess::LOOK]),
    arity: 2,
    flags: Flags::READ_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Returns the name of the type of a key's value, or none",
    syntax: "key",
    handler: Handler::Keys(type_name),
};

fn type_name(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup_unread(arguments[1]);
    Ok(Reply::status(
        found
            .live
            .map_or("none", |slot| context.value(slot).type_name()),
    ))
}

const RANDOMKEY: Spec = Spec {
    name: "randomkey",
    about: Docs::new("1.0.0", Categories::KEYSPACE, &[]),
    arity: 1,
    flags: Flags::READ_KEYS,
    keys: KeyPositions::NONE,
    summary: "Returns any key of the database",
    syntax: "",
    handler: Handler::Keys(randomkey),
};

/// Looks at random slots until one holds a key that lives: half of them do or more, and any of those is as likely as
/// any other. Where nearly all keys have expired and are about to be reclaimed it looks at all, as KEYS does.
fn randomkey(context: &mut CommandContext<'_>, _: &[&[u8]]) -> Result<Reply, ErrorReply> {
    context.reveal_all();
    let database = context.caller.database;
    if context.keyspace.count(database).keys == 0 {
        return Ok(Reply::Nil);
    }
    let number = context.keyspace.number_in_entries(database);
    let slots = context.keyspace.slots(number);
    let mut start = 0;
    for _ in 0..RANDOM_PROBES {
        start = context.keyspace.random_below(slots);
        let slot = context.keyspace.slot_at(number, start);
        if is_visible(context, context.keyspace.entry(slot)) {
            break;
        }
    }
    let mut entries = (start..slots).chain(0..start).map(|offset| {
        let slot = context.keyspace.slot_at(number, offset);
        context.keyspace.entry(slot)
    });
    let found = entries.find(|entry| is_visible(context, entry));
    let Some(key) = found.map(|entry| entry.key().to_vec()) else {
        return Ok(Reply::Nil);
    };
    context.effects.charge(key.len())?;
    Ok(Reply::Bulk(key))
}

/// With one key of a thousand that lives, 98 of 100 calls find one so. It takes some 100 us at most.
const RANDOM_PROBES: usize = 4096;
