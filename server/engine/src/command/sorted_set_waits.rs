//! Commands on sorted sets that wait for a member where there is none.

use crate::command::about::{Categories, KeyAccess};
use crate::command::pops::{Pop, pop_or_wait, several_or_wait};
use crate::command::sorted_set_removals::{POP_NESTED, ScoreEnd, pop};
use crate::command::sorted_sets::MemberShape;
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::sorted_set::SortedSet;
use crate::keyspace::waiters::AwaitedKind;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&BZPOPMIN, &BZPOPMAX, &BZMPOP];

const BZPOPMIN: Spec = Spec::on_keys("bzpopmin", -3, |context, arguments| {
    pop_one(context, arguments, ScoreEnd::Lowest)
})
.keys(KeyPositions::ALL_BUT_LAST)
.flags(Flags::WRITE_KEYS.with(Flags::NO_SCRIPT))
.and(Flags::BLOCKING.with(Flags::FAST))
.about(Categories::SORTED_SET, &[KeyAccess::TAKE]);

const BZPOPMAX: Spec = BZPOPMIN.variant("bzpopmax", |context, arguments| {
    pop_one(context, arguments, ScoreEnd::Highest)
});

fn pop_one(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    end: ScoreEnd,
) -> Result<Reply, ErrorReply> {
    let flat: Pop<ScoreEnd> =
        |context, found, key, end, count| pop(context, found, key, end, count, MemberShape::Flat);
    pop_or_wait::<SortedSet, ScoreEnd>(context, arguments, end, flat, AwaitedKind::SortedSet)
}

const BZMPOP: Spec = Spec::on_keys("bzmpop", -5, bzmpop)
    .flags(Flags::WRITE_KEYS.with(Flags::BLOCKING))
    .and(Flags::MOVABLE_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::SORTED_SET, &[KeyAccess::TAKE])
    .counted_at(2);

fn bzmpop(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    several_or_wait::<SortedSet, ScoreEnd>(
        context,
        arguments,
        ScoreEnd::parse,
        POP_NESTED,
        AwaitedKind::SortedSet,
    )
}
