//! How often each command was called, how it ended, and how long it took: what INFO shows as commandstats and
//! latencystats.
//!
//! Each worker has a table of its own that nobody else writes, so that counting is a load and a store. Reading the clock
//! costs as much as a twentieth of a short command: of commands that are short by their nature, and take less than
//! [`BRIEF_NS`], about one in sixteen is timed, and stands for those since the one timed before it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command_numbers::CountedCommand;

/// The tables of all workers.
#[derive(Debug)]
pub struct CommandStatistics {
    /// Of the commands, by number.
    names: Vec<String>,
    tables: Vec<WorkerCounts>,
    /// Counts CONFIG RESETSTAT: what a table has counted before the last one is void.
    resets: AtomicU64,
}

/// What one worker has counted, by the number of the command.
#[derive(Debug)]
pub(crate) struct WorkerCounts {
    rows: Box<[Row]>,
    resets: AtomicU64,
}

/// One line of the processor's cache.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row {
    calls: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    /// Of all calls, as far as those say that were timed.
    nanos: AtomicU64,
    /// From so many calls on the next is timed.
    timed_from: AtomicU64,
    /// So many calls are covered by those that were timed.
    covered: AtomicU64,
    /// All calls are timed.
    may_take_long: bool,
    /// Calls by duration; made when the first is timed.
    durations: OnceLock<Durations>,
}

type Durations = Box<[AtomicU64; BUCKETS]>;

/// What was counted of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub calls: u64,
    /// Refused before they were executed.
    pub(crate) rejected: u64,
    /// Executed and answered with an error.
    pub(crate) failed: u64,
    pub nanos: u64,
    /// By bucket; empty where none was timed.
    durations: Vec<u64>,
}

impl CommandStatistics {
    pub(crate) fn new(workers: usize, commands: Vec<CountedCommand>) -> Self {
        let row = |command: &CountedCommand| Row {
            may_take_long: command.may_take_long,
            ..Row::default()
        };
        let table = |_| WorkerCounts {
            rows: commands.iter().map(row).collect(),
            resets: AtomicU64::new(0),
        };
        Self {
            tables: (0..workers.max(1)).map(table).collect(),
            names: commands.into_iter().map(|command| command.name).collect(),
            resets: AtomicU64::new(0),
        }
    }

    /// The names of the commands, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.names.iter().map(String::as_str).enumerate()
    }

    /// The number of a command.
    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// The table of a worker, which alone may write to it.
    pub(crate) fn table(&self, worker: usize) -> &WorkerCounts {
        let table = &self.tables[worker];
        let resets = self.resets.load(Ordering::Relaxed);
        if table.resets.load(Ordering::Relaxed) != resets {
            table.clear();
            table.resets.store(resets, Ordering::Release);
        }
        table
    }

    /// All count anew.
    pub(crate) fn reset(&self) {
        self.resets.fetch_add(1, Ordering::Relaxed);
    }

    /// What all workers have counted of a command.
    pub fn count(&self, number: usize) -> Count {
        let resets = self.resets.load(Ordering::Relaxed);
        let mut sum = Count::default();
        for table in &self.tables {
            if table.resets.load(Ordering::Acquire) == resets {
                table.rows[number].add_to(&mut sum);
            }
        }
        sum
    }
}

impl WorkerCounts {
    /// Whether the next call of a command is to be timed.
    #[inline]
    pub(crate) fn is_timed(&self, number: usize) -> bool {
        let row = &self.rows[number];
        row.calls.load(Ordering::Relaxed) >= row.timed_from.load(Ordering::Relaxed)
    }

    /// Counts a call, and how long it took where it was timed.
    #[inline]
    pub(crate) fn note(&self, number: usize, took_ns: Option<u64>, has_failed: bool) {
        let row = &self.rows[number];
        let calls = raise(&row.calls, 1);
        if has_failed {
            raise(&row.failed, 1);
        }
        if let Some(took_ns) = took_ns {
            row.note_time(calls, took_ns);
        }
    }

    /// Counts a call that was refused before it was executed.
    pub(crate) fn note_rejected(&self, number: usize) {
        raise(&self.rows[number].rejected, 1);
    }

    /// A call that was counted when it began to wait has ended with an error.
    pub(crate) fn note_failed(&self, number: usize) {
        raise(&self.rows[number].failed, 1);
    }

