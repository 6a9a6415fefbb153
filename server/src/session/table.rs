//! The table of commands about the connection and the node. One row is one command.

use quorlock_engine::{About, Categories, Description, Flags, KeyAccess, KeyPositions};

use crate::core::commit::Failure;
use crate::session::batch::{Answer, Batch};
use crate::session::{Session, about, client, config, debug, greeting, info, waitaof};

/// One command.
#[derive(Debug)]
pub(crate) struct Row {
    /// Lower case.
    pub(crate) name: &'static str,
    /// As in Redis: the exact count of words, or the least where negative.
    pub(crate) arity: i8,
    /// May be sent before AUTH.
    pub(crate) before_auth: bool,
    /// Takes less time than to let go of the engine and to take it again: runs while a batch holds it. What it changes is
    /// the connection, if anything.
    pub(crate) is_brief: bool,
    /// What COMMAND says of it.
    flags: Flags,
    keys: KeyPositions,
    summary: &'static str,
    syntax: &'static str,
    about: About,
    pub(crate) run: Run,
}

pub(crate) type Run = for<'a> fn(&mut Session, &mut Batch<'a>, &[&[u8]]) -> Result<Answer, Failure>;

/// All rows but those that need what these are.
pub(crate) const ROWS: &[Row] = &[
    row("auth", -2, greeting::auth)
        .before_auth()
        .brief()
        .told("1.0.0", CONNECTION, "Says the password")
        .syntax("[username] password"),
    row("hello", -1, greeting::hello)
        .before_auth()
        .brief()
        .told("6.0.0", CONNECTION, "Chooses the protocol")
        .syntax("[arguments: protover [AUTH username password] [SETNAME clientname]]"),
    row("quit", -1, greeting::quit).before_auth().brief().told(
        "1.0.0",
        CONNECTION,
        "Ends the connection",
    ),
    row("reset", 1, greeting::reset).before_auth().brief().told(
        "6.2.0",
        CONNECTION,
        "Makes the connection as if it were new",
    ),
    row("ping", -1, greeting::ping)
        .brief()
        .flags(Flags::FAST)
        .told("1.0.0", CONNECTION, "Answers")
        .syntax("[message]"),
    row("echo", 2, greeting::echo)
        .brief()
        .told("1.0.0", CONNECTION, "Answers what it is given")
        .syntax("message"),
    row("select", 2, greeting::select)
        .brief()
        .told("1.0.0", CONNECTION, "Chooses a database")
        .syntax("index"),
    row("client", -2, client::client)
        .divided(client::PARTS)
        .told(
            "2.4.0",
            Categories::NONE,
            "Names, lists and ends connections",
        ),
    row("info", -1, info::info)
        .flags(Flags::ALWAYS)
        .told("1.0.0", Categories::DANGEROUS, "Tells how the node is")
        .syntax("[section [section ...]]"),
    row("config", -2, config::config)
        .divided(config::PARTS)
        .told("2.0.0", Categories::NONE, "Tells and changes directives"),
    row("cluster", -2, about::cluster)
        .brief()
        .flags(Flags::NONE)
        .told("3.0.0", Categories::NONE, NO_CLUSTER)
        .syntax("subcommand [arg [arg ...]]"),
    row("readonly", 1, about::cluster)
        .brief()
        .told("3.0.0", CONNECTION, NO_CLUSTER),
    row("readwrite", 1, about::cluster)
        .brief()
        .told("3.0.0", CONNECTION, NO_CLUSTER),
    row("asking", 1, about::cluster)
        .brief()
        .flags(Flags::FAST)
        .told("3.0.0", CONNECTION, NO_CLUSTER),
    row("role", 1, about::role)
        .brief()
        .flags(Flags::ALWAYS.with(Flags::FAST).with(Flags::NO_SCRIPT))
        .told(
            "2.8.12",
            ADMINISTRATION,
            "Answers that the node is a master without replicas",
        ),
    row("wait", 3, waitaof::wait)
        .brief()
        .flags(Flags::NO_SCRIPT)
        .told("3.0.0", CONNECTION, "Answers 0: there are no replicas")
        .syntax("numreplicas timeout:integer"),
    row("waitaof", 4, waitaof::waitaof)
        .flags(Flags::NO_SCRIPT)
        .told(
            "7.2.0",
            CONNECTION,
            "Waits until what this connection has written is on disk",
        )
        .syntax("numlocal numreplicas timeout:integer"),
    row("bgrewriteaof", 1, about::bgrewriteaof).admin().told(
        "1.0.0",
        Categories::NONE,
        "Compacts the log",
    ),
    row("save", 1, about::save)
        .admin()
        .flags(
            Flags::ADMIN
                .with(Flags::NO_SCRIPT)
                .with(Flags::NO_ASYNC_LOADING)
                .with(Flags::NO_MULTI),
        )
        .told("1.0.0", Categories::NONE, NO_SNAPSHOTS),
    row("bgsave", -1, about::bgsave)
        .admin()
        .told("1.0.0", Categories::NONE, NO_SNAPSHOTS)
        .syntax("[SCHEDULE]"),
    row("module", -2, about::module)
        .brief()
        .divided(about::MODULE_PARTS)
        .told("4.0.0", Categories::NONE, "Tells that there are no modules"),
    row("debug", -2, debug::debug)
        .admin()
        .flags(Flags::ADMIN.with(Flags::NO_SCRIPT).with(Flags::ALWAYS))
        .told(
            "1.0.0",
            Categories::NONE,
            "Lets all clients wait, where enable-debug-command allows it",
        )
        .syntax("<subcommand: SLEEP seconds:double|HELP>"),
    row("lastsave", 1, about::lastsave).told(
        "1.0.0",
        ADMINISTRATION,
        "Tells when all that was written was last on disk",
    ),
    row("shutdown", -1, about::shutdown)
        .flags(
            Flags::ADMIN
                .with(Flags::NO_SCRIPT)
                .with(Flags::ALWAYS)
                .with(Flags::NO_MULTI)
                .with(Flags::ALLOW_BUSY),
        )
        .told("1.0.0", Categories::NONE, "Stops the node in order")
        .syntax("[NOSAVE|SAVE] [NOW] [FORCE] [ABORT]"),
];

