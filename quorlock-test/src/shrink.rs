//! Makes a schedule that breaks a test smaller.
//!
//! Invariant: what is returned was run, and broke the test. Each fault of it was left out, and then the test
//! passed [`TRIES`] times, unless the number of runs was used up.

use crate::broken::{FailedRun, HowBroken};
use crate::schedule::Scheduled;

/// Removes faults while the rest still breaks the test: first all, then halves, then one by one.
pub(crate) fn shrink(
    mut schedule: Vec<Scheduled>,
    mut found: FailedRun,
    mut run: impl FnMut(&[Scheduled]) -> Option<FailedRun>,
) -> (Vec<Scheduled>, FailedRun) {
    // Each run of a test that hangs takes the whole time-out.
    if !matches!(found.how, HowBroken::Panicked(_)) {
        return (schedule, found);
    }
    let (mut size, mut runs) = (schedule.len(), 0);
    while size > 0 {
        let mut from = 0;
        let mut has_shrunk = false;
        while from < schedule.len() && runs < RUNS_MAX {
            let to = (from + size).min(schedule.len());
            let mut smaller = schedule.clone();
            smaller.drain(from..to);
            runs += 1;
            let mut breaks =
                || run(&smaller).filter(|broken| matches!(broken.how, HowBroken::Panicked(_)));
            match (0..TRIES).find_map(|_| breaks()) {
                Some(broken) => {
                    (schedule, found) = (smaller, broken);
                    has_shrunk = true;
                }
                None => from = to,
            }
        }
        // One that was needed before may be no longer.
        if !has_shrunk || size > 1 {
            size /= 2;
        }
    }
    (schedule, found)
}

/// Schedules that are tried.
const RUNS_MAX: u32 = 60;

/// How often each is. Clients decide some things by chance: where it matters which of two has a lock, every second run passes.
const TRIES: u32 = 6;
