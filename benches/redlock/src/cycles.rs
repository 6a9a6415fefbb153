//! Cycles that many callers run side by side, and what they took.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Outcome;
use crate::library::Library;

/// What a number of cycles took.
pub struct Cycles {
    elapsed: Duration,
    /// Of each cycle, in ascending order.
    latencies: Vec<Duration>,
    failed: usize,
    cpu: Duration,
}

impl Cycles {
    /// Runs that many cycles altogether, and ends when the last caller has.
    pub async fn run(library: &Arc<Library>, callers: usize, cycles: usize) -> Outcome<Self> {
        let cpu = cpu()?;
        let start = Instant::now();
        let run = |caller: usize| {
            let library = Arc::clone(library);
            tokio::spawn(async move { caller_cycles(&library, caller, cycles / callers).await })
        };
        let running: Vec<_> = (0..callers).map(run).collect();
        let mut latencies = Vec::new();
        let mut failed = 0;
        for caller in running {
            let (taken, errors) = caller.await?;
            latencies.extend(taken);
            failed += errors;
        }
        let elapsed = start.elapsed();
        latencies.sort();
        let cpu = self::cpu()?.saturating_sub(cpu);
        Ok(Self {
            elapsed,
            latencies,
            failed,
            cpu,
        })
    }

    pub fn json(&self) -> String {
        let at = |percent: usize| {
            let latency = self.latencies.get(self.latencies.len() * percent / 100);
            latency.map(|latency| latency.as_secs_f64() * 1e6)
        };
        let done = self.latencies.len() as f64;
        let report = json!({
            "cycles_per_second": done / self.elapsed.as_secs_f64(),
            "median_us": at(50),
            "p99_us": at(99),
            "cpu_us_per_cycle": self.cpu.as_secs_f64() * 1e6 / done,
            "failed": self.failed,
        });
        report.to_string()
    }
}

async fn caller_cycles(library: &Library, caller: usize, cycles: usize) -> (Vec<Duration>, usize) {
    let name = format!("lock:{caller}");
    let mut latencies = Vec::with_capacity(cycles);
    let mut failed = 0;
    for _ in 0..cycles {
        let start = Instant::now();
        match library.cycle(&name).await {
            Ok(()) => latencies.push(start.elapsed()),
            Err(error) => {
                eprintln!("{name}: {error}");
                failed += 1;
            }
        }
    }
    (latencies, failed)
}

/// The time all threads of this process have run, user and system together.
fn cpu() -> Outcome<Duration> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // A thread may end between the listing and the reading.
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let spent = text
            .split(' ')
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        nanoseconds += spent.unwrap_or_default();
    }
    Ok(Duration::from_nanos(nanoseconds))
}
