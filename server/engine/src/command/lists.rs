//! Lists: elements in their order under one key. Queues and waiters of fair locks stand in them.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option, positive, saturated_count};
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::collection::Kind;
use crate::keyspace::list::{End, List};
use crate::notifications::Class;
use crate::reply::Reply;
use crate::time::Deadline;

pub(super) const FAMILY: Family = &[
    &LPUSH, &RPUSH, &LPUSHX, &RPUSHX, &LPOP, &RPOP, &LLEN, &LINDEX, &LRANGE, &LSET,
];

const LPUSH: Spec = Spec::on_key("lpush", -3, |context, arguments| {
    push(context, arguments, End::Left)
})
.flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
.about(Categories::LIST, &[KeyAccess::ADD]);

const RPUSH: Spec = LPUSH.variant("rpush", |context, arguments| {
    push(context, arguments, End::Right)
});

fn push(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    end: End,
) -> Result<Reply, ErrorReply> {
    let (key, elements) = (arguments[1], &arguments[2..]);
    let found = context.peek(key);
    context.reveal(&found);
    let before = context.collection::<List>(&found)?.map_or(0, List::len);
    push_or_create(context, &found, key, end, elements)?;
    context.notify(Class::List, push_event(end), key);
    Ok(Reply::count(before.saturating_add(elements.len())))
}

/// The event of elements that were added at an end.
pub(super) fn push_event(end: End) -> &'static str {
    match end {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}

/// The event of elements that were taken from an end.
pub(super) fn pop_event(end: End) -> &'static str {
    match end {
        End::Left => "lpop",
        End::Right => "rpop",
    }
}

/// Adds elements at an end of a list, which need not exist.
pub(super) fn push_or_create(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    key: &[u8],
    end: End,
    elements: &[&[u8]],
) -> Result<(), ErrorReply> {
    if context.collection::<List>(found)?.is_some() {
        let elements = elements.iter();
        let changes = elements.map(|element| Change::ListPush { end, element });
        context.change(found, key, changes)?;
        return Ok(());
    }
    let mut list = List::default();
    for &element in elements {
        list.push(end, element.into());
    }
    context.put_collection(found, key, list, Deadline::NEVER)
}

const LPUSHX: Spec = LPUSH.variant("lpushx", |context, arguments| {
    push_if_exists(context, arguments, End::Left)
});

const RPUSHX: Spec = LPUSH.variant("rpushx", |context, arguments| {
    push_if_exists(context, arguments, End::Right)
});

fn push_if_exists(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    end: End,
) -> Result<Reply, ErrorReply> {
    let found = context.peek(arguments[1]);
    if found.live.is_none() {
        context.reveal(&found);
        return Ok(Reply::Integer(0));
    }
    push(context, arguments, end)
}

const LPOP: Spec = Spec::on_key("lpop", -2, |context, arguments| {
    pop(context, arguments, End::Left)
})
.flags(Flags::WRITE_KEYS.with(Flags::FAST))
.about(Categories::LIST, &[KeyAccess::TAKE]);

const RPOP: Spec = LPOP.variant("rpop", |context, arguments| {
    pop(context, arguments, End::Right)
});

fn pop(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    end: End,
) -> Result<Reply, ErrorReply> {
    let (key, count) = match arguments[1..] {
        [key] => (key, None),
        [key, count] => (key, Some(positive(count)?)),
        _ => return Err(ErrorReply::wrong_arity(pop_event(end))),
    };
    let found = context.peek(key);
    context.reveal(&found);
    let list = context.collection::<List>(&found)?;
    match (list.is_some(), count) {
        (false, None) => Ok(Reply::Nil),
        (false, Some(_)) => Ok(Reply::NilArray),
        (true, None) => {
            let mut popped = pop_elements(context, &found, key, end, 1)?;
            Ok(popped.pop().unwrap_or(Reply::Nil))
        }
        (true, Some(count)) => {
            let popped = pop_elements(context, &found, key, end, count)?;
            Ok(Reply::Array(popped))
        }
    }
}

/// Takes up to `count` elements from an end of a list that exists.
pub(super) fn pop_elements(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Vec<Reply>, ErrorReply> {
    let Some((list, effects)) = context.collection_and_effects::<List>(found)? else {
        return Ok(Vec::new());
    };
    let length = list.len();
    let count = count.min(length);
    let mut popped = Vec::new();
    for number in 0..count {
        let index = match end {
            End::Left => number,
            End::Right => length.saturating_sub(number.saturating_add(1)),
        };
        if let Some(element) = list.get(index) {
            effects.charge(element.len())?;
            popped.push(Reply::value(element));
        }
    }
    if count == 0 {
        return Ok(popped);
    }
    if count == length {
        context.delete(found, key)?;
    } else {
        let change = Change::ListPop { end, count };
        context.change(found, key, std::iter::once(change))?;
    }
    context.notify(Class::List, pop_event(end), key);
    context.notify_if_gone(key);
    Ok(popped)
}

const LLEN: Spec = Spec::on_key("llen", 2, length::<List>)
    .flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::LIST, &[KeyAccess::LOOK]);

