//! What is known of a node's compactions, and when the next one is due.
//!
//! Invariant: one runs at a time. INFO shows what is here; Redis calls a compaction a rewrite.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::node::compaction::Step;
use crate::node::shared::Shared;

/// Compactions so far.
#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    pub(crate) is_asked: AtomicBool,
    pub(crate) is_running: AtomicBool,
    /// The last one was given up.
    pub(crate) has_failed: AtomicBool,
    pub(crate) completed: AtomicU64,
    /// Bytes of the last checkpoint; 0 before the first.
    pub(crate) base_bytes: AtomicU64,
    /// How long the last one took, in nanoseconds.
    pub(crate) last_ns: AtomicU64,
    /// The longest time that a part held the engine's lock, in nanoseconds.
    pub(crate) longest_part_ns: AtomicU64,
    /// Raw-clock reading before which it is not tried again by itself, because it was given up.
    retry_raw_ns: AtomicU64,
}

impl Rewrites {
    /// One begins; what was asked for is being done.
    pub(crate) fn begin(&self) {
        self.is_running.store(true, Ordering::Release);
        self.is_asked.store(false, Ordering::Release);
    }

    /// It has ended, in this way.
    pub(crate) fn end(&self, step: Step, began_raw_ns: u64, now_raw_ns: u64) {
        let is_complete = step == Step::Complete;
        self.has_failed.store(!is_complete, Ordering::Relaxed);
        if is_complete {
            let took_ns = now_raw_ns.saturating_sub(began_raw_ns);
            self.last_ns.store(took_ns, Ordering::Relaxed);
            self.completed.fetch_add(1, Ordering::Relaxed);
        } else {
            let retry = now_raw_ns.saturating_add(RETRY_NS);
            self.retry_raw_ns.store(retry, Ordering::Relaxed);
        }
        self.is_running.store(false, Ordering::Release);
    }
}

impl Shared {
    /// Whether a compaction is due: asked for, or the log has grown enough for one to pay.
    pub(crate) fn needs_compaction(&self) -> bool {
        let rewrites = &self.rewrites;
        if rewrites.is_asked.load(Ordering::Acquire) {
            return true;
        }
        let base = rewrites.base_bytes.load(Ordering::Relaxed);
        let Some(kept) = self.settings.rewrite_from(base) else {
            return false;
        };
        // Every start adds a segment, so many starts make a long log of few frames.
        let has_grown = self.commit.bytes_since_checkpoint() >= kept
            || self.commit.total_bytes() >= kept.saturating_add(SEGMENTS_BYTES);
        has_grown && self.clock.raw_ns() >= rewrites.retry_raw_ns.load(Ordering::Relaxed)
    }
}

/// What the segments of a log may hold beside its frames: the active one, the one ahead, and one
/// that is not removed yet.
const SEGMENTS_BYTES: u64 = 64 * 1024 * 1024;
/// After one was given up: a full disk may have space again.
const RETRY_NS: u64 = 1_000_000_000;
