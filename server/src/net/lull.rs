//! How a worker waits when nothing has come: for the next request, or first for the end of a short
//! rest.
//!
//! Waking a worker costs the client that does it, and being woken costs the worker, about as much
//! as a request. Where many connections ask at a quick pace, the next requests come within
//! microseconds whether somebody waits for them or not. A worker that rests takes them all at its
//! end, and no client has to wake it. Network cards moderate their interrupts for the same reason.
//!
//! Elsewhere it does not rest. Few connections, however busy, may all be waiting for this worker, so
//! that nothing more comes meanwhile; at a slow pace too little comes.

use std::ops::RangeInclusive;
use std::time::Duration;

/// What one worker has seen of its connections.
#[derive(Debug)]
pub(crate) struct Lull {
    /// How often connections have taken part in turns.
    served: u64,
    /// `served` when a connection last came back before a crowd of others had its turn.
    returned_at: u64,
    /// `served` and the raw clock when the pace was last measured.
    measured_at: (u64, u64),
    /// The pace was quick then, and no rest since was a failure.
    is_quick: bool,
    /// Grows with every failure; each rest that goes well takes a part of it away.
    doubt: u32,
    /// So many measurements are passed over because of it.
    passed_over: u32,
}

/// When a connection last took part in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served(u64);

impl Default for Lull {
    fn default() -> Self {
        Self {
            // So that a connection's first turn is no coming back.
            served: CROWD,
            returned_at: CROWD,
            measured_at: (CROWD, 0),
            is_quick: false,
            doubt: 0,
            passed_over: 0,
        }
    }
}

impl Lull {
    /// Notes that a connection takes part in a turn.
    pub(crate) fn note(&mut self, connection: &mut Served) {
        self.served += 1;
        if self.served - connection.0 < CROWD {
            self.returned_at = self.served;
        }
        *connection = Served(self.served);
    }

    /// Measures the pace, once for every crowd that has been served.
    pub(crate) fn measure(&mut self, raw_ns: impl FnOnce() -> u64) {
        let (served, since_ns) = self.measured_at;
        let count = self.served - served;
        if count < CROWD {
            return;
        }
        let now_ns = raw_ns();
        let took_ns = now_ns.saturating_sub(since_ns);
        self.is_quick = self.passed_over == 0 && took_ns <= count.saturating_mul(QUICK_NS);
        self.passed_over = self.passed_over.saturating_sub(1);
        self.measured_at = (self.served, now_ns);
    }

    /// Whether many connections ask, none of them much more often than the others, at a quick pace:
    /// a worker to which nothing has come may then rest for [`REST`].
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_quick && self.served - self.returned_at >= CROWD
    }

    /// Notes how many events a rest has brought. Too few were not worth it. Too many may be all there
    /// are: clients in step, or a system whose sleeps are much longer. After such a failure the pace
    /// has to be measured again; after further ones, twice as often each time.
    pub(crate) fn note_rest(&mut self, brought: usize) {
        if WORTH.contains(&brought) {
            self.doubt = self.doubt.saturating_sub(1);
            return;
        }
        self.is_quick = false;
        self.passed_over = (1 << (self.doubt / FAILURE)) - 1;
        self.doubt = DOUBT_MAX.min(self.doubt + FAILURE);
    }
}

/// So many connections in a row, none of them twice, are a crowd.
const CROWD: u64 = 32;

/// The slowest quick pace, in time per connection served: a rest then brings three.
const QUICK_NS: u64 = 16_000;

/// What a rest should bring. Half a crowd leaves the other half on its way.
const WORTH: RangeInclusive<usize> = 3..=16;

/// So many rests that go well make up for a failure.
const FAILURE: u32 = 4;

/// Then one rest in 64 measurements is tried.
const DOUBT_MAX: u32 = 6 * FAILURE;

