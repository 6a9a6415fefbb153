//! The latency monitor: when something took as long as `latency-monitor-threshold` or longer, as LATENCY shows it.
//!
//! It measures nothing: what it is given was measured for other counts, and a moment is a reading of the raw clock that was at
//! hand. Its memory is bounded, because there are a few events, and each keeps its newest samples.

use std::collections::VecDeque;
use std::sync::Arc;

use quorlock_engine::RawTime;
use quorlock_engine::control::Durability;

use crate::core::settings::NodeSettings;
use crate::sync::{Mutex, MutexGuard};

/// What may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatencyEvent {
    SyncAlways,
    SyncEverysec,
    SyncNo,
    /// A write past the page cache. Others do not wait for the device, and are not measured.
    Write,
    Command,
    /// One of those that Redis calls fast.
    FastCommand,
}

/// One moment at which something took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatencySample {
    /// About when it ended.
    pub(crate) at_raw: RawTime,
    pub(crate) took_ms: u64,
}

/// What was noted of one event, the oldest sample first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    samples: VecDeque<LatencySample>,
    /// The longest that ever was.
    pub(crate) max_ms: u64,
}

/// The samples of all events, for all threads of a node.
#[derive(Debug)]
pub(crate) struct LatencyMonitor {
    settings: Arc<NodeSettings>,
    all: Mutex<[Series; LatencyEvent::ALL.len()]>,
}

impl LatencyEvent {
    /// In the order of their names.
    pub(crate) const ALL: [LatencyEvent; 6] = [
        LatencyEvent::SyncAlways,
        LatencyEvent::SyncEverysec,
        LatencyEvent::SyncNo,
        LatencyEvent::Write,
        LatencyEvent::Command,
        LatencyEvent::FastCommand,
    ];

    /// Redis's name, where Redis has the event.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            LatencyEvent::SyncAlways => "aof-fsync-always",
            LatencyEvent::SyncEverysec => "aof-fsync-everysec",
            LatencyEvent::SyncNo => "aof-fsync-no",
            LatencyEvent::Write => "aof-write",
            LatencyEvent::Command => "command",
            LatencyEvent::FastCommand => "fast-command",
        }
    }

    /// The event of this name. As in Redis its case counts.
    pub(crate) fn named(name: &[u8]) -> Option<LatencyEvent> {
        let mut all = Self::ALL.into_iter();
        all.find(|event| event.name().as_bytes() == name)
    }
}

impl LatencyMonitor {
    pub(crate) fn new(settings: Arc<NodeSettings>) -> Self {
        Self {
            settings,
            all: Mutex::default(),
        }
    }

    /// Notes an event where it took long enough.
    pub(crate) fn note(&self, event: LatencyEvent, took_ns: u64, at_raw: RawTime) {
        if took_ns >= self.settings.latency_from_ns() {
            let sample = LatencySample {
                at_raw,
                took_ms: took_ns / 1_000_000,
            };
            self.series()[event as usize].add(sample);
        }
    }

    /// Notes a sync of the log.
    pub(crate) fn note_sync(&self, took_ns: u64, at_raw: RawTime) {
        let event = match self.settings.durability() {
            Durability::Always => LatencyEvent::SyncAlways,
            Durability::Everysec => LatencyEvent::SyncEverysec,
            Durability::No | Durability::Volatile => LatencyEvent::SyncNo,
        };
        self.note(event, took_ns, at_raw);
    }

    /// What was noted of an event; none where nothing was.
    pub(crate) fn noted(&self, event: LatencyEvent) -> Option<Series> {
        let series = self.series()[event as usize].clone();
        (!series.samples.is_empty()).then_some(series)
    }

    /// Forgets an event; false where nothing was noted of it.
    pub(crate) fn forget(&self, event: LatencyEvent) -> bool {
        let forgotten = std::mem::take(&mut self.series()[event as usize]);
        !forgotten.samples.is_empty()
    }

    fn series(&self) -> MutexGuard<'_, [Series; LatencyEvent::ALL.len()]> {
        let all = self.all.lock();
        all.expect("no holder of the samples can panic")
    }
}

impl LatencySample {
    /// How long ago it was.
    pub(crate) fn age_s(self, now_raw: RawTime) -> u64 {
        now_raw.nanos_since(self.at_raw) / SECOND_NS
    }

    /// The same in Unix time, for people.
    pub(crate) fn unix_s(self, now_raw: RawTime, now_wall_us: u64) -> u64 {
        let age_us = now_raw.nanos_since(self.at_raw) / 1_000;
        now_wall_us.saturating_sub(age_us) / 1_000_000
    }

    fn second(self) -> u64 {
        self.at_raw.as_nanos() / SECOND_NS
    }
}

