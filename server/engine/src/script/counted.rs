//! What is counted of the commands that a script calls. Of one that is taken back, to be run again with more room in the
//! log, nothing is.

use crate::context::CommandContext;
use crate::script_counts::ScriptCounts;

pub(super) struct Counted {
    scripts: ScriptCounts,
    hits: u64,
    misses: u64,
}

impl Counted {
    pub(super) fn of(context: &CommandContext<'_>) -> Self {
        let statistics = &context.keyspace.statistics;
        Self {
            scripts: context.effects.script_counts.clone(),
            hits: statistics.hits,
            misses: statistics.misses,
        }
    }

    pub(super) fn put_back(self, context: &mut CommandContext<'_>) {
        let statistics = &mut context.keyspace.statistics;
        (statistics.hits, statistics.misses) = (self.hits, self.misses);
        context.effects.script_counts = self.scripts;
    }
}
