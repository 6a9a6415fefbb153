//! Whole clusters in one thread from one seed: the nodes' own simulation and the client's own rules, joined by a
//! simulated network.
//!
//! Invariant: no rule is mirrored here. Nodes and clients exchange bytes; time, latency, faults and callers come from
//! the seed. What is checked is what callers were told, against true time.

mod caller;
mod calls;
mod checks;
mod exchange;
mod faults;
mod leftovers;
mod listeners;
mod machine;
mod middle_box;
mod network;
mod outcomes;
mod plan;
mod tokens;
mod world;

pub use faults::Fault;
pub use plan::{Faults, Plan};
pub use world::{Report, run};
