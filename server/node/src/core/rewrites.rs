//! What is known of a node's compactions, and when the next one is due.
//!
//! Invariant: one runs at a time. INFO shows what is here; Redis calls a compaction a rewrite.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quorlock_engine::RawTime;

use crate::core::settings::NodeSettings;

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

    /// It is durable, holds so many bytes of keys and took so long.
    pub(crate) fn complete(&self, bytes: u64, took_ns: u64) {
        self.base_bytes.store(bytes, Ordering::Relaxed);
        self.last_ns.store(took_ns, Ordering::Relaxed);
        self.completed.fetch_add(1, Ordering::Relaxed);
        self.end(false);
    }

    /// The log has no room for it.
    pub(crate) fn give_up(&self, now_raw: RawTime) {
        let retry = now_raw.plus_nanos(RETRY_NS);
        self.retry_raw_ns.store(retry.as_nanos(), Ordering::Relaxed);
        self.end(true);
    }

    fn end(&self, has_failed: bool) {
        self.has_failed.store(has_failed, Ordering::Relaxed);
        self.is_running.store(false, Ordering::Release);
    }

    /// Notes for how long, in nanoseconds, a part has held the engine.
    pub(crate) fn note_part(&self, took_ns: u64) {
        self.longest_part_ns.fetch_max(took_ns, Ordering::Relaxed);
    }

    /// Whether one may make room on a disk that has none for another segment: there are segments that it would make
    /// obsolete, and much of what was logged since the last one may be gone by now. What is alive is only known when it
    /// is measured.
    pub(crate) fn may_make_room(
        &self,
        settings: &NodeSettings,
        log: LogSize,
        now_raw: RawTime,
    ) -> bool {
        let base = self.base_bytes.load(Ordering::Relaxed);
        let is_allowed = settings.rewrite_from(base).is_some();
        is_allowed
            && log.older_bytes > 0
            && log.since_checkpoint_bytes >= base.saturating_add(GAIN_BYTES_MIN)
            && self.may_be_tried(now_raw)
    }

    /// Whether one is due: asked for, or the log has grown enough for it to pay.
    pub(crate) fn are_due(&self, settings: &NodeSettings, log: LogSize, now_raw: RawTime) -> bool {
        if self.is_asked.load(Ordering::Acquire) {
            return true;
        }
        let base = self.base_bytes.load(Ordering::Relaxed);
        let Some(kept) = settings.rewrite_from(base) else {
            return false;
        };
        let has_grown = log.since_checkpoint_bytes >= kept
            || log.total_bytes >= kept.saturating_add(SEGMENTS_BYTES);
        (has_grown || log.is_mostly_empty()) && self.may_be_tried(now_raw)
    }

    fn may_be_tried(&self, now_raw: RawTime) -> bool {
        now_raw.as_nanos() >= self.retry_raw_ns.load(Ordering::Relaxed)
    }
}

/// How long a log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// Bytes written since the last complete checkpoint began.
    pub(crate) since_checkpoint_bytes: u64,
    /// Bytes of all segments.
    pub total_bytes: u64,
    /// Of the segments before the one that is written.
    pub(crate) older_bytes: u64,
}

impl LogSize {
    /// Every start adds a segment, so many starts make long files of few frames: they would fill a small disk.
    fn is_mostly_empty(self) -> bool {
        self.older_bytes >= EMPTY_BYTES_MIN && self.older_bytes / 4 >= self.since_checkpoint_bytes
    }
}

/// So much is left as it is, however little it holds.
const EMPTY_BYTES_MIN: u64 = 4 * 1024 * 1024;
/// What the segments of a log may hold beside its frames: the active one, the one ahead, and one
/// that is not removed yet.
const SEGMENTS_BYTES: u64 = 64 * 1024 * 1024;
/// With less to gain a full disk is left as it is: no checkpoint goes on and on.
const GAIN_BYTES_MIN: u64 = 512 * 1024;
/// After one was given up: a full disk may have space again.
const RETRY_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Forty starts, each killed, had filled a disk of 40 MiB with 4 KB of frames.
    #[test]
    fn files_that_hold_little_are_compacted_however_short_the_log_is() {
        let settings = NodeSettings::new(&Config::default());
        let due = |older_mib: u64, frames_kib: u64| {
            let log = LogSize {
                since_checkpoint_bytes: frames_kib << 10,
                total_bytes: (older_mib + 1) << 20,
                older_bytes: older_mib << 20,
            };
            Rewrites::default().are_due(&settings, log, RawTime::ZERO)
        };
        assert!(!due(3, 0), "too little to gain");
        assert!(due(4, 0) && due(4, 1024));
        assert!(!due(4, 1025), "more than a quarter is frames");
        assert!(due(39, 4));
        assert!(!due(48, 20 << 10), "segments in use");
    }
}
