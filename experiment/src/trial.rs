//! One trial of one cell, with what was measured and what the checks say.

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Expectation};
use crate::checks::TrialVerdict;
use crate::engine::Measured;
use crate::engine::real::ServerProgram;

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
