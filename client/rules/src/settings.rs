//! What a client is told once, when it is built.
//!
//! Invariant: every setting has been checked by [`Settings::check`] before a thread is started.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::saturated;
use crate::outcome::BuildError;
use crate::votes::majority;

/// How much the clocks of client and nodes may differ in rate: a part of the ttl and a constant.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_client::Drift;
///
/// let drift = Drift::default(); // 1 % and 2 ms
/// assert_eq!(drift.of(Duration::from_secs(10)), Duration::from_millis(102));
/// assert_eq!(drift.validity(Duration::from_secs(10)), Duration::from_millis(9_898));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drift {
    /// Parts in a million of the ttl.
    pub rate_ppm: u32,
    /// What is always allowed for, since servers count in milliseconds.
    pub constant: Duration,
}

impl Drift {
    /// What has to be taken off a lease of this length.
    #[must_use]
    pub fn of(self, ttl: Duration) -> Duration {
        let millionths = ttl.as_nanos().saturating_mul(u128::from(self.rate_ppm)) / 1_000_000;
        let part = Duration::from_nanos(saturated(millionths));
        part.saturating_add(self.constant)
    }

    /// What is left of a lease of this length at its very start.
    #[must_use]
    pub fn validity(self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.of(ttl))
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self {
            rate_ppm: 10_000,
            constant: Duration::from_millis(2),
        }
    }
}

/// The pause before a failed attempt is repeated: random within a range that doubles with every
/// attempt, so that callers who split the votes do not meet again.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_client::RetryDelay;
///
/// let delay = RetryDelay::new(Duration::from_millis(5), Duration::from_secs(1));
/// assert!(delay.first < delay.longest);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RetryDelay {
    /// The range of the first pause ends here.
    pub first: Duration,
    /// The range does not grow beyond this, or beyond four times what a round with a majority of the nodes may take where
    /// that is more and several callers have split the votes; then `first` is at least one such round.
    pub longest: Duration,
}

impl RetryDelay {
    /// Pauses from a part of `first` up to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Where votes are split, and a round takes so long: callers whose pauses differ by less than requests are on
    /// their way would split them again.
    pub(crate) fn for_round_trip(self, round_trip: Duration) -> Self {
        Self {
            first: self.first.max(round_trip),
            longest: self
                .longest
                .max(round_trip.saturating_mul(SPLIT_ROUND_TRIPS)),
        }
    }

    /// The pause after failed attempt number `attempt` (from 0), for a random number in 0..1.
    /// It ends soon after the holder's lease does, if that is known.
    pub(crate) fn pause(self, attempt: u32, random: f64, time_left: Option<Duration>) -> Duration {
        let range = self
            .first
            .saturating_mul(1 << attempt.min(20))
            .min(self.longest);
        let random = if random.is_nan() {
            0.0
        } else {
            random.clamp(0.0, 1.0)
        };
        let pause = range.mul_f64(0.25 + 0.75 * random);
        // Waiters that wake at the same expiry are spread over the first pause.
        time_left.map_or(pause, |left| {
            pause.min(left.saturating_add(self.first.mul_f64(0.25 + 0.75 * random)))
        })
    }
}

/// Of several callers one must be ahead of the others at a majority of the nodes.
const SPLIT_ROUND_TRIPS: u32 = 4;

impl Default for RetryDelay {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(10),
            longest: Duration::from_millis(200),
        }
    }
}

/// How a client tells that two entries of its list are two nodes with a vote each.
///
/// # Example
/// ```
/// use quorlock_client::{Redlock, VotesBy};
///
/// // Three servers of a managed service, whose proxies hide who they are.
/// let redlock = Redlock::builder()
///     .nodes(["redis://eu1:6379", "redis://eu2:6379", "redis://eu3:6379"])
///     .votes_by(VotesBy::Address)
///     .build()?;
/// assert_eq!(redlock.quorum(), 2);
/// # Ok::<(), quorlock_client::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VotesBy {
    /// By who each node says it is in INFO: `quorlock_node_id`, or `run_id`.
    #[default]
    Identity,
    /// By the address each connection really leads to, for servers that hide or zero their `run_id` as proxies and
    /// managed services do. Two entries that lead to one address are one vote, and so is an entry whose address
    /// changes. **The client cannot tell whether two addresses lead to one server**: that is yours to know, and a server
    /// that votes twice breaks mutual exclusion.
    Address,
}

