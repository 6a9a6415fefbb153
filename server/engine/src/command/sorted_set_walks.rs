//! Some members of a sorted set: ZSCAN and ZRANDMEMBER.

use crate::command::about::{Categories, KeyAccess};
use crate::command::sorted_sets::MemberShape;
use crate::command::spec::{Family, Flags, Spec};
use crate::command::walks::{sample, sampling, scan};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::sorted_set::SortedSet;
use crate::number::double_text;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&ZSCAN, &ZRANDMEMBER];

const ZSCAN: Spec = Spec::on_key("zscan", -3, |context, arguments| {
    scan::<SortedSet, _>(context, arguments, add_pair)
})
.flags(Flags::READ_KEYS)
.about(Categories::SORTED_SET, &[KeyAccess::READ]);

/// A score is text here, also with RESP3.
fn add_pair(
    set: &SortedSet,
    offset: usize,
    effects: &mut Effects,
    items: &mut Vec<Reply>,
) -> Result<(), ErrorReply> {
    let Some((member, score)) = set.at(offset) else {
        return Ok(());
    };
    let text = double_text(score);
    effects.charge(member.len())?;
    effects.charge(text.len())?;
    items.extend([Reply::value(member), Reply::bulk(text)]);
    Ok(())
}

const ZRANDMEMBER: Spec = Spec::on_key("zrandmember", -2, zrandmember)
    .flags(Flags::READ_KEYS)
    .about(Categories::SORTED_SET, &[KeyAccess::READ]);

fn zrandmember(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (count, with_scores) = sampling(&arguments[2..], "withscores")?;
    let shape = MemberShape::of(with_scores, context.caller.protocol);
    let found = context.lookup(arguments[1]);
    let add = |set: &SortedSet, offset, effects: &mut Effects, replies: &mut Vec<Reply>| match set
        .at(offset)
    {
        Some((member, score)) => shape.add(member, score, effects, replies),
        None => Ok(()),
    };
    let mut members = sample::<SortedSet>(context, &found, count.unwrap_or(1), add)?;
    Ok(match count {
        Some(_) => Reply::Array(members),
        None => members.pop().unwrap_or(Reply::Nil),
    })
}
