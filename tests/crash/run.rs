//! Many workloads, on several threads, until a budget is spent.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::explore::{Budget, Failure, explore};
use super::statistics::Statistics;

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All counts.
    pub statistics: Statistics,
    /// The first failure of every workload that has one.
    pub failures: Vec<Failure>,
    /// The seed after the last one that was used.
    pub next_seed: u64,
}

/// Explores the workloads of the seeds from `first_seed` on, until `goes_on` says no. It is asked before every
/// workload, with the states looked at and the failures found so far.
pub fn run(
    first_seed: u64,
    budget: Budget,
    threads: usize,
    goes_on: impl Fn(u64, u64) -> bool + Sync,
) -> Outcome {
    let next = AtomicU64::new(first_seed);
    let states = AtomicU64::new(0);
    let failures = AtomicU64::new(0);
    let outcome = Mutex::new(Outcome::default());
    let work = || {
        while goes_on(
            states.load(Ordering::Relaxed),
            failures.load(Ordering::Relaxed),
        ) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let mut statistics = Statistics::default();
            let explored = explore(seed, budget, None, &mut statistics);
            states.fetch_add(statistics.states(), Ordering::Relaxed);
            failures.fetch_add(u64::from(explored.is_err()), Ordering::Relaxed);
            let mut outcome = outcome.lock().expect("no holder of the outcome can panic");
            outcome.statistics.add(&statistics);
            outcome
                .failures
                .extend(explored.err().map(|failure| *failure));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut outcome = outcome
        .into_inner()
        .expect("no holder of the outcome can panic");
    outcome.next_seed = next.into_inner();
    outcome
}
