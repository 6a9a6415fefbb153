//! Keys of any type: DEL, UNLINK, EXISTS, TOUCH, TYPE, RANDOMKEY.

use crate::command::about::{Categories, KeyAccess};
use crate::command::scan::is_visible;
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&DEL, &UNLINK, &EXISTS, &TOUCH, &TYPE, &RANDOMKEY];

const DEL: Spec = Spec::on_keys("del", -2, del)
    .keys(KeyPositions::ALL)
    .flags(Flags::WRITE_KEYS.with(Flags::BRIEF).with(Flags::SIMPLE))
    .about(Categories::KEYSPACE, &[KeyAccess::REMOVE]);

const UNLINK: Spec = Spec::on_keys("unlink", -2, del)
    .keys(KeyPositions::ALL)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::KEYSPACE, &[KeyAccess::REMOVE]);

fn del(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    Ok(Reply::count(context.delete_all(&arguments[1..])?))
}

const EXISTS: Spec = Spec::on_keys("exists", -2, exists)
    .keys(KeyPositions::ALL)
    .flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::KEYSPACE, &[KeyAccess::LOOK]);

fn exists(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = arguments[1..]
        .iter()
        .filter(|key| context.lookup_unread(key).live.is_some())
        .count();
    Ok(Reply::count(found))
}

const TOUCH: Spec = EXISTS.variant("touch", touch);

fn touch(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = arguments[1..]
        .iter()
        .filter(|key| context.lookup(key).live.is_some())
        .count();
    Ok(Reply::count(found))
}

const TYPE: Spec = Spec::on_key("type", 2, type_name)
    .flags(Flags::READ_KEYS.with(Flags::FAST))
    .about(Categories::KEYSPACE, &[KeyAccess::LOOK]);

fn type_name(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup_unread(arguments[1]);
    Ok(Reply::status(
        found
            .live
            .map_or("none", |slot| context.value(slot).type_name()),
    ))
}

const RANDOMKEY: Spec = Spec::on_keys("randomkey", 1, randomkey)
    .flags(Flags::READ_KEYS)
    .about(Categories::KEYSPACE, &[]);

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
