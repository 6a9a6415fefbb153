//! What INFO asks of the engine, read in one short hold of it.

use quorlock_engine::channels::Subscription;
use quorlock_engine::control::Ceiling;
use quorlock_engine::{KeyspaceStatistics, Moment, RawTime, ScriptCounts};

use crate::core::commit::Failure;
use crate::core::durable_counts::Counts;
use crate::core::executor::Phase;
use crate::session::batch::Batch;

/// What only the engine knows.
pub(super) struct EngineFacts {
    pub(super) now: Moment,
    pub(super) raw: RawTime,
    pub(super) phase: Phase,
    /// What keys take with their values, in bytes.
    pub(super) memory: usize,
    /// The most that they have taken.
    pub(super) memory_peak: usize,
    /// What is appended to the log and not written.
    pub(super) log_buffer: usize,
    pub(super) ttl_bound_ns: u64,
    pub(super) cap_ns: u64,
    pub(super) ceiling: Ceiling,
    pub(super) is_full: bool,
    pub(super) script_memory: usize,
    pub(super) script_count: usize,
    pub(super) statistics: KeyspaceStatistics,
    pub(super) counts: Counts,
    /// Channels, patterns and sharded channels that somebody listens to.
    pub(super) listened: [usize; 3],
    pub(super) listening: usize,
    /// Clients that watch keys, and those keys.
    pub(super) watching: [usize; 2],
    /// Keys for which clients wait.
    pub(super) waited_for: usize,
    /// How many stand in line for locks.
    pub(super) lock_waiters: usize,
    /// Keys without a TTL that may be locks by their values.
    pub(super) locks_without_ttl: u64,
    /// Clients that are told of changes, and keys, items and prefixes of theirs.
    pub(super) tracked: [usize; 4],
    pub(super) script_counts: ScriptCounts,
}

impl EngineFacts {
    /// One short hold of the engine.
    pub(super) fn read(batch: &mut Batch<'_>) -> Result<Self, Failure> {
        let counts = batch.counts_shown()?;
        let raw = batch.raw();
        let (executor, now) = batch.executor()?;
        let channels = executor.engine.channels();
        let listened = Subscription::ALL.map(|to| channels.len(to));
        let listening = channels.clients();
        let watching = [executor.watching, executor.engine.watched()];
        let tracking = executor.engine.tracking();
        let tracked = [
            tracking.clients(),
            tracking.keys(),
            tracking.items(),
            tracking.prefixes(),
        ];
        let facts = Self {
            now,
            raw,
            phase: executor.phase.clone(),
            memory: executor.engine.memory(),
            memory_peak: executor.note_memory_peak(),
            log_buffer: executor.appender.pending_bytes(),
            ttl_bound_ns: executor.ttl_bound.on_record_ns,
            cap_ns: executor.mode.cap_ns(),
            ceiling: executor.engine.ceiling(),
            is_full: executor.appender.is_full(),
            script_memory: executor.engine.script_memory(),
            script_count: executor.engine.script_count(),
            statistics: executor.statistics(),
            counts,
            listened,
            listening,
            watching,
            waited_for: executor.engine.waited_for(),
            lock_waiters: executor.engine.lock_waiters(),
            locks_without_ttl: executor.engine.held_locks().without_ttl,
            tracked,
            script_counts: executor.script_counts().clone(),
        };
        batch.release();
        Ok(facts)
    }
}
