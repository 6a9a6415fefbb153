//! The table of commands about the connection and the node. One row is one command.

use crate::core::commit::Failure;
use crate::session::batch::{Answer, Batch};
use crate::session::{Session, about, client, config, greeting, info, waitaof};

/// One command.
pub(crate) struct Row {
    /// Lower case.
    pub(crate) name: &'static str,
    /// As in Redis: the exact count of words, or the least where negative.
    pub(crate) arity: i8,
    /// May be sent before AUTH.
    pub(crate) before_auth: bool,
    /// Takes less time than to let go of the engine and to take it again: runs while a batch holds it.
    pub(crate) is_brief: bool,
    /// May be a part of a transaction. It is brief, always replies at once, and its effects are taken back
    /// with the transaction, or harm nobody.
    pub(crate) may_be_queued: bool,
    /// What COMMAND says of it.
    pub(crate) flags: &'static [&'static str],
    pub(crate) run: Run,
}

pub(crate) type Run = for<'a> fn(&mut Session, &mut Batch<'a>, &[&[u8]]) -> Result<Answer, Failure>;

/// All rows but that of COMMAND, which tells of them.
pub(crate) const ROWS: &[Row] = &[
    row("auth", -2, greeting::auth).before_auth().brief(),
    row("hello", -1, greeting::hello).before_auth().brief(),
    row("quit", -1, greeting::quit).before_auth().brief(),
    row("reset", 1, greeting::reset).before_auth().brief(),
    row("ping", -1, greeting::ping).queueable(),
    row("echo", 2, greeting::echo).queueable(),
    row("select", 2, greeting::select).queueable(),
    row("client", -2, client::client),
    row("info", -1, info::info),
    row("config", -2, config::config),
    row("cluster", -2, about::cluster).queueable(),
    row("readonly", 1, about::cluster).queueable(),
    row("readwrite", 1, about::cluster).queueable(),
    row("asking", 1, about::cluster).queueable(),
    row("role", 1, about::role).queueable(),
    row("wait", 3, waitaof::wait).blocking().queueable(),
    row("waitaof", 4, waitaof::waitaof).blocking(),
    row("bgrewriteaof", 1, about::bgrewriteaof).admin(),
    row("save", 1, about::save).admin(),
    row("bgsave", -1, about::bgsave).admin(),
    row("module", -2, about::module).queueable(),
    row("lastsave", 1, about::lastsave),
    row("shutdown", -1, about::shutdown),
];

pub(crate) const fn row(name: &'static str, arity: i8, run: Run) -> Row {
    Row {
        name,
        arity,
        before_auth: false,
        is_brief: false,
        may_be_queued: false,
        flags: &["loading", "stale", "fast"],
        run,
    }
}

impl Row {
    const fn before_auth(mut self) -> Self {
        self.before_auth = true;
        self.flags = &["noscript", "loading", "stale", "fast", "no_auth"];
        self
    }

    pub(crate) const fn queueable(self) -> Self {
        let mut row = self.brief();
        row.may_be_queued = true;
        row
    }

    pub(crate) const fn brief(mut self) -> Self {
        self.is_brief = true;
        self
    }

    /// Of MULTI and its kin.
    pub(crate) const fn transactional(self) -> Self {
        let mut row = self.brief();
        row.flags = &["noscript", "loading", "stale", "fast", "allow_busy"];
        row
    }

    /// Of SUBSCRIBE and its kin.
    pub(crate) const fn listening(self) -> Self {
        let mut row = self.brief();
        row.flags = &["pubsub", "noscript", "loading", "stale"];
        row
    }

    const fn blocking(mut self) -> Self {
        self.flags = &["noscript"];
        self
    }

    const fn admin(mut self) -> Self {
        self.flags = &["admin", "noscript", "no_async_loading"];
        self
    }
}