/// LLEN, and the like of other collections: how many parts there are.
pub(super) fn length<K: Kind>(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let collection = context.collection::<K>(&found)?;
    Ok(Reply::count(collection.map_or(0, K::length)))
}

/// HDEL, SREM and ZREM: takes parts out by their names, and tells of it if one was there.
pub(super) fn remove<'a, K: Kind>(
    context: &mut CommandContext<'_>,
    arguments: &[&'a [u8]],
    class: Class,
    event: &'static str,
    removal: fn(&'a [u8]) -> Change<'a>,
) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let found = context.peek(key);
    context.reveal(&found);
    context.collection::<K>(&found)?;
    let removals = arguments[2..].iter().map(|&name| removal(name));
    let removed = context.change(&found, key, removals)?;
    if removed > 0 {
        context.notify(class, event, key);
        context.notify_if_gone(key);
    }
    Ok(Reply::count(removed))
}

const LINDEX: Spec = Spec::on_key("lindex", 3, lindex)
    .flags(Flags::READ_KEYS)
    .about(Categories::LIST, &[KeyAccess::READ]);

fn lindex(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let Some((list, effects)) = context.collection_and_effects::<List>(&found)? else {
        return Ok(Reply::Nil);
    };
    let index = index_of(integer(arguments[2])?, list.len());
    let Some(element) = index.and_then(|index| list.get(index)) else {
        return Ok(Reply::Nil);
    };
    effects.charge(element.len())?;
    Ok(Reply::value(element))
}

/// The index that a number means, if there is an element.
fn index_of(number: i64, length: usize) -> Option<usize> {
    let index = match usize::try_from(number) {
        Ok(index) => index,
        Err(_) => {
            let from_right = usize::try_from(number.unsigned_abs()).ok()?;
            length.checked_sub(from_right)?
        }
    };
    (index < length).then_some(index)
}

const LRANGE: Spec = Spec::on_key("lrange", 4, lrange)
    .flags(Flags::READ_KEYS)
    .about(Categories::LIST, &[KeyAccess::READ]);

fn lrange(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (start, stop) = (integer(arguments[2])?, integer(arguments[3])?);
    let found = context.lookup(arguments[1]);
    let Some((list, effects)) = context.collection_and_effects::<List>(&found)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let mut elements = Vec::new();
    for element in list.range(range_of(start, stop, list.len())) {
        effects.charge(element.len())?;
        elements.push(Reply::value(element));
    }
    Ok(Reply::Array(elements))
}

/// The indexes from one number to another, both included; negative ones count from the end.
pub(super) fn range_of(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let from_left = |number: i64| match number < 0 {
        true => length.saturating_sub(saturated_count(number.unsigned_abs())),
        false => saturated_count(number.unsigned_abs()),
    };
    let is_before_first = stop < 0 && saturated_count(stop.unsigned_abs()) > length;
    let end = match is_before_first {
        true => 0,
        false => from_left(stop).saturating_add(1).min(length),
    };
    from_left(start).min(end)..end
}

const LSET: Spec = Spec::on_key("lset", 4, lset)
    .flags(Flags::GROW_KEYS)
    .about(Categories::LIST, &[KeyAccess::UPDATE]);

fn lset(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, element) = (arguments[1], arguments[3]);
    let found = context.peek(key);
    context.reveal(&found);
    let length = match context.collection::<List>(&found)? {
        None => return Err(ErrorReply::NO_SUCH_KEY),
        Some(list) => list.len(),
    };
    let index = index_of(integer(arguments[2])?, length);
    let index = index.ok_or(ErrorReply::fixed("ERR index out of range"))?;
    let change = Change::ListSet { index, element };
    context.change(&found, key, std::iter::once(change))?;
    context.notify(Class::List, "lset", key);
    Ok(Reply::Ok)
}

/// Which end an argument names.
pub(super) fn end_named(argument: &[u8]) -> Result<End, ErrorReply> {
    if is_option(argument, "left") {
        Ok(End::Left)
    } else if is_option(argument, "right") {
        Ok(End::Right)
    } else {
        Err(ErrorReply::SYNTAX)
    }
}
