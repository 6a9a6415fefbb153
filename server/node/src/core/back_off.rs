//! Trying ever more rarely what has failed.

/// After a failure the next occasions are passed over: none, then one, three, and so on up to 63. Successes make up for
/// failures, so that what goes well most of the time is tried most of the time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    /// Grows with every failure; each success takes a part of it away.
    failures: u32,
    passed_over: u32,
}

impl BackOff {
    /// An occasion has come. Says whether it is passed over.
    pub(crate) fn passes_over(&mut self) -> bool {
        let passes_over = self.passed_over > 0;
        self.passed_over = self.passed_over.saturating_sub(1);
        passes_over
    }

    /// What was tried was worth it.
    pub(crate) fn note_success(&mut self) {
        self.failures = self.failures.saturating_sub(1);
    }

    /// It was not.
    pub(crate) fn note_failure(&mut self) {
        self.passed_over = (1 << (self.failures / FAILURE)) - 1;
        self.failures = FAILURES_MAX.min(self.failures + FAILURE);
    }
}

/// So many successes make up for a failure.
const FAILURE: u32 = 4;

/// Then one occasion in 64 is taken.
const FAILURES_MAX: u32 = 6 * FAILURE;
