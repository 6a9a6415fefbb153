//! A command that finds nothing waits, where it may.

use std::ops::Range;

use crate::context::CommandContext;
use crate::effects::WaitLimit;
use crate::keyspace::waiters::{AwaitedKind, BlockedClient};

impl CommandContext<'_> {
    /// The command has found no element in the keys that are these of its arguments: its client waits for one, unless it
    /// stands in a script or transaction, or has been waiting.
    pub(crate) fn wait_for(
        &mut self,
        arguments: &[&[u8]],
        keys: Range<usize>,
        wanted: AwaitedKind,
        limit: WaitLimit,
    ) {
        self.effects.wait_limit = Some(limit);
        if !self.effects.may_wait {
            return;
        }
        let database = self.caller.database;
        let hashed = |key: &&[u8]| (self.keyspace.hash(database, key), Box::from(*key));
        let waiter = BlockedClient {
            caller: self.caller,
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
            wanted,
            first_key: keys.start,
            keys: arguments[keys].iter().map(hashed).collect(),
            guard: None,
        };
        self.keyspace.waiters.add(waiter);
    }
}
