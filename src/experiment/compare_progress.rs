//! How far a comparison has come, for whoever watches.

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;
use quorlock_experiment::compare::{BlowOutcome, Event, Round, Survival};
use serde_json::json;

use super::progress::{Manner, style};
use crate::clock;
use crate::output::{line, remark};

/// The progress of one comparison.
pub(super) struct Shown {
    manner: Manner,
    bar: ProgressBar,
    began: Duration,
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
        }
    }

    /// Tells what has happened.
    pub(super) fn tell(&self, event: &Event) {
        match self.manner {
            Manner::Quiet => {}
            Manner::Bar => self.move_bar(event),
            Manner::Lines => self.write_line(event),
            Manner::JsonLines => line(as_json(event)),
        }
    }

    /// It is over.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn move_bar(&self, event: &Event) {
        match event {
            Event::Begins {
                service,
                what,
                done,
                total,
            } => {
                self.bar.set_length(u64::from(*total));
                self.bar.set_position(u64::from(*done));
                self.bar.set_message(format!("{service}, {what}"));
            }
            Event::Failed { .. } => self.bar.println(in_words(event)),
            Event::Round(_) | Event::Fault(_) => {}
        }
    }

    fn write_line(&self, event: &Event) {
        match event {
            Event::Begins { done: 0, .. } => {}
            Event::Begins { done, total, .. } => {
                let passed = clock::now().saturating_sub(self.began);
                let left = u64::from(total.saturating_sub(*done));
                let left_s = passed.as_secs().saturating_mul(left) / u64::from(*done);
                remark(format_args!(
                    "{done} of {total} done, about {left_s} s left"
                ));
            }
            _ => remark(in_words(event)),
        }
    }
}

fn in_words(event: &Event) -> String {
    match event {
        Event::Begins { service, what, .. } => format!("{service}, {what}"),
        Event::Round(Round {
            service,
            number,
            apart,
            together,
        }) => format!(
            "{service}, round {number}: {} locks, one lock {} times",
            apart.cycles, together.cycles
        ),
        Event::Fault(Survival {
            service,
            blow,
            outcome,
            overlap_ms,
            reason,
            ..
        }) => match outcome {
            BlowOutcome::OneHolder => format!("{service}, {blow}: one holder at a time"),
            BlowOutcome::TwoHolders => {
                format!("{service}, {blow}: TWO HOLDERS for {overlap_ms:.0} ms")
            }
            BlowOutcome::NotTried => {
                let reason = reason.as_deref().unwrap_or_default();
                format!("{service}, {blow}: not tried: {reason}")
            }
        },
        Event::Failed { service, why } => format!("{service} failed: {why}"),
    }
}

fn as_json(event: &Event) -> serde_json::Value {
    match event {
        Event::Begins {
            service,
            what,
            done,
            total,
        } => {
            json!({"event": "begins", "service": service, "what": what, "done": done, "total": total})
        }
        Event::Round(round) => json!({"event": "round", "round": round}),
        Event::Fault(fault) => json!({"event": "fault", "fault": fault}),
        Event::Failed { service, why } => {
            json!({"event": "failed", "service": service, "reason": why})
        }
    }
}
