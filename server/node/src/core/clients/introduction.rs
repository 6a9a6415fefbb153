//! What a client has said about itself, and as whom it has logged in.

use std::sync::Arc;

use bytes::Bytes;

use crate::acl::{DEFAULT, User};

/// What a client says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Introduction {
    pub(crate) name: String,
    pub(crate) library_name: String,
    pub(crate) library_version: String,
    pub(crate) database: u8,
    pub(crate) is_resp3: bool,
    /// CLIENT NO-TOUCH: shown and of no effect, since nothing is kept of when a key was used.
    pub(crate) is_untouching: bool,
    /// With its subcommand.
    pub(crate) last_command: (&'static str, &'static str),
    /// How many requests are queued since MULTI, if it is in a transaction, and their memory.
    pub(crate) queued: Option<usize>,
    pub(crate) queued_bytes: usize,
    pub(crate) listening: Listening,
    pub(crate) is_monitor: bool,
    pub(crate) tracking: TrackingShown,
    /// As whom it has logged in; the default user where it has not.
    pub(crate) user: Option<Arc<User>>,
    /// The commands that an upstream has, and that wait for what this client alone wants.
    pub(crate) awaited: Vec<Vec<Bytes>>,
}

impl Introduction {
    /// The name of its user.
    pub(crate) fn user_name(&self) -> &[u8] {
        self.user.as_ref().map_or(DEFAULT, |user| &user.name)
    }
}

/// How a client is told of changes of keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackingShown {
    pub(crate) is_on: bool,
    /// It is told of prefixes.
    pub(crate) broadcasts: bool,
    /// The client that is told in its place has gone.
    pub(crate) is_broken: bool,
    /// Who is told in its place.
    pub(crate) redirect: Option<u64>,
}

impl TrackingShown {
    /// As CLIENT LIST and GETREDIR show it: 0 where nobody is.
    pub(crate) fn redirection(self) -> i64 {
        if !self.is_on {
            return -1;
        }
        i64::try_from(self.redirect.unwrap_or(0)).expect("clients are counted from 1")
    }
}

/// How many channels, patterns and sharded channels a client listens to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Listening {
    pub(crate) channels: usize,
    pub(crate) patterns: usize,
    pub(crate) shards: usize,
}

impl Listening {
    pub(crate) fn is_any(self) -> bool {
        self.channels + self.patterns + self.shards > 0
    }
}
