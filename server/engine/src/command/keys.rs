//! Keys of any type: DEL, UNLINK, EXISTS, TOUCH, TYPE, RANDOMKEY.

use crate::command::about::{About, Categories, KeyAccess};
use crate::command::scan::is_visible;
use crate::command::spec::{Family, Flags, Handler, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&DEL, &UNLINK, &EXISTS, &TOUCH, &TYPE, &RANDOMKEY];

const DEL: Spec = Spec {
    name: "del",
    about: About::new("1.0.0", Categories::KEYSPACE, &[KeyAccess::REMOVE]),
    arity: -2,
    flags: Flags::WRITE_KEYS,
    keys: KeyPositions::ALL,
    summary: "Deletes keys",
    syntax: "key [key ...]",
    handler: Handler::Keys(del),
};

const UNLINK: Spec = Spec {
    name: "unlink",
    about: About::new("4.0.0", Categories::KEYSPACE, &[KeyAccess::REMOVE]),
    arity: -2,
    flags: Flags::WRITE_KEYS.with(Flags::FAST),
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
    about: About::new("1.0.0", Categories::KEYSPACE, &[KeyAccess::LOOK]),
    arity: -2,
    flags: Flags::READ_KEYS.with(Flags::FAST),
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
    about: About::new("3.2.1", Categories::KEYSPACE, &[KeyAccess::LOOK]),
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
    about: About::new("1.0.0", Categories::KEYSPACE, &[KeyAccess::LOOK]),
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
    about: About::new("1.0.0", Categories::KEYSPACE, &[]),
    arity: 1,
    flags: Flags::READ_KEYS,
    keys: KeyPositions::NONE,
    summary: "Returns any key of the database",
    syntax: "",
    handler: Handler::Keys(randomkey),
};

/// Looks at random slots first. Where nearly all of them are free or another database's it looks at
/// all, as KEYS does.
fn randomkey(context: &mut CommandContext<'_>, _: &[&[u8]]) -> Result<Reply, ErrorReply> {
    context.reveal_all();
    if context.keyspace.count(context.caller.database).keys == 0 {
        return Ok(Reply::Nil);
    }
    let end = context.keyspace.slots_end();
    let mut slot = 0;
    for _ in 0..RANDOM_PROBES {
        slot = context.keyspace.random_below(end);
        if is_visible(context, context.keyspace.entry(slot)) {
            break;
        }
    }
    let after = context.keyspace.entries_from(slot);
    let before = context.keyspace.entries_from(0);
    let found = after
        .chain(before)
        .find(|(_, entry)| is_visible(context, entry))
        .map(|(_, entry)| entry.key().to_vec());
    let Some(key) = found else {
        return Ok(Reply::Nil);
    };
    context.effects.charge(key.len())?;
    Ok(Reply::Bulk(key))
}

const RANDOM_PROBES: usize = 64;
