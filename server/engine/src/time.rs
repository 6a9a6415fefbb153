//! Time as the engine sees it: always an argument, never read here.
//!
//! Node time is a count of nanoseconds on a clock that never goes back and is never steered; key
//! deadlines live on it. It is tied to readings of a raw clock, which begins anew with every boot. The wall clock appears only where a command names an absolute time.
//!
//! A deadline may be as far away as Redis lets it be, which is more than nanoseconds in 64 bits can
//! count. Deadlines centuries away are therefore counted in milliseconds of node time.

use std::time::Duration;

pub use quorlock_clock::{BootTime, RawTime};
pub(crate) use quorlock_clock::{saturated, saturated_nanos};

/// A point on the node's own clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTime(u64);

impl NodeTime {
    /// The start of the clock.
    pub const ZERO: NodeTime = NodeTime(0);

    /// The point that many nanoseconds after the start of the clock.
    pub const fn from_nanos(nanos: u64) -> NodeTime {
        NodeTime(nanos)
    }

    /// Nanoseconds since the start of the clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This point moved into the future, or the end of the clock if that is nearer.
    pub fn saturating_add(self, duration: Duration) -> NodeTime {
        NodeTime(self.0.saturating_add(saturated_nanos(duration)))
    }

    /// The time from `earlier` to this point, zero if `earlier` is not earlier.
    pub const fn saturating_since(self, earlier: NodeTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// When a key ends: a point of node time, or never. Later deadlines compare greater.
///
/// Deadlines are exact to the nanosecond for the first 292 years of node time and to the millisecond
/// (rounded up) after that, up to the last one that Redis accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(
    /// Nanoseconds below [`FAR`]; from there on milliseconds, counted from [`FAR`].
    u64,
);

impl Deadline {
    /// The stored deadline of a key that has none: later than every other one.
    pub(crate) const NEVER: Deadline = Deadline(u64::MAX);

    /// The latest one.
    const LAST: Deadline = Deadline(u64::MAX - 1);

    /// At that many nanoseconds of node time, rounded up to a millisecond if that is far away.
    pub(crate) fn at_nanos(nanos: u128) -> Deadline {
        match u64::try_from(nanos) {
            Ok(nanos) if nanos < FAR => Deadline(nanos),
            _ => Deadline::far(nanos.div_ceil(NANOS_IN_MS)),
        }
    }

    /// At that point of node time.
    #[must_use]
    pub fn at(time: NodeTime) -> Deadline {
        Deadline::at_nanos(u128::from(time.0))
    }

    fn far(ms: u128) -> Deadline {
        // A deadline beyond the last one must not make a key without a TTL.
        Deadline(FAR.saturating_add(saturated(ms))).min(Deadline::LAST)
    }

    /// As the log has it.
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// From a log that knows far deadlines.
    pub(crate) const fn from_bits(bits: u64) -> Deadline {
        Deadline(bits)
    }

    /// Whether it is counted in milliseconds.
    pub(crate) const fn is_far(self) -> bool {
        self.0 >= FAR && self.0 != u64::MAX
    }

    /// Whether the deadline is still to come.
    #[inline]
    pub(crate) fn is_after(self, now: NodeTime) -> bool {
        if now.0 < FAR {
            return self.0 > now.0;
        }
        self == Deadline::NEVER || self.exact_nanos() > u128::from(now.0)
    }

    /// Nanoseconds of node time. A deadline that no count of 64 bits can name is answered with the
    /// largest but one: for those who only ask whether it is later than something.
    pub fn as_nanos(self) -> u64 {
        if self.0 < FAR {
            return self.0;
        }
        let last = Deadline::LAST.0;
        u64::try_from(self.exact_nanos()).map_or(last, |nanos| nanos.min(last))
    }

    /// The same as a point of node time.
    pub fn node_time(self) -> NodeTime {
        NodeTime(self.as_nanos())
    }

