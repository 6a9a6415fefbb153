//! Keys of any type: DEL, UNLINK, EXISTS, TYPE.

use crate::command::spec::{Family, Flags, Handler, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&DEL, &UNLINK, &EXISTS, &TYPE];

const DEL: Spec = Spec {
    name: "del",
    arity: -2,
    flags: Flags::WRITE_KEYS,
    keys: KeyPositions::ALL,
    summary: "Deletes keys",
    handler: Handler::Keys(del),
};

const UNLINK: Spec = Spec {
    name: "unlink",
    arity: -2,
    flags: Flags::WRITE_KEYS.with(Flags::FAST),
    keys: KeyPositions::ALL,
    summary: "Deletes keys; the same as DEL",
    handler: Handler::Keys(del),
};

fn del(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    Ok(Reply::count(context.delete_all(&arguments[1..])?))
}

const EXISTS: Spec = Spec {
    name: "exists",
    arity: -2,
    flags: Flags::READ_KEYS.with(Flags::FAST),
    keys: KeyPositions::ALL,
    summary: "Counts which of the keys exist; a key named twice counts twice",
    handler: Handler::Keys(exists),
};

fn exists(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = arguments[1..]
        .iter()
        .filter(|key| context.lookup(key).live.is_some())
        .count();
    Ok(Reply::count(found))
}

const TYPE: Spec = Spec {
    name: "type",
    arity: 2,
    flags: Flags::READ_KEYS.with(Flags::FAST),
    keys: KeyPositions::ONE,
    summary: "Returns the name of the type of a key's value, or none",
    handler: Handler::Keys(type_name),
};

fn type_name(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    Ok(Reply::status(
        found
            .live
            .map_or("none", |slot| context.value(slot).type_name()),
    ))
}
