//! How long a stopping worker waits for its clients to take their replies.
//!
//! One that reads slowly gets its replies, one that does not read holds nobody up.

use std::time::Duration;

use quorlock_engine::RawTime;

/// The end of a worker's life.
pub(crate) struct Draining {
    began_raw: RawTime,
    at_most: Duration,
    sent_bytes: u64,
    sent_raw: RawTime,
}

impl Draining {
    /// Begins now; `sent_bytes` is what the worker has sent so far.
    pub(crate) fn new(at_most: Duration, sent_bytes: u64, now_raw: RawTime) -> Self {
        Self {
            began_raw: now_raw,
            at_most,
            sent_bytes,
            sent_raw: now_raw,
        }
    }

    /// Whether it has lasted long enough, or no client has taken a byte for a while.
    pub(crate) fn is_over(&mut self, sent_bytes: u64, now_raw: RawTime) -> bool {
        if self.sent_bytes != sent_bytes {
            (self.sent_bytes, self.sent_raw) = (sent_bytes, now_raw);
        }
        let since = |then_raw| now_raw.saturating_since(then_raw);
        since(self.began_raw) >= self.at_most || since(self.sent_raw) >= SILENCE_MAX
    }
}

/// The kernel takes more of a reply only once a third of its buffer is free, so a client that reads
/// half a megabyte per second is not silent.
const SILENCE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn at(nanos: u64) -> RawTime {
        RawTime::from_nanos(nanos)
    }

    #[test]
    fn it_lasts_while_bytes_leave_and_no_longer_than_it_may() {
        let mut draining = Draining::new(Duration::from_secs(10), 5, RawTime::ZERO);
        assert!(!draining.is_over(5, at(2 * SECOND_NS - 1)));
        for second in 2..10 {
            assert!(
                !draining.is_over(5 + second, at(second * SECOND_NS)),
                "{second}"
            );
        }
        assert!(draining.is_over(100, at(10 * SECOND_NS)), "that is all");
        let mut silent = Draining::new(Duration::from_secs(10), 5, RawTime::ZERO);
        assert!(silent.is_over(5, at(2 * SECOND_NS)), "nobody took a byte");
    }
}
