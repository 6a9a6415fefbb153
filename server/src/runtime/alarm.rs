//! Stops the node when one of its threads panics: a node that goes on without a thread serves only
//! some of its clients, or waits for what nobody does any more.

use crate::core::state::NodeState;

/// Fails the log if the thread unwinds while this lives.
pub(crate) struct Alarm<'a> {
    node: &'a NodeState,
    thread: &'static str,
}

impl<'a> Alarm<'a> {
    /// For a thread of this name, as the failure shows it.
    pub(crate) fn new(node: &'a NodeState, thread: &'static str) -> Self {
        Self { node, thread }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = format!("{} panicked", self.thread);
            self.node.fail(&self.node.commit.fail(why));
        }
    }
}
