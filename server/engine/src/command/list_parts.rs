//! Elements in the middle of lists: looked for, inserted, removed, trimmed.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option, saturated_count};
use crate::command::lists::range_of;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::list::{End, List};
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&LINSERT, &LREM, &LTRIM, &LPOS];

const LINSERT: Spec = Spec::on_key("linsert", 5, linsert)
    .flags(Flags::GROW_KEYS)
    .about(Categories::LIST, &[KeyAccess::ADD]);

fn linsert(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, side, pivot, element) = (arguments[1], arguments[2], arguments[3], arguments[4]);
    let is_after = is_option(side, "after");
    if !is_after && !is_option(side, "before") {
        return Err(ErrorReply::SYNTAX);
    }
    let found = context.peek(key);
    context.reveal(&found);
    let Some(list) = context.collection::<List>(&found)? else {
        return Ok(Reply::Integer(0));
    };
    let length = list.len();
    let Some(place) = list.iter().position(|one| **one == *pivot) else {
        return Ok(Reply::Integer(-1));
    };
    let index = place.saturating_add(usize::from(is_after));
    let change = Change::ListInsert { index, element };
    context.change(&found, key, std::iter::once(change))?;
    context.notify(Class::List, "linsert", key);
    Ok(Reply::count(length.saturating_add(1)))
}

const LREM: Spec = Spec::on_key("lrem", 4, lrem)
    .flags(Flags::WRITE_KEYS.with(Flags::WHOLE_VALUE))
    .and(Flags::SIMPLE)
    .about(Categories::LIST, &[KeyAccess::SUBTRACT]);

fn lrem(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, element) = (arguments[1], arguments[3]);
    let count = integer(arguments[2])?;
    let found = context.peek(key);
    context.reveal(&found);
    let Some(list) = context.collection::<List>(&found)? else {
        return Ok(Reply::Integer(0));
    };
    let limit = match count.unsigned_abs() {
        0 => usize::MAX,
        limit => saturated_count(limit),
    };
    let equal = list.iter().enumerate();
    let equal = equal.filter(|(_, one)| ***one == *element);
    // From the last to the first, so that no removal moves another one's index.
    let mut indexes: Vec<usize> = if count < 0 {
        equal.rev().map(|(index, _)| index).take(limit).collect()
    } else {
        equal.map(|(index, _)| index).take(limit).collect()
    };
    if count >= 0 {
        indexes.reverse();
    }
    remove(context, &found, key, &indexes)?;
    if !indexes.is_empty() {
        context.notify(Class::List, "lrem", key);
        context.notify_if_gone(key);
    }
    Ok(Reply::count(indexes.len()))
}

/// Removes the elements of these indexes, the last one first.
fn remove(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    key: &[u8],
    indexes: &[usize],
) -> Result<(), ErrorReply> {
    let Some(list) = context.collection::<List>(found)? else {
        return Ok(());
    };
    if indexes.len() == list.len() {
        context.delete(found, key)?;
        return Ok(());
    }
    if indexes.len() <= SINGLE_REMOVALS_MAX {
        let changes = indexes.iter().map(|&index| Change::ListRemove { index });
        context.change(found, key, changes)?;
        return Ok(());
    }
    // Each removal moves half of the list at worst: many cost less as a new one.
    let mut left = List::default();
    let mut removed = indexes.iter().rev().copied().peekable();
    for (index, element) in list.iter().enumerate() {
        if removed.next_if_eq(&index).is_none() {
            left.push(End::Right, element.clone());
        }
    }
    let deadline = context.deadline(found);
    context.put_collection(found, key, left, deadline)
}

const LTRIM: Spec = Spec::on_key("ltrim", 4, ltrim)
    .flags(Flags::WRITE_KEYS)
    .about(Categories::LIST, &[KeyAccess::SUBTRACT]);

