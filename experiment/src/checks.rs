//! What a record of a trial proves or refutes: C1, C2, C3, C4 and C6 of the test plan.
//!
//! Invariant: the verdict rests on the record alone, whose times are the observer's. Nothing here asks a node or a client.

mod exclusion;
mod fences;
mod liveness;
mod updates;

use serde::{Deserialize, Serialize};

use crate::history::TrialRecord;

pub use exclusion::{HoldInterval, Overlap, holds};

/// What the checks found in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialVerdict {
    /// C1: two clients both within the validity that they were given.
    pub violations: Vec<Overlap>,
    /// C2: two clients both between the return of their acquisition and the last time the application saw its lock valid.
    pub believed: Vec<Overlap>,
    /// Holds with a fence.
    #[serde(default)]
    pub fences: u64,
    /// C3: fences that are no larger than those before them.
    #[serde(default)]
    pub disordered_fences: u64,
    /// Holders that the register has refused, since it had seen a larger fence: each once.
    #[serde(default)]
    pub refused_holders: u64,
    /// C4: writes of the register, and how many of them another one has overwritten unseen.
    pub updates: u64,
    /// How many were lost: a figure without fences, and none may be with them.
    pub lost_updates: u64,
    /// Acknowledged updates that the database itself no longer counted at the end; none where it was not read back.
    #[serde(default)]
    pub missing_updates: Option<u64>,
    /// C6: locks that were not to be had within the bound after the faults had ended.
    pub stuck: Vec<String>,
    /// Locks that nodes have granted and no longer knew, although nobody had released them and they had not expired.
    pub forgotten: u64,
}

impl TrialVerdict {
    /// Whether what fences promise was broken: they did not grow, or an update was lost in spite of them.
    pub fn breaks_fences(&self) -> bool {
        let lost = self.lost_updates + self.missing_updates.unwrap_or(0);
        self.disordered_fences > 0 || (self.fences > 0 && lost > 0)
    }
}

/// Judges the record of one trial.
pub fn judge(records: &[TrialRecord]) -> TrialVerdict {
    let holds = holds(records);
    let (fences, disordered_fences) = fences::count(records);
    let (updates, lost_updates) = updates::count(records);
    TrialVerdict {
        violations: exclusion::overlaps(&holds, |hold| hold.valid_to_ns),
        believed: exclusion::overlaps(&holds, |hold| hold.believed_to_ns),
        fences,
        disordered_fences,
        refused_holders: updates::refused(records),
        updates,
        lost_updates,
        missing_updates: updates::missing(records),
        stuck: liveness::stuck(records),
        forgotten: updates::forgotten(records),
    }
}
