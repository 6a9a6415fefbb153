//! One trial of one cell: what was measured, and what the checks say.

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Expectation};
use crate::checks::TrialVerdict;
use crate::engine::real::ServerProgram;

/// What an engine measured in a trial. Times that were not to be had stay empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Locks that clients were told they hold.
    pub acquired: u64,
    /// Locks that stood on the nodes that crashed when the fault began, acknowledged to their holders.
    pub standing: u64,
    /// How many of them a node had forgotten when it answered again.
    pub lost: u64,
    /// How long the load ran before the fault, and how many locks it took and gave back meanwhile.
    pub load_s: f64,
    /// Cycles of the load in that time.
    pub load_cycles: u64,
    /// How long each acquisition of the load took.
    pub acquire_us: Vec<u32>,
    /// From the start of the crashed nodes to their first answer: reading the log back included, the restart delay not.
    pub recovery_ms: Option<f64>,
    /// What the node said it waits.
    pub delay_ms: Option<f64>,
    /// From the fault to the first lock that a client was granted by a majority, or by the node that crashed.
    pub unavailable_ms: Option<f64>,
    /// From the fault until client B had the lock that client A held.
    #[serde(default)]
    pub waited_ms: Option<f64>,
    /// How long the nodes' syncs took, as they measured it.
    pub sync_us: Vec<u32>,
    /// Bytes in the nodes' logs at the end, all together.
    pub log_bytes: u64,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which cell.
    pub cell: Cell,
    /// From 1 on.
    pub number: u32,
    /// It replays with this seed alone.
    pub seed: u64,
    /// What carried it out.
    pub engine: String,
    /// What was measured.
    pub measured: Measured,
    /// What the checks found.
    pub verdict: TrialVerdict,
}

impl Trial {
    /// Whether it shows what is a defect of the product: two holders where none are allowed, a lock that was not to be
    /// had again, or fences that did not keep what they promise.
    pub fn is_defect(&self) -> bool {
        let is_redis = ServerProgram::is_redis(&self.engine);
        let is_forbidden = self.cell.expectation(is_redis) == Expectation::None;
        (is_forbidden && !self.verdict.violations.is_empty())
            || !self.verdict.stuck.is_empty()
            || self.verdict.breaks_fences()
    }

    /// Whether it shows two holders at once, or a defect.
    pub fn is_striking(&self) -> bool {
        !self.verdict.violations.is_empty() || self.is_defect()
    }
}
