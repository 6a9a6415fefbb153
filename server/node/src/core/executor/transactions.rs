//! Transactions: commands that are executed as one group.

use quorlock_engine::{Caller, Command, ErrorReply, Moment, Reply, RunningTransaction};

use crate::core::executor::Executor;
use crate::core::wait::DurabilityWait;

impl Executor {
    /// Begins a transaction, which must end before anything else is executed.
    pub(crate) fn begin_transaction(&mut self, now: Moment) -> RunningTransaction {
        self.begin(true);
        self.engine.begin_transaction(now, &mut self.effects)
    }

    /// Executes its next command. `None` where it may not go on: it is to be ended, with an error.
    pub(crate) fn execute_next(
        &mut self,
        now: Moment,
        caller: &Caller,
        command: &Command<'_>,
    ) -> Option<Reply> {
        let effects = &mut self.effects;
        self.engine.execute_next(now, caller, command, effects)
    }

    /// Charges the replies of a command that is not the engine's to its room for replies; false where it may not go on.
    pub(crate) fn charge_next(&mut self, replies: &[Reply]) -> bool {
        self.engine.charge_next(replies, &mut self.effects)
    }

    /// Ends it, and raises `wait` to what its replies depend on.
    ///
    /// # Errors
    /// When it could not stay. Then nothing has happened.
    pub(crate) fn end_transaction(
        &mut self,
        now: Moment,
        transaction: RunningTransaction,
        wait: &mut DurabilityWait,
    ) -> Result<(), ErrorReply> {
        let effects = &mut self.effects;
        let ended = self.engine.end_transaction(now, transaction, effects);
        self.log(now.node, wait);
        self.reply_bytes = self.effects.reply.taken();
        self.serve(now);
        self.reclaim_much_owed(now.node);
        ended
    }
}
