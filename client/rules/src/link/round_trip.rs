//! Measured round trips of one node, and how long it is waited for because of them.

use std::time::Duration;

use crate::clock::ClientInstant;

/// A smoothed round trip and its variation, as TCP keeps them (RFC 6298).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Only a login was measured, which may have waited for a node that was stopped.
    is_of_login: bool,
    /// Requests sent before this waited behind one that was answered late.
    stalled_until: Option<ClientInstant>,
}

impl RoundTrip {
    /// Takes in how long a login took: better than nothing, until the first request is answered.
    pub(super) fn measure_login(&mut self, sample: Duration) {
        self.measure(sample);
        self.is_of_login = true;
    }

    fn measure(&mut self, sample: Duration) {
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
        if std::mem::take(&mut self.is_of_login) {
            self.smoothed = None;
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

    #[test]
    fn a_login_that_waited_for_a_stopped_node_makes_nobody_patient_for_long() {
        let mut node = RoundTrip::default();
        node.measure_login(Duration::from_millis(900));
        assert!(node.patience() > Duration::from_secs(3));
        let sent = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let answered = sent.after(Duration::from_millis(2));
        node.measure_reply(sent, answered, Duration::from_secs(1));
        assert_eq!(node.patience(), LEAST);
        // Far away the login is a measure.
        node.measure_login(Duration::from_millis(400));
        assert!(node.usual() >= Duration::from_millis(400));
    }
}
