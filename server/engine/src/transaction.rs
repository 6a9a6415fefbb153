//! Transactions: commands that are executed as one, at one moment, as one group of effects.
//!
//! As in Redis a command that is refused takes nothing back of the others. A transaction that does not
//! fit one frame of the log, leaves a key that the rules do not allow, takes too long or answers too much, is
//! undone as a whole: there is no state in which a part of it has happened.

use crate::caller::Caller;
use crate::command::Command;
use crate::context::CommandContext;
use crate::context::undo::UndoMark;
use crate::effects::Effects;
use crate::engine::Engine;
use crate::error::ErrorReply;
use crate::keyspace::shrinking::STEPS_PER_COMMAND;
pub use crate::keyspace::watches::WatchedKey;
use crate::reply::Reply;
use crate::time::{Deadline, Moment, NodeTime};

/// A transaction that has begun and must end.
#[derive(Debug)]
#[must_use = "it records until it ends"]
pub struct RunningTransaction {
    mark: UndoMark,
}

impl Engine {
    /// Watches a key from now on.
    pub fn watch(&mut self, now: NodeTime, database: u8, key: &[u8]) -> WatchedKey {
        let found = self.keyspace.locate(now, database, key);
        let live = found.live.map(|slot| self.keyspace.entry(slot).deadline);
        let deadline = live.unwrap_or(Deadline::NEVER);
        let watches = &mut self.keyspace.watches;
        watches.watch(found.hash, database, key, deadline)
    }

    /// Ends the watching of keys.
    pub fn unwatch(&mut self, watched: impl IntoIterator<Item = WatchedKey>) {
        for one in watched {
            let hash = self.keyspace.hash(one.database, &one.key);
            self.keyspace.watches.unwatch(hash, one);
        }
    }

    /// How many keys are watched.
    pub fn watched(&self) -> usize {
        self.keyspace.watches.len()
    }

    /// Begins a transaction. `effects` must have been begun for it.
    pub fn begin_transaction(&mut self, now: Moment, effects: &mut Effects) -> RunningTransaction {
        self.scripts.get_mut().begin_transaction();
        self.keyspace.channels.begin();
        let mark = self.context(now, effects).begin_undo();
        RunningTransaction { mark }
    }

    /// Runs its next command. All replies together obey the limit of one, and all commands the time limit
    /// of a script. `None` once one of the two is exceeded: then the transaction is to be ended, which
    /// takes it back.
    pub fn execute_next(
        &mut self,
        now: Moment,
        caller: &Caller,
        command: &Command<'_>,
        effects: &mut Effects,
    ) -> Option<Reply> {
        if self.has_ended(effects) {
            return None;
        }
        let before = self.keyspace.reply_bytes_before;
        let reply = self.run(now, caller, command, effects);
        if effects.reply.taken() == before {
            return self
                .charge(std::slice::from_ref(&reply), effects)
                .then_some(reply);
        }
        self.keyspace.reply_bytes_before = effects.reply.taken();
        Some(reply)
    }

    /// Charges the replies of a command that is not the engine's, and its time. False once a limit is exceeded, as from
    /// [`Engine::execute_next`].
    pub fn charge_next(&mut self, replies: &[Reply], effects: &mut Effects) -> bool {
        !self.has_ended(effects) && self.charge(replies, effects)
    }

    /// Whether a limit was exceeded, that of time included.
    fn has_ended(&mut self, effects: &mut Effects) -> bool {
        if effects.ended.is_none() {
            effects.ended = self.scripts.get_mut().refuses_next();
        }
        effects.ended.is_some()
    }

    /// Charges replies that nobody has charged; false where there is no room for them.
    fn charge(&mut self, replies: &[Reply], effects: &mut Effects) -> bool {
        effects.reply = self.keyspace.reply_budget();
        for reply in replies {
            if let Err(error) = effects.reply.charge_reply(reply) {
                effects.ended = Some(error.of_transaction());
                return false;
            }
        }
        self.keyspace.reply_bytes_before = effects.reply.taken();
        true
    }

    /// Ends a transaction.
    ///
    /// # Errors
    /// When it cannot stay. Then nothing has happened, whatever its replies say.
    pub fn end_transaction(
        &mut self,
        now: Moment,
        transaction: RunningTransaction,
        effects: &mut Effects,
    ) -> Result<(), ErrorReply> {
        self.scripts.get_mut().end_transaction();
        self.keyspace.reply_bytes_before = 0;
        let limit = self.keyspace.rules.journal_bytes_max;
        let ended = effects.ended.take();
        let refusal = match (ended, effects.ran_out_of_room, effects.was_too_large) {
            (Some(error), ..) => Some(error),
            (_, true, _) => Some(effects.no_room()),
            (_, _, true) => Some(ErrorReply::new(format!(
                "ERR a command changes more than {limit} bytes at once, with those before it"
            ))),
            _ => None,
        };
        let mut context = self.context(now, effects);
        let ended = match refusal {
            Some(error) => {
                context.rollback(transaction.mark);
                Err(error)
            }
            None => context.commit_undo(transaction.mark),
        };
        self.keyspace.shrink(STEPS_PER_COMMAND);
        ended
    }

    fn context<'e>(&'e mut self, now: Moment, effects: &'e mut Effects) -> CommandContext<'e> {
        CommandContext {
            keyspace: &mut self.keyspace,
            now,
            caller: Caller::default(),
            effects,
        }
    }
}
