//! What a client has sent.

use bytes::Bytes;

/// The commands of a request: one, or those of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Each with its name first.
    pub all: Vec<Vec<Bytes>>,
    /// Whether they are answered with one array.
    pub is_transaction: bool,
}
