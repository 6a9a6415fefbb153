//! How far a comparison has come, in words and as objects.

use quorlock_experiment::compare::{BlowOutcome, Event, Round, Survival};
use serde_json::json;

use super::progress::Shown;

/// Tells what has happened.
pub(super) fn tell(shown: &mut Shown, event: &Event) {
    shown.object(&as_json(event));
    match event {
        Event::Begins { done, total, .. } => {
            shown.begins(u64::from(*done), u64::from(*total), in_words(event));
        }
        Event::Round(_) | Event::Fault(_) => shown.result(in_words(event)),
        Event::Failed { .. } => shown.warning(in_words(event)),
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