pub(crate) const fn row(name: &'static str, arity: i8, run: Run) -> Row {
    Row {
        name,
        arity,
        before_auth: false,
        is_brief: false,
        flags: Flags::ALWAYS.with(Flags::FAST),
        keys: KeyPositions::NONE,
        summary: "",
        syntax: "",
        about: About::new("", Categories::NONE, &[]),
        run,
    }
}

impl Row {
    /// What is told of it.
    pub(crate) const fn description(&self) -> Description {
        Description {
            name: self.name,
            arity: self.arity,
            flags: self.flags,
            keys: self.keys,
            summary: self.summary,
            syntax: self.syntax,
            about: self.about,
        }
    }

    /// Whether MULTI does not queue it.
    pub(crate) const fn is_refused_in_transactions(&self) -> bool {
        self.flags.contains(Flags::NO_MULTI)
    }

    /// What it is divided into.
    pub(crate) const fn parts(&self) -> &'static [Description] {
        self.about.subcommands
    }

    /// Since when Redis has it, what it is for, and what it does.
    pub(crate) const fn told(
        mut self,
        since: &'static str,
        categories: Categories,
        summary: &'static str,
    ) -> Self {
        self.about.since = since;
        self.about.categories = categories;
        self.summary = summary;
        self
    }

    /// Which arguments follow its name.
    pub(crate) const fn syntax(mut self, syntax: &'static str) -> Self {
        self.syntax = syntax;
        self
    }

    pub(crate) const fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// Its arguments are keys, or channels, which Redis tells of in the same way.
    pub(crate) const fn on_all(mut self, access: &'static [KeyAccess]) -> Self {
        self.keys = KeyPositions::ALL;
        self.about.access = access;
        self
    }

    pub(crate) const fn divided(mut self, parts: &'static [Description]) -> Self {
        self.flags = Flags::NONE;
        self.about.subcommands = parts;
        self
    }

    const fn before_auth(mut self) -> Self {
        self.before_auth = true;
        self.flags = Flags::ALWAYS
            .with(Flags::FAST)
            .with(Flags::NO_SCRIPT)
            .with(Flags::NO_AUTH)
            .with(Flags::ALLOW_BUSY);
        self
    }

    pub(crate) const fn brief(mut self) -> Self {
        self.is_brief = true;
        self
    }

    /// Of MULTI and its kin.
    pub(crate) const fn transactional(self) -> Self {
        let mut row = self.brief();
        row.flags = Flags::ALWAYS
            .with(Flags::FAST)
            .with(Flags::NO_SCRIPT)
            .with(Flags::ALLOW_BUSY);
        row.about.categories = Categories::TRANSACTION;
        row
    }

    /// Of SUBSCRIBE and its kin.
    pub(crate) const fn listening(self) -> Self {
        let mut row = self.brief();
        row.flags = Flags::PUBSUB.with(Flags::NO_SCRIPT).with(Flags::ALWAYS);
        row
    }

    const fn admin(mut self) -> Self {
        self.flags = Flags::ADMIN
            .with(Flags::NO_SCRIPT)
            .with(Flags::NO_ASYNC_LOADING);
        self
    }
}

const CONNECTION: Categories = Categories::CONNECTION;
const ADMINISTRATION: Categories = Categories::ADMIN.with(Categories::DANGEROUS);
const NO_CLUSTER: &str = "Answers that there is no cluster";
const NO_SNAPSHOTS: &str = "Answers that there are no RDB files";
