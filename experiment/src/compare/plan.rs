//! What a comparison carries out: services, rounds, callers.
//!
//! Invariant: a plan that was checked has services, callers and rounds within the limits.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::service::Service;
use crate::words::{text_in_files, words};

/// A comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonPlan {
    /// What is compared, in the order of the table.
    pub services: Vec<Service>,
    /// What was asked for and cannot be tried.
    pub skipped: Vec<SkippedService>,
    /// How often each service is measured.
    pub rounds: u32,
    /// How long each load of a round goes on.
    pub round: Duration,
    /// Callers with a lock of their own each.
    pub callers: u32,
    /// Callers that want the same lock.
    pub contenders: u32,
    /// How often each fault is tried; none leaves faults out.
    pub fault_trials: u32,
}

/// What was not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedService {
    /// Which service.
    pub service: Service,
    /// Why, and what helps.
    pub reason: String,
}

words! {
    /// A fault of a comparison.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(into = "String", try_from = "String")]
    pub enum Blow or "fault of a comparison" {
        /// `kill -9` of one process, the leader where there is one, which starts again at once.
        Kill = "process-kill",
        /// The same where the holder has just a majority with that node in it.
        KillWorst = "process-kill-worst-case",
        /// One node loses power in that case.
        PowerWorst = "power-loss-worst-case",
        /// The holder's program ends without giving its lock back.
        HolderGone = "holder-gone",
    }
}

/// Why a plan cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ComparisonPlanError {
    /// No rounds, or too many.
    #[error("the number of rounds is from 1 to {ROUNDS_MAX}; five are needed for a comparison")]
    Rounds,
    /// A round too short or too long.
    #[error(
        "a round takes from {} ms to {} s",
        ROUND_MIN.as_millis(),
        ROUND_MAX.as_secs()
    )]
    Round,
    /// No callers, or too many.
    #[error("the number of callers is from 1 to {CALLERS_MAX}, and of contenders from 2")]
    Callers,
    /// Too many trials of faults.
    #[error("each fault is tried up to {FAULT_TRIALS_MAX} times")]
    Faults,
}

/// One thing that is done with one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonStep {
    Round { service: Service, number: u32 },
    Fault { service: Service, blow: Blow },
}

impl ComparisonPlan {
    /// Looks at the limits.
    ///
    /// # Errors
    /// The first that is not kept.
    pub fn check(&self) -> Result<(), ComparisonPlanError> {
        match () {
            () if !(1..=ROUNDS_MAX).contains(&self.rounds) => Err(ComparisonPlanError::Rounds),
            () if !(ROUND_MIN..=ROUND_MAX).contains(&self.round) => Err(ComparisonPlanError::Round),
            () if !(1..=CALLERS_MAX).contains(&self.callers) => Err(ComparisonPlanError::Callers),
            () if !(2..=CALLERS_MAX).contains(&self.contenders) => {
                Err(ComparisonPlanError::Callers)
            }
            () if self.fault_trials > FAULT_TRIALS_MAX => Err(ComparisonPlanError::Faults),
            () => Ok(()),
        }
    }

    /// All steps: rounds in turns, each beginning with another service, then the faults.
    pub(super) fn steps(&self) -> Vec<ComparisonStep> {
        let mut steps = Vec::new();
        for number in 1..=self.rounds {
            let mut turn = self.services.clone();
            let first = (number as usize - 1) % turn.len().max(1);
            turn.rotate_left(first);
            let rounds = turn.into_iter();
            steps.extend(rounds.map(|service| ComparisonStep::Round { service, number }));
        }
        if self.fault_trials > 0 {
            for &service in &self.services {
                let blows = Blow::ALL.into_iter();
                steps.extend(blows.map(|blow| ComparisonStep::Fault { service, blow }));
            }
        }
        steps
    }

    /// Whether the figures rest on enough rounds.
    pub fn has_enough_rounds(&self) -> bool {
        self.rounds >= ROUNDS_NEEDED
    }
}

impl ComparisonStep {
    pub(super) fn service(self) -> Service {
        match self {
            ComparisonStep::Round { service, .. } | ComparisonStep::Fault { service, .. } => {
                service
            }
        }
    }
}

impl fmt::Display for ComparisonStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComparisonStep::Round { number, .. } => write!(f, "round {number}"),
            ComparisonStep::Fault { blow, .. } => write!(f, "fault {blow}"),
        }
    }
}

text_in_files!(Blow);

/// A median of fewer says little about a machine that others use as well.
const ROUNDS_NEEDED: u32 = 5;
const ROUNDS_MAX: u32 = 100;
const ROUND_MIN: Duration = Duration::from_millis(100);
/// Locks of the load last longer than this.
const ROUND_MAX: Duration = Duration::from_secs(20);
const CALLERS_MAX: u32 = 256;
const FAULT_TRIALS_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::FsyncMode;
    use crate::compare::service::Kind;

    fn plan() -> ComparisonPlan {
        ComparisonPlan {
            services: Kind::Quorlock.services(&FsyncMode::ALL[..3]),
            skipped: Vec::new(),
            rounds: 5,
            round: Duration::from_secs(1),
            callers: 8,
            contenders: 4,
            fault_trials: 1,
        }
    }

    #[test]
    fn every_service_has_every_round_and_none_is_always_first() {
        let steps = plan().steps();
        let rounds: Vec<ComparisonStep> = steps
            .iter()
            .copied()
            .filter(|step| matches!(step, ComparisonStep::Round { .. }))
            .collect();
        assert_eq!(rounds.len(), 15);
        let firsts: Vec<Service> = rounds.chunks(3).map(|turn| turn[0].service()).collect();
        assert!(firsts[0] != firsts[1] && firsts[1] != firsts[2] && firsts[0] == firsts[3]);
        assert_eq!(steps.len(), 15 + 3 * Blow::ALL.len());
    }

    #[test]
    fn a_plan_beyond_a_limit_is_refused() {
        type Change = fn(&mut ComparisonPlan);
        let changes: [(Change, ComparisonPlanError); 6] = [
            (|plan| plan.rounds = 0, ComparisonPlanError::Rounds),
            (
                |plan| plan.round = Duration::ZERO,
                ComparisonPlanError::Round,
            ),
            (
                |plan| plan.round = Duration::from_secs(21),
                ComparisonPlanError::Round,
            ),
            (|plan| plan.callers = 0, ComparisonPlanError::Callers),
            (|plan| plan.contenders = 1, ComparisonPlanError::Callers),
            (|plan| plan.fault_trials = 101, ComparisonPlanError::Faults),
        ];
        assert_eq!(plan().check(), Ok(()));
        for (change, error) in changes {
            let mut plan = plan();
            change(&mut plan);
            assert_eq!(plan.check(), Err(error));
        }
    }
}
