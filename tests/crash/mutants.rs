//! The planted defects, one after the other: each has to be noticed, and nothing without them.

use super::defect::Defect;
use super::explore::{Budget, Failure, explore_workload};
use super::request::{Reads, Request};
use super::statistics::Statistics;
use super::workload::{Ending, Mode, Step, Workload};

/// What became of one defect.
#[derive(Debug)]
pub struct Caught {
    /// The defect.
    pub defect: Defect,
    /// The violation that gave it away; `None` if nothing did.
    pub failure: Option<Failure>,
    /// A violation of the same workload without the defect: there must be none.
    pub false_alarm: Option<Failure>,
}

impl Caught {
    /// Whether the defect was noticed, and only the defect.
    pub fn is_right(&self) -> bool {
        self.failure.is_some() && self.false_alarm.is_none()
    }
}

/// Plants every defect in turn.
pub fn all() -> Vec<Caught> {
    Defect::ALL.into_iter().map(plant).collect()
}

fn plant(defect: Defect) -> Caught {
    let workload = workload(defect);
    let explore = |defect| {
        explore_workload(
            &workload,
            SEED,
            BUDGET,
            defect,
            None,
            &mut Statistics::default(),
        )
        .err()
        .map(|failure| *failure)
    };
    Caught {
        defect,
        failure: explore(Some(defect)),
        false_alarm: explore(None),
    }
}

/// A workload in which the defect does harm.
fn workload(defect: Defect) -> Workload {
    let mode = match defect {
        Defect::DirectoryNotSynced
        | Defect::SegmentNotSynced
        | Defect::ReplyBeforeSync
        | Defect::EndBeforeParts
        | Defect::RemovalBeforeEnd
        | Defect::HeaderAfterFrames => Mode::Always,
        _ => Mode::Everysec,
    };
    let steps = match defect {
        Defect::DirectoryNotSynced | Defect::SegmentNotSynced => {
            vec![grant("k0", 5_000), Step::Commit]
        }
        Defect::ReplyBeforeSync => vec![grant("k0", 5_000), Step::Write],
        Defect::ShutdownNotLast => {
            let stop = Step::Restart(Ending::Stop, mode);
            vec![grant("k0", 20_000), Step::Commit, stop]
        }
        Defect::PromiseAfterGrant | Defect::PromiseNotDurable => {
            vec![grant("k0", 20_000), Step::Write]
        }
        Defect::ServingUnsynced => vec![
            grant("k0", 60_000),
            Step::Commit,
            Step::Restart(Ending::Kill, Mode::Volatile),
            Step::Serve,
            grant("k1", 5_000),
        ],
        Defect::DelayClearedByStop => vec![
            grant("k0", 60_000),
            Step::Commit,
            grant("k1", 50_000),
            Step::Write,
            Step::Restart(Ending::PowerLoss(0), mode),
            Step::Restart(Ending::Stop, mode),
        ],
        Defect::PromiseLoweredEarly => vec![
            grant("k0", 60_000),
            Step::Commit,
            Step::Maintain,
            grant("k1", 50_000),
            Step::Write,
        ],
        Defect::StartDoesNotSync => vec![
            grant("k0", 60_000),
            Step::Commit,
            grant("k1", 50_000),
            Step::Write,
            Step::Restart(Ending::Kill, mode),
            Step::Serve,
        ],
        Defect::EndBeforeParts | Defect::RemovalBeforeEnd => compaction(),
        Defect::HeaderAfterFrames => rotation(),
        Defect::DurableClaimTooEarly => vec![
            large("k0", 60_000),
            Step::Commit,
            large("k1", 50_000),
            Step::Write,
            Step::Sync,
            large("k2", 50_000),
            Step::Write,
        ],
    };
    Workload {
        mode,
        is_short: true,
        steps,
    }
}

/// A checkpoint in small parts, and the removal of what it makes superfluous.
fn compaction() -> Vec<Step> {
    let mut steps = vec![Step::WorkOnLog];
    for key in ["k0", "k1", "k2"] {
        steps.extend([large(key, 60_000), Step::Commit]);
    }
    // An old segment has to be there before anything can be removed.
    steps.push(Step::Restart(Ending::Stop, Mode::Always));
    steps.extend((0..8).map(|_| Step::Compact));
    steps.push(Step::WorkOnLog);
    steps
}

/// Enough for more than one segment.
fn rotation() -> Vec<Step> {
    let mut steps = vec![Step::WorkOnLog];
    for number in 0..12 {
        let key = ["k0", "k1", "k2", "k3"][number % 4];
        // A later deadline, or the same key again would change nothing.
        let grant = large(key, 60_000 - number as u64);
        steps.extend([grant, Step::Commit, Step::WorkOnLog]);
    }
    steps
}

fn grant(key: &str, ttl_ms: u64) -> Step {
    let words = ["SET", key, "token", "NX", "PX", &ttl_ms.to_string()];
    Step::Request(Request::new(&words, Reads::Nothing))
}

/// A grant whose frame takes more than a sector.
fn large(key: &str, ttl_ms: u64) -> Step {
    let value = "x".repeat(700);
    let words = ["SET", key, &value, "PX", &ttl_ms.to_string()];
    Step::Request(Request::new(&words, Reads::Nothing))
}

const SEED: u64 = 1;
const BUDGET: Budget = Budget {
    short: 512,
    long: 16,
};
