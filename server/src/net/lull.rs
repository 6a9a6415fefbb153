//! How a worker waits when nothing has come: for the next request, or first for the end of a short
//! rest.
//!
//! Waking a worker costs the client that does it, and being woken costs the worker, about as much
//! as a request. Where many connections ask at a quick pace, the next requests come within
//! microseconds whether somebody waits for them or not. A worker that rests takes them all at its
//! end, and no client has to wake it. Network cards moderate their interrupts for the same reason.
//!
//! Elsewhere it does not rest. Few connections, however busy, may all be waiting for this worker, so
//! that nothing comes meanwhile; at a slow pace too little comes.

use std::time::Duration;

/// What one worker has seen of its connections.
#[derive(Debug)]
pub(crate) struct Lull {
    /// How often connections have taken part in turns.
    served: u64,
    /// `served` when a connection last came back before a crowd of others had its turn.
    came_back: u64,
    /// `served` and the raw clock when the pace was last measured.
    measured: (u64, u64),
    is_quick: bool,
    /// `served` at the last rest.
    rested: u64,
}

/// When a connection last took part in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served(u64);

impl Default for Lull {
    fn default() -> Self {
        Self {
            // So that a connection's first turn is no coming back.
            served: CROWD,
            came_back: CROWD,
            measured: (CROWD, 0),
            is_quick: false,
            rested: 0,
        }
    }
}

impl Lull {
    /// Notes that a connection takes part in a turn.
    pub(crate) fn note(&mut self, connection: &mut Served) {
        self.served += 1;
        if self.served - connection.0 < CROWD {
            self.came_back = self.served;
        }
        *connection = Served(self.served);
    }

    /// Measures the pace, once for every crowd that has been served.
    pub(crate) fn measure(&mut self, raw_ns: impl FnOnce() -> u64) {
        let (served, since_ns) = self.measured;
        let count = self.served - served;
        if count < CROWD {
            return;
        }
        let now_ns = raw_ns();
        let took_ns = now_ns.saturating_sub(since_ns);
        self.is_quick = took_ns <= count.saturating_mul(QUICK_NS);
        self.measured = (self.served, now_ns);
    }

    /// Whether many connections ask, none of them much more often than the others, at a quick pace.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_quick && self.served - self.came_back >= CROWD
    }

    /// How long to rest now that nothing has come. After a rest that brought too little, the pace has
    /// to be measured again first.
    pub(crate) fn rest(&mut self) -> Option<Duration> {
        if !self.is_crowded() {
            return None;
        }
        let brought = self.served - std::mem::replace(&mut self.rested, self.served);
        self.is_quick = brought >= WORTH;
        self.is_quick.then_some(REST)
    }
}

/// So many connections in a row, none of them twice, are a crowd.
const CROWD: u64 = 32;

/// The slowest quick pace, in time per connection served: a rest then brings three.
const QUICK_NS: u64 = 16_000;

/// What a rest has to bring.
const WORTH: u64 = 3;

/// By so much a request can be answered later. Measured in `docs/adr/0006-a-crowd-lets-workers-rest.md`.
const REST: Duration = Duration::from_micros(50);

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
        assert_eq!(lull.rest(), None, "nobody has come yet");
        load.run(&mut lull, 31, 1_000);
        assert_eq!(lull.rest(), None, "too few have come");
        load.run(&mut lull, 65, QUICK_NS);
        assert_eq!(lull.rest(), Some(REST));
    }

    #[test]
    fn few_connections_never_do_however_busy() {
        let (mut lull, mut load) = (Lull::default(), Load::of(31));
        for _ in 0..1000 {
            load.run(&mut lull, 7, 1_000);
            assert_eq!(lull.rest(), None);
        }
    }

    #[test]
    fn one_that_comes_back_all_the_time_is_not_kept_waiting_by_a_crowd() {
        let (mut lull, mut load) = (Lull::default(), Load::of(100));
        let mut busy = Served::default();
        for _ in 0..100 {
            lull.note(&mut busy);
            load.run(&mut lull, 30, 1_000);
            assert_eq!(lull.rest(), None);
        }
        load.run(&mut lull, 1, 1_000);
        assert_eq!(lull.rest(), None, "it may be one of a crowd");
        load.run(&mut lull, 1, 1_000);
        assert_eq!(lull.rest(), Some(REST), "it has not come back");
    }

    #[test]
    fn a_slow_pace_does_not() {
        let (mut lull, mut load) = (Lull::default(), Load::of(100));
        load.run(&mut lull, 96, QUICK_NS);
        assert_eq!(lull.rest(), Some(REST));
        load.run(&mut lull, 64, QUICK_NS + 1);
        assert_eq!(lull.rest(), None);
        load.run(&mut lull, 64, QUICK_NS);
        assert_eq!(lull.rest(), Some(REST));
    }

    #[test]
    fn a_rest_that_brings_too_little_is_the_last_until_the_pace_is_measured_again() {
        let (mut lull, mut load) = (Lull::default(), Load::of(100));
        load.run(&mut lull, 96, 1_000);
        for _ in 0..5 {
            assert_eq!(lull.rest(), Some(REST));
            load.run(&mut lull, WORTH, 1_000);
        }
        assert_eq!(lull.rest(), Some(REST));
        load.run(&mut lull, WORTH - 1, 1_000);
        assert_eq!(lull.rest(), None);
        load.run(&mut lull, WORTH, 1_000);
        assert_eq!(lull.rest(), None, "not measured since");
        load.run(&mut lull, CROWD, 1_000);
        assert_eq!(lull.rest(), Some(REST));
    }

    #[test]
    fn connections_that_come_and_go_are_a_crowd_as_well() {
        let mut lull = Lull::default();
        for turn in 0..96 {
            lull.note(&mut Served::default());
            lull.measure(|| turn * 1_000);
        }
        assert_eq!(lull.rest(), Some(REST));
    }
}
