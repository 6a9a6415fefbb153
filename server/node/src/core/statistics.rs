//! Counters for INFO and the metrics. Relaxed atomics: they are read by people, not by rules.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use quorlock_engine::RawTime;

use crate::clock::saturated;
use crate::core::error_codes::ErrorCodes;
use crate::core::line_rate::LineRate;

/// What the node counted since it started.
#[derive(Debug, Default)]
pub struct ServerStatistics {
    /// Commands executed.
    pub commands: AtomicU64,
    /// Bytes received from clients.
    pub bytes_in: AtomicU64,
    /// Bytes sent to them.
    pub bytes_out: AtomicU64,
    /// Connections refused.
    pub rejected: AtomicU64,
    /// Error replies.
    pub errors: AtomicU64,
    /// Error replies by their code.
    pub error_codes: ErrorCodes,
    pub(crate) closed: ClosedClients,
    /// The log lines about AUTHs that have failed.
    pub(crate) failed_login_lines: Mutex<LineRate>,
    /// Clients that wait with a request right now: for an element, a sync, or the end of a pause.
    pub blocked: AtomicUsize,
    /// How many connections were made before all was last counted anew.
    pub(crate) connections_before: AtomicU64,
    rate: Mutex<Rate>,
    /// Raw-clock reading from which the rate wants its next sample.
    rate_due_raw_ns: AtomicU64,
}

/// What clients cause: as counted up to a moment, or per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) commands: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl ServerStatistics {
    /// What happens per second now. Reading it changes nothing for other readers.
    pub(crate) fn per_second(&self, now_raw: RawTime) -> Traffic {
        self.sample_rate(now_raw);
        self.rate().per_second(now_raw, self.traffic())
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            commands: self.commands.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }

    /// To be called with whatever reading of the raw clock is at hand: an idle node needs no timer
    /// for its rate, and a busy one takes a sample ten times a second.
    pub(crate) fn sample_rate(&self, now_raw: RawTime) {
        if now_raw.as_nanos() < self.rate_due_raw_ns.load(Ordering::Relaxed) {
            return;
        }
        let due_raw = now_raw.plus_nanos(SAMPLE_NS);
        self.rate_due_raw_ns
            .store(due_raw.as_nanos(), Ordering::Relaxed);
        self.rate().note(now_raw, self.traffic());
    }

    fn rate(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().expect("no holder of the rate can panic")
    }

    /// Counts from zero again (CONFIG RESETSTAT). `connections`: how many were ever made.
    pub(crate) fn reset(&self, connections: u64) {
        self.connections_before
            .store(connections, Ordering::Relaxed);
        for counter in [
            &self.commands,
            &self.bytes_in,
            &self.bytes_out,
            &self.rejected,
            &self.errors,
            &self.closed.output_limit,
            &self.closed.query_limit,
            &self.closed.evicted,
            &self.closed.timed_out,
            &self.closed.unauthenticated,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        self.error_codes.reset();
        self.rate().samples.clear();
        self.rate_due_raw_ns.store(0, Ordering::Relaxed);
    }
}

/// How quickly counters grow, over the last 1.6 seconds as in Redis.
#[derive(Debug, Default)]
struct Rate {
    /// Oldest first.
    samples: VecDeque<TrafficSample>,
}

/// The counters at one reading of the raw clock.
#[derive(Clone, Copy, Debug)]
struct TrafficSample {
    raw: RawTime,
    traffic: Traffic,
}

impl Rate {
    fn note(&mut self, now_raw: RawTime, traffic: Traffic) {
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(TrafficSample {
            raw: now_raw,
            traffic,
        });
    }

    /// Compared with the newest sample that is old enough. Where the node was idle that may be long
    /// ago, and says so: nothing has happened since.
    fn per_second(&self, now_raw: RawTime, now: Traffic) -> Traffic {
        let age_ns = |sample: &TrafficSample| now_raw.nanos_since(sample.raw);
        let is_old = |sample: &&TrafficSample| age_ns(sample) >= SAMPLE_NS * SAMPLES as u64;
        let base = self.samples.iter().rev().find(is_old);
        let Some(base) = base.or(self.samples.front()) else {
            return Traffic::default();
        };
        // What came in a few microseconds says little of a second.
        if age_ns(base) < SAMPLE_NS {
            return Traffic::default();
        }
        let before = base.traffic;
        let rate = |now: u64, before: u64| {
            let grown = u128::from(now.saturating_sub(before));
            saturated(grown * 1_000_000_000 / u128::from(age_ns(base)))
        };
        Traffic {
            commands: rate(now.commands, before.commands),
            bytes_in: rate(now.bytes_in, before.bytes_in),
            bytes_out: rate(now.bytes_out, before.bytes_out),
        }
    }
}

/// So many samples, so far apart, are what a rate is taken over.
const SAMPLES: usize = 16;
const SAMPLE_NS: u64 = 100_000_000;

