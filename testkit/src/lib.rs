//! What tests of all packages share: a connection that speaks RESP, nodes as processes, and waiting for what
//! happens in real time.
//!
//! It knows no package of the workspace. So what a node sends is not read by the code that wrote it, and a check that must not
//! trust the client can use this connection.

pub mod binary;
mod certificates;
mod connection;
mod node_process;
mod process;
mod reply;
mod reserved_port;
mod waiting;
mod wire;

pub use certificates::{Certificates, certificate};
pub use connection::{Connection, request};
pub use node_process::{NodeProcess, free_port};
pub use process::Process;
pub use reply::Reply;
pub use reserved_port::ReservedPort;
pub use waiting::{PATIENCE, becomes_so, block_on, eventually, observed_now, pause};
pub use wire::Wire;
