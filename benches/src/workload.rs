//! The workloads, as `performance targets` name them: what is sent, how, and what is aimed at.
//!
//! A lock's TTL stays under a minute everywhere: beyond the cap of the restart delay a node syncs
//! every write, and another thing would be measured.

/// What one client sends again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// `SET lock:<random> <token> NX PX 30000`, nearly always granted.
    Acquire,
    /// The compare-and-delete script by EVALSHA, on a key that does not exist.
    ReleaseMiss,
    /// SET NX PX and then the compare-and-delete that finds it: one cycle is one operation.
    Cycle,
}

/// How the servers write their logs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    None,
    EverySecond,
    Always,
}

/// Which figure the target is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Throughput,
    MedianLatency,
}

/// One row of the report.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) traffic: Traffic,
    pub(crate) log: Log,
    pub(crate) connections: u32,
    pub(crate) depth: u32,
    pub(crate) operations: u64,
    pub(crate) figure: Figure,
    /// Ours divided by the peer's: at least this for throughput, at most for latency.
    pub(crate) target: Option<f64>,
    /// Server CPU per operation, ours divided by the peer's: at most this.
    pub(crate) cpu_target: Option<f64>,
}

impl Workload {
    const fn new(name: &'static str, traffic: Traffic, log: Log, shape: (u32, u32)) -> Self {
        let (connections, depth) = shape;
        Self {
            name,
            traffic,
            log,
            connections,
            depth,
            operations: 1,
            figure: Figure::Throughput,
            target: None,
            cpu_target: None,
        }
    }

    const fn operations(mut self, operations: u64) -> Self {
        self.operations = operations;
        self
    }

    const fn target(mut self, throughput: f64) -> Self {
        self.target = Some(throughput);
        self
    }

    const fn cpu_target(mut self, cpu: f64) -> Self {
        self.cpu_target = Some(cpu);
        self
    }

    const fn latency_target(mut self, latency: f64) -> Self {
        self.figure = Figure::MedianLatency;
        self.target = Some(latency);
        self
    }

    /// The same with a share of the operations, rounded up to whole batches.
    pub(crate) fn scaled(&self, divisor: u64) -> u64 {
        let batch = u64::from(self.connections) * u64::from(self.depth);
        (self.operations / divisor)
            .max(batch)
            .next_multiple_of(batch)
    }
}

/// Every workload, in the order of the report.
pub(crate) fn all() -> Vec<Workload> {
    use Log::{Always, EverySecond, None};
    use Traffic::{Acquire, Cycle, ReleaseMiss};
    let row = Workload::new;
    vec![
        row("P1", Acquire, None, (50, 1))
            .operations(500_000)
            .target(1.0)
            .cpu_target(0.8),
        row("P1 everysec", Acquire, EverySecond, (50, 1)).operations(400_000),
        row("P2", Acquire, None, (50, 16))
            .operations(2_000_000)
            .target(2.0)
            .cpu_target(0.5),
        row("P2 everysec", Acquire, EverySecond, (50, 16)).operations(1_500_000),
        row("P4", ReleaseMiss, None, (50, 1))
            .operations(400_000)
            .target(1.05)
            .cpu_target(0.9),
        row("P4 deep", ReleaseMiss, None, (50, 16))
            .operations(1_000_000)
            .target(1.5)
            .cpu_target(0.65),
        row("P4 cycle", Cycle, None, (50, 1)).operations(200_000),
        row("P4 cycle deep", Cycle, None, (50, 16)).operations(500_000),
        row("P6 8", Acquire, Always, (8, 1))
            .operations(60_000)
            .target(1.3),
        row("P6 50", Acquire, Always, (50, 1))
            .operations(200_000)
            .target(1.5),
        row("P6 200", Acquire, Always, (200, 1))
            .operations(300_000)
            .target(1.3),
        row("P6 50 deep", Acquire, Always, (50, 16))
            .operations(1_000_000)
            .target(2.0),
        row("P7", Acquire, Always, (1, 1))
            .operations(15_000)
            .latency_target(0.85),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_workload_is_made_of_whole_batches() {
        for workload in all() {
            for divisor in [1, 20, 1_000_000] {
                let batch = u64::from(workload.connections * workload.depth);
                let operations = workload.scaled(divisor);
                assert!(
                    operations >= batch && operations % batch == 0,
                    "{}",
                    workload.name
                );
            }
        }
    }
}
