//! Redisson's lock over several nodes, which names another holder on each: a program has a client for each node, and each client has a
//! random id. The field is `id:thread`.
//!
//! Invariant: only ids are joined that one node each names, alone, and that are followed by the same thread. Two programs by
//! threads of the same number look like one while they take the lock at the same moment, and for a whole lease while some nodes have what
//! one of them has left. So [`super::Mark::IdsDiffer`] is shown with what was joined, and none of it is ended by force that was not shown
//! or named.

use super::super::sight::{LockKind, Sight};
use super::{NodeIndex, NodeView, Sights};

/// The thread that its clients name, the first of their tokens, and where they were seen.
type Program<'v> = (Option<&'v [u8]>, &'v [u8], Sights<'v>);

/// Joins the holders that are clients of one program, as far as that can be seen.
pub(super) fn join<'v>(
    named: Vec<(&'v [u8], Sights<'v>)>,
    views: &[NodeView],
) -> Vec<(&'v [u8], Sights<'v>)> {
    let mut joined: Vec<Program<'v>> = Vec::new();
    for (token, sights) in named {
        let thread = match sights[..] {
            [(node, _)] if is_alone_in_a_hash(views, node) => thread(token),
            _ => None,
        };
        let mut known = joined.iter_mut();
        match known.find(|(other, ..)| thread.is_some() && *other == thread) {
            Some((.., others)) => others.extend(sights),
            None => joined.push((thread, token, sights)),
        }
    }
    let parts = joined.into_iter();
    parts.map(|(_, token, sights)| (token, sights)).collect()
}

fn is_alone_in_a_hash(views: &[NodeView], node: NodeIndex) -> bool {
    matches!(&views[node], Ok((_, Sight::Lock(lock))) if lock.kind == LockKind::Hash && lock.holders.len() == 1)
}

/// What stands behind the id of a client.
fn thread(token: &[u8]) -> Option<&[u8]> {
    let (id, thread) = token.split_at_checked(ID_BYTES)?;
    let is_id = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b":_-".contains(byte);
    let is_one = id.iter().all(is_id) && thread.len() > 1 && thread.starts_with(b":");
    (is_one && thread.iter().all(is_word)).then_some(thread)
}

/// Of a UUID as text.
const ID_BYTES: usize = 36;
