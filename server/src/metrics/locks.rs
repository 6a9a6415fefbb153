//! What the node has counted of locks, as metrics.

use std::fmt::Error;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use quorlock_engine::lock_counts::{LOCK_TIME_BOUNDS, LockEndReason, LockRefusal, TimeCounts};
use quorlock_node::core::executor::locks::LockReport;

use crate::metrics::page::{Labels, MetricsPage};

/// Adds what is known of locks to a page.
pub(super) fn register(page: &mut MetricsPage<'_>, locks: &LockReport) {
    page.gauge("quorlock_locks_held", locks.held.with_ttl as f64);
    page.gauge("quorlock_locks_without_ttl", locks.held.without_ttl as f64);
    page.gauge("quorlock_lock_waiters", locks.waiters as f64);
    let oldest = locks.oldest.unwrap_or_default();
    page.gauge("quorlock_lock_oldest_seconds", oldest.as_secs_f64());
    let grants = Family::<Labels, Counter>::default();
    let refusals = Family::<Labels, Counter>::default();
    let ends = Family::<Labels, Counter>::default();
    let (mut holds, mut waits) = (Vec::new(), Vec::new());
    for (pattern, counts) in locks.counts.classes() {
        let of_pattern = ("pattern", pattern.to_owned());
        let only = vec![of_pattern.clone()];
        grants.get_or_create(&only).inc_by(counts.grants);
        for why in LockRefusal::ALL {
            let labels = vec![of_pattern.clone(), ("reason", why.word().to_owned())];
            refusals.get_or_create(&labels).inc_by(counts.refused(why));
        }
        for how in LockEndReason::ALL {
            let labels = vec![of_pattern.clone(), ("how", how.word().to_owned())];
            ends.get_or_create(&labels).inc_by(counts.ended(how));
        }
        holds.push((only.clone(), Times::of(&counts.holds)));
        waits.push((only, Times::of(&counts.waits)));
    }
    page.register("quorlock_lock_grants", grants);
    page.register("quorlock_lock_refusals", refusals);
    page.register("quorlock_lock_ends", ends);
    page.register("quorlock_lock_hold_seconds", TimesByPattern(holds));
    page.register("quorlock_lock_wait_seconds", TimesByPattern(waits));
}

/// A histogram as it was at one moment.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) sum_seconds: f64,
    /// Upper bound in seconds, and how many fell between it and the one before.
    pub(super) buckets: Vec<(f64, u64)>,
}

impl Times {
    pub(super) fn of(counts: &TimeCounts) -> Times {
        let bounds = LOCK_TIME_BOUNDS.iter().map(Duration::as_secs_f64);
        let buckets = bounds.chain([f64::INFINITY]).zip(counts.buckets);
        Times {
            sum_seconds: counts.sum.as_secs_f64(),
            buckets: buckets.collect(),
        }
    }

    fn encode_into(&self, encoder: &mut MetricEncoder<'_>) -> Result<(), Error> {
        let count = self.buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(self.sum_seconds, count, &self.buckets, None)
    }
}

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
        self.encode_into(&mut encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[derive(Debug)]
pub(super) struct TimesByPattern(pub(super) Vec<(Labels, Times)>);

impl EncodeMetric for TimesByPattern {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
        for (labels, times) in &self.0 {
            times.encode_into(&mut encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
