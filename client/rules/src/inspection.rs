//! What an operator sees of the nodes: locks of all libraries, how the nodes do, and what is wrong with them.
//!
//! The questions and what the answers mean are here, and the views that are put together from the answers of all nodes. Who
//! asks sends the questions and reads the replies.
//!
//! Invariant: a lock is shown as held only where a majority of distinct nodes says so, and as free only where no nodes
//! that are silent could make it held.

pub mod cluster_view;
pub mod findings;
pub mod forced;
pub mod lock_view;
pub mod members;
pub mod node_facts;
pub mod page_walk;
pub mod question;
pub mod sight;

pub use crate::protocol::node_reply;
