//! Requests of callers that have no reply yet.

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Acquire,
    /// It ends so much after the reply, or after what was counted on before.
    Extend {
        ttl_ms: u64,
        is_on_top: bool,
    },
    Release,
    /// What the lock's key holds.
    Read,
    /// A try that failed is released.
    Clear,
}

/// A request that has no reply yet.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) caller: usize,
    pub(super) agent: usize,
    pub(super) names: Vec<usize>,
    pub(super) ask: Ask,
    pub(super) sent_ns: u64,
    /// What a majority held for its caller when it was sent, and until when that counted on it.
    pub(super) kept: Option<Vec<Vec<u8>>>,
    pub(super) counted_ns: u64,
    /// A release that lets the lock end later.
    pub(super) keeps: bool,
}