    /// Milliseconds from `now` to the deadline, rounded up: what was asked for, at the time when it
    /// was. Zero if it is over.
    pub fn left_ms(self, now: NodeTime) -> u64 {
        if self.is_far() {
            // Rounded up when it was set, so that rounding `now` up as well gives what was asked.
            let now_ms = u128::from(now.0).div_ceil(NANOS_IN_MS);
            return self.far_ms().saturating_sub(saturated(now_ms));
        }
        self.0.saturating_sub(now.0).div_ceil(1_000_000)
    }

    /// Nanoseconds from `now` to the deadline, zero if it is over.
    pub(crate) fn left_nanos(self, now: NodeTime) -> u128 {
        self.exact_nanos().saturating_sub(u128::from(now.0))
    }

    /// `None` where the key has no TTL.
    pub fn unless_never(self) -> Option<Deadline> {
        (self != Deadline::NEVER).then_some(self)
    }

    fn exact_nanos(self) -> u128 {
        if self.0 < FAR {
            return u128::from(self.0);
        }
        u128::from(self.far_ms()).saturating_mul(NANOS_IN_MS)
    }

    fn far_ms(self) -> u64 {
        self.0.saturating_sub(FAR)
    }
}

/// The time at which a command runs. Frozen while a command or a script runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The node's clock: what deadlines are compared with.
    pub node: NodeTime,
    /// The anchored wall clock, in microseconds since the epoch.
    pub wall_us: u64,
}

/// The first deadline that is counted in milliseconds: in the 293rd year of node time.
const FAR: u64 = 1 << 63;

const NANOS_IN_MS: u128 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const LAST_NEAR: u128 = FAR as u128 - 1;

    #[test]
    fn deadlines_keep_their_order_and_what_was_asked() {
        let now = NodeTime::from_nanos(5_000_000_001);
        let nanos = |ms: u128| u128::from(now.0) + ms * NANOS_IN_MS;
        let asked = [
            1,
            30_000,
            9_223_372_000_000,
            9_223_372_031_854,
            9_223_372_031_855,
            18_446_744_073_709,
            900_719_925_474_099,
            i64::MAX as u128 - 1_700_000_000_000,
        ];
        let mut last = Deadline(0);
        for ms in asked {
            let deadline = Deadline::at_nanos(nanos(ms));
            assert!(deadline > last, "{ms} ms keep their order");
            assert!(deadline < Deadline::NEVER);
            assert_eq!(u128::from(deadline.left_ms(now)), ms);
            assert!(deadline.is_after(now));
            let late = deadline.left_nanos(now) - ms * NANOS_IN_MS;
            assert!(
                late < NANOS_IN_MS,
                "{ms} ms: {late} ns late, and never early"
            );
            last = deadline;
        }
    }

    #[test]
    fn a_deadline_is_the_first_instant_at_which_the_key_is_gone() {
        for nanos in [
            1,
            LAST_NEAR - 1,
            LAST_NEAR,
            LAST_NEAR + 1,
            17_000_000_000_000_000_001,
        ] {
            let deadline = Deadline::at_nanos(nanos);
            let end = deadline.node_time();
            assert!(u128::from(end.0) >= nanos && u128::from(end.0) - nanos < NANOS_IN_MS);
            assert!(deadline.is_after(NodeTime(end.0 - 1)), "{nanos}");
            assert!(!deadline.is_after(end), "{nanos}");
            assert_eq!(Deadline::at(end), deadline, "{nanos}");
        }
    }

    #[test]
    fn what_is_too_far_for_nanoseconds_is_never_without_end() {
        for ms in [i64::MAX as u128 - 1, i64::MAX as u128, u128::from(u64::MAX)] {
            let deadline = Deadline::at_nanos(ms * NANOS_IN_MS);
            assert_eq!(deadline, Deadline::LAST);
            assert_ne!(deadline.unless_never(), None);
            assert_eq!(deadline.as_nanos(), u64::MAX - 1);
            assert!(deadline.is_after(NodeTime(u64::MAX)));
        }
        assert!(Deadline::NEVER.is_after(NodeTime(u64::MAX)));
        assert!(!Deadline::NEVER.is_far());
    }
}
