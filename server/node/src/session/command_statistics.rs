//! Commandstats, latencystats and errorstats of INFO, line by line as Redis writes them.

use std::fmt::Write;

use quorlock_engine::ScriptCounts;

use crate::core::state::NodeState;

/// The lines of commandstats.
pub(super) fn of_commands(node: &NodeState, scripts: &ScriptCounts) -> String {
    let mut lines = String::new();
    for (number, name) in node.calls.names() {
        let clients = node.calls.count(number);
        let scripts = scripts.count(number);
        let calls = clients.calls + scripts.calls;
        let (rejected, failed) = (
            clients.rejected + scripts.rejected,
            clients.failed + scripts.failed,
        );
        if calls + rejected + failed == 0 {
            continue;
        }
        let usec = clients.nanos / 1_000;
        // What scripts call is part of the script's time.
        let per_call = match clients.calls {
            0 => 0.0,
            calls => clients.nanos as f64 / 1e3 / calls as f64,
        };
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            lines,
            "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={per_call:.2},rejected_calls={rejected},\
             failed_calls={failed}\r\n",
        );
    }
    lines
}

/// The lines of latencystats.
pub(super) fn of_latencies(node: &NodeState) -> String {
    let mut lines = String::new();
    let Some(percentiles) = node.configured(|it| {
        let percentiles = &it.latency.percentiles;
        it.latency.tracking.then(|| percentiles.clone())
    }) else {
        return lines;
    };
    for (number, name) in node.calls.names() {
        let count = node.calls.count(number);
        if !count.has_durations() {
            continue;
        }
        let percentiles = percentiles.iter().map(|percentile| {
            let us = count.percentile_ns(percentile.millionths()) as f64 / 1e3;
            format!("p{percentile}={us:.3}")
        });
        let percentiles = percentiles.collect::<Vec<_>>().join(",");
        let _ = write!(lines, "latency_percentiles_usec_{name}:{percentiles}\r\n");
    }
    lines
}

/// The lines of errorstats.
pub(super) fn of_errors(node: &NodeState) -> String {
    let mut lines = String::new();
    for (code, count) in node.statistics.error_codes.all() {
        let _ = write!(lines, "errorstat_{code}:count={count}\r\n");
    }
    lines
}
