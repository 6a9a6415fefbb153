//! The commands that look at all nodes at once: locks of every library, and how the nodes do.
//!
//! What the answers mean together is decided in `quorlock_client_rules::inspection`. Here the nodes are asked, and what was
//! found is printed.

mod disk;
pub(crate) mod doctor;
pub(crate) mod force_release;
pub(crate) mod listener;
pub(crate) mod locks;
mod member_nodes;
pub(crate) mod members;
mod names;
mod node_link;
mod nodes;
#[cfg(feature = "http")]
pub(crate) mod overview;
mod remedies;
#[cfg(feature = "experiment")]
mod server_version;
mod shown;
pub(crate) mod status;
mod table;
pub(crate) mod wait;
pub(crate) mod who;

#[cfg(feature = "experiment")]
pub(crate) use server_version::version_of;
