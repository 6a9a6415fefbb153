//! Sets: members under one key, each of them once.

use crate::command::about::{Categories, KeyAccess};
use crate::command::lists::{length, remove};
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::change::Change;
use crate::keyspace::members::Members;
use crate::notifications::Class;
use crate::reply::Reply;
use crate::time::Deadline;

pub(super) const FAMILY: Family = &[
    &SADD,
    &SREM,
    &SISMEMBER,
    &SMISMEMBER,
    &SCARD,
    &SMEMBERS,
    &SMOVE,
];

const SADD: Spec = Spec::on_key("sadd", -3, sadd)
    .flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::SET, &[KeyAccess::ADD]);

fn sadd(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, members) = (arguments[1], &arguments[2..]);
    let found = context.peek(key);
    context.reveal(&found);
    if context.collection::<Members>(&found)?.is_some() {
        let changes = members.iter().map(|member| Change::SetAdd { member });
        let added = context.change(&found, key, changes)?;
        if added > 0 {
            context.notify(Class::Set, "sadd", key);
        }
        return Ok(Reply::count(added));
    }
    let mut set = Members::default();
    for member in members {
        set.add(*member, context.keyspace.seed());
    }
    let count = set.len();
    context.put_collection(&found, key, set, Deadline::NEVER)?;
    context.notify(Class::Set, "sadd", key);
    Ok(Reply::count(count))
}

const SREM: Spec = Spec::on_key("srem", -3, |context, arguments| {
    let removed = |member| Change::SetRemove { member };
    remove::<Members>(context, arguments, Class::Set, "srem", removed)
})
.flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
.about(Categories::SET, &[KeyAccess::SUBTRACT]);

const SISMEMBER: Spec = Spec::on_key("sismember", 3, sismember)
    .flags(Flags::READ_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
    .about(Categories::SET, &[KeyAccess::LOOK]);

fn sismember(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let set = context.collection::<Members>(&found)?;
    Ok(Reply::flag(
        set.is_some_and(|set| set.contains(arguments[2])),
    ))
}

const SMISMEMBER: Spec = SISMEMBER
    .variant("smismember", smismember)
    .arity(-3)
    .flags(Flags::READ_KEYS.with(Flags::FAST))
    .about(Categories::SET, &[KeyAccess::READ]);

fn smismember(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    context.collection::<Members>(&found)?;
    let mut replies = Vec::new();
    for member in &arguments[2..] {
        context.effects.charge(0)?;
        let set = context.collection::<Members>(&found)?;
        replies.push(Reply::flag(set.is_some_and(|set| set.contains(member))));
    }
    Ok(Reply::Array(replies))
}

const SCARD: Spec = SISMEMBER.variant("scard", length::<Members>).arity(2);

const SMEMBERS: Spec = Spec::on_key("smembers", 2, smembers)
    .flags(Flags::READ_KEYS)
    .about(Categories::SET, &[KeyAccess::READ]);

fn smembers(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let mut replies = Vec::new();
    if let Some((set, effects)) = context.collection_and_effects::<Members>(&found)? {
        for member in set.iter() {
            effects.charge(member.len())?;
            replies.push(Reply::value(member));
        }
    }
    Ok(Reply::Set(replies))
}

// The member comes twice in the log, and once in the arguments.
const SMOVE: Spec = Spec::on_keys("smove", 4, smove)
    .keys(KeyPositions::TWO)
    .flags(Flags::WRITE_KEYS.with(Flags::FAST).with(Flags::WHOLE_VALUE))
    .about(Categories::SET, KeyAccess::MOVE);

fn smove(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, other, member) = (arguments[1], arguments[2], arguments[3]);
    let (from, to) = (context.peek(key), context.peek(other));
    context.reveal(&from);
    if from.live.is_none() {
        return Ok(Reply::Integer(0));
    }
    let has_member = |set: Option<&Members>| set.is_some_and(|set| set.contains(member));
    let is_there = has_member(context.collection::<Members>(&from)?);
    context.reveal(&to);
    context.collection::<Members>(&to)?;
    if is_there && key != other {
        let had_member = has_member(context.collection::<Members>(&to)?);
        let told = context.effects.published.len();
        context.move_member(&from, key, &to, other, member)?;
        // In Redis's order: what the source has lost, and then that the destination is new.
        let of_destination = context.effects.published.split_off(told);
        context.notify(Class::Set, "srem", key);
        context.notify_if_gone(key);
        context.effects.published.extend(of_destination);
        if !had_member {
            context.notify(Class::Set, "sadd", other);
        }
    }
    Ok(Reply::flag(is_there))
}
