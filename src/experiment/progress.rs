//! How far a run has come, for whoever watches.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use quorlock_experiment::run::Progress;
use serde_json::json;

use crate::clock;
use crate::output::{Format, line, remark};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// A bar that moves.
    Bar,
    /// A line per trial.
    Lines,
    /// An object per line.
    JsonLines,
    /// Not at all.
    Quiet,
}

impl Manner {
    /// What was asked for: a bar where somebody looks, lines elsewhere. Beside progress as JSON the result is JSON as well,
    /// so that whoever reads it reads nothing else.
    pub(super) fn chosen(json_lines: bool, is_quiet: bool, format: Format) -> (Manner, Format) {
        let is_terminal = std::io::stderr().is_terminal();
        match () {
            () if json_lines => (Manner::JsonLines, Format::Json),
            () if is_quiet || format == Format::Json => (Manner::Quiet, format),
            () if is_terminal => (Manner::Bar, format),
            () => (Manner::Lines, format),
        }
    }
}

/// The progress of one run.
pub(super) struct Shown {
    manner: Manner,
    bar: ProgressBar,
    began: Duration,
    violations: u64,
}

impl Shown {
    pub(super) fn new(manner: Manner, directory: &Path) -> Shown {
        if manner == Manner::Lines {
            remark(format_args!("results go to {}", directory.display()));
        }
        Shown {
            manner,
            bar: match manner {
                Manner::Bar => ProgressBar::new(1).with_style(style()),
                _ => ProgressBar::hidden(),
            },
            began: clock::now(),
            violations: 0,
        }
    }

    /// Tells what has happened.
    pub(super) fn tell(&mut self, progress: &Progress<'_>) {
        match self.manner {
            Manner::Quiet => {}
            Manner::Bar => self.move_bar(progress),
            Manner::Lines => self.write_line(progress),
            Manner::JsonLines => line(as_json(progress)),
        }
    }

    /// The run is over.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn move_bar(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Begins {
                cell,
                number,
                done,
                total,
            } => {
                self.bar.set_length(*total);
                self.bar.set_position(*done);
                let violations = self.violations;
                self.bar.set_message(format!(
                    "{cell}, trial {number}; {violations} with two holders"
                ));
            }
            Progress::Done(trial) => {
                self.violations += u64::from(!trial.verdict.violations.is_empty());
            }
            Progress::Skipped(skipped) => {
                self.bar
                    .println(format!("skipped {}: {}", skipped.cell, skipped.reason));
            }
            Progress::Failed { cell, number, why } => {
                self.bar
                    .println(format!("{cell}, trial {number} failed: {why}"));
            }
        }
    }

    fn write_line(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Begins { done, total, .. } if *done > 0 => {
                let passed = clock::now().saturating_sub(self.began);
                let left_s = passed.as_secs().saturating_mul(total - done) / *done;
                remark(format_args!(
                    "{done} of {total} done, about {left_s} s left"
                ));
            }
            Progress::Begins { .. } => {}
            Progress::Done(trial) => {
                let (cell, number) = (trial.cell, trial.number);
                let longest = trial
                    .verdict
                    .violations
                    .iter()
                    .map(|found| found.length_ns)
                    .max();
                match longest {
                    None => remark(format_args!("{cell}, trial {number}: one holder at a time")),
                    Some(ns) => remark(format_args!(
                        "{cell}, trial {number}: TWO HOLDERS for {} ms",
                        ns / 1_000_000
                    )),
                }
            }
            Progress::Skipped(skipped) => {
                remark(format_args!("skipped {}: {}", skipped.cell, skipped.reason));
            }
            Progress::Failed { cell, number, why } => {
                remark(format_args!("{cell}, trial {number} failed: {why}"));
            }
        }
    }
}

fn as_json(progress: &Progress<'_>) -> serde_json::Value {
    match progress {
        Progress::Begins {
            cell,
            number,
            done,
            total,
        } => {
            json!({"event": "begins", "cell": cell.id(), "trial": number, "done": done, "total": total})
        }
        Progress::Done(trial) => json!({
            "event": "done",
            "cell": trial.cell.id(),
            "trial": trial.number,
            "violations": trial.verdict.violations.len(),
            "stuck": trial.verdict.stuck.len(),
        }),
        Progress::Skipped(skipped) => {
            json!({"event": "skipped", "cell": skipped.cell.id(), "reason": skipped.reason})
        }
        Progress::Failed { cell, number, why } => {
            json!({"event": "failed", "cell": cell.id(), "trial": number, "reason": why})
        }
    }
}

pub(super) fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {pos}/{len}, {eta} left  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
