//! Crash states: what a node makes of every disk that a crash may leave.
//!
//! `workload` and `request` make from a seed what a node does, `world` does it with a simulated node, disk and
//! clock, `oracle` knows what clients were told, `images` lists what a crash at one point may leave, `check` starts the
//! node on one of them and holds it to the contract, `explore` goes through all of it, `defect` and `mutants` show that
//! it would notice. The fault model is in the book's chapter on crash states.

pub(crate) mod check;
pub(crate) mod defect;
pub(crate) mod explore;
pub(crate) mod images;
pub mod ledger;
pub mod mutants;
pub(crate) mod oracle;
pub(crate) mod random;
pub(crate) mod request;
pub mod run;
pub(crate) mod statistics;
pub(crate) mod time;
pub(crate) mod workload;
pub(crate) mod world;

pub use check::Violation;
pub use defect::Defect;
pub use explore::{Budget, Failure, explore};
pub use statistics::Statistics;

/// The steps of a seed's workload, one a line.
pub fn steps(seed: u64) -> String {
    let workload = workload::Workload::of(seed);
    let lines = workload.steps.iter().enumerate();
    let lines = lines.map(|(number, step)| format!("{number}: {step}\n"));
    format!(
        "a node in mode {}\n{}",
        workload.mode.name(),
        lines.collect::<String>()
    )
}
