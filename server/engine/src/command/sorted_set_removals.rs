//! Members that leave a sorted set by their order: ZREMRANGEBYRANK and its like, ZPOPMIN, ZPOPMAX, ZMPOP.

use std::ops::Range;
use std::sync::Arc;

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{is_option, positive};
use crate::command::pops::{Pop, SeveralPops};
use crate::command::scores::{MemberRange, RangeKind};
use crate::command::sorted_sets::MemberShape;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::sorted_set::SortedSet;
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[
    &ZREMRANGEBYRANK,
    &ZREMRANGEBYSCORE,
    &ZREMRANGEBYLEX,
    &ZPOPMIN,
    &ZPOPMAX,
    &ZMPOP,
];

const ZREMRANGEBYRANK: Spec = Spec::on_key("zremrangebyrank", 4, |context, arguments| {
    remove(context, arguments, RangeKind::Ranks)
})
.flags(Flags::WRITE_KEYS.with(Flags::WHOLE_VALUE))
.about(Categories::SORTED_SET, &[KeyAccess::SUBTRACT]);

const ZREMRANGEBYSCORE: Spec = ZREMRANGEBYRANK.variant("zremrangebyscore", |context, arguments| {
    remove(context, arguments, RangeKind::Scores)
});

const ZREMRANGEBYLEX: Spec = ZREMRANGEBYRANK.variant("zremrangebylex", |context, arguments| {
    remove(context, arguments, RangeKind::Members)
});

fn remove(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    kind: RangeKind,
) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let range = MemberRange::parse(kind, arguments[2], arguments[3])?;
    let found = context.peek(key);
    context.reveal(&found);
    let Some(set) = context.collection::<SortedSet>(&found)? else {
        return Ok(Reply::Integer(0));
    };
    let ranks = range.ranks(set, false);
    let count = ranks.len();
    if count > 0 {
        remove_ranks(context, &found, key, ranks)?;
        context.notify(Class::SortedSet, kind.removal_event(), key);
        context.notify_if_gone(key);
    }
    Ok(Reply::count(count))
}

/// Removes the members of these ranks, all or none; all there are with their key.
fn remove_ranks(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    key: &[u8],
    ranks: Range<usize>,
) -> Result<(), ErrorReply> {
    let Some(set) = context.collection::<SortedSet>(found)? else {
        return Ok(());
    };
    if ranks.len() == set.len() {
        context.delete(found, key)?;
        return Ok(());
    }
    let members = set.range(ranks).map(|(member, _)| Arc::clone(member));
    let members: Vec<Arc<[u8]>> = members.collect();
    let changes = members.iter();
    let changes = changes.map(|member| Change::ScoreRemove { member });
    context.change(found, key, changes)?;
    Ok(())
}

const ZPOPMIN: Spec = Spec::on_key("zpopmin", -2, |context, arguments| {
    pop_one_key(context, arguments, ScoreEnd::Lowest)
})
.flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::WHOLE_VALUE))
.about(Categories::SORTED_SET, &[KeyAccess::TAKE]);

const ZPOPMAX: Spec = ZPOPMIN.variant("zpopmax", |context, arguments| {
    pop_one_key(context, arguments, ScoreEnd::Highest)
});

/// The end of a sorted set at which members are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScoreEnd {
    Lowest,
    Highest,
}

impl ScoreEnd {
    /// MIN or MAX.
    pub(super) fn parse(argument: &[u8]) -> Result<ScoreEnd, ErrorReply> {
        if is_option(argument, "min") {
            Ok(ScoreEnd::Lowest)
        } else if is_option(argument, "max") {
            Ok(ScoreEnd::Highest)
        } else {
            Err(ErrorReply::SYNTAX)
        }
    }
}

fn pop_one_key(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    end: ScoreEnd,
) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let (count, shape) = match arguments[2..] {
        [] => (1, MemberShape::Flat),
        [count] => (
            positive(count)?,
            MemberShape::of(true, context.caller.protocol),
        ),
        _ => return Err(ErrorReply::SYNTAX),
    };
    let found = context.peek(key);
    context.reveal(&found);
    context.collection::<SortedSet>(&found)?;
    let members = pop(context, &found, key, end, count, shape)?;
    Ok(Reply::Array(members))
}

/// Removes up to `count` members at one end, all or none, and returns them, charged before.
pub(super) fn pop(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    key: &[u8],
    end: ScoreEnd,
    count: usize,
    shape: MemberShape,
) -> Result<Vec<Reply>, ErrorReply> {
    let mut replies = Vec::new();
    let Some((set, effects)) = context.collection_and_effects::<SortedSet>(found)? else {
        return Ok(replies);
    };
    let (length, count) = (set.len(), count.min(set.len()));
    let ranks = match end {
        ScoreEnd::Lowest => 0..count,
        ScoreEnd::Highest => length.saturating_sub(count)..length,
    };
    let mut members = set.range(ranks.clone());
    while let Some((member, score)) = match end {
        ScoreEnd::Lowest => members.next(),
        ScoreEnd::Highest => members.next_back(),
    } {
        shape.add(member, score, effects, &mut replies)?;
    }
    drop(members);
    if count > 0 {
        remove_ranks(context, found, key, ranks)?;
        let event = match end {
            ScoreEnd::Lowest => "zpopmin",
            ScoreEnd::Highest => "zpopmax",
        };
        context.notify(Class::SortedSet, event, key);
        context.notify_if_gone(key);
    }
    Ok(replies)
}

const ZMPOP: Spec = Spec::on_keys("zmpop", -4, zmpop)
    .flags(Flags::WRITE_KEYS.with(Flags::MOVABLE_KEYS))
    .and(Flags::WHOLE_VALUE)
    .about(Categories::SORTED_SET, &[KeyAccess::TAKE])
    .counted_at(1);

fn zmpop(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    SeveralPops::parse(&arguments[1..], ScoreEnd::parse)?.run::<SortedSet>(context, POP_NESTED)
}

pub(super) const POP_NESTED: Pop<ScoreEnd> =
    |context, found, key, end, count| pop(context, found, key, end, count, MemberShape::Nested);
