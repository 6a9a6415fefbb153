//! The lines of the report: tables that read the same on a terminal and in the book.

use crate::check::{Counterexample, Outcome};

pub(crate) fn models_head() -> String {
    "| model | states | depth | crash states | seconds | result |\n|---|---|---|---|---|---|"
        .to_owned()
}

pub(crate) fn mutants_head() -> String {
    "\n| mutant | model | steps | caught by |\n|---|---|---|---|".to_owned()
}

pub(crate) fn model(name: &str, about: &str, outcome: &Outcome, crash_states: u64) -> String {
    let result = match (&outcome.failure, &outcome.unseen[..]) {
        (Some(failure), _) => format!("FAILED: {}", failure.property),
        (None, [_, ..]) => format!("FAILED: never seen: {}", outcome.unseen.join(", ")),
        (None, []) if outcome.is_complete => "holds".to_owned(),
        (None, []) => "holds in all walks".to_owned(),
    };
    let seconds = outcome.took.as_secs_f64();
    let Outcome { states, depth, .. } = outcome;
    format!("| {name}: {about} | {states} | {depth} | {crash_states} | {seconds:.1} | {result} |")
}

pub(crate) fn mutant(words: &str, model: &str, outcome: &Outcome) -> String {
    match &outcome.failure {
        Some(failure) => {
            let steps = failure.steps.len();
            let property = failure.property;
            format!("| {words} | {model} | {steps} | {property} |")
        }
        None => format!(
            "| {words} | {model} | - | NOT CAUGHT in {} states |",
            outcome.states
        ),
    }
}

/// The steps to a state in which an invariant does not hold, one a line.
pub(crate) fn steps(failure: &Counterexample) -> String {
    let mut text = format!("  {}: not after these steps", failure.property);
    for (number, step) in (1..).zip(&failure.steps) {
        text.push_str(&format!("\n  {number:3}. {step}"));
    }
    text.push_str(&format!("\n       {}\n", failure.end));
    text
}
