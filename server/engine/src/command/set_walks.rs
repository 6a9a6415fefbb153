//! Some members of a set: SSCAN, SRANDMEMBER and SPOP.

use std::sync::Arc;

use crate::command::about::{Categories, KeyAccess};
use crate::command::spec::{Family, Flags, Spec};
use crate::command::walks::{count_of, different, sample, scan};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::change::Change;
use crate::keyspace::members::Members;
use crate::notifications::Class;
use crate::number::parse_integer;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&SSCAN, &SRANDMEMBER, &SPOP];

const SSCAN: Spec = Spec::on_key("sscan", -3, |context, arguments| {
    scan::<Members, _>(context, arguments, add_member)
})
.flags(Flags::READ_KEYS)
.about(Categories::SET, &[KeyAccess::READ]);

fn add_member(
    set: &Members,
    offset: usize,
    effects: &mut Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), ErrorReply> {
    if let Some(member) = set.at(offset) {
        effects.charge(member.len())?;
        replies.push(Reply::value(member));
    }
    Ok(())
}

const SRANDMEMBER: Spec = Spec::on_key("srandmember", -2, srandmember)
    .flags(Flags::READ_KEYS)
    .about(Categories::SET, &[KeyAccess::READ]);

fn srandmember(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let count = match arguments[2..] {
        [] => None,
        [count] => Some(count_of(count)?),
        _ => return Err(ErrorReply::SYNTAX),
    };
    let found = context.lookup(arguments[1]);
    let mut members = sample::<Members>(context, &found, count.unwrap_or(1), add_member)?;
    Ok(match count {
        Some(_) => Reply::Array(members),
        None => members.pop().unwrap_or(Reply::Nil),
    })
}

const SPOP: Spec = Spec::on_key("spop", -2, spop)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::WHOLE_VALUE))
    .about(Categories::SET, &[KeyAccess::TAKE]);

fn spop(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    match arguments[2..] {
        [] => Ok(pop(context, key, 1)?.pop().unwrap_or(Reply::Nil)),
        [count] => {
            let count = parse_integer(count).and_then(|count| usize::try_from(count).ok());
            let count = count.ok_or(NOT_POSITIVE)?;
            Ok(Reply::Set(pop(context, key, count)?))
        }
        _ => Err(ErrorReply::SYNTAX),
    }
}

/// Removes so many random members of a set, or all.
fn pop(
    context: &mut CommandContext<'_>,
    key: &[u8],
    count: usize,
) -> Result<Vec<Reply>, ErrorReply> {
    let found = context.peek(key);
    context.reveal(&found);
    let length = context
        .collection::<Members>(&found)?
        .map_or(0, |set| set.len());
    let offsets = different(context, length, count);
    let Some((set, effects)) = context.collection_and_effects::<Members>(&found)? else {
        return Ok(Vec::new());
    };
    let (mut members, mut replies) = (Vec::new(), Vec::new());
    for offset in offsets {
        add_member(set, offset, effects, &mut replies)?;
        members.extend(set.at(offset).map(Arc::clone));
    }
    if count >= length {
        context.delete(&found, key)?;
    } else if count > 0 {
        let changes = members.iter().map(|member| Change::SetRemove { member });
        context.change(&found, key, changes)?;
    }
    if count > 0 {
        context.notify(Class::Set, "spop", key);
        context.notify_if_gone(key);
    }
    Ok(replies)
}

const NOT_POSITIVE: ErrorReply = ErrorReply::fixed("ERR value is out of range, must be positive");
