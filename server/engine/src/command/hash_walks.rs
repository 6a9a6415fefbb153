//! Some fields of a hash: HSCAN and HRANDFIELD.

use crate::caller::Protocol;
use crate::command::about::{Categories, KeyAccess};
use crate::command::spec::{Family, Flags, Spec};
use crate::command::walks::{any_offset, sample, sampling, scan};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::collection::Kind;
use crate::keyspace::fields::Fields;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&HSCAN, &HRANDFIELD];

const HSCAN: Spec = Spec::on_key("hscan", -3, |context, arguments| {
    scan::<Fields, _>(context, arguments, add_pair)
})
.flags(Flags::READ_KEYS)
.about(Categories::HASH, &[KeyAccess::READ]);

fn add_pair(
    fields: &Fields,
    offset: usize,
    effects: &mut Effects,
    items: &mut Vec<Reply>,
) -> Result<(), ErrorReply> {
    let Some((field, value)) = fields.at(offset) else {
        return Ok(());
    };
    effects.charge(field.len())?;
    effects.charge(value.len())?;
    items.extend([Reply::bulk(field), Reply::value(value)]);
    Ok(())
}

const HRANDFIELD: Spec = Spec::on_key("hrandfield", -2, hrandfield)
    .flags(Flags::READ_KEYS)
    .about(Categories::HASH, &[KeyAccess::READ]);

fn hrandfield(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (count, with_values) = sampling(&arguments[2..], "withvalues")?;
    let Some(count) = count else {
        return one_field(context, arguments[1]);
    };
    let found = context.lookup(arguments[1]);
    let fields = match (with_values, context.caller.protocol) {
        (false, _) => sample::<Fields>(context, &found, count, add_field),
        (true, Protocol::Resp2) => sample::<Fields>(context, &found, count, add_pair),
        (true, Protocol::Resp3) => sample::<Fields>(context, &found, count, add_nested_pair),
    };
    Ok(Reply::Array(fields?))
}

fn one_field(context: &mut CommandContext<'_>, key: &[u8]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(key);
    let length = context
        .collection::<Fields>(&found)?
        .map_or(0, Kind::length);
    let offset = any_offset(context, length);
    let Some((fields, effects)) = context.collection_and_effects::<Fields>(&found)? else {
        return Ok(Reply::Nil);
    };
    let Some((field, _)) = fields.at(offset) else {
        return Ok(Reply::Nil);
    };
    effects.charge(field.len())?;
    Ok(Reply::bulk(field))
}

fn add_field(
    fields: &Fields,
    offset: usize,
    effects: &mut Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), ErrorReply> {
    if let Some((field, _)) = fields.at(offset) {
        effects.charge(field.len())?;
        replies.push(Reply::bulk(field));
    }
    Ok(())
}

fn add_nested_pair(
    fields: &Fields,
    offset: usize,
    effects: &mut Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), ErrorReply> {
    let mut pair = Vec::with_capacity(2);
    add_pair(fields, offset, effects, &mut pair)?;
    effects.charge(0)?;
    replies.push(Reply::Array(pair));
    Ok(())
}
