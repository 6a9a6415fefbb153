//! Sets made of sets: intersection, union and difference, as a reply or as another key.
//!
//! What a command takes together is bounded, and its work with it: a member is looked up only where
//! that costs less than to go through the other sets.

use std::collections::HashSet;
use std::sync::Arc;

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::is_option;
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::members::Members;
use crate::notifications::Class;
use crate::number::parse_integer;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[
    &SINTER,
    &SUNION,
    &SDIFF,
    &SINTERSTORE,
    &SUNIONSTORE,
    &SDIFFSTORE,
    &SINTERCARD,
];

/// What becomes of the sets of several keys, `None` where there is no key. No member comes twice.
type Operation = for<'s> fn(&[Option<&'s Members>]) -> Result<Vec<&'s Arc<[u8]>>, ErrorReply>;

const SINTER: Spec = Spec::on_keys("sinter", -2, |context, arguments| {
    answer(context, arguments, intersection)
})
.keys(KeyPositions::ALL)
.flags(Flags::READ_KEYS)
.about(Categories::SET, &[KeyAccess::READ]);

const SUNION: Spec = SINTER.variant("sunion", |context, arguments| {
    answer(context, arguments, union)
});

const SDIFF: Spec = SINTER.variant("sdiff", |context, arguments| {
    answer(context, arguments, difference)
});

const SINTERSTORE: Spec = Spec::on_keys("sinterstore", -3, |context, arguments| {
    store(context, arguments, intersection, "sinterstore")
})
.keys(KeyPositions::ALL)
.flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
.about(Categories::SET, &[KeyAccess::UPDATE, KeyAccess::READ]);

const SUNIONSTORE: Spec = SINTERSTORE
    .variant("sunionstore", |context, arguments| {
        store(context, arguments, union, "sunionstore")
    })
    .about(Categories::SET, KeyAccess::STORE);

const SDIFFSTORE: Spec = SINTERSTORE
    .variant("sdiffstore", |context, arguments| {
        store(context, arguments, difference, "sdiffstore")
    })
    .about(Categories::SET, KeyAccess::STORE);

fn answer(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    operation: Operation,
) -> Result<Reply, ErrorReply> {
    let found = look_up(context, &arguments[1..])?;
    let (sets, effects) = context.collections_and_effects::<Members>(&found)?;
    let mut replies = Vec::new();
    for member in operation(&sets)? {
        effects.charge(member.len())?;
        replies.push(Reply::value(member));
    }
    Ok(Reply::Set(replies))
}

fn store(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    operation: Operation,
    event: &'static str,
) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let found = look_up(context, &arguments[2..])?;
    let seed = context.keyspace.seed();
    let (sets, _) = context.collections_and_effects::<Members>(&found)?;
    let mut result = Members::default();
    for member in operation(&sets)? {
        result.add(Arc::clone(member), seed);
    }
    context.store_result(key, result, (Class::Set, event))
}

// The number of its keys comes first.
const SINTERCARD: Spec = Spec::on_keys("sintercard", -3, sintercard)
    .flags(Flags::READ_KEYS.with(Flags::MOVABLE_KEYS))
    .about(Categories::SET, &[KeyAccess::READ])
    .counted_at(1);

fn sintercard(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (count, rest) = (arguments[1], &arguments[2..]);
    let count = parse_integer(count).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|&count| count > 0).ok_or(NO_KEYS)?;
    let (keys, options) = rest.split_at_checked(count).ok_or(TOO_MANY_KEYS)?;
    let mut limit = 0;
    for option in options.chunks(2) {
        let &[name, value] = option else {
            return Err(ErrorReply::SYNTAX);
        };
        if !is_option(name, "limit") {
            return Err(ErrorReply::SYNTAX);
        }
        let number = parse_integer(value).and_then(|number| usize::try_from(number).ok());
        limit = number.ok_or(NEGATIVE_LIMIT)?;
    }
    let found = look_up(context, keys)?;
    let (sets, _) = context.collections_and_effects::<Members>(&found)?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    Ok(Reply::count(common(&sets)?.take(limit).count()))
}

