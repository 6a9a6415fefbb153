//! How far a comparison has come, in words and as objects.

use quorlock_experiment::compare::{BlowOutcome, ComparisonEvent};
use serde_json::json;

use super::progress::ProgressDisplay;

/// Tells what has happened.
pub(super) fn tell(shown: &mut ProgressDisplay, event: &ComparisonEvent) {
    shown.object(&json!(event));
    match event {
        ComparisonEvent::Begins { done, total, .. } => {
            shown.begins(u64::from(*done), u64::from(*total), in_words(event));
        }
        ComparisonEvent::Round { .. } | ComparisonEvent::Fault { .. } => {
            shown.result(in_words(event))
        }
        ComparisonEvent::Failed { .. } => shown.warning(in_words(event)),
    }
}

fn in_words(event: &ComparisonEvent) -> String {
    match event {
        ComparisonEvent::Begins { service, what, .. } => format!("{service}, {what}"),
        ComparisonEvent::Round { round } => format!(
            "{}, round {}: {} locks, one lock {} times",
            round.service, round.number, round.apart.cycles, round.together.cycles
        ),
        ComparisonEvent::Fault { fault } => {
            let (service, blow) = (fault.service, fault.blow);
            let found = match fault.outcome {
                BlowOutcome::OneHolder => "one holder at a time".to_owned(),
                BlowOutcome::TwoHolders => format!("TWO HOLDERS for {:.0} ms", fault.overlap_ms),
                BlowOutcome::NotTried => {
                    format!("not tried: {}", fault.reason.as_deref().unwrap_or_default())
                }
            };
            format!("{service}, {blow}: {found}")
        }
        ComparisonEvent::Failed { service, why } => format!("{service} failed: {why}"),
    }
}