fn ltrim(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let (start, stop) = (integer(arguments[2])?, integer(arguments[3])?);
    let found = context.peek(key);
    let Some(list) = context.collection::<List>(&found)? else {
        context.reveal(&found);
        return Ok(Reply::Ok);
    };
    let length = list.len();
    let kept = range_of(start, stop, length);
    if kept.is_empty() {
        context.delete(&found, key)?;
        context.notify(Class::List, "ltrim", key);
        context.notify_if_gone(key);
        return Ok(Reply::Ok);
    }
    let ends = [
        (End::Left, kept.start),
        (End::Right, length.saturating_sub(kept.end)),
    ];
    let changes = ends.into_iter().filter(|&(_, count)| count > 0);
    let changes = changes.map(|(end, count)| Change::ListPop { end, count });
    context.reveal(&found);
    if context.change(&found, key, changes)? == 0 {
        context.note_rewritten(&found, key);
    }
    context.notify(Class::List, "ltrim", key);
    Ok(Reply::Ok)
}

const LPOS: Spec = Spec::on_key("lpos", -3, lpos)
    .flags(Flags::READ_KEYS)
    .about(Categories::LIST, &[KeyAccess::READ]);

fn lpos(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let element = arguments[2];
    let options = PositionOptions::parse(&arguments[3..])?;
    let found = context.lookup(arguments[1]);
    let Some((list, effects)) = context.collection_and_effects::<List>(&found)? else {
        return Ok(match options.count {
            None => Reply::Nil,
            Some(_) => Reply::Array(Vec::new()),
        });
    };
    let (length, looked_at) = (list.len(), options.compared_max.min(list.len()));
    let index_of = |step: usize| match options.is_backwards {
        false => step,
        true => length.saturating_sub(step.saturating_add(1)),
    };
    let is_equal = |index: &usize| list.get(*index).is_some_and(|one| **one == *element);
    let indexes = (0..looked_at).map(index_of).filter(is_equal);
    let mut indexes = indexes.skip(options.skipped);
    let Some(count) = options.count else {
        return Ok(indexes.next().map_or(Reply::Nil, Reply::count));
    };
    let mut replies = Vec::new();
    for index in indexes.take(count) {
        effects.charge(0)?;
        replies.push(Reply::count(index));
    }
    Ok(Reply::Array(replies))
}

/// LPOS's options.
struct PositionOptions {
    /// So many equal elements come before the wanted ones.
    skipped: usize,
    is_backwards: bool,
    /// How many are wanted; `None` is the first one, not in an array.
    count: Option<usize>,
    /// How many elements are looked at.
    compared_max: usize,
}

impl PositionOptions {
    fn parse(arguments: &[&[u8]]) -> Result<PositionOptions, ErrorReply> {
        let mut options = PositionOptions {
            skipped: 0,
            is_backwards: false,
            count: None,
            compared_max: usize::MAX,
        };
        for pair in arguments.chunks(2) {
            let &[name, value] = pair else {
                return Err(ErrorReply::SYNTAX);
            };
            if is_option(name, "rank") {
                let rank = match integer(value)? {
                    i64::MIN => return Err(ErrorReply::OUT_OF_SYMMETRIC_RANGE),
                    0 => return Err(RANK_ZERO),
                    rank => rank,
                };
                options.is_backwards = rank < 0;
                let skipped = rank.unsigned_abs().saturating_sub(1);
                options.skipped = saturated_count(skipped);
            } else if is_option(name, "count") {
                options.count = Some(zero_is_all(value, "ERR COUNT can't be negative")?);
            } else if is_option(name, "maxlen") {
                options.compared_max = zero_is_all(value, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(ErrorReply::SYNTAX);
            }
        }
        Ok(options)
    }
}

fn zero_is_all(argument: &[u8], error: &'static str) -> Result<usize, ErrorReply> {
    let number = integer(argument).ok();
    match number.and_then(|number| usize::try_from(number).ok()) {
        None => Err(ErrorReply::fixed(error)),
        Some(0) => Ok(usize::MAX),
        Some(number) => Ok(number),
    }
}

/// Up to this many elements are removed one by one.
const SINGLE_REMOVALS_MAX: usize = 64;

const RANK_ZERO: ErrorReply = ErrorReply::fixed(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
     negative to start from the end of the list",
);