/// Clients that the node closed, by the limit they met.
#[derive(Debug, Default)]
pub(crate) struct ClosedClients {
    /// `client-output-buffer-limit`.
    pub(crate) output_limit: AtomicU64,
    /// `client-query-buffer-limit`, or what a client may send before the password.
    pub(crate) query_limit: AtomicU64,
    /// `maxmemory-clients`.
    pub(crate) evicted: AtomicU64,
    /// `request-timeout`, `send-timeout` or `timeout`.
    pub(crate) timed_out: AtomicU64,
    /// `authentication-timeout`, or to make room before they had authenticated.
    pub(crate) unauthenticated: AtomicU64,
}

/// How long syncs took, in buckets. Two relaxed additions per sync, beside which they are nothing.
#[derive(Debug, Default)]
pub struct SyncDurations {
    sum_ns: AtomicU64,
    /// One more than there are bounds: the last is for what is longer than all of them.
    counts: [AtomicU64; SYNC_BOUNDS_NS.len() + 1],
}

impl SyncDurations {
    pub(crate) fn note(&self, took_ns: u64) {
        let bucket = SYNC_BOUNDS_NS.partition_point(|bound| *bound < took_ns);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took_ns, Ordering::Relaxed);
    }

    /// What was counted up to now.
    pub fn read(&self) -> SyncCounts {
        SyncCounts {
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
            buckets: std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
        }
    }
}

/// The same at one moment.
#[derive(Debug)]
pub struct SyncCounts {
    /// How long all of them took together.
    pub sum_ns: u64,
    /// How many fell into each bucket.
    pub buckets: [u64; SYNC_BOUNDS_NS.len() + 1],
}

/// Upper bounds of the buckets, in nanoseconds: from a fast flash disk to one that hangs.
pub const SYNC_BOUNDS_NS: [u64; 15] = [
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> RawTime {
        RawTime::from_nanos(count * 1_000_000)
    }

    /// A node that executes one command per millisecond from `from_ms` to `to_ms`, and takes a
    /// sample at the end of each.
    fn busy(statistics: &ServerStatistics, from_ms: u64, to_ms: u64) {
        for at_ms in from_ms..to_ms {
            statistics.commands.fetch_add(1, Ordering::Relaxed);
            statistics.bytes_in.fetch_add(20, Ordering::Relaxed);
            statistics.bytes_out.fetch_add(5, Ordering::Relaxed);
            statistics.sample_rate(ms(at_ms));
        }
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds_however_often_it_is_read() {
        let statistics = ServerStatistics::default();
        assert_eq!(statistics.per_second(ms(5_000)).commands, 0, "the first");
        busy(&statistics, 5_000, 10_000);
        for at_us in (10_000_000..10_050_000).step_by(100) {
            let rate = statistics
                .per_second(RawTime::from_nanos(at_us * 1_000))
                .commands;
            assert!((950..=1_000).contains(&rate), "{rate} at {at_us} us");
        }
        let all = statistics.per_second(ms(10_050));
        assert_eq!(all.bytes_in / 20, all.commands);
        assert_eq!(all.bytes_out / 5, all.commands);
        let rate = statistics.per_second(ms(10_800)).commands;
        assert!((400..=600).contains(&rate), "{rate}: idle for half of it");
        assert_eq!(statistics.per_second(ms(20_000)).commands, 0);
        assert_eq!(statistics.rate().samples.len(), SAMPLES + 1);
    }

    #[test]
    fn two_who_read_a_node_without_samples_of_its_own_see_the_same() {
        let statistics = ServerStatistics::default();
        for at_ms in (0..100_000).step_by(10_000) {
            statistics.commands.fetch_add(5_000, Ordering::Relaxed);
            let first = statistics.per_second(ms(at_ms)).commands;
            let second = statistics.per_second(ms(at_ms + 1)).commands;
            assert_eq!(first, if at_ms == 0 { 0 } else { 500 }, "{at_ms}");
            assert!(first.abs_diff(second) <= 1, "{second} at {at_ms}");
        }
    }

    #[test]
    fn a_rate_begins_anew_with_its_counter() {
        let statistics = ServerStatistics::default();
        busy(&statistics, 0, 5_000);
        statistics.reset(7);
        assert_eq!(statistics.per_second(ms(5_000)).commands, 0);
        busy(&statistics, 5_000, 6_000);
        let rate = statistics.per_second(ms(6_000)).commands;
        assert!((950..=1_000).contains(&rate), "{rate}");
        // A clock that was set back is no reason to fail.
        assert_eq!(statistics.per_second(RawTime::ZERO).commands, 0);
    }

    #[test]
    fn a_sync_falls_into_the_first_bucket_that_holds_it() {
        let syncs = SyncDurations::default();
        for took_ns in [0, 50_000, 50_001, 5_000_000_000, 5_000_000_001] {
            syncs.note(took_ns);
        }
        let SyncCounts { sum_ns, buckets } = syncs.read();
        assert_eq!(sum_ns, 10_000_100_002);
        assert_eq!((buckets[0], buckets[1]), (2, 1));
        assert_eq!((buckets[14], buckets[15]), (1, 1));
        assert_eq!(buckets.iter().sum::<u64>(), 5);
    }
}
