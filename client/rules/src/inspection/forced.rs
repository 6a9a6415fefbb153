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
    /// Too few nodes have answered, and none of them names a holder.
    Unknown,
    /// The token that the operator names is on no node that has answered.
    OtherToken,
    /// Several hold it, or nodes name several: the operator has to say which one is meant.
    Several,
}

/// The token under which the lock is to be ended.
///
/// # Errors
/// When there is no holder, or more than one could be meant.
pub fn choose<'v>(view: &'v LockView, token: Option<&'v [u8]>) -> Result<&'v [u8], NoChoice> {
    let Some(first) = view.holders.first() else {
        return Err(match view.state {
            LockState::Unknown => NoChoice::Unknown,
            _ => NoChoice::Free,
        });
    };
    if let Some(token) = token {
        let mut holders = view.holders.iter();
        // A node looks for the token among all readers, also among those whom it does not name.
        let may_hold = has_unnamed(view) || holders.any(|holder| holder.is_named(token));
        return may_hold.then_some(token).ok_or(NoChoice::OtherToken);
    }
    // Who has a majority has the string. A hash ends as a whole, with all who are in it.
    let is_one = match view.kind {
        LockKind::String => view.holders.len() == 1 || view.state == LockState::Held,
        LockKind::Hash | LockKind::Shared => view.holders.len() == 1,
    };
    is_one.then_some(&*first.token).ok_or(NoChoice::Several)
}