    fn clear(&self) {
        for row in &self.rows {
            let counters = [&row.calls, &row.rejected, &row.failed, &row.nanos];
            let counters = counters.into_iter().chain([&row.timed_from, &row.covered]);
            let durations = row.durations.get().into_iter().flat_map(|all| all.iter());
            for counter in counters.chain(durations) {
                counter.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl Row {
    #[cold]
    fn note_time(&self, calls: u64, took_ns: u64) {
        let stands_for = calls - self.covered.load(Ordering::Relaxed);
        self.covered.store(calls, Ordering::Relaxed);
        raise(&self.nanos, took_ns.saturating_mul(stands_for));
        let durations = self
            .durations
            .get_or_init(|| Box::new([const { AtomicU64::new(0) }; BUCKETS]));
        raise(&durations[bucket_of(took_ns)], stands_for);
        // Not every sixteenth: a client may send its commands in groups of as many.
        let skips = took_ns < BRIEF_NS && calls >= ALL_TIMED && !self.may_take_long;
        let skipped = match skips {
            true => SKIPPED_MIN + (calls.wrapping_mul(SPREAD) >> SKIPPED_SHIFT),
            false => 0,
        };
        self.timed_from.store(calls + skipped, Ordering::Relaxed);
    }

    fn add_to(&self, sum: &mut Count) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (calls, covered) = (value(&self.calls), value(&self.covered));
        sum.calls += calls;
        sum.rejected += value(&self.rejected);
        sum.failed += value(&self.failed);
        // The last few calls, which the next that is timed will stand for, are taken to be like the others.
        let nanos = u128::from(value(&self.nanos)) * u128::from(calls.max(covered));
        let nanos = nanos.checked_div(u128::from(covered)).unwrap_or(0);
        sum.nanos += crate::clock::saturated(nanos);
        let Some(durations) = self.durations.get() else {
            return;
        };
        sum.durations.resize(BUCKETS, 0);
        for (sum, counter) in sum.durations.iter_mut().zip(durations.iter()) {
            *sum += value(counter);
        }
    }
}

impl Count {
    /// Whether the durations of any are known.
    pub(crate) fn has_durations(&self) -> bool {
        self.durations.iter().any(|count| *count > 0)
    }

    /// So many percent of the calls, in millionths of a percent, took no longer than this, to a sixteenth.
    pub(crate) fn percentile_ns(&self, millionths: u32) -> u64 {
        let all: u64 = self.durations.iter().sum();
        let wanted = (u128::from(all) * u128::from(millionths)).div_ceil(100_000_000);
        let wanted = wanted.max(1);
        let mut below = 0;
        let bucket = self.durations.iter().position(|count| {
            below += u128::from(*count);
            below >= wanted
        });
        bucket.map_or(0, highest_ns)
    }
}

impl Count {
    /// How many calls took no longer than a power of two, as LATENCY HISTOGRAM of Redis shows it: from 1024 ns to those that
    /// took more than half a second, without the powers up to which no more calls took than up to the one before. Redis
    /// names each power with what its own histogram cannot tell from it.
    pub(crate) fn calls_by_duration(&self) -> Vec<(u64, u64)> {
        let mut shown = Vec::new();
        let mut before = 0;
        for power in SHOWN_POWERS {
            let (last, up_to_ns) = match power == *SHOWN_POWERS.end() {
                true => (BUCKETS - 1, (1 << power) - 1),
                false => (
                    bucket_of((1 << power) - 1),
                    (1 << power) + (1 << (power - 7)) - 1,
                ),
            };
            let calls = self.durations.iter().take(last + 1).sum();
            if calls > before {
                shown.push((up_to_ns, calls));
                before = calls;
            }
        }
        shown
    }
}

/// Of a counter that only this thread writes.
fn raise(counter: &AtomicU64, by: u64) -> u64 {
    let value = counter.load(Ordering::Relaxed).saturating_add(by);
    counter.store(value, Ordering::Relaxed);
    value
}

/// Sixteen buckets for each power of two.
fn bucket_of(nanos: u64) -> usize {
    let power = nanos.checked_ilog2().unwrap_or(0);
    // The highest bits of a duration, one more than a part needs: where it has as many.
    let shift = power.saturating_sub(PART_BITS);
    let highest = usize::try_from(nanos >> shift).expect("it has a few bits");
    (shift as usize * PARTS + highest).min(BUCKETS - 1)
}

/// The longest duration of a bucket.
fn highest_ns(bucket: usize) -> u64 {
    let (power, part) = (bucket / PARTS, bucket % PARTS);
    match power {
        0 => part as u64,
        _ => (((PARTS + part + 1) as u64) << (power - 1)) - 1,
    }
}

const PART_BITS: u32 = 4;
const PARTS: usize = 1 << PART_BITS;
/// Up to 34 s; what takes longer is in the last.
const BUCKETS: usize = (35 - PART_BITS as usize + 1) * PARTS;

/// A microsecond to a second.
const SHOWN_POWERS: std::ops::RangeInclusive<u32> = 10..=30;

/// Commands that take longer are all timed.
const BRIEF_NS: u64 = 2_000;
/// The first calls are all timed.
const ALL_TIMED: u64 = 64;
/// 8 to 23 calls are skipped, spread by the bits of the golden ratio.
const SKIPPED_MIN: u64 = 8;
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const SKIPPED_SHIFT: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_buckets_of_a_sixteenth() {
        let mut last = 0;
        for bucket in 0..BUCKETS {
            let highest = highest_ns(bucket);
            assert_eq!(bucket_of(highest), bucket);
            assert_eq!(bucket_of(highest + 1), (bucket + 1).min(BUCKETS - 1));
            assert!(highest - last <= 1 + highest / 16, "{last} {highest}");
            last = highest;
        }
        assert!(last > 34_000_000_000);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    /// Calls of these durations, the n-th taking the n-th of them.
    fn counted(durations: impl Iterator<Item = u64>) -> (Count, usize) {
        let calls = CommandStatistics::new(1, vec![CountedCommand::default()]);
        let mut timed = 0;
        for duration in durations {
            let table = calls.table(0);
            let is_timed = table.is_timed(0);
            timed += usize::from(is_timed);
            table.note(0, is_timed.then_some(duration), false);
        }
        (calls.count(0), timed)
    }

    #[test]
    fn of_short_calls_one_in_sixteen_is_timed_and_stands_for_the_others() {
        // Groups of sixteen, of which the first takes longer, as in a pipeline.
        let duration = |number: u64| {
            if number.is_multiple_of(16) {
                1_600
            } else {
                400
            }
        };
        let (count, timed) = counted((0..160_000).map(duration));
        assert_eq!(count.calls, 160_000);
        assert!((8_500..11_000).contains(&timed), "{timed}");
        let mean = count.nanos / count.calls;
        assert!((465..485).contains(&mean), "{mean} and not 475");
        assert_eq!(count.percentile_ns(50_000_000), highest_ns(bucket_of(400)));
        assert_eq!(
            count.percentile_ns(99_900_000),
            highest_ns(bucket_of(1_600))
        );
    }

    #[test]
    fn long_calls_and_the_first_ones_are_all_timed() {
        let (count, timed) = counted((0..1_000).map(|_| 3_000));
        assert_eq!((timed, count.nanos), (1_000, 3_000_000));
        let (count, timed) = counted((1..=64).map(|number| number * 10));
        assert_eq!((timed, count.nanos), (64, 20_800));
        assert_eq!(count.percentile_ns(100_000_000), highest_ns(bucket_of(640)));
    }

    #[test]
    fn calls_are_shown_by_powers_of_two_with_redis_s_names() {
        let durations = [
            1,
            1_023,
            1_024,
            3_000,
            3_000,
            17_000,
            2_000_000_000,
            5_000_000_000,
        ];
        let (count, _) = counted(durations.into_iter());
        let shown = count.calls_by_duration();
        let shown: Vec<_> = shown
            .iter()
            .map(|(ns, calls)| (ns / 1_000, *calls))
            .collect();
        let expected = [(1, 2), (2, 3), (4, 5), (33, 6), (1_073_741, 8)];
        assert_eq!(shown, expected);
        let (count, _) = counted([900_000_000, 400_000_000].into_iter());
        let expected = [(541_065_215, 1), (1_073_741_823, 2)];
        assert_eq!(count.calls_by_duration(), expected);
        assert_eq!(Count::default().calls_by_duration(), []);
    }

    #[test]
    fn every_call_is_timed_of_a_command_that_may_take_long() {
        let command = CountedCommand {
            may_take_long: true,
            ..CountedCommand::default()
        };
        let calls = CommandStatistics::new(1, vec![command]);
        for _ in 0..1_000 {
            assert!(calls.table(0).is_timed(0));
            calls.table(0).note(0, Some(400), false);
        }
    }

    #[test]
    fn all_workers_count_together_and_anew_after_a_reset() {
        let calls = CommandStatistics::new(2, vec![CountedCommand::default(); 3]);
        calls.table(0).note(1, Some(50), false);
        calls.table(1).note(1, Some(150), true);
        calls.table(1).note_rejected(1);
        let count = calls.count(1);
        assert_eq!((count.calls, count.failed, count.rejected), (2, 1, 1));
        assert_eq!(count.nanos, 200);
        assert!(count.has_durations());
        assert_eq!(calls.count(0), Count::default());
        calls.reset();
        assert_eq!(calls.count(1), Count::default());
        calls.table(1).note(1, Some(7), false);
        let count = calls.count(1);
        assert_eq!(
            (count.calls, count.nanos, count.percentile_ns(0)),
            (1, 7, 7)
        );
    }
}
