//! The end of a lock by force: which token is meant, and what it came to.
//!
//! Invariant: only a token that was shown, or that the operator names, is ended. Who has got the lock since keeps it.

use super::lock_view::{LockState, LockView};
use super::sight::LockKind;
use crate::votes::majority;

/// Why no token was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// No node names a holder, and enough have answered to say that nobody has the lock.
    Free,
    /// Too few nodes have answered, and none of them names a holder, or the token that the operator names: the others could be a majority
    /// that has it.
    Unknown,
    /// The token that the operator names has no majority, whatever the nodes say that have not answered, and is on none that has.
    OtherToken,
    /// Several hold it, or nodes name several: the operator has to say which one is meant.
    Several,
}

/// The token under which the lock is to be ended: the first that the operator names and a node has, or else that of the only holder. What
/// counts as one program may be several, so it is chosen only where somebody is asked, and then each token is shown.
///
/// # Errors
/// When there is no holder, or more than one could be meant.
pub fn choose<'v>(
    view: &'v LockView,
    named: &'v [Vec<u8>],
    is_asked: bool,
) -> Result<&'v [u8], NoChoice> {
    let Some(first) = view.holders.first() else {
        return Err(match view.state {
            LockState::Unknown => NoChoice::Unknown,
            _ => NoChoice::Free,
        });
    };
    if let Some(token) = named.first() {
        // A node is asked to end one reader.
        if view.kind == LockKind::Shared && named.iter().any(|other| other != token) {
            return Err(NoChoice::Several);
        }
        let is_there = |one: &&Vec<u8>| view.holders.iter().any(|holder| holder.is_named(one));
        // A node looks for the token among all readers, also among those whom it does not name.
        let unnamed = has_unnamed(view).then_some(token);
        let token = named.iter().find(is_there).or(unnamed);
        let silent = view.nodes.saturating_sub(view.answered);
        let why = match silent >= majority(view.nodes) {
            true => NoChoice::Unknown,
            false => NoChoice::OtherToken,
        };
        return token.map(Vec::as_slice).ok_or(why);
    }
    // Who has a majority has the string. A hash ends as a whole, with all who are in it.
    let is_one = match view.kind {
        LockKind::String => view.holders.len() == 1 || view.state == LockState::Held,
        LockKind::Hash | LockKind::Shared => view.holders.len() == 1,
    };
    let is_meant = is_one && (is_asked || first.clients.is_empty());
    is_meant.then_some(&*first.token).ok_or(NoChoice::Several)
}

/// What each node is asked to end: the token that it has itself of those that are named, or else of the program that was chosen. A node that
/// has none of them is asked for the chosen one.
#[must_use]
pub fn tokens<'v>(view: &'v LockView, token: &'v [u8], named: &[Vec<u8>]) -> Vec<&'v [u8]> {
    let on = |node: usize| {
        let here = view.holders.iter().filter(|one| one.nodes.contains(&node));
        let mut meant = here.filter(|one| match named.is_empty() {
            true => one.is_named(token),
            false => named.iter().any(|named| named == one.token_on(node)),
        });
        meant.next().map_or(token, |one| one.token_on(node))
    };
    (0..view.nodes).map(on).collect()
}

/// How many nodes name a holder that was not to be ended.
#[must_use]
pub fn others(asked: &[&[u8]], after: &LockView) -> usize {
    let is_other = |(node, token): &(usize, &&[u8])| {
        let mut holders = after.holders.iter();
        holders.any(|one| one.nodes.contains(node) && one.token_on(*node) != **token)
    };
    asked.iter().enumerate().filter(is_other).count()
}

/// Whether readers hold it whom no node names.
fn has_unnamed(view: &LockView) -> bool {
    view.kind == LockKind::Shared && (view.unshown > 0 || view.state == LockState::Unknown)
}

/// What the end of a lock by force came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// The token has no majority, whatever the nodes say that have not answered.
    Ended,
    /// It was on no node any more, and nothing was released.
    Gone,
    /// Too few nodes have answered: it may still have a majority.
    MayBeHeld,
}

/// Judges what the nodes have replied, each whether it has released the lock under the token it was asked for, by how it was held before and
/// how it is held behind that.
#[must_use]
pub fn outcome(
    asked: &[&[u8]],
    replies: &[Result<bool, String>],
    before: &LockView,
    after: &LockView,
) -> Forced {
    // Each node of a hash has another token: one that did not answer was asked for that of another node.
    let was_unseen = |node: usize| {
        let mut silent = before.silent.iter();
        after.kind == LockKind::Hash && silent.any(|(silent, _)| *silent == node)
    };
    let is_left = |(node, token): &(usize, &&[u8])| {
        let is_it = |own: &[u8]| own == **token || was_unseen(*node);
        let mut holders = after.holders.iter();
        holders.any(|one| one.nodes.contains(node) && is_it(one.token_on(*node)))
    };
    let left = asked.iter().enumerate().filter(is_left).count();
    let is_known = |token: &&[u8]| before.holders.iter().any(|one| one.is_named(token));
    let silent = after.nodes.saturating_sub(after.answered);
    // Of a reader whom no node names, a node that has replied keeps nothing, and any other one may keep it.
    let unheard = match has_unnamed(after) || !asked.iter().any(is_known) {
        true => silent.max(replies.iter().filter(|reply| reply.is_err()).count()),
        false => silent,
    };
    let may_have = left + unheard;
    if may_have >= majority(after.nodes) {
        return Forced::MayBeHeld;
    }
    match replies.contains(&Ok(true)) {
        true => Forced::Ended,
        false => Forced::Gone,
    }
}

#[cfg(test)]
mod tests;