/// What each node is asked to end: another token where it names another client of the same program.
#[must_use]
pub fn tokens<'v>(view: &'v LockView, token: &'v [u8]) -> Vec<&'v [u8]> {
    let holder = view.holders.iter().find(|holder| holder.is_named(token));
    let on = |node| holder.map_or(token, |holder| holder.token_on(node));
    (0..view.nodes).map(on).collect()
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

/// Judges what the nodes have replied, each whether it has released the lock, by how it was held before and how it is held behind that.
#[must_use]
pub fn outcome(
    token: &[u8],
    replies: &[Result<bool, String>],
    before: &LockView,
    after: &LockView,
) -> Forced {
    let named = before.holders.iter().find(|holder| holder.is_named(token));
    let is_left = |token: &[u8]| named.is_some_and(|named| named.is_named(token));
    // Of the clients of one program any may be the first that is left.
    let left = after
        .holders
        .iter()
        .filter(|holder| holder.token == token || is_left(&holder.token[..]));
    let silent = after.nodes.saturating_sub(after.answered);
    // Of a reader whom no node names, a node that has replied keeps nothing, and any other one may keep it.
    let unheard = match named.is_none() || has_unnamed(after) {
        true => silent.max(replies.iter().filter(|reply| reply.is_err()).count()),
        false => silent,
    };
    let may_have = left.map(|holder| holder.votes).sum::<usize>() + unheard;
    if may_have >= majority(after.nodes) {
        return Forced::MayBeHeld;
    }
    match replies.contains(&Ok(true)) {
        true => Forced::Ended,
        false => Forced::Gone,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::lock_view::HolderView;
    use super::super::sight::About;
    use super::*;

    fn view(kind: LockKind, votes: &[(&str, usize)], answered: usize) -> LockView {
        let holder = |(token, votes): &(&str, usize)| HolderView {
            token: token.as_bytes().to_vec(),
            votes: *votes,
            nodes: (0..*votes).collect(),
            clients: Vec::new(),
            left: Some(Duration::from_secs(9)),
            about: About::default(),
        };
        let holders: Vec<HolderView> = votes.iter().map(holder).collect();
        let most = votes.iter().map(|(_, votes)| *votes).max().unwrap_or(0);
        let state = match most {
            3.. => LockState::Held,
            _ if most + (5 - answered) >= 3 => LockState::Unknown,
            0 => LockState::Free,
            _ => LockState::Minority,
        };
        let (nodes, silent, marks) = (5, Vec::new(), Vec::new());
        LockView {
            state,
            kind,
            holders,
            unshown: 0,
            answered,
            nodes,
            silent,
            waiters: None,
            marks,
        }
    }

    fn chosen(view: &LockView, token: Option<&str>) -> Result<String, NoChoice> {
        let token = choose(view, token.map(str::as_bytes))?;
        Ok(String::from_utf8_lossy(token).into_owned())
    }

    #[test]
    fn the_token_that_is_named_is_meant_and_no_other_holder() {
        let held = view(LockKind::String, &[("new", 5)], 5);
        assert_eq!(chosen(&held, Some("old")), Err(NoChoice::OtherToken));
        assert_eq!(chosen(&held, Some("new")).as_deref(), Ok("new"));
        let readers = view(LockKind::Shared, &[("a", 5), ("b", 4)], 5);
        assert_eq!(chosen(&readers, Some("b")).as_deref(), Ok("b"));
    }

    #[test]
    fn a_reader_whom_no_node_names_is_ended_where_it_is_named() {
        let mut readers = view(LockKind::Shared, &[("a", 5), ("b", 5)], 5);
        assert_eq!(chosen(&readers, Some("z")), Err(NoChoice::OtherToken));
        readers.unshown = 1;
        assert_eq!(chosen(&readers, Some("z")).as_deref(), Ok("z"));
        let judge = |freed: usize, silent: usize| {
            let mut replies = vec![Ok(true); freed];
            replies.extend(vec![Err("no answer".to_owned()); silent]);
            replies.resize(5, Ok(false));
            outcome(b"z", &replies, &readers, &readers)
        };
        assert_eq!(judge(5, 0), Forced::Ended);
        assert_eq!(judge(3, 2), Forced::Ended);
        assert_eq!(judge(2, 3), Forced::MayBeHeld, "three may keep it");
        assert_eq!(judge(0, 0), Forced::Gone);
        // One node is silent at the end, and those that answer name all of their readers by then.
        let errors = [
            Ok(true),
            Ok(true),
            Err(String::new()),
            Err(String::new()),
            Err(String::new()),
        ];
        let fewer = view(LockKind::Shared, &[("a", 4)], 4);
        let judged = outcome(b"z", &errors, &readers, &fewer);
        assert_eq!(judged, Forced::MayBeHeld, "three may keep it");
    }

    #[test]
    fn without_a_token_the_only_one_is_meant_or_the_one_with_a_majority() {
        use LockKind::{Hash, Shared, String};
        for (kind, votes, answered, choice) in [
            (String, &[("a", 5)][..], 5, Ok("a")),
            (String, &[("a", 3), ("b", 2)], 5, Ok("a")),
            (String, &[("a", 2), ("b", 2)], 5, Err(NoChoice::Several)),
            (String, &[("a", 1)], 5, Ok("a")),
            (Hash, &[("c:1", 5)], 5, Ok("c:1")),
            (Hash, &[("c:1", 5), ("c:2", 5)], 5, Err(NoChoice::Several)),
            (Shared, &[("a", 5)], 5, Ok("a")),
            (Shared, &[("a", 5), ("b", 5)], 5, Err(NoChoice::Several)),
            (String, &[], 5, Err(NoChoice::Free)),
            (String, &[], 2, Err(NoChoice::Unknown)),
        ] {
            let chosen = chosen(&view(kind, votes, answered), None);
            assert_eq!(chosen.as_deref(), choice.as_ref().copied(), "{votes:?}");
        }
    }

    #[test]
    fn a_lock_of_redisson_ends_on_each_node_under_the_client_that_the_node_names() {
        let clients = |from: usize| (from..5).map(|node| format!("c{node}:1").into_bytes());
        let mut held = view(LockKind::Hash, &[("c0:1", 5)], 5);
        held.holders[0].clients = clients(0).collect();
        assert_eq!(chosen(&held, None).as_deref(), Ok("c0:1"));
        assert_eq!(chosen(&held, Some("c3:1")).as_deref(), Ok("c3:1"));
        assert_eq!(chosen(&held, Some("c5:1")), Err(NoChoice::OtherToken));
        let all = [b"c0:1", b"c1:1", b"c2:1", b"c3:1", b"c4:1"];
        assert_eq!(tokens(&held, b"c3:1"), all);
        // Two nodes have freed it, and the three others name it still.
        let mut after = view(LockKind::Hash, &[("c2:1", 3)], 5);
        after.holders[0].nodes = vec![2, 3, 4];
        after.holders[0].clients = clients(2).collect();
        let failed = || Err(String::new());
        let replies = [Ok(true), Ok(true), failed(), failed(), failed()];
        let judge = |after| outcome(b"c0:1", &replies, &held, after);
        assert_eq!(judge(&after), Forced::MayBeHeld);
        assert_eq!(judge(&view(LockKind::Hash, &[], 5)), Forced::Ended);
    }

    #[test]
    fn it_has_ended_where_no_silent_nodes_could_give_it_a_majority() {
        let released = |count: usize| -> Vec<Result<bool, String>> {
            let reply = |node| if node < count { Ok(true) } else { Ok(false) };
            (0..5).map(reply).collect()
        };
        let after = |votes, answered| view(LockKind::String, votes, answered);
        let before = after(&[("a", 5)], 5);
        let judge = |count, after: &LockView| outcome(b"a", &released(count), &before, after);
        assert_eq!(judge(5, &after(&[], 5)), Forced::Ended);
        assert_eq!(judge(3, &after(&[], 3)), Forced::Ended);
        assert_eq!(judge(2, &after(&[], 2)), Forced::MayBeHeld);
        assert_eq!(judge(3, &after(&[("a", 2)], 5)), Forced::Ended);
        assert_eq!(judge(3, &after(&[("a", 2)], 4)), Forced::MayBeHeld);
        // Another holder has got it in between, and keeps it.
        assert_eq!(judge(0, &after(&[("b", 5)], 5)), Forced::Gone);
        assert_eq!(judge(1, &after(&[("b", 4)], 5)), Forced::Ended);
    }
}
