//! The steps of a comparison that are over, on disk, so that one that was interrupted goes on with the rest.
//!
//! Invariant: a step is listed once, and only if the plan has it. What failed is not listed: it is tried once more.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::faults::Survival;
use super::plan::{ComparisonPlan, ComparisonStep};
use super::service::Service;
use super::{ComparisonEvent, ComparisonOutcome, ComparisonRound};
use crate::results::{self, ResultsError};
use crate::step_log::{StepLog, read_json};

/// What a comparison was begun with: `compare-plan.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonSetup {
    /// What is to be carried out.
    pub plan: ComparisonPlan,
    /// Of what is compared, the versions.
    pub versions: Vec<(Service, String)>,
    /// Where it runs.
    pub environment: Vec<(String, String)>,
}

/// The list of finished steps, which grows.
#[derive(Debug)]
pub struct FinishedSteps {
    steps: StepLog<FinishedStep>,
}

/// One of them, as a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FinishedStep {
    Round(ComparisonRound),
    Fault(Survival),
}

impl ComparisonSetup {
    /// What is not as it was when this comparison was begun, so that figures of now stand in no row with those of before.
    pub fn difference(
        &self,
        versions: &[(Service, String)],
        environment: &[(String, String)],
    ) -> Option<String> {
        let value = |of: &[(String, String)], name: &str| {
            let found = of.iter().find(|(known, _)| known == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        for (service, was) in &self.versions {
            let now = versions.iter().find(|(known, _)| known == service);
            let now = now.map_or("", |(_, now)| now.as_str());
            if now != was {
                return Some(format!("{service} was version {was:?}, and is {now:?} now"));
            }
        }
        MACHINE.into_iter().find_map(|name| {
            let was = value(&self.environment, name);
            let now = value(environment, name);
            (was != now).then(|| format!("{name} was {was:?}, and is {now:?} now"))
        })
    }

    /// Whether something of the plan is still to be carried out.
    pub fn has_more_than(&self, outcome: &ComparisonOutcome) -> bool {
        let mut steps = self.plan.steps().into_iter();
        steps.any(|step| !outcome.has(step))
    }

    /// Writes it down.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn write(&self, directory: &Path) -> Result<(), ResultsError> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        results::write(directory, SETUP, text.as_bytes())
    }
}

impl FinishedSteps {
    /// An empty list for a comparison that begins, in its directory.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn create(
        directory: &Path,
        setup: &ComparisonSetup,
    ) -> Result<FinishedSteps, ResultsError> {
        setup.write(directory)?;
        let steps = StepLog::open(directory.join(STEPS))?;
        Ok(FinishedSteps { steps })
    }

    /// Takes up a comparison that was interrupted: what it was begun with, and what is there of it. A last line that was
    /// cut off while it was written is left out, and its step is carried out once more.
    ///
    /// # Errors
    /// If files cannot be read or are damaged.
    pub fn resume(
        directory: &Path,
    ) -> Result<(FinishedSteps, ComparisonSetup, ComparisonOutcome), ResultsError> {
        let path = directory.join(SETUP);
        let setup: ComparisonSetup = read_json(&path)?;
        let checked = setup.plan.check();
        checked.map_err(|error| ResultsError::Damaged {
            path,
            line: 1,
            reason: error.to_string(),
        })?;
        let planned = setup.plan.steps();
        let (steps, lines) =
            StepLog::<FinishedStep>::resume(directory.join(STEPS), |before, line| {
                let step = line.step();
                let of = step.service();
                match () {
                    () if !planned.contains(&step) => {
                        Err(format!("{of}, {step} is not in the plan"))
                    }
                    () if before.iter().any(|one| one.step() == step) => {
                        Err(format!("{of}, {step} is there twice"))
                    }
                    () => Ok(()),
                }
            })?;
        let mut outcome = ComparisonOutcome::default();
        for line in lines {
            match line {
                FinishedStep::Round(round) => outcome.rounds.push(round),
                FinishedStep::Fault(fault) => outcome.faults.push(fault),
            }
        }
        Ok((FinishedSteps { steps }, setup, outcome))
    }

    /// Lists what has come of a step, unless it is not over.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn add(&mut self, event: &ComparisonEvent) -> Result<(), ResultsError> {
        let line = match event {
            ComparisonEvent::Round { round } => FinishedStep::Round(round.clone()),
            ComparisonEvent::Fault { fault } => FinishedStep::Fault(fault.clone()),
            ComparisonEvent::Begins { .. } | ComparisonEvent::Failed { .. } => return Ok(()),
        };
        self.steps.add(&line)
    }
}

impl FinishedStep {
    fn step(&self) -> ComparisonStep {
        match self {
            FinishedStep::Round(round) => round.step(),
            FinishedStep::Fault(fault) => fault.step(),
        }
    }
}

impl ComparisonOutcome {
    /// Whether a step was carried out.
    pub(super) fn has(&self, step: ComparisonStep) -> bool {
        self.rounds.iter().any(|round| round.step() == step)
            || self.faults.iter().any(|fault| fault.step() == step)
    }
}

impl ComparisonRound {
    fn step(&self) -> ComparisonStep {
        let ComparisonRound {
            service, number, ..
        } = *self;
        ComparisonStep::Round { service, number }
    }
}

impl Survival {
    fn step(&self) -> ComparisonStep {
        let Survival { service, blow, .. } = *self;
        ComparisonStep::Fault { service, blow }
    }
}

