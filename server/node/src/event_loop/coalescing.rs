//! Coalescing of wake-ups: how a worker waits when nothing has come, for the next request or first for
//! the end of a short sleep.
//!
//! Waking a worker costs the client that does it, and being woken costs the worker, about as much
//! as a request. Where many connections ask at a quick pace, the next requests come within
//! microseconds whether somebody waits for them or not. A worker that sleeps takes them all at the
//! end, and no client has to wake it. Network cards moderate their interrupts for the same reason.
//!
//! Elsewhere it does not sleep. Few connections, however busy, may all be waiting for this worker, so
//! that nothing more comes meanwhile; at a slow pace too little comes.

use std::ops::RangeInclusive;
use std::time::Duration;

use quorlock_engine::RawTime;

use crate::core::back_off::BackOff;

/// What one worker has seen of its connections.
#[derive(Debug)]
pub struct WakeUpCoalescing {
    /// How often connections have taken part in iterations.
    served: u64,
    /// `served` when a connection last came back before `THRESHOLD` others were served.
    returned_at: u64,
    /// `served` and the raw clock when the pace was last measured.
    measured_at: (u64, RawTime),
    /// The pace was quick then, and no sleep since was a failure.
    is_quick: bool,
    /// From sleeps that fail.
    back_off: BackOff,
}

/// When a connection last took part in an iteration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastIteration(u64);

impl Default for WakeUpCoalescing {
    fn default() -> Self {
        Self {
            // So that a connection's first iteration is no coming back.
            served: THRESHOLD,
            returned_at: THRESHOLD,
            measured_at: (THRESHOLD, RawTime::ZERO),
            is_quick: false,
            back_off: BackOff::default(),
        }
    }
}

impl WakeUpCoalescing {
    /// Notes that a connection is served in an iteration.
    pub(crate) fn note(&mut self, connection: &mut LastIteration) {
        self.served += 1;
        if self.served - connection.0 < THRESHOLD {
            self.returned_at = self.served;
        }
        *connection = LastIteration(self.served);
    }

    /// Measures the pace, once for every `THRESHOLD` connections that were served.
    pub(crate) fn measure(&mut self, now: RawTime) {
        let (served, since) = self.measured_at;
        let count = self.served - served;
        if count < THRESHOLD {
            return;
        }
        let took_ns = now.nanos_since(since);
        let passes_over = self.back_off.passes_over();
        self.is_quick = !passes_over && took_ns <= count.saturating_mul(QUICK_NS);
        self.measured_at = (self.served, now);
    }

    /// Whether many connections ask, none of them much more often than the others, at a quick pace:
    /// a worker to which nothing has come may then sleep for [`SLEEP`].
    pub fn is_worthwhile(&self) -> bool {
        self.is_quick && self.served - self.returned_at >= THRESHOLD
    }

    /// Notes how many events a sleep has brought. Too few were not worth it. Too many may be all there
    /// are: clients in step, or a system whose sleeps are much longer. After such a failure the pace
    /// has to be measured again; after further ones, twice as often each time.
    pub fn note_sleep(&mut self, brought: usize) {
        if WORTH.contains(&brought) {
            self.back_off.note_success();
            return;
        }
        self.is_quick = false;
        self.back_off.note_failure();
    }
}

/// So many connections in a row, none of them twice, make a sleep worthwhile.
const THRESHOLD: u64 = 32;

/// The slowest quick pace, in time per connection served: a sleep then brings three.
const QUICK_NS: u64 = 16_000;

/// What a sleep should bring. Half of `THRESHOLD` leaves the other half on its way.
const WORTH: RangeInclusive<usize> = 3..=16;

