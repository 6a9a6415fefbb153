//! Counters for INFO. Relaxed atomics: they are read by people, not by rules.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the node counted since it started.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) commands: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Statistics {
    /// Counts from zero again (CONFIG RESETSTAT).
    pub(crate) fn reset(&self) {
        for counter in [
            &self.commands,
            &self.bytes_in,
            &self.bytes_out,
            &self.rejected,
            &self.errors,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
