//! What a node knows of its locks, for its metrics.

use std::time::Duration;

use quorlock_engine::lock_counts::LockCounts;
use quorlock_engine::{HeldLocks, NodeTime};

use crate::core::executor::Executor;

/// What was known of locks at one moment.
#[derive(Debug)]
pub struct LockReport {
    /// Counted since the start.
    pub counts: LockCounts,
    /// Keys that may be locks.
    pub held: HeldLocks,
    /// Clients that wait with LOCK.WAIT, each once for each lock.
    pub waiters: usize,
    /// How long the lock is held that was taken first. Few keys are looked at for it, and others the next time.
    pub oldest: Option<Duration>,
}

impl Executor {
    /// What is known of locks now.
    pub fn lock_report(&mut self, now: NodeTime) -> LockReport {
        LockReport {
            counts: self.engine.lock_counts().clone(),
            held: self.engine.held_locks(),
            waiters: self.engine.lock_waiters(),
            oldest: self.engine.oldest_lock(now),
        }
    }
}
