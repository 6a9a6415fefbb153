//! Measured round trips of one node, and how long it is waited for because of them.

use std::time::Duration;

use crate::clock::ClientInstant;

/// A smoothed round trip and its variation, as TCP keeps them (RFC 6298).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Requests sent before this waited behind one that was answered late.
    stalled_until: Option<ClientInstant>,
}

impl RoundTrip {
    pub(super) fn measure(&mut self, sample: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                let error = smoothed.abs_diff(sample);
                self.variation = (self.variation * 3 + error) / 4;
                self.smoothed = Some((smoothed * 7 + sample) / 8);
            }
        }
    }

    /// Takes in the round trip of a request that was sent at `sent`.
    ///
    /// A stall is one sample, not one for each request that waited behind it, and no sample counts
    /// for more than twice what is waited for: one stall makes nobody impatient or patient for
    /// long, and a link that is really that long is learned within a few.
    pub(super) fn measure_reply(
        &mut self,
        sent: ClientInstant,
        now: ClientInstant,
        most: Duration,
    ) {
        if self
            .stalled_until
            .is_some_and(|until| !sent.has_reached(until))
        {
            return;
        }
        let sample = now.since(sent);
        let waited_for = self.patience().min(most);
        if sample > waited_for {
            self.stalled_until = Some(now);
        }
        self.measure(sample.min(waited_for.saturating_mul(2)));
    }

    /// A new connection may lead elsewhere.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The smoothed round trip, if one was measured.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.smoothed
    }

    /// What a round trip takes as a rule, zero while none was measured.
    pub(super) fn usual(&self) -> Duration {
        let smoothed = self.smoothed.unwrap_or_default().saturating_mul(2);
        smoothed.saturating_add(self.variation.saturating_mul(4))
    }

    /// Generous, since a wrong "silent" costs a vote: but a few round trips, not seconds.
    pub(super) fn patience(&self) -> Duration {
        match self.smoothed {
            None => UNMEASURED,
            Some(smoothed) => (smoothed.saturating_mul(4))
                .saturating_add(self.variation.saturating_mul(8))
                .max(LEAST),
        }
    }
}

const UNMEASURED: Duration = Duration::from_millis(500);
/// Covers a node that syncs its log, and a client that is not scheduled for a moment: on a busy
/// machine 50 ms were seen to be too short. It is only waited for when the votes are not decided.
const LEAST: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_what_was_measured() {
        let mut node = RoundTrip::default();
        assert_eq!(node.patience(), UNMEASURED);
        for _ in 0..50 {
            node.measure(Duration::from_micros(100));
        }
        assert_eq!(node.patience(), LEAST);
        for _ in 0..50 {
            node.measure(Duration::from_millis(80));
        }
        let far = node.patience();
        assert!(
            far >= Duration::from_millis(320) && far < Duration::from_millis(400),
            "{far:?}"
        );
        // A stall makes it more patient at once.
        node.measure(Duration::from_secs(1));
        assert!(node.patience() > Duration::from_secs(1));
    }
}
