//! The machine's time: only for how long something is waited for that may never come.

use std::time::{Duration, Instant};

/// Measures the machine's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "no lock depends on it")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "no lock depends on it")]
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
