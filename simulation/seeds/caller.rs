//! Somebody who takes a lock, holds it for a while, gives it back, and does so again.

use quorlock_client::ClientInstant;
use quorlock_client_rules::OperationId;
use quorlock_client_rules::name::LockName;

#[derive(Clone, Debug)]
pub(super) struct SimulatedCaller {
    pub(super) client: usize,
    pub(super) state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Asking {
        operation: OperationId,
        name: u64,
        asked_ns: u64,
        waits: bool,
    },
    Holding {
        held: OperationId,
        name: u64,
    },
}

/// A hold that its caller was told of and has not been told the end of.
#[derive(Clone, Debug)]
pub(super) struct CallerHold {
    pub(super) client: usize,
    pub(super) held: OperationId,
    pub(super) name: u64,
    /// What nodes know it by: a permit has a name of its own.
    pub(super) lock: LockName,
    pub(super) token: quorlock_client::Token,
    pub(super) began_ns: u64,
    /// As the client told it last.
    pub(super) valid_until: ClientInstant,
    /// When that is, in true time.
    pub(super) until_ns: u64,
    /// Until when its holder may believe in it for too long, because its clocks stood still.
    pub(super) noticed_ns: u64,
    /// Whether a guard renews it and is told of its loss.
    pub(super) is_guarded: bool,
}

/// A call that its caller has not been told the outcome of.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCall {
    pub(super) asked_ns: u64,
    /// How long it waits by what its caller said; zero if it does not.
    pub(super) wait_ns: u64,
    /// Whether its caller wants to know what it waits for.
    pub(super) tells: bool,
    /// The lock that it waits for.
    pub(super) name: Option<u64>,
}
