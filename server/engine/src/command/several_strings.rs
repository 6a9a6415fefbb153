//! Several strings at once: MGET, MSET, MSETNX.

use crate::command::about::{Categories, KeyAccess};
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&MGET, &MSET, &MSETNX];

const MGET: Spec = Spec::on_keys("mget", -2, mget)
    .keys(KeyPositions::ALL)
    .flags(Flags::READ_KEYS.with(Flags::FAST))
    .about(Categories::STRING, &[KeyAccess::READ]);

fn mget(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let mut replies = Vec::new();
    for key in &arguments[1..] {
        let mut found = context.lookup(key);
        if context.string(&found).is_err() {
            // A key of another type is answered as an absent one.
            found.live = None;
        }
        replies.push(context.string_reply(&found)?);
    }
    Ok(Reply::Array(replies))
}

const MSET: Spec = Spec::on_keys("mset", -3, mset)
    .keys(KeyPositions::EVERY_SECOND)
    .flags(Flags::GROW_KEYS)
    .about(Categories::STRING, &[KeyAccess::OVERWRITE]);

fn mset(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let pairs = pairs_of(arguments, "mset")?;
    for pair in pairs.chunks_exact(2) {
        let found = context.peek(pair[0]);
        context.reveal(&found);
    }
    context.put_strings(pairs)?;
    Ok(Reply::Ok)
}

const MSETNX: Spec = MSET
    .variant("msetnx", msetnx)
    .about(Categories::STRING, &[KeyAccess::INSERT]);

fn msetnx(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let pairs = pairs_of(arguments, "msetnx")?;
    let keys = || pairs.chunks_exact(2).map(|pair| pair[0]);
    // As that of SET NX, a refusal says no more than that somebody holds a key.
    if keys().any(|key| context.peek(key).live.is_some()) {
        return Ok(Reply::Integer(0));
    }
    for key in keys() {
        let found = context.peek(key);
        context.reveal(&found);
    }
    context.put_strings(pairs)?;
    Ok(Reply::Integer(1))
}

/// Keys and strings, which alternate.
fn pairs_of<'a, 'b>(arguments: &'a [&'b [u8]], name: &str) -> Result<&'a [&'b [u8]], ErrorReply> {
    let pairs = &arguments[1..];
    match pairs.len() % 2 {
        0 => Ok(pairs),
        _ => Err(ErrorReply::wrong_arity(name)),
    }
}
