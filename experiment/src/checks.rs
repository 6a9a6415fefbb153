//! What a record of a trial proves or refutes: C1, C2, C4 and C6 of the test plan.
//!
//! Invariant: the verdict rests on the record alone, whose times are the observer's. Nothing here asks a node or a client.

mod exclusion;
mod liveness;
mod updates;

use serde::{Deserialize, Serialize};

use crate::history::TrialRecord;

pub use exclusion::{Hold, Overlap, holds};

/// What the checks found in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialVerdict {
    /// C1: two clients both within the validity that they were given.
    pub violations: Vec<Overlap>,
    /// C2: two clients both between the return of their acquisition and the last time the application saw its lock valid.
    pub believed: Vec<Overlap>,
    /// C4 without fences: writes of the register, and how many of them another one has overwritten unseen.
    pub updates: u64,
    /// How many were lost.
    pub lost_updates: u64,
    /// Acknowledged updates that the database itself no longer counted at the end; none where it was not read back.
    #[serde(default)]
    pub missing_updates: Option<u64>,
    /// C6: locks that were not to be had within the bound after the faults had ended.
    pub stuck: Vec<String>,
    /// Locks that nodes have granted and no longer knew, although nobody had released them and they had not expired.
    pub forgotten: u64,
}

/// Judges the record of one trial.
pub fn judge(records: &[TrialRecord]) -> TrialVerdict {
    let holds = holds(records);
    let (updates, lost_updates) = updates::count(records);
    TrialVerdict {
        violations: exclusion::overlaps(&holds, |hold| hold.valid_to_ns),
        believed: exclusion::overlaps(&holds, |hold| hold.believed_to_ns),
        updates,
        lost_updates,
        missing_updates: updates::missing(records),
        stuck: liveness::stuck(records),
        forgotten: updates::forgotten(records),
    }
}