const SETUP: &str = "compare-plan.json";
const STEPS: &str = "steps.jsonl";
/// Facts of the environment that figures depend on, and that change only with the build or the machine.
const MACHINE: [&str; 4] = ["quorlock", "processor", "kernel", "file system"];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::summary::tests::{outcome, plan};
    use super::*;

    fn setup() -> ComparisonSetup {
        let services = plan().services.into_iter();
        ComparisonSetup {
            plan: plan(),
            versions: services.map(|it| (it, "1.2.3".to_owned())).collect(),
            environment: vec![
                ("processor".to_owned(), "fast".to_owned()),
                ("date".to_owned(), "today".to_owned()),
            ],
        }
    }

    /// A directory in which the rounds and the fault of the outcome are over.
    fn begun(directory: &Path) -> String {
        let mut finished = FinishedSteps::create(directory, &setup()).expect("it is new");
        let outcome = outcome();
        let rounds = outcome
            .rounds
            .into_iter()
            .map(|round| ComparisonEvent::Round { round });
        let faults = outcome
            .faults
            .into_iter()
            .map(|fault| ComparisonEvent::Fault { fault });
        for event in rounds.chain(faults) {
            finished.add(&event).expect("there is room");
        }
        let service = plan().services[2];
        let why = "no ports".to_owned();
        let failed = ComparisonEvent::Failed { service, why };
        finished.add(&failed).expect("nothing is written");
        fs::read_to_string(directory.join(STEPS)).expect("it is there")
    }

    fn refused(directory: &Path) -> String {
        let error = FinishedSteps::resume(directory).expect_err("it is damaged");
        error.to_string()
    }

    #[test]
    fn what_was_finished_is_read_back_and_what_failed_is_left_to_try() {
        let home = tempfile::tempdir().expect("a directory");
        let text = begun(home.path());
        let (_finished, setup, read) = FinishedSteps::resume(home.path()).expect("it is whole");
        assert_eq!(setup, self::setup());
        assert_eq!(read.rounds, outcome().rounds);
        assert_eq!(read.faults, outcome().faults);
        assert!(read.failures.is_empty() && !read.is_cancelled);
        assert!(setup.has_more_than(&read));
        let without_faults = ComparisonPlan {
            services: setup.plan.services[..3].to_vec(),
            fault_trials: 0,
            ..setup.plan.clone()
        };
        let measured = ComparisonSetup {
            plan: without_faults,
            ..setup
        };
        assert!(!measured.has_more_than(&read));
        assert_eq!(text.lines().count(), 3 * 3 + 1);
    }

    #[test]
    fn a_step_that_was_cut_off_while_it_was_written_is_left_out_wherever_it_was_cut() {
        let home = tempfile::tempdir().expect("a directory");
        let text = begun(home.path());
        let path = home.path().join(STEPS);
        let last = text[..text.len() - 1].rfind('\n').expect("many lines") + 1;
        for end in last..text.len() {
            fs::write(&path, &text[..end]).expect("it can be cut");
            let (mut finished, _setup, read) =
                FinishedSteps::resume(home.path()).expect("it goes on");
            // Without its line break the last step is whole, and stays.
            let is_whole = end == text.len() - 1;
            assert_eq!(read.faults.len(), usize::from(is_whole), "cut at {end}");
            if !is_whole {
                let fault = outcome().faults.remove(0);
                finished
                    .add(&ComparisonEvent::Fault { fault })
                    .expect("there is room");
            }
            let again = fs::read_to_string(&path).expect("it is there");
            assert_eq!(again, text, "cut at {end}");
        }
    }

    #[test]
    fn a_damaged_file_is_named_with_its_line() {
        let home = tempfile::tempdir().expect("a directory");
        let text = begun(home.path());
        let path = home.path().join(STEPS);
        let first = text.lines().next().expect("a line");
        for (damaged, said) in [
            (format!("nonsense\n{text}"), "steps.jsonl, line 1: expected"),
            (
                format!("{first}\n{text}"),
                "line 2: quorlock/always, round 1 is there twice",
            ),
            (
                text.replace("\"number\":2", "\"number\":4"),
                "round 4 is not in the plan",
            ),
            (
                text.replace("\"round\"", "\"moon\""),
                "unknown variant `moon`",
            ),
        ] {
            fs::write(&path, damaged).expect("it can be damaged");
            let error = refused(home.path());
            assert!(error.contains(said), "{error}");
        }
        fs::write(&path, &text).expect("it can be restored");
        let path = home.path().join(SETUP);
        let whole = fs::read_to_string(&path).expect("it is there");
        for (damaged, said) in [
            (whole[..40].to_owned(), "compare-plan.json, line "),
            (
                whole.replace("\"rounds\": 3", "\"rounds\": 0"),
                "the number of rounds",
            ),
        ] {
            fs::write(&path, damaged).expect("it can be damaged");
            let error = refused(home.path());
            assert!(error.contains(said), "{error}");
        }
        fs::remove_file(&path).expect("it is there");
        let error = refused(home.path());
        assert!(error.contains("compare-plan.json: No such file"), "{error}");
    }

    #[test]
    fn another_version_or_machine_is_named_and_another_day_is_not() {
        let setup = setup();
        let (mut versions, mut environment) = (setup.versions.clone(), setup.environment.clone());
        environment[1].1 = "tomorrow".to_owned();
        assert_eq!(setup.difference(&versions, &environment), None);
        environment[0].1 = "slow".to_owned();
        let machine = setup.difference(&versions, &environment);
        assert_eq!(
            machine.as_deref(),
            Some("processor was \"fast\", and is \"slow\" now")
        );
        versions[2].1 = "1.2.4".to_owned();
        let version = setup
            .difference(&versions, &environment)
            .expect("it differs");
        assert_eq!(
            version,
            "etcd/1 was version \"1.2.3\", and is \"1.2.4\" now"
        );
        assert!(setup.difference(&[], &environment).is_some());
    }
}
