//! What a trial plans, what its calls are for, and what its clients hold.

use quorlock_client::Token;

/// Something that a trial has planned.
#[derive(Clone, Debug)]
pub(super) enum ScheduledStep {
    /// A client of the load begins its next cycle.
    Load(usize),
    /// It has held its lock for long enough.
    LoadEnds(usize, Held),
    /// A contender asks for the lock that all of them want.
    Contend(usize),
    /// It has done its work.
    ContendEnds(Held),
    /// The load is over: the directed schedule begins.
    Directed,
    /// A's grant is synced.
    Synced(Held),
    /// A looks at its lock.
    Look(Held),
    /// A, which stood still, goes on.
    Resume(Held),
    /// B has done its work.
    Work(Held),
    /// The fault begins, a loss of power with the next changes of a disk.
    Arm,
    /// The fault begins.
    Strike,
    /// A node starts again.
    Start(usize),
    /// The operator lets nodes take fences again.
    SyncFences,
    /// What does not end by itself is ended.
    Heal,
    /// Is all well?
    Watch,
}

/// What a call is for.
#[derive(Clone, Debug)]
pub(super) enum CallPurpose {
    Load { asked_ns: u64 },
    LoadRelease,
    Contend,
    Standing(String),
    A,
    Extend(Held),
    B,
    Last(String),
    Release { lock: String, hold: u64 },
    SyncFences,
}

/// A lock that was granted to a client.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) client: usize,
    pub(super) lock: String,
    pub(super) hold: u64,
    pub(super) token: Token,
    pub(super) until_ns: u64,
    /// 0 without fences.
    pub(super) fence: u64,
}

/// What a lock protects. Without fences all holders come with 0.
#[derive(Debug, Default)]
pub(super) struct ProtectedRegister {
    pub(super) value: u64,
    largest_fence: u64,
}

impl ProtectedRegister {
    /// Whether a holder with this fence may read and write: none with a larger one has done so.
    pub(super) fn takes(&mut self, fence: u64) -> bool {
        self.largest_fence = self.largest_fence.max(fence);
        self.largest_fence == fence
    }
}

/// How long the work of a holder takes.
pub(super) const WORK_NS: u64 = 10_000_000;
