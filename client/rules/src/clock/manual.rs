//! A clock that moves only when told to: the settable twin of the machine's clocks.
//!
//! It knows true time, and shows what a machine's clocks would make of it that is suspended and
//! whose clocks are steered.

use std::sync::Mutex;
use std::time::Duration;

use crate::clock::{ClientInstant, Clock, saturated, saturated_nanos};

/// A clock that moves only when told to, each of its parts on its own.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use quorlock_client::{Clock as _, ManualClock, Redlock};
///
/// let clock = Arc::new(ManualClock::new());
/// let redlock = Redlock::builder().node("redis://db1:7001").clock(clock.clone()).build()?;
/// let before = clock.now();
/// clock.advance(Duration::from_secs(30)); // the client's deadlines come without any wait
/// assert_eq!(clock.now().since(before), Duration::from_secs(30));
/// # Ok::<(), quorlock_client::BuildError>(())
/// ```
#[derive(Debug)]
pub struct ManualClock {
    hands: Mutex<Hands>,
}

#[derive(Clone, Copy, Debug)]
struct Hands {
    true_ns: u64,
    boot_ns: u64,
    monotonic_ns: u64,
    raw_ns: u64,
    steered_ppm: i32,
    detuned_ppm: i32,
}

impl ManualClock {
    /// A clock that stands at an arbitrary moment after its zero, and runs right.
    #[must_use]
    pub fn new() -> Self {
        let start = 1_000_000_000_000;
        Self {
            hands: Mutex::new(Hands {
                true_ns: 0,
                boot_ns: start,
                monotonic_ns: start,
                raw_ns: start,
                steered_ppm: 0,
                detuned_ppm: 0,
            }),
        }
    }

    /// True time goes on, and every clock at its own rate, as on a running machine.
    pub fn advance(&self, time: Duration) {
        let nanos = saturated_nanos(time);
        let mut hands = self.lock();
        let steered = at_rate(nanos, hands.steered_ppm);
        hands.true_ns = hands.true_ns.saturating_add(nanos);
        hands.boot_ns = hands.boot_ns.saturating_add(steered);
        hands.monotonic_ns = hands.monotonic_ns.saturating_add(steered);
        hands.raw_ns = hands
            .raw_ns
            .saturating_add(at_rate(nanos, hands.detuned_ppm));
    }

    /// Only `CLOCK_BOOTTIME` goes on, as in suspend.
    pub fn advance_boot(&self, time: Duration) {
        let mut hands = self.lock();
        hands.true_ns = hands.true_ns.saturating_add(saturated_nanos(time));
        hands.boot_ns = hands.boot_ns.saturating_add(saturated_nanos(time));
    }

    /// Only `CLOCK_MONOTONIC_RAW` goes on, as when a daemon holds the steered clocks back.
    pub fn advance_raw(&self, time: Duration) {
        let mut hands = self.lock();
        hands.true_ns = hands.true_ns.saturating_add(saturated_nanos(time));
        hands.raw_ns = hands.raw_ns.saturating_add(saturated_nanos(time));
    }

    /// From here on a time daemon steers all clocks but the raw one: their rates are off by this
    /// much; no clock runs backwards (below -1000000).
    pub fn steer(&self, by_ppm: i32) {
        self.lock().steered_ppm = by_ppm;
    }

    /// From here on the raw clock's rate is off by this much.
    pub fn detune_raw(&self, by_ppm: i32) {
        self.lock().detuned_ppm = by_ppm;
    }

    /// Time that has truly passed, suspends included.
    #[must_use]
    pub fn true_time(&self) -> Duration {
        Duration::from_nanos(self.lock().true_ns)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Hands> {
        self.hands
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> ClientInstant {
        let hands = *self.lock();
        ClientInstant::from_readings(hands.boot_ns, hands.monotonic_ns, hands.raw_ns)
    }
}

/// Cut to whole nanoseconds: a test's clock may lose one with each step.
fn at_rate(nanos: u64, ppm: i32) -> u64 {
    let rate = u32::try_from(i64::from(ppm) + 1_000_000)
        .expect("a clock stops at worst, it does not run backwards");
    saturated(u128::from(nanos) * u128::from(rate) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DRIFT_PPM: i32 = 10_000;

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Run { ms: u64 },
        Sleep { ms: u64 },
        Steer { ppm: i32 },
        Detune { ppm: i32 },
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            (1..5_000_u64).prop_map(|ms| Event::Run { ms }),
            (1..5_000_u64).prop_map(|ms| Event::Sleep { ms }),
            prop_oneof![Just(-83_333), Just(83_333), -83_333..83_333]
                .prop_map(|ppm| Event::Steer { ppm }),
            (-DRIFT_PPM..=DRIFT_PPM).prop_map(|ppm| Event::Detune { ppm }),
        ];
        prop::collection::vec(event, 1..30)
    }

    fn play(clock: &ManualClock, event: Event) {
        match event {
            Event::Run { ms } => clock.advance(Duration::from_millis(ms)),
            Event::Sleep { ms } => clock.advance_boot(Duration::from_millis(ms)),
            Event::Steer { ppm } => clock.steer(ppm),
            Event::Detune { ppm } => clock.detune_raw(ppm),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_suspend_and_no_slew_makes_a_lease_longer(before in events(), during in events()) {
            let clock = ManualClock::new();
            before.iter().for_each(|&event| play(&clock, event));
            let (start, true_start) = (clock.now(), clock.true_time());
            for event in during {
                play(&clock, event);
                let passed = clock.true_time() - true_start;
                let elapsed = clock.now().since(start);
                let least = passed.mul_f64(0.99).saturating_sub(Duration::from_micros(1));
                prop_assert!(elapsed >= least, "{elapsed:?} of {passed:?} after {event:?}");
                // A deadline so far away has come, and one beyond it has not.
                let deadline = start.after(elapsed);
                prop_assert!(clock.now().has_reached(deadline));
                prop_assert_eq!(clock.now().until(deadline), Duration::ZERO);
                let next = start.after(elapsed + Duration::from_nanos(1));
                prop_assert!(!clock.now().has_reached(next));
            }
        }
    }

    #[test]
    fn a_short_suspend_followed_by_a_slew_counts_in_full() {
        let clock = ManualClock::new();
        let start = clock.now();
        clock.advance_boot(Duration::from_millis(800));
        clock.steer(-80_000);
        clock.advance(Duration::from_secs(10));
        // Boot time alone has 10 s, the raw clock alone too.
        assert_eq!(clock.now().since(start), Duration::from_millis(10_800));
    }
}
