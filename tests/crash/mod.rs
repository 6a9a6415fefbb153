//! Crash states: what a node makes of every disk that a crash may leave.
//!
//! `workload`, `request` and `options` make from a seed what a node does and how it is started, `world` does it with a
//! simulated node, disk and clock, `session` is a client that sends and receives bytes, `tracker` what one is told that
//! tracks, `waiting` what one gets that waits for an element, `events` is what happened in its
//! order, `exchange` is what goes between the two,
//! `batch` executes what one iteration of an event loop has executed, `model` says what each request does, `oracle` knows what clients were told, `images`
//! lists what a crash at one point may leave, `check` starts the node on one of them and holds it to the contract,
//! `explore` goes through all of it. `relocation` moves a directory, with a crash at every point. The fault model is in the book's chapter on crash states; `tests/mutants/` shows
//! that planted defects are noticed.

pub(crate) mod batch;
mod broadcast;
pub(crate) mod check;
pub(crate) mod events;
pub(crate) mod exchange;
pub(crate) mod explore;
pub(crate) mod held;
pub(crate) mod images;
pub mod ledger;
pub(crate) mod model;
pub(crate) mod options;
pub(crate) mod oracle;
pub mod relocation;
pub(crate) mod request;
pub mod run;
pub(crate) mod session;
pub(crate) mod statistics;
pub(crate) mod time;
pub(crate) mod tracker;
pub(crate) mod waiting;
pub(crate) mod workload;
pub(crate) mod world;

pub use check::Violation;
pub use explore::{Budget, Failure, explore};
pub use options::Vary;
pub use statistics::Statistics;

/// The steps of a seed's workload, one a line.
pub fn steps(seed: u64, vary: Vary) -> String {
    let workload = workload::Workload::of(seed, vary);
    let lines = workload.steps.iter().enumerate();
    let lines = lines.map(|(number, step)| format!("{number}: {step}\n"));
    format!(
        "a node in mode {}\n{}",
        workload.mode.name(),
        lines.collect::<String>()
    )
}
