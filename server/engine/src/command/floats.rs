//! Numbers with a fraction: INCRBYFLOAT and HINCRBYFLOAT.

use crate::command::about::{Categories, KeyAccess};
use crate::command::hashes::set_or_create;
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::extended::{ExtendedNumber, ParsedNumber};
use crate::keyspace::fields::Fields;
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&INCRBYFLOAT, &HINCRBYFLOAT];

/// A sum may have some thousand digits, however short its summands are: hence the flag.
const INCRBYFLOAT: Spec = Spec::on_key("incrbyfloat", 3, incrbyfloat)
    .flags(Flags::GROW_KEYS.with(Flags::FAST).with(Flags::WHOLE_VALUE))
    .about(Categories::STRING, &[KeyAccess::CHANGE]);

fn incrbyfloat(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let key = arguments[1];
    let found = context.peek(key);
    context.reveal(&found);
    let old = match context.string(&found)? {
        None => ParsedNumber::Finite(ExtendedNumber::ZERO),
        Some(text) => ExtendedNumber::parse(text).ok_or(NOT_A_FLOAT)?,
    };
    let increment = ExtendedNumber::parse(arguments[2]).ok_or(NOT_A_FLOAT)?;
    let sum = sum_of(old, increment)?;
    context.effects.charge(sum.len())?;
    let deadline = context.deadline(&found);
    context.put_string(&found, key, sum.as_bytes(), deadline)?;
    context.notify(Class::String, "incrbyfloat", key);
    Ok(Reply::bulk(sum))
}

const HINCRBYFLOAT: Spec = INCRBYFLOAT
    .variant("hincrbyfloat", hincrbyfloat)
    .arity(4)
    .about(Categories::HASH, &[KeyAccess::CHANGE]);

fn hincrbyfloat(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    let (key, field) = (arguments[1], arguments[2]);
    let increment = ExtendedNumber::parse(arguments[3]).ok_or(NOT_A_FLOAT)?;
    if increment == ParsedNumber::Infinite {
        return Err(ErrorReply::fixed("ERR value is NaN or Infinity"));
    }
    let found = context.peek(key);
    context.reveal(&found);
    let fields = context.collection::<Fields>(&found)?;
    let old = match fields.and_then(|fields| fields.get(field)) {
        None => ParsedNumber::Finite(ExtendedNumber::ZERO),
        Some(text) => {
            ExtendedNumber::parse(text).ok_or(ErrorReply::fixed("ERR hash value is not a float"))?
        }
    };
    let sum = sum_of(old, increment)?;
    context.effects.charge(sum.len())?;
    set_or_create(context, &found, key, &[field, sum.as_bytes()])?;
    context.notify(Class::Hash, "hincrbyfloat", key);
    Ok(Reply::bulk(sum))
}

fn sum_of(old: ParsedNumber, increment: ParsedNumber) -> Result<String, ErrorReply> {
    let (ParsedNumber::Finite(old), ParsedNumber::Finite(increment)) = (old, increment) else {
        return Err(NOT_FINITE);
    };
    Ok(old.plus(increment).ok_or(NOT_FINITE)?.text())
}

const NOT_A_FLOAT: ErrorReply = ErrorReply::fixed("ERR value is not a valid float");
const NOT_FINITE: ErrorReply = ErrorReply::fixed("ERR increment would produce NaN or Infinity");
