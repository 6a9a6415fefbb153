//! What is to be done for a request.

use std::time::Duration;

use quorlock_client_rules::call::Call;
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::outcome::Release;
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;
use quorlock_engine::Reply;

/// Until when a reply may leave, and what happens otherwise: whoever gets it counts a ttl from then on.
#[derive(Debug)]
pub struct Expiring {
    /// It may not leave from then on.
    pub until: ClientInstant,
    /// What the caller is told then.
    pub instead: Reply,
    /// What is to be asked of the nodes then.
    pub undo: Option<Call>,
}

impl Expiring {
    /// Whether the reply may leave no longer.
    #[must_use]
    pub fn is_over(&self, now: ClientInstant) -> bool {
        now.has_reached(self.until)
    }
}

/// What is to be done for a request.
#[derive(Debug)]
pub(crate) enum Next {
    Ask(Call),
    /// Nothing before this time.
    Pause(ClientInstant),
    /// Nothing before this time, unless the lock may be free sooner.
    HoldBack(ClientInstant),
    Answer(Reply),
    /// The same, if it leaves before this is over.
    AnswerBefore(Reply, Expiring),
    /// The same, and the lock that was acquired is its caller's from now on.
    HandOver(Reply, Expiring),
    /// The same, and this lock is released, which nobody waits for.
    GiveBack(Reply, Call),
}

/// A lock whose release the nodes are asked for.
#[derive(Debug)]
pub(crate) struct Releasing {
    pub(crate) name: LockName,
    pub(crate) token: Token,
    /// When its time has run out, as far as is known.
    pub(crate) ends_at: Option<ClientInstant>,
}

/// Whether a release has freed a lock that a majority may have held until then, and no majority holds under this token any more. Some
/// nodes have freed it: those that did not hold it are no majority, with or without those that have not answered.
pub(crate) fn has_freed(release: &Release) -> bool {
    release.released() || release.is_free() && !release.was_lost()
}

/// Releases a lock that nodes may keep for so long, if that is known: for so long it is owed to those that are away.
pub(crate) fn release(name: LockName, token: Token, lasts: Option<Duration>) -> Call {
    Call::Release {
        held: None,
        name,
        token,
        waits_for_all: false,
        keeps_lost: false,
        lasts,
    }
}
