//! The cluster of a trial: a local network with busy hosts, and logs so short that nodes need new segments all the time.

use std::time::Duration;

use quorlock_persistence::LogOptions;
use quorlock_simulation::{Cluster, Layout, Random, drift_ppm};

use super::step::ScheduledStep;

/// Nodes, which serve, and clients.
pub(super) fn cluster(
    seed: u64,
    nodes: u8,
    directives: &[(&str, &str)],
    clients: usize,
) -> Cluster<ScheduledStep> {
    let mut jitter = Random::of(&[seed, 2]);
    let mut ways = || {
        let ways = (0..nodes).map(|_| WAY_NS + jitter.below(WAY_NS));
        ways.collect()
    };
    let ways_ns = (0..clients).map(|_| ways()).collect();
    let layout = Layout {
        seed,
        nodes: usize::from(nodes),
        directives,
        sizes: LogOptions {
            first_segment_bytes: SEGMENT_BYTES,
            segment_bytes: SEGMENT_BYTES,
            // Segments are as long as the largest frame at least.
            frame_bytes_max: SEGMENT_BYTES / 4,
            reserve_bytes: SEGMENT_BYTES / 8,
            ..LogOptions::default()
        },
        client_rates_ppm: &|random| (drift_ppm(random), 0),
        node_rate_ppm: &drift_ppm,
        listed: &|_| usize::from(nodes),
        // Whoever waits finds out at once what nodes have forgotten.
        configure: &|builder| builder.stand_in_line(false),
        ways_ns,
        is_in_step: false,
        jitter,
        tick_ns: TICK_NS,
        is_silent_without_power: true,
        traces: false,
    };
    layout.build()
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A way takes from this long to three times as long, which is that of a local network with busy hosts.
const WAY_NS: u64 = 300_000;
/// Short segments are soon made, and nodes need new ones all the time: on a full disk too.
const SEGMENT_BYTES: u64 = 32 << 10;
const TICK_NS: u64 = 10_000_000;
