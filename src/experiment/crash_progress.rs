//! How far a crash-recovery run has come, in words and as objects.

use quorlock_experiment::run::Progress;
use serde_json::json;

use super::progress::ProgressDisplay;

/// What is shown of one run, with what it has found until now.
pub(super) struct CrashProgress {
    pub(super) shown: ProgressDisplay,
    violations: u64,
}

impl CrashProgress {
    pub(super) fn new(shown: ProgressDisplay) -> CrashProgress {
        CrashProgress {
            shown,
            violations: 0,
        }
    }

    /// Tells what has happened.
    pub(super) fn tell(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Begins {
                cell,
                number,
                done,
                total,
            } => {
                self.shown.object(
                    &json!({"event": "begins", "cell": cell.id(), "trial": number, "done": done, "total": total}),
                );
                let violations = self.violations;
                let what = format!("{cell}, trial {number}; {violations} with two holders");
                self.shown.begins(*done, *total, what);
            }
            Progress::Done(trial) => {
                let (cell, number) = (trial.cell, trial.number);
                let found = &trial.verdict.violations;
                self.shown.object(&json!({
                    "event": "done",
                    "cell": cell.id(),
                    "trial": number,
                    "violations": found.len(),
                    "stuck": trial.verdict.stuck.len(),
                }));
                self.violations += u64::from(!found.is_empty());
                let what = match found.iter().map(|found| found.length_ns).max() {
                    None => "one holder at a time".to_owned(),
                    Some(ns) => format!("TWO HOLDERS for {} ms", ns / 1_000_000),
                };
                self.shown
                    .result(format_args!("{cell}, trial {number}: {what}"));
            }
            Progress::Skipped(skipped) => {
                let (cell, reason) = (skipped.cell, &skipped.reason);
                self.shown
                    .object(&json!({"event": "skipped", "cell": cell.id(), "reason": reason}));
                self.shown.warning(format_args!("skipped {cell}: {reason}"));
            }
            Progress::Failed { cell, number, why } => {
                self.shown.object(
                    &json!({"event": "failed", "cell": cell.id(), "trial": number, "reason": why}),
                );
                let words = format_args!("{cell}, trial {number} failed: {why}");
                self.shown.warning(words);
            }
        }
    }
}