/// How long a rest is, and by how much it can delay what comes. Chosen by measurement: ADR 6.
pub(crate) const REST: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves these connections in turn, with so much time from one to the next.
    struct Load {
        connections: Vec<Served>,
        next: usize,
        now_ns: u64,
    }

    impl Load {
        fn of(count: usize) -> Load {
            Load {
                connections: vec![Served::default(); count],
                next: 0,
                now_ns: 1_000_000_000,
            }
        }

        fn run(&mut self, lull: &mut Lull, turns: u64, pace_ns: u64) {
            for _ in 0..turns {
                self.now_ns += pace_ns;
                lull.note(&mut self.connections[self.next]);
                lull.measure(|| self.now_ns);
                self.next = (self.next + 1) % self.connections.len();
            }
        }
    }

    #[test]
    fn a_crowd_at_a_quick_pace_lets_a_worker_rest() {
        let (mut lull, mut load) = (Lull::default(), Load::of(32));
        assert!(!lull.is_crowded(), "nobody has come yet");
        load.run(&mut lull, 31, 1_000);
        assert!(!lull.is_crowded(), "too few have come");
        load.run(&mut lull, 65, QUICK_NS);
        assert!(lull.is_crowded());
    }

    #[test]
    fn few_connections_never_do_however_busy() {
        let (mut lull, mut load) = (Lull::default(), Load::of(31));
        for _ in 0..1000 {
            load.run(&mut lull, 7, 1_000);
            assert!(!lull.is_crowded());
        }
    }

    #[test]
    fn one_that_comes_back_all_the_time_is_not_kept_waiting_by_a_crowd() {
        let (mut lull, mut load) = (Lull::default(), Load::of(100));
        let mut busy = Served::default();
        for _ in 0..100 {
            lull.note(&mut busy);
            load.run(&mut lull, 30, 1_000);
            assert!(!lull.is_crowded());
        }
        load.run(&mut lull, 1, 1_000);
        assert!(!lull.is_crowded(), "it may be one of a crowd");
        load.run(&mut lull, 1, 1_000);
        assert!(lull.is_crowded(), "it has not come back");
    }

    #[test]
    fn a_slow_pace_does_not() {
        let (mut lull, mut load) = (Lull::default(), Load::of(100));
        load.run(&mut lull, 96, QUICK_NS);
        assert!(lull.is_crowded());
        load.run(&mut lull, 64, QUICK_NS + 1);
        assert!(!lull.is_crowded());
        load.run(&mut lull, 64, QUICK_NS);
        assert!(lull.is_crowded());
    }

    /// How often the pace is measured before the next rest.
    fn measurements(lull: &mut Lull, load: &mut Load) -> u32 {
        let mut count = 0;
        while !lull.is_crowded() {
            load.run(lull, CROWD, 1_000);
            count += 1;
        }
        count
    }

    #[test]
    fn who_is_kept_waiting_by_each_rest_is_so_ever_more_rarely() {
        let (mut lull, mut load) = (Lull::default(), Load::of(64));
        load.run(&mut lull, 96, 1_000);
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            lull.note_rest(64);
            assert_eq!(measurements(&mut lull, &mut load), expected);
        }
    }

    #[test]
    fn four_rests_that_go_well_make_up_for_a_failure_and_three_do_not() {
        for (well, expected) in [(4, 1), (3, 32)] {
            let (mut lull, mut load) = (Lull::default(), Load::of(64));
            load.run(&mut lull, 96, 1_000);
            let mut last = 0;
            for _ in 0..100 {
                lull.note_rest(2);
                last = measurements(&mut lull, &mut load);
                (0..well).for_each(|_| lull.note_rest(10));
            }
            assert_eq!(last, expected, "after {well} that went well");
        }
    }

    #[test]
    fn a_rest_that_brings_too_little_or_too_much_is_the_last_until_the_pace_is_measured() {
        for (brought, is_worth_it) in [(0, false), (2, false), (3, true), (16, true), (17, false)] {
            let (mut lull, mut load) = (Lull::default(), Load::of(100));
            load.run(&mut lull, 96, 1_000);
            lull.note_rest(brought);
            load.run(&mut lull, 31, 1_000);
            assert_eq!(lull.is_crowded(), is_worth_it, "after {brought}");
            load.run(&mut lull, 1, 1_000);
            assert!(lull.is_crowded(), "measured after {brought}");
        }
    }
}
