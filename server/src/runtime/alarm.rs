//! Stops the node when one of its threads panics: a node that goes on without a thread serves only
//! some of its clients, or waits for what nobody does any more.

use quorlock_node::core::state::NodeState;

/// Fails the log if the thread unwinds while this lives.
pub(crate) struct Alarm<'a> {
    node: &'a NodeState,
    thread: &'static str,
    /// A thread of the program runs the node's code also where it drops a connection because it panics.
    was_panicking: bool,
}

impl<'a> Alarm<'a> {
    /// For a thread of this name, as the failure shows it.
    pub(crate) fn new(node: &'a NodeState, thread: &'static str) -> Self {
        Self {
            node,
            thread,
            was_panicking: std::thread::panicking(),
        }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            let why = format!("{} panicked", self.thread);
            self.node.fail(&self.node.commit.fail(why));
        }
    }
}