/// All settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much the clocks may differ in rate.
    pub drift: Drift,
    /// The pauses between attempts.
    pub retry_delay: RetryDelay,
    /// A lock with less validity left is not handed out.
    pub min_validity: Duration,
    /// The longest time a lock may be held, renewals included.
    pub max_lifetime: Option<Duration>,
    /// The longest time one node is given to answer.
    pub node_deadline_max: Duration,
    /// The name that the nodes' `CLIENT LIST` shows.
    pub client_name: Arc<str>,
    /// What each name begins with on the nodes, before that of the caller.
    pub prefix: Arc<[u8]>,
    /// How two entries of the list are told to be two nodes.
    pub votes_by: VotesBy,
    /// Whether an agent counts as a node: only for a check of the agent, as a lock library uses it.
    pub takes_agent: bool,
    /// How many nodes more than a majority must agree.
    pub spare_votes: usize,
    /// Whether callers stand in line for a lock that is held, where nodes have lines.
    pub stands_in_line: bool,
    /// The cluster that the nodes are of, where the client was told.
    pub cluster_id: Option<Arc<str>>,
}

impl Settings {
    /// How many of so many nodes must agree.
    #[must_use]
    pub fn quorum(&self, nodes: usize) -> usize {
        majority(nodes).saturating_add(self.spare_votes)
    }

    /// Checks that each setting can work.
    ///
    /// # Errors
    /// When one cannot.
    pub fn check(&self) -> Result<(), BuildError> {
        if self.drift.rate_ppm >= 500_000 {
            return Err(BuildError::Setting(
                "the drift must be less than half of the time",
            ));
        }
        if self.retry_delay.first.is_zero() || self.retry_delay.longest < self.retry_delay.first {
            return Err(BuildError::Setting(
                "the first retry delay must be more than zero and not more than the longest",
            ));
        }
        if self.node_deadline_max < Duration::from_millis(1) {
            return Err(BuildError::Setting("a node needs at least 1 ms to answer"));
        }
        if outlives(self.min_validity, self.max_lifetime) {
            return Err(BuildError::Setting(LIFETIME));
        }
        if self.prefix.len() > PREFIX_BYTES_MAX {
            return Err(BuildError::Setting(
                "the prefix of the locks' names has at most 256 bytes",
            ));
        }
        let name = self.client_name.as_bytes();
        if name.len() > 64 || !name.iter().all(|byte| byte.is_ascii_graphic()) {
            return Err(BuildError::Setting(
                "the client's name has at most 64 visible ASCII characters and no blanks",
            ));
        }
        Ok(())
    }
}

/// Whether a lock would have reached the end of its longest lifetime before it was handed out.
#[must_use]
pub fn outlives(min_validity: Duration, max_lifetime: Option<Duration>) -> bool {
    max_lifetime.is_some_and(|lifetime| lifetime <= min_validity)
}

/// What is wrong where [`outlives`] says so.
pub const LIFETIME: &str =
    "max_lifetime must be longer than min_validity: no lock could be handed out";

const PREFIX_BYTES_MAX: usize = 256;

impl Default for Settings {
    fn default() -> Self {
        Self {
            drift: Drift::default(),
            retry_delay: RetryDelay::default(),
            min_validity: Duration::ZERO,
            max_lifetime: None,
            node_deadline_max: Duration::from_secs(1),
            client_name: Arc::from("quorlock-client"),
            prefix: Arc::from([]),
            votes_by: VotesBy::Identity,
            takes_agent: false,
            spare_votes: 0,
            stands_in_line: true,
            cluster_id: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_one_percent_and_two_milliseconds() {
        let drift = Drift::default();
        assert_eq!(
            drift.of(Duration::from_secs(30)),
            Duration::from_millis(302)
        );
        assert_eq!(
            drift.validity(Duration::from_secs(10)),
            Duration::from_millis(9_898)
        );
        // The rslock defect "validity - 500 underflows": nothing is left, nothing wraps.
        assert_eq!(drift.validity(Duration::from_millis(1)), Duration::ZERO);
        assert!(drift.of(Duration::MAX) > Duration::from_secs(1));
    }

    #[test]
    fn pauses_are_random_grow_and_stop_growing() {
        let delay = RetryDelay::default();
        assert!(delay.pause(0, 0.0, None) < delay.pause(0, 1.0, None));
        assert_eq!(delay.pause(0, 1.0, None), delay.first);
        assert_eq!(delay.pause(40, 1.0, None), delay.longest);
        let left = Duration::from_millis(1);
        assert!(delay.pause(40, 1.0, Some(left)) <= left + delay.first);
        assert!(delay.pause(0, f64::NAN, None) <= delay.first);
        assert_eq!(delay.for_round_trip(Duration::from_millis(10)), delay);
        let far = delay.for_round_trip(Duration::from_millis(500));
        assert_eq!(far.pause(0, 1.0, None), Duration::from_millis(500));
        assert_eq!(far.pause(40, 1.0, None), Duration::from_secs(2));
    }
}
