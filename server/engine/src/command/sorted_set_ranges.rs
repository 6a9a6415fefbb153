//! Ranges of sorted sets, by rank, by score or by member: ZRANGE and its older names, ZCOUNT.

use std::ops::Range;

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option};
use crate::command::scores::{MemberRange, RangeKind};
use crate::command::sorted_sets::{MemberShape, kept_score};
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::sorted_set::SortedSet;
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[
    &ZRANGE,
    &ZREVRANGE,
    &ZRANGEBYSCORE,
    &ZREVRANGEBYSCORE,
    &ZRANGEBYLEX,
    &ZREVRANGEBYLEX,
    &ZRANGESTORE,
    &ZCOUNT,
    &ZLEXCOUNT,
];

const ZRANGE: Spec = Spec::on_key("zrange", -4, |context, arguments| {
    reply(context, arguments, ANY)
})
.flags(Flags::READ_KEYS)
.about(Categories::SORTED_SET, &[KeyAccess::READ]);

const ZREVRANGE: Spec = ZRANGE.variant("zrevrange", |context, arguments| {
    reply(context, arguments, RangeForm::of(RangeKind::Ranks, true))
});

const ZRANGEBYSCORE: Spec = ZRANGE.variant("zrangebyscore", |context, arguments| {
    reply(context, arguments, RangeForm::of(RangeKind::Scores, false))
});

const ZREVRANGEBYSCORE: Spec = ZRANGE.variant("zrevrangebyscore", |context, arguments| {
    reply(context, arguments, RangeForm::of(RangeKind::Scores, true))
});

const ZRANGEBYLEX: Spec = ZRANGE.variant("zrangebylex", |context, arguments| {
    reply(context, arguments, RangeForm::of(RangeKind::Members, false))
});

const ZREVRANGEBYLEX: Spec = ZRANGE.variant("zrevrangebylex", |context, arguments| {
    reply(context, arguments, RangeForm::of(RangeKind::Members, true))
});

/// What a command's name says of its ranges; its options say the rest.
#[derive(Clone, Copy, Debug)]
struct RangeForm {
    kind: Option<RangeKind>,
    is_reverse: Option<bool>,
    may_have_scores: bool,
}

const ANY: RangeForm = RangeForm {
    kind: None,
    is_reverse: None,
    may_have_scores: true,
};

impl RangeForm {
    const fn of(kind: RangeKind, is_reverse: bool) -> RangeForm {
        RangeForm {
            kind: Some(kind),
            is_reverse: Some(is_reverse),
            may_have_scores: true,
        }
    }
}

/// Which members are asked for, and how.
#[derive(Clone, Copy, Debug)]
struct Query<'a> {
    range: MemberRange<'a>,
    is_reverse: bool,
    with_scores: bool,
    /// How many are left out at first, and how many there are at most after them.
    limit: Option<(i64, i64)>,
}

