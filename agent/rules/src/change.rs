//! What a request has made of its locks, which says what step it is on the nodes.

use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::token::Token;
use quorlock_engine::Reply;

use crate::refusal::not_a_lock;

/// What a request has made of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// All were absent, and hold this token for so long now.
    Acquire(Arc<[u8]>, Duration),
    /// All hold the same tokens as before, and end after so long.
    SetEnd(Duration),
    /// Those at these places are gone, and the others as they were.
    Release(Vec<usize>),
}

impl Change {
    /// Whether nodes take it only where so many locks are held as it takes for granted: none of those that it takes, or the one that it
    /// releases. Of several they release those that are held, so that has to be read.
    pub(crate) fn is_conditional(&self, locks: usize, held: usize) -> bool {
        match self {
            Self::Acquire(..) => held == 0,
            Self::Release(_) => held == locks && locks == 1,
            Self::None | Self::SetEnd(_) => false,
        }
    }

    /// Under which token the locks are held that it releases or extends, if that is one token for all of them.
    pub(crate) fn token<'a>(&self, held: &'a [Option<Token>]) -> Option<&'a Token> {
        let first = match self {
            Self::Release(gone) => gone.first().map_or(0, |first| *first),
            _ => 0,
        };
        let token = held.get(first)?.as_ref()?;
        let is_same = |at: &usize| held[*at].as_ref() == Some(token);
        let are_same = match self {
            Self::Release(gone) => gone.iter().all(is_same),
            _ => (0..held.len()).all(|at| is_same(&at)),
        };
        are_same.then_some(token)
    }

    /// What changes of the keys, in their order, come to together.
    ///
    /// # Errors
    /// The refusal, where they are no single step of all locks.
    pub(crate) fn of_all(changes: Vec<Self>) -> Result<Self, Reply> {
        let is_release = |change: &Self| matches!(change, Self::None | Self::Release(_));
        if changes.iter().all(is_release) {
            let gone = changes.iter().enumerate();
            let gone = gone.filter(|(_, change)| **change != Self::None);
            let gone: Vec<usize> = gone.map(|(at, _)| at).collect();
            return Ok(match gone.is_empty() {
                true => Self::None,
                false => Self::Release(gone),
            });
        }
        let mut changes = changes.into_iter();
        let first = changes.next().unwrap_or(Self::None);
        match changes.all(|other| other == first) {
            true => Ok(first),
            false => Err(Reply::Error(not_a_lock(
                "the request does different things to its keys, and an agent takes or extends several locks only all alike: with \
                 one token and one ttl. Use one key for each request",
            ))),
        }
    }
}
