//! What simulations of whole clusters are made of: a cluster of nodes and clients that yields events, nodes on a disk in
//! memory, the machines of clients, the connections between them, and numbers from a seed.
//!
//! Invariant: no rule is mirrored here. Nodes and clients are those that are shipped; whoever drives a cluster decides
//! what callers do and what goes wrong. The same calls with the same seed come to the same.

mod cluster;
mod machine;
pub mod middle_box;
mod network;
mod path;
mod random;
mod server;

pub use cluster::{Cluster, ClusterEvent, Layout, ScheduledEvent, client_rules, drift_ppm};
pub use machine::ClientMachine;
pub use middle_box::Meddling;
pub use network::{Connection, Network, Wire};
pub use path::Path;
pub use random::Random;
pub use server::Server;