impl<'a> Query<'a> {
    /// Both bounds, and the options after them.
    fn parse(arguments: &[&'a [u8]], form: RangeForm) -> Result<Query<'a>, ErrorReply> {
        let RangeForm {
            mut kind,
            mut is_reverse,
            may_have_scores,
        } = form;
        let (mut with_scores, mut limit) = (false, (0, NO_LIMIT));
        let mut options = &arguments[2..];
        while let [option, rest @ ..] = options {
            options = rest;
            if may_have_scores && is_option(option, "withscores") {
                with_scores = true;
            } else if let ([offset, count, rest @ ..], true) = (rest, is_option(option, "limit")) {
                limit = (integer(offset)?, integer(count)?);
                options = rest;
            } else if is_reverse.is_none() && is_option(option, "rev") {
                is_reverse = Some(true);
            } else if kind.is_none() && is_option(option, "bylex") {
                kind = Some(RangeKind::Members);
            } else if kind.is_none() && is_option(option, "byscore") {
                kind = Some(RangeKind::Scores);
            } else {
                return Err(ErrorReply::SYNTAX);
            }
        }
        let (kind, is_reverse) = (kind.unwrap_or(RangeKind::Ranks), is_reverse == Some(true));
        if kind == RangeKind::Ranks && limit.1 != NO_LIMIT {
            return Err(LIMIT_OF_RANKS);
        }
        if kind == RangeKind::Members && with_scores {
            return Err(SCORES_OF_MEMBERS);
        }
        let (low, high) = match is_reverse && kind != RangeKind::Ranks {
            false => (arguments[0], arguments[1]),
            true => (arguments[1], arguments[0]),
        };
        Ok(Query {
            range: MemberRange::parse(kind, low, high)?,
            is_reverse,
            with_scores,
            limit: (kind != RangeKind::Ranks).then_some(limit),
        })
    }

    /// The ranks of the members, within the limit.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let Range { start, end } = self.range.ranks(set, self.is_reverse);
        let Some((offset, count)) = self.limit else {
            return start..end;
        };
        // As in Redis nothing is behind a negative offset, and a negative count is no limit.
        let Ok(offset) = usize::try_from(offset) else {
            return end..end;
        };
        let count = usize::try_from(count).ok();
        if self.is_reverse {
            let end = end.saturating_sub(offset).max(start);
            count.map_or(start, |count| end.saturating_sub(count).max(start))..end
        } else {
            let start = start.saturating_add(offset).min(end);
            start..count.map_or(end, |count| start.saturating_add(count).min(end))
        }
    }
}

fn reply(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    form: RangeForm,
) -> Result<Reply, ErrorReply> {
    let query = Query::parse(&arguments[2..], form)?;
    let shape = MemberShape::of(query.with_scores, context.caller.protocol);
    let found = context.lookup(arguments[1]);
    let mut replies = Vec::new();
    if let Some((set, effects)) = context.collection_and_effects::<SortedSet>(&found)? {
        let mut members = set.range(query.ranks(set));
        while let Some((member, score)) = match query.is_reverse {
            false => members.next(),
            true => members.next_back(),
        } {
            shape.add(member, score, effects, &mut replies)?;
        }
    }
    Ok(Reply::Array(replies))
}

const ZRANGESTORE: Spec = Spec::on_keys("zrangestore", -5, zrangestore)
    .keys(KeyPositions::TWO)
    .flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::SORTED_SET, KeyAccess::STORE);

fn zrangestore(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let form = RangeForm {
        may_have_scores: false,
        ..ANY
    };
    let query = Query::parse(&arguments[3..], form)?;
    let found = context.lookup(arguments[2]);
    let mut stored = SortedSet::default();
    if let Some(set) = context.collection::<SortedSet>(&found)? {
        for (member, score) in set.range(query.ranks(set)) {
            stored.set(member, score, context.keyspace.seed());
        }
    }
    context.store_result(arguments[1], stored, (Class::SortedSet, "zrangestore"))
}

/// A sorted set of members that all differ. Refused where it is more than may be written at once.
pub(super) fn set_of<'a>(
    context: &mut CommandContext<'_>,
    members: impl Iterator<Item = (&'a [u8], f64)>,
) -> Result<SortedSet, ErrorReply> {
    let mut set = SortedSet::default();
    for (member, score) in members {
        set.set(member, kept_score(score), context.keyspace.seed());
        context.admit_bytes(set.bytes())?;
    }
    Ok(set)
}

const ZCOUNT: Spec = Spec::on_key("zcount", 4, |context, arguments| {
    count(context, arguments, RangeKind::Scores)
})
.flags(Flags::READ_KEYS.with(Flags::FAST))
.about(Categories::SORTED_SET, &[KeyAccess::READ]);

const ZLEXCOUNT: Spec = ZCOUNT.variant("zlexcount", |context, arguments| {
    count(context, arguments, RangeKind::Members)
});

fn count(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    kind: RangeKind,
) -> Result<Reply, ErrorReply> {
    let range = MemberRange::parse(kind, arguments[2], arguments[3])?;
    let found = context.lookup(arguments[1]);
    let set = context.collection::<SortedSet>(&found)?;
    let ranks = set.map_or(0..0, |set| range.ranks(set, false));
    Ok(Reply::count(ranks.len()))
}

/// What LIMIT says where there is none.
const NO_LIMIT: i64 = -1;

const LIMIT_OF_RANKS: ErrorReply = ErrorReply::fixed(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
);
const SCORES_OF_MEMBERS: ErrorReply =
    ErrorReply::fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