/// Finds keys that hold sets, or nothing; none is looked for behind one that holds something else.
fn look_up(context: &mut CommandContext<'_>, keys: &[&[u8]]) -> Result<Vec<KeySlot>, ErrorReply> {
    let mut all = Vec::with_capacity(keys.len());
    for key in keys {
        let found = context.lookup(key);
        context.collection::<Members>(&found)?;
        all.push(found);
    }
    Ok(all)
}

fn intersection<'s>(sets: &[Option<&'s Members>]) -> Result<Vec<&'s Arc<[u8]>>, ErrorReply> {
    Ok(common(sets)?.collect())
}

/// The members that all sets have.
fn common<'s>(
    sets: &[Option<&'s Members>],
) -> Result<impl Iterator<Item = &'s Arc<[u8]>>, ErrorReply> {
    let sets: Vec<&Members> = sets
        .iter()
        .copied()
        .collect::<Option<_>>()
        .unwrap_or_default();
    admit(&sets)?;
    // The one with the fewest bytes: to look all of it up in the others costs less than to go through
    // them, whatever they hold.
    let least = sets.iter().min_by_key(|set| set.bytes()).copied();
    let members = least.into_iter().flat_map(|set| set.iter());
    Ok(members.filter(move |member| sets.iter().all(|set| set.contains(member))))
}

fn union<'s>(sets: &[Option<&'s Members>]) -> Result<Vec<&'s Arc<[u8]>>, ErrorReply> {
    let sets: Vec<&Members> = sets.iter().flatten().copied().collect();
    admit(&sets)?;
    let mut seen: HashSet<&[u8]> = HashSet::new();
    let members = sets.iter().flat_map(|set| set.iter());
    Ok(members.filter(|member| seen.insert(member)).collect())
}

fn difference<'s>(sets: &[Option<&'s Members>]) -> Result<Vec<&'s Arc<[u8]>>, ErrorReply> {
    let Some((Some(first), others)) = sets.split_first() else {
        return Ok(Vec::new());
    };
    let others: Vec<&Members> = others.iter().flatten().copied().collect();
    let all = admit(&[&[*first], &*others].concat())?;
    if first.bytes().saturating_mul(others.len()) <= all {
        let is_left = |member: &&Arc<[u8]>| !others.iter().any(|set| set.contains(member));
        return Ok(first.iter().filter(is_left).collect());
    }
    let others = others.iter().flat_map(|set| set.iter());
    let taken: HashSet<&[u8]> = others.map(|member| &**member).collect();
    Ok(first
        .iter()
        .filter(|member| !taken.contains(&***member))
        .collect())
}

/// Refuses sets that would keep all others waiting. Returns the bytes of all.
fn admit(sets: &[&Members]) -> Result<usize, ErrorReply> {
    admit_sizes(sets.iter().map(|set| (set.len(), set.bytes())))
}

/// The same for the inputs of any such command: of each the number of its members, and their bytes.
pub(super) fn admit_sizes(
    sizes: impl Iterator<Item = (usize, usize)>,
) -> Result<usize, ErrorReply> {
    let (members, bytes) = sizes.fold((0_usize, 0_usize), |sum, (members, bytes)| {
        (sum.0.saturating_add(members), sum.1.saturating_add(bytes))
    });
    if members > MEMBERS_MAX {
        return Err(ErrorReply::new(format!(
            "ERR the sets of this command have more than {MEMBERS_MAX} members together, so \
             nothing was done. Name fewer or smaller sets in one command"
        )));
    }
    if bytes > BYTES_MAX {
        return Err(ErrorReply::new(format!(
            "ERR the members of the sets of this command take more than {BYTES_MAX} bytes \
             together, so nothing was done. Name fewer or smaller sets in one command"
        )));
    }
    Ok(bytes)
}

/// What one command takes together: about a fifth of a second of work.
const MEMBERS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 64 << 20;

const NO_KEYS: ErrorReply = ErrorReply::fixed("ERR numkeys should be greater than 0");
const TOO_MANY_KEYS: ErrorReply =
    ErrorReply::fixed("ERR Number of keys can't be greater than number of args");
const NEGATIVE_LIMIT: ErrorReply = ErrorReply::fixed("ERR LIMIT can't be negative");