/// How long a sleep is, and by how much it can delay what comes. Chosen by measurement: ADR 6.
pub const SLEEP: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves these connections one after the other, with so much time from one to the next.
    struct SteadyLoad {
        connections: Vec<LastIteration>,
        next: usize,
        now: RawTime,
    }

    impl SteadyLoad {
        fn of(count: usize) -> SteadyLoad {
            SteadyLoad {
                connections: vec![LastIteration::default(); count],
                next: 0,
                now: RawTime::from_nanos(1_000_000_000),
            }
        }

        fn run(&mut self, coalescing: &mut WakeUpCoalescing, count: u64, pace_ns: u64) {
            for _ in 0..count {
                self.now = self.now.plus_nanos(pace_ns);
                coalescing.note(&mut self.connections[self.next]);
                coalescing.measure(self.now);
                self.next = (self.next + 1) % self.connections.len();
            }
        }
    }

    #[test]
    fn many_connections_at_a_quick_pace_let_a_worker_sleep() {
        let (mut coalescing, mut load) = (WakeUpCoalescing::default(), SteadyLoad::of(32));
        assert!(!coalescing.is_worthwhile(), "nobody has come yet");
        load.run(&mut coalescing, 31, 1_000);
        assert!(!coalescing.is_worthwhile(), "too few have come");
        load.run(&mut coalescing, 65, QUICK_NS);
        assert!(coalescing.is_worthwhile());
    }

    #[test]
    fn few_connections_never_do_however_busy() {
        let (mut coalescing, mut load) = (WakeUpCoalescing::default(), SteadyLoad::of(31));
        for _ in 0..1000 {
            load.run(&mut coalescing, 7, 1_000);
            assert!(!coalescing.is_worthwhile());
        }
    }

    #[test]
    fn one_that_comes_back_all_the_time_is_not_kept_waiting_by_many() {
        let (mut coalescing, mut load) = (WakeUpCoalescing::default(), SteadyLoad::of(100));
        let mut busy = LastIteration::default();
        for _ in 0..100 {
            coalescing.note(&mut busy);
            load.run(&mut coalescing, 30, 1_000);
            assert!(!coalescing.is_worthwhile());
        }
        load.run(&mut coalescing, 1, 1_000);
        assert!(!coalescing.is_worthwhile(), "it may be one of many");
        load.run(&mut coalescing, 1, 1_000);
        assert!(coalescing.is_worthwhile(), "it has not come back");
    }

    #[test]
    fn a_slow_pace_does_not() {
        let (mut coalescing, mut load) = (WakeUpCoalescing::default(), SteadyLoad::of(100));
        load.run(&mut coalescing, 96, QUICK_NS);
        assert!(coalescing.is_worthwhile());
        load.run(&mut coalescing, 64, QUICK_NS + 1);
        assert!(!coalescing.is_worthwhile());
        load.run(&mut coalescing, 64, QUICK_NS);
        assert!(coalescing.is_worthwhile());
    }

    /// How often the pace is measured before the next sleep.
    fn measurements(coalescing: &mut WakeUpCoalescing, load: &mut SteadyLoad) -> u32 {
        let mut count = 0;
        while !coalescing.is_worthwhile() {
            load.run(coalescing, THRESHOLD, 1_000);
            count += 1;
        }
        count
    }

    #[test]
    fn who_is_kept_waiting_by_each_sleep_is_so_ever_more_rarely() {
        let (mut coalescing, mut load) = (WakeUpCoalescing::default(), SteadyLoad::of(64));
        load.run(&mut coalescing, 96, 1_000);
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            coalescing.note_sleep(64);
            assert_eq!(measurements(&mut coalescing, &mut load), expected);
        }
    }

    #[test]
    fn four_sleeps_that_go_well_make_up_for_a_failure_and_three_do_not() {
        for (well, expected) in [(4, 1), (3, 32)] {
            let (mut coalescing, mut load) = (WakeUpCoalescing::default(), SteadyLoad::of(64));
            load.run(&mut coalescing, 96, 1_000);
            let mut last = 0;
            for _ in 0..100 {
                coalescing.note_sleep(2);
                last = measurements(&mut coalescing, &mut load);
                (0..well).for_each(|_| coalescing.note_sleep(10));
            }
            assert_eq!(last, expected, "after {well} that went well");
        }
    }

    #[test]
    fn a_sleep_that_brings_too_little_or_too_much_is_the_last_until_the_pace_is_measured() {
        for (brought, is_worth_it) in [(0, false), (2, false), (3, true), (16, true), (17, false)] {
            let (mut coalescing, mut load) = (WakeUpCoalescing::default(), SteadyLoad::of(100));
            load.run(&mut coalescing, 96, 1_000);
            coalescing.note_sleep(brought);
            load.run(&mut coalescing, 31, 1_000);
            assert_eq!(coalescing.is_worthwhile(), is_worth_it, "after {brought}");
            load.run(&mut coalescing, 1, 1_000);
            assert!(coalescing.is_worthwhile(), "measured after {brought}");
        }
    }
}
