//! Parts leave an end of the first of several collections that has any, or a client waits for them: LMPOP, BZPOPMIN and
//! their like.

use crate::command::arguments::{is_option, positive_number, wait_limit};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::collection::Kind;
use crate::keyspace::waiters::AwaitedKind;
use crate::reply::Reply;

/// Takes so many parts from an end of a collection that exists.
pub(super) type Pop<E> =
    fn(&mut CommandContext<'_>, &KeySlot, &[u8], E, usize) -> Result<Vec<Reply>, ErrorReply>;

/// Parts from an end of the first of several collections that has any.
pub(super) struct SeveralPops<'a, E> {
    keys: &'a [&'a [u8]],
    end: E,
    count: usize,
}

impl<'a, E: Copy> SeveralPops<'a, E> {
    /// `numkeys key [key ...] END [COUNT count]`.
    pub(super) fn parse(
        arguments: &'a [&'a [u8]],
        end_named: fn(&[u8]) -> Result<E, ErrorReply>,
    ) -> Result<SeveralPops<'a, E>, ErrorReply> {
        let number = positive_number(arguments[0], "ERR numkeys should be greater than 0")?;
        let (keys, rest) = arguments[1..]
            .split_at_checked(number)
            .ok_or(ErrorReply::SYNTAX)?;
        let [end, options @ ..] = rest else {
            return Err(ErrorReply::SYNTAX);
        };
        let end = end_named(end)?;
        let count = match options {
            [] => 1,
            [option, count, rest @ ..] if is_option(option, "count") => {
                let count = positive_number(count, "ERR count should be greater than 0")?;
                if !rest.is_empty() {
                    return Err(ErrorReply::SYNTAX);
                }
                count
            }
            _ => return Err(ErrorReply::SYNTAX),
        };
        Ok(SeveralPops { keys, end, count })
    }

    pub(super) fn run<K: Kind>(
        &self,
        context: &mut CommandContext<'_>,
        pop: Pop<E>,
    ) -> Result<Reply, ErrorReply> {
        let Some((key, found)) = first_key::<K>(context, self.keys)? else {
            return Ok(Reply::NilArray);
        };
        context.effects.charge(key.len())?;
        context.effects.charge(0)?;
        let popped = pop(context, &found, key, self.end, self.count)?;
        Ok(Reply::Array(vec![Reply::bulk(key), Reply::Array(popped)]))
    }
}

/// BLMPOP and BZMPOP.
pub(super) fn several_or_wait<K: Kind, E: Copy>(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    end_named: fn(&[u8]) -> Result<E, ErrorReply>,
    pop: Pop<E>,
    kind: AwaitedKind,
) -> Result<Reply, ErrorReply> {
    let request = SeveralPops::parse(&arguments[2..], end_named)?;
    let limit = wait_limit(arguments[1])?;
    let reply = request.run::<K>(context, pop)?;
    if reply == Reply::NilArray {
        let keys = 3..request.keys.len().saturating_add(3);
        context.wait_for(arguments, keys, kind, limit);
    }
    Ok(reply)
}

/// BLPOP, BZPOPMIN and their like: one part.
pub(super) fn pop_or_wait<K: Kind, E>(
    context: &mut CommandContext<'_>,
    arguments: &[&[u8]],
    end: E,
    pop: Pop<E>,
    kind: AwaitedKind,
) -> Result<Reply, ErrorReply> {
    let keys = 1..arguments.len().saturating_sub(1);
    let limit = wait_limit(arguments[arguments.len().saturating_sub(1)])?;
    let Some((key, found)) = first_key::<K>(context, &arguments[keys.clone()])? else {
        context.wait_for(arguments, keys, kind, limit);
        return Ok(Reply::NilArray);
    };
    context.effects.charge(key.len())?;
    let mut replies = vec![Reply::bulk(key)];
    replies.extend(pop(context, &found, key, end, 1)?);
    Ok(Reply::Array(replies))
}

/// The first of these keys that there is. An error if it holds another type.
fn first_key<'a, K: Kind>(
    context: &mut CommandContext<'_>,
    keys: &[&'a [u8]],
) -> Result<Option<(&'a [u8], KeySlot)>, ErrorReply> {
    for key in keys {
        let found = context.peek(key);
        context.reveal(&found);
        if context.collection::<K>(&found)?.is_some() {
            return Ok(Some((key, found)));
        }
    }
    Ok(None)
}
