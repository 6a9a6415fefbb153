//! What a client has sent.

use bytes::Bytes;
use quorlock_engine::CommandGuard;

/// The commands of a request: one, or those of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Each with its name first.
    pub all: Vec<Vec<Bytes>>,
    /// Whether they are answered with one array.
    pub is_transaction: bool,
    /// What is asked before each command that a script calls, where its user may not call all of them.
    pub script_guard: Option<CommandGuard>,
}
