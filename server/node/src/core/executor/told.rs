//! What execution leaves behind for others: messages that are to be sent, and what is counted.

use std::collections::BTreeSet;

use quorlock_engine::channels::{ClientId, Published};
use quorlock_engine::{KeyspaceStatistics, ScriptCounts};

use crate::core::executor::Executor;
use crate::core::wait::DurabilityWait;

impl Executor {
    /// Takes what was published since the last call.
    pub(crate) fn take_published(&mut self) -> Vec<(Published, DurabilityWait)> {
        self.outbox.take(&mut self.engine)
    }

    /// Takes these clients off the lists of those who get what was published and is not on its way.
    pub(crate) fn withhold_from(&mut self, clients: &BTreeSet<u64>) {
        self.outbox.withhold_from(clients);
    }

    /// A client may not wait any more for locks of which this is false: it leaves their lines, and gets none of the messages about
    /// them that are not on their way.
    pub(crate) fn end_lock_waits_unless(
        &mut self,
        client: ClientId,
        may_wait: impl Fn(&[u8]) -> bool,
    ) {
        self.engine.leave_lock_queues_unless(client, &may_wait);
        self.outbox.withhold_locks(client, |key| !may_wait(key));
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

    /// What scripts have called since all was last counted anew.
    pub fn script_counts(&self) -> &ScriptCounts {
        &self.effects.script_counts
    }

    /// What the engine has counted since then.
    pub fn statistics(&self) -> KeyspaceStatistics {
        let (now, before) = (self.engine.statistics(), self.counted_before);
        KeyspaceStatistics {
            expired: now.expired - before.expired,
            hits: now.hits - before.hits,
            misses: now.misses - before.misses,
        }
    }

    /// Counts anew. The engine counts on: the maintenance goes by what has expired.
    pub(crate) fn count_anew(&mut self) {
        self.counted_before = self.engine.statistics();
        self.effects.script_counts = ScriptCounts::default();
    }
}
