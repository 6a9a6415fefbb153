//! How long a stopping worker waits for its clients to take their replies.
//!
//! One that reads slowly gets its replies, one that does not read holds nobody up.

use std::time::Duration;

/// The end of a worker's life.
pub(crate) struct Draining {
    began_raw_ns: u64,
    at_most: Duration,
    sent_bytes: u64,
    sent_raw_ns: u64,
}

impl Draining {
    /// Begins now; `sent_bytes` is what the worker has sent so far.
    pub(crate) fn new(at_most: Duration, sent_bytes: u64, now_raw_ns: u64) -> Self {
        Self {
            began_raw_ns: now_raw_ns,
            at_most,
            sent_bytes,
            sent_raw_ns: now_raw_ns,
        }
    }

    /// Whether it has lasted long enough, or no client has taken a byte for a while.
    pub(crate) fn is_over(&mut self, sent_bytes: u64, now_raw_ns: u64) -> bool {
        if self.sent_bytes != sent_bytes {
            (self.sent_bytes, self.sent_raw_ns) = (sent_bytes, now_raw_ns);
        }
        let since = |then_raw_ns| Duration::from_nanos(now_raw_ns.saturating_sub(then_raw_ns));
        since(self.began_raw_ns) >= self.at_most || since(self.sent_raw_ns) >= SILENCE_MAX
    }
}

/// The kernel takes more of a reply only once a third of its buffer is free, so a client that reads
/// half a megabyte per second is not silent.
const SILENCE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn it_lasts_while_bytes_leave_and_no_longer_than_it_may() {
        let mut draining = Draining::new(Duration::from_secs(10), 5, 0);
        assert!(!draining.is_over(5, 2 * SECOND_NS - 1));
        for second in 2..10 {
            assert!(
                !draining.is_over(5 + second, second * SECOND_NS),
                "{second}"
            );
        }
        assert!(draining.is_over(100, 10 * SECOND_NS), "that is all");
        let mut silent = Draining::new(Duration::from_secs(10), 5, 0);
        assert!(silent.is_over(5, 2 * SECOND_NS), "nobody took a byte");
    }
}
