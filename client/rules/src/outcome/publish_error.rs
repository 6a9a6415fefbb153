//! A message that too few nodes have taken.

use std::sync::Arc;

use thiserror::Error;

use super::cause::Cause;
use super::reading::Lines;

/// Too few nodes have taken a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no quorum: fewer than {needed} of {} nodes have taken the message{}",
    nodes.len(),
    Lines(nodes)
)]
pub struct PublishError {
    /// How many nodes must take it.
    pub needed: usize,
    /// Each node's address, and why it has not taken it, if so.
    pub nodes: Vec<(Arc<str>, Option<Cause>)>,
}