impl Series {
    /// Of one second the longest is kept. Threads note what they measured shortly after, and in any order.
    fn add(&mut self, sample: LatencySample) {
        self.max_ms = self.max_ms.max(sample.took_ms);
        if let Some(last) = self.samples.back_mut()
            && last.second() >= sample.second()
        {
            last.took_ms = last.took_ms.max(sample.took_ms);
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The oldest first.
    pub(crate) fn samples(&self) -> impl ExactSizeIterator<Item = LatencySample> {
        self.samples.iter().copied()
    }

    pub(crate) fn latest(&self) -> Option<LatencySample> {
        self.samples.back().copied()
    }

    /// One line about them, as LATENCY DOCTOR of Redis has it.
    pub(crate) fn summary(&self, now_raw: RawTime) -> String {
        let count = self.samples.len().max(1) as u64;
        let average = self.samples().map(|it| it.took_ms).sum::<u64>() / count;
        let deviations = self.samples().map(|it| it.took_ms.abs_diff(average));
        let deviation = deviations.sum::<u64>() / count;
        let ages_s = self.samples().map(|it| it.age_s(now_raw));
        let period_s = ages_s.max().unwrap_or_default().max(1);
        format!(
            "{} latency spikes (average {average}ms, mean deviation {deviation}ms, period {:.2} sec). \
             Worst all time event {}ms.",
            self.samples.len(),
            period_s as f64 / count as f64,
            self.max_ms
        )
    }
}

const SECOND_NS: u64 = 1_000_000_000;
/// As in Redis.
const SAMPLES_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn monitor(threshold: &str, fsync: &str) -> LatencyMonitor {
        let mut config = Config::default();
        let settings = [
            ("latency-monitor-threshold", threshold),
            ("appendfsync", fsync),
        ];
        for (name, value) in settings {
            config.set(name, &[value]).expect("it is a value of it");
        }
        LatencyMonitor::new(Arc::new(NodeSettings::new(&config)))
    }

    fn at(second: u64) -> RawTime {
        RawTime::from_nanos(second * SECOND_NS + 5)
    }

    fn noted(monitor: &LatencyMonitor, event: LatencyEvent) -> Vec<[u64; 2]> {
        let series = monitor.noted(event).unwrap_or_default();
        let samples = series.samples();
        samples.map(|it| [it.second(), it.took_ms]).collect()
    }

    #[test]
    fn what_takes_the_threshold_is_noted_and_of_one_second_the_longest() {
        let monitor = monitor("10", "always");
        let durations = [
            (1, 9_999_999),
            (1, 10_000_000),
            (1, 30_000_000),
            (1, 20_000_000),
            (2, 11_900_000),
        ];
        for (second, took_ns) in durations {
            monitor.note(LatencyEvent::Command, took_ns, at(second));
        }
        assert_eq!(noted(&monitor, LatencyEvent::Command), [[1, 30], [2, 11]]);
        let series = monitor.noted(LatencyEvent::Command).expect("it was noted");
        assert_eq!(series.max_ms, 30);
        assert_eq!(
            series.summary(at(5)),
            "2 latency spikes (average 20ms, mean deviation 9ms, period 2.00 sec). Worst all time event 30ms."
        );
        assert!(monitor.noted(LatencyEvent::FastCommand).is_none());
        assert!(monitor.forget(LatencyEvent::Command) && !monitor.forget(LatencyEvent::Command));
        assert!(monitor.noted(LatencyEvent::Command).is_none());
    }

    /// Two threads may note what they measured in the other order.
    #[test]
    fn samples_are_in_the_order_of_their_seconds() {
        let monitor = monitor("10", "always");
        for (second, took_ns) in [(2, 20_000_000), (1, 30_000_000), (3, 10_000_000)] {
            monitor.note(LatencyEvent::Command, took_ns, at(second));
        }
        assert_eq!(noted(&monitor, LatencyEvent::Command), [[2, 30], [3, 10]]);
    }

    #[test]
    fn nothing_is_noted_where_it_is_off() {
        let monitor = monitor("0", "always");
        monitor.note(LatencyEvent::Command, u64::MAX - 1, at(1));
        assert!(monitor.noted(LatencyEvent::Command).is_none());
    }

    #[test]
    fn a_sync_has_the_event_of_its_setting() {
        for (fsync, event) in [
            ("always", LatencyEvent::SyncAlways),
            ("everysec", LatencyEvent::SyncEverysec),
            ("no", LatencyEvent::SyncNo),
        ] {
            let monitor = monitor("1", fsync);
            monitor.note_sync(5_000_000, at(7));
            assert_eq!(noted(&monitor, event), [[7, 5]]);
            assert_eq!(event.name(), format!("aof-fsync-{fsync}"));
        }
    }

    #[test]
    fn an_event_keeps_its_newest_samples() {
        let monitor = monitor("1", "always");
        for second in 1..=1_000 {
            monitor.note(LatencyEvent::Write, 1_000_000, at(second));
        }
        let kept = noted(&monitor, LatencyEvent::Write);
        assert_eq!(
            (kept.len(), kept[0], kept[159]),
            (160, [841, 1], [1_000, 1])
        );
    }

    #[test]
    fn a_sample_is_dated_by_the_clocks_of_who_asks() {
        let sample = LatencySample {
            at_raw: at(10),
            took_ms: 1,
        };
        assert_eq!(sample.age_s(at(13)), 3);
        assert_eq!(sample.unix_s(at(13), 1_000_000_000), 997);
        assert_eq!(
            sample.unix_s(at(9), 1_000_000_000),
            1_000,
            "not in the future"
        );
    }

    #[test]
    fn an_event_lies_at_its_place() {
        for (place, event) in LatencyEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, place);
            assert_eq!(LatencyEvent::named(event.name().as_bytes()), Some(event));
        }
        assert!(LatencyEvent::ALL.is_sorted_by_key(|event| event.name()));
        assert_eq!(LatencyEvent::named(b"Command"), None);
    }
}
