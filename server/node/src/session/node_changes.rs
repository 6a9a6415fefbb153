//! What a transaction has changed of the users and of the configuration, until it stays or is taken back.
//!
//! ACL and CONFIG SET run at their place in a transaction, so that the commands behind them go by the change. Users and
//! configuration are changed under the engine's lock only, and a transaction holds that to its end: no change of others comes
//! between, so that what is put back is what was there.

use crate::acl::Users;
use crate::config::Config;

/// What was there before the changes of the transaction that runs.
#[derive(Debug, Default)]
pub(super) struct NodeChanges {
    pub(super) users: Option<Users>,
    pub(super) config: Option<Config>,
}

impl NodeChanges {
    /// The users have changed, and were these before.
    pub(super) fn note_users(&mut self, before: Users) {
        self.users.get_or_insert(before);
    }

    /// The configuration has changed, and was this one before.
    pub(super) fn note_config(&mut self, before: Config) {
        self.config.get_or_insert(before);
    }
}
