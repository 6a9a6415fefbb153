//! Commands on lists that wait for an element where there is none.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::wait_limit;
use crate::command::list_moves::move_element;
use crate::command::lists::{end_named, pop_elements};
use crate::command::pops::{pop_or_wait, several_or_wait};
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::effects::WaitLimit;
use crate::error::ErrorReply;
use crate::keyspace::list::{End, List};
use crate::keyspace::waiters::AwaitedKind;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&BLPOP, &BRPOP, &BLMOVE, &BRPOPLPUSH, &BLMPOP];

const BLPOP: Spec = Spec::on_keys("blpop", -3, |context, arguments| {
    pop_or_wait::<List, End>(
        context,
        arguments,
        End::Left,
        pop_elements,
        AwaitedKind::List,
    )
})
.keys(KeyPositions::ALL_BUT_LAST)
.flags(Flags::WRITE_KEYS.with(Flags::NO_SCRIPT))
.and(Flags::BLOCKING)
.about(Categories::LIST, &[KeyAccess::TAKE]);

const BRPOP: Spec = BLPOP.variant("brpop", |context, arguments| {
    pop_or_wait::<List, End>(
        context,
        arguments,
        End::Right,
        pop_elements,
        AwaitedKind::List,
    )
});

const BLMOVE: Spec = Spec::on_keys("blmove", 6, blmove)
    .keys(KeyPositions::TWO)
    .flags(Flags::GROW_KEYS.with(Flags::NO_SCRIPT))
    .and(Flags::BLOCKING.with(Flags::WHOLE_VALUE))
    .about(Categories::LIST, KeyAccess::MOVE);

fn blmove(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (from, to) = (end_named(arguments[3])?, end_named(arguments[4])?);
    let limit = wait_limit(arguments[5])?;
    move_or_wait(context, arguments, from, to, limit)
}

const BRPOPLPUSH: Spec = BLMOVE.variant("brpoplpush", brpoplpush).arity(4);

fn brpoplpush(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let limit = wait_limit(arguments[3])?;
    move_or_wait(context, arguments, End::Right, End::Left, limit)
}

fn move_or_wait(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    from: End,
    to: End,
    limit: WaitLimit,
) -> Result<Reply, ErrorReply> {
    let moved = move_element(context, arguments[1], arguments[2], from, to)?;
    if moved == Reply::Nil {
        context.wait_for(arguments, 1..2, AwaitedKind::List, limit);
    }
    Ok(moved)
}

const BLMPOP: Spec = Spec::on_keys("blmpop", -5, blmpop)
    .flags(Flags::WRITE_KEYS.with(Flags::BLOCKING))
    .and(Flags::MOVABLE_KEYS)
    .about(Categories::LIST, &[KeyAccess::TAKE])
    .counted_at(2);

fn blmpop(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    several_or_wait::<List, End>(
        context,
        arguments,
        end_named,
        pop_elements,
        AwaitedKind::List,
    )
}
