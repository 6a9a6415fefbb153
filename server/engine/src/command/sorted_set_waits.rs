//! Commands on sorted sets that wait for a member where there is none.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::wait_limit;
use crate::command::sorted_set_removals::{PopOfSeveral, ScoreEnd, first_key, pop};
use crate::command::sorted_sets::MemberShape;
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
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
    let keys = 1..arguments.len().saturating_sub(1);
    let limit = wait_limit(arguments[arguments.len().saturating_sub(1)])?;
    let Some((key, found)) = first_key(context, &arguments[keys.clone()])? else {
        context.wait_for(arguments, keys, AwaitedKind::SortedSet, limit);
        return Ok(Reply::NilArray);
    };
    context.effects.charge(key.len())?;
    let mut replies = vec![Reply::bulk(key)];
    replies.extend(pop(context, &found, key, end, 1, MemberShape::Flat)?);
    Ok(Reply::Array(replies))
}

const BZMPOP: Spec = Spec::on_keys("bzmpop", -5, bzmpop)
    .flags(Flags::WRITE_KEYS.with(Flags::BLOCKING))
    .and(Flags::MOVABLE_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::SORTED_SET, &[KeyAccess::TAKE])
    .counted_at(2);

fn bzmpop(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let request = PopOfSeveral::parse(&arguments[2..])?;
    let limit = wait_limit(arguments[1])?;
    let reply = request.run(context)?;
    if reply == Reply::NilArray {
        let keys = 3..request.keys.len().saturating_add(3);
        context.wait_for(arguments, keys, AwaitedKind::SortedSet, limit);
    }
    Ok(reply)
}
