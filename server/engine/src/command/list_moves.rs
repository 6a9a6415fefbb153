//! Elements go from list to list, or come from the first list that has one.

use crate::command::about::{Categories, KeyAccess};
use crate::command::lists::{end_named, pop_elements, pop_event, push_event, push_or_create};
use crate::command::pops::SeveralPops;
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::keyspace::change::Change;
use crate::keyspace::list::{End, List};
use crate::mutation;
use crate::notifications::Class;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&LMOVE, &RPOPLPUSH, &LMPOP];

const LMOVE: Spec = Spec::on_keys("lmove", 5, lmove)
    .keys(KeyPositions::TWO)
    .flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::LIST, KeyAccess::MOVE);

fn lmove(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (from, to) = (end_named(arguments[3])?, end_named(arguments[4])?);
    move_element(context, arguments[1], arguments[2], from, to)
}

const RPOPLPUSH: Spec = LMOVE.variant("rpoplpush", rpoplpush).arity(3);

fn rpoplpush(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    move_element(context, arguments[1], arguments[2], End::Right, End::Left)
}

/// Moves an element, whole or not at all; nothing where the source is no key.
pub(super) fn move_element(
    context: &mut CommandContext<'_>,
    source: &[u8],
    destination: &[u8],
    from: End,
    to: End,
) -> Result<Reply, ErrorReply> {
    let found = context.peek(source);
    context.reveal(&found);
    let Some(list) = context.collection::<List>(&found)? else {
        return Ok(Reply::Nil);
    };
    let Some(element) = list.at_end(from).cloned() else {
        return Ok(Reply::Nil);
    };
    let length = list.len();
    if source == destination {
        context.effects.charge(element.len())?;
        if from != to && length > 1 {
            rotate(context, &found, source, from, &element)?;
        } else {
            context.note_rewritten(&found, source);
        }
        context.notify(Class::List, push_event(to), source);
        context.notify(Class::List, pop_event(from), source);
        return Ok(Reply::value(&element));
    }
    let other = context.peek(destination);
    context.reveal(&other);
    context.collection::<List>(&other)?;
    context.effects.charge(element.len())?;
    // Once the destination has it, the source can no longer refuse to lose it.
    let written = mutation::bytes_of_replace(destination, element.len());
    let removed = mutation::bytes_of(&[source]).saturating_add(POP_BYTES);
    context.admit_bytes(written.saturating_add(removed))?;
    push_or_create(context, &other, destination, to, &[&element])?;
    let found = context.peek(source);
    if length == 1 {
        context.delete(&found, source)?;
    } else {
        let change = Change::ListPop {
            end: from,
            count: 1,
        };
        context.change(&found, source, std::iter::once(change))?;
    }
    context.notify(Class::List, push_event(to), destination);
    context.notify(Class::List, pop_event(from), source);
    context.notify_if_gone(source);
    Ok(Reply::value(&element))
}

/// Takes the element of one end of a list with several to the other.
fn rotate(
    context: &mut CommandContext<'_>,
    found: &KeySlot,
    key: &[u8],
    from: End,
    element: &[u8],
) -> Result<(), ErrorReply> {
    let is_partial = |slot| context.keyspace.is_partial(slot);
    let changes: &[Change<'_>] = match from {
        // Replay has the right end of the list only, to which the element comes: so it is named.
        End::Left if found.live.is_some_and(is_partial) => &[
            Change::ListPop {
                end: from,
                count: 1,
            },
            Change::ListPush {
                end: from.other(),
                element,
            },
        ],
        _ => &[Change::ListRotate { from }],
    };
    context.change(found, key, changes.iter().copied())?;
    Ok(())
}

const LMPOP: Spec = Spec::on_keys("lmpop", -4, lmpop)
    .flags(Flags::WRITE_KEYS.with(Flags::MOVABLE_KEYS))
    .about(Categories::LIST, &[KeyAccess::TAKE])
    .counted_at(1);

fn lmpop(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    SeveralPops::parse(&arguments[1..], end_named)?.run::<List>(context, pop_elements)
}

/// What a pop takes in the log beside the key, and the marks of both mutations.
const POP_BYTES: usize = 64;
