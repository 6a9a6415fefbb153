//! Counters: strings that are whole numbers of 64 bits.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::integer;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::notifications::Class;
use crate::number::parse_integer;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&INCR, &DECR, &INCRBY, &DECRBY];

const INCR: Spec = Spec::on_key("incr", 2, |context, arguments| {
    add(context, arguments[1], 1)
})
.flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::SIMPLE))
.about(Categories::STRING, &[KeyAccess::CHANGE]);

const DECR: Spec = INCR.variant("decr", |context, arguments| add(context, arguments[1], -1));

const INCRBY: Spec = INCR
    .variant("incrby", |context, arguments| {
        add(context, arguments[1], integer(arguments[2])?)
    })
    .arity(3);

const DECRBY: Spec = INCR.variant("decrby", decrby).arity(3);

fn decrby(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let decrement = integer(arguments[2])?;
    let increment = decrement
        .checked_neg()
        .ok_or(ErrorReply::fixed("ERR decrement would overflow"))?;
    add(context, arguments[1], increment)
}

fn add(context: &mut CommandContext<'_>, key: &[u8], increment: i64) -> Result<Reply, ErrorReply> {
    let found = context.peek(key);
    context.reveal(&found);
    let old = match context.string(&found)? {
        None => 0,
        Some(digits) => parse_integer(digits).ok_or(ErrorReply::NOT_AN_INTEGER)?,
    };
    let sum = old
        .checked_add(increment)
        .ok_or(ErrorReply::WOULD_OVERFLOW)?;
    let deadline = context.deadline(&found);
    context.put_string(
        &found,
        key,
        itoa::Buffer::new().format(sum).as_bytes(),
        deadline,
    )?;
    context.notify(Class::String, "incrby", key);
    Ok(Reply::Integer(sum))
}
