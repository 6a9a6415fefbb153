//! What execution leaves behind for others: messages that are to be sent, and what is counted.

use quorlock_engine::ScriptCounts;
use quorlock_engine::channels::Published;

use crate::core::executor::Executor;
use crate::core::wait::Wait;

impl Executor {
    /// Takes what was published since the last call.
    pub(crate) fn take_published(&mut self) -> Vec<(Published, Wait)> {
        self.outbox.take(&mut self.engine)
    }

    /// About what it costs to hand out what was published and is not on its way.
    pub(crate) fn published_cost(&self) -> usize {
        self.outbox.cost()
    }

    /// Whether anything was published since the last call.
    pub(crate) fn take_has_published(&mut self) -> bool {
        self.outbox.take_has_new()
    }

    /// Whether the last command was refused before it was executed.
    pub(crate) fn take_was_refused(&mut self) -> bool {
        let was_refused = self.was_refused;
        if was_refused {
            self.was_refused = false;
        }
        was_refused
    }

    /// What scripts have called since they were last counted anew.
    pub(crate) fn script_counts(&mut self) -> &mut ScriptCounts {
        &mut self.effects.script_counts
    }
}
