//! What simulations of whole clusters are made of: nodes on a disk in memory, the machines of clients, the connections
//! between them, and numbers from a seed.
//!
//! Invariant: no rule is mirrored here. Nodes and clients are those that are shipped; whoever joins these parts decides
//! what happens and when. The same calls with the same seed come to the same.

mod machine;
mod network;
mod random;
mod server;

pub use machine::Machine;
pub use network::{Connection, Network, Wire};
pub use random::Random;
pub use server::Server;
