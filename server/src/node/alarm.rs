//! Stops the node when one of its threads panics: a node that goes on without a thread serves only
//! some of its clients, or waits for what nobody does any more.

use crate::node::shared::Shared;

/// Fails the log if the thread unwinds while this lives.
pub(crate) struct Alarm<'a> {
    shared: &'a Shared,
    thread: &'static str,
}

impl<'a> Alarm<'a> {
    /// For a thread of this name, as the failure shows it.
    pub(crate) fn new(shared: &'a Shared, thread: &'static str) -> Self {
        Self { shared, thread }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = format!("{} panicked", self.thread);
            self.shared.fail(&self.shared.commit.fail(&why));
        }
    }
}
