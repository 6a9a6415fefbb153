//! The rows of the commands about the node: from INFO to SHUTDOWN.

use super::row;
use crate::command::about::{Categories, Description, help, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[
    &row("info", -1, NodeCommand::Info)
        .flags(Flags::ALWAYS)
        .documented("1.0.0", Categories::DANGEROUS, "Tells how the node is")
        .syntax("[section [section ...]]"),
    &row("config", -2, NodeCommand::Config)
        .divided(CONFIG)
        .since("2.0.0", "Tells and changes directives"),
    &row("acl", -2, NodeCommand::Acl).divided(ACL).since("6.0.0", "Tells and changes users"),
    &row("cluster", -2, NodeCommand::Cluster)
        .flags(Flags::BRIEF)
        .documented("3.0.0", Categories::NONE, NO_CLUSTER)
        .syntax("subcommand [arg [arg ...]]"),
    &row("readonly", 1, NodeCommand::Cluster)
        .and(Flags::BRIEF.with(Flags::UNKNOWN_TO_SCRIPTS))
        .documented("3.0.0", CONNECTION, NO_CLUSTER),
    &row("readwrite", 1, NodeCommand::Cluster)
        .and(Flags::BRIEF.with(Flags::UNKNOWN_TO_SCRIPTS))
        .documented("3.0.0", CONNECTION, NO_CLUSTER),
    &row("asking", 1, NodeCommand::Cluster)
        .flags(Flags::FAST.with(Flags::BRIEF))
        .and(Flags::UNKNOWN_TO_SCRIPTS)
        .documented("3.0.0", CONNECTION, NO_CLUSTER),
    &row("role", 1, NodeCommand::Role)
        .and(Flags::NO_SCRIPT.with(Flags::BRIEF))
        .documented(
            "2.8.12",
            ADMINISTRATION,
            "Answers that the node is a master without replicas",
        ),
    &row("wait", 3, NodeCommand::Wait)
        .flags(Flags::NO_SCRIPT.with(Flags::BRIEF))
        .documented("3.0.0", CONNECTION, "Answers 0: there are no replicas")
        .syntax("numreplicas timeout:integer"),
    &row("waitaof", 4, NodeCommand::WaitAof)
        .flags(Flags::NO_SCRIPT)
        .documented(
            "7.2.0",
            CONNECTION,
            "Waits until what this connection has written is on disk",
        )
        .syntax("numlocal numreplicas timeout:integer"),
    &row("bgrewriteaof", 1, NodeCommand::BgRewriteAof)
        .flags(ADMIN)
        .since("1.0.0", "Compacts the log"),
    &row("save", 1, NodeCommand::Save)
        .flags(ADMIN.with(Flags::NO_MULTI))
        .documented("1.0.0", Categories::NONE, NO_SNAPSHOTS),
    &row("bgsave", -1, NodeCommand::BgSave)
        .flags(ADMIN)
        .documented("1.0.0", Categories::NONE, NO_SNAPSHOTS)
        .syntax("[SCHEDULE]"),
    &row("module", -2, NodeCommand::Module)
        .divided(MODULE)
        .and(Flags::BRIEF)
        .since("4.0.0", "Tells that there are no modules"),
    &row("debug", -2, NodeCommand::Debug)
        .flags(DIRECTIVES)
        .since("1.0.0", "Tells how a key is kept, or lets all clients wait, where enable-debug-command allows it")
        .syntax("<subcommand: OBJECT key|SLEEP seconds:double|HELP>"),
    &row("lastsave", 1, NodeCommand::LastSave).documented(
        "1.0.0",
        ADMINISTRATION,
        "Tells when all that was written was last on disk",
    ),
    &row("shutdown", -1, NodeCommand::Shutdown)
        .flags(DIRECTIVES.with(Flags::NO_MULTI).with(Flags::ALLOW_BUSY))
        .since("1.0.0", "Stops the node in order")
        .syntax("[NOSAVE|SAVE] [NOW] [FORCE] [ABORT]"),
];

const ADMIN: Flags = Flags::ADMIN
    .with(Flags::NO_SCRIPT)
    .with(Flags::NO_ASYNC_LOADING);
const DIRECTIVES: Flags = Flags::ADMIN.with(Flags::NO_SCRIPT).with(Flags::ALWAYS);
const CONNECTION: Categories = Categories::CONNECTION;
const ADMINISTRATION: Categories = Categories::ADMIN.with(Categories::DANGEROUS);
const NO_CLUSTER: &str = "Answers that there is no cluster";
const NO_SNAPSHOTS: &str = "Answers that there are no RDB files";

/// The subcommands of MODULE.
const MODULE: &[Description] = &[
    help("5.0.0", Categories::NONE),
    part("list", 2, Flags::ADMIN.with(Flags::NO_SCRIPT))
        .since("4.0.0", "Answers that there are no modules"),
];

/// The subcommands of CONFIG.
const CONFIG: &[Description] = &[
    part("get", -3, DIRECTIVES)
        .since("2.0.0", "Tells directives")
        .syntax("parameter [parameter ...]"),
    help("5.0.0", Categories::NONE),
    part("resetstat", 2, DIRECTIVES).since("2.0.0", "Counts anew"),
    part("rewrite", 2, DIRECTIVES).since(
        "2.8.0",
        "Writes what is in force into the configuration file",
    ),
    part("set", -4, DIRECTIVES)
        .since("2.0.0", "Changes directives of the running node")
        .syntax("parameter value [parameter value ...]"),
];

/// The subcommands of ACL.
const ACL: &[Description] = &[
    part("cat", -2, OPEN)
        .since("6.0.0", "Lists categories, or the commands of one")
        .syntax("[categoryname]"),
    part("deluser", -3, USERS)
        .since("6.0.0", "Deletes users and ends their connections")
        .syntax("username [username ...]"),
    part("dryrun", -4, USERS)
        .since("7.0.0", "Tells whether a user may send a request")
        .syntax("username command [arg [arg ...]]"),
    part("genpass", -2, OPEN)
        .since("6.0.0", "Makes a password")
        .syntax("[bits:integer]"),
    part("getuser", 3, USERS)
        .since("6.0.0", "Tells the rules of a user")
        .syntax("username"),
    help("6.0.0", Categories::NONE),
    part("list", 2, USERS).since("6.0.0", "Tells the rules of all users"),
    part("load", 2, USERS).since("6.0.0", "Reads the users from aclfile"),
    part("log", -2, USERS)
        .since("6.0.0", "Tells what was refused")
        .syntax("[operation: count:integer|RESET]"),
    part("save", 2, USERS).since("6.0.0", "Writes the users into aclfile"),
    part("setuser", -3, USERS)
        .since("6.0.0", "Makes or changes a user")
        .syntax("username [rule [rule ...]]"),
    part("users", 2, USERS).since("6.0.0", "Lists the names of users"),
    part("whoami", 2, OPEN).since("6.0.0", "Tells this connection's user"),
];

const OPEN: Flags = Flags::NO_SCRIPT.with(Flags::ALWAYS);
const USERS: Flags = OPEN.with(Flags::ADMIN);
