//! The rows of the commands about the node: from INFO to SHUTDOWN.

use super::row;
use crate::command::about::{Categories, Description, help, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[
    &row("info", -1, NodeCommand::Info)
        .flags(Flags::ALWAYS)
        .of(Categories::DANGEROUS),
    &row("config", -2, NodeCommand::Config).divided(CONFIG),
    &row("acl", -2, NodeCommand::Acl).divided(ACL),
    &row("cluster", -2, NodeCommand::Cluster).flags(Flags::BRIEF),
    &row("readonly", 1, NodeCommand::Cluster)
        .and(Flags::BRIEF.with(Flags::UNKNOWN_TO_SCRIPTS))
        .of(CONNECTION),
    &row("readwrite", 1, NodeCommand::Cluster)
        .and(Flags::BRIEF.with(Flags::UNKNOWN_TO_SCRIPTS))
        .of(CONNECTION),
    &row("asking", 1, NodeCommand::Cluster)
        .flags(Flags::FAST.with(Flags::BRIEF))
        .and(Flags::UNKNOWN_TO_SCRIPTS)
        .of(CONNECTION),
    &row("role", 1, NodeCommand::Role)
        .and(Flags::NO_SCRIPT.with(Flags::BRIEF))
        .of(ADMINISTRATION),
    &row("wait", 3, NodeCommand::Wait)
        .flags(Flags::NO_SCRIPT.with(Flags::BRIEF))
        .of(CONNECTION),
    &row("waitaof", 4, NodeCommand::WaitAof)
        .flags(Flags::NO_SCRIPT)
        .of(CONNECTION),
    &row("bgrewriteaof", 1, NodeCommand::BgRewriteAof).flags(ADMIN),
    &row("save", 1, NodeCommand::Save).flags(ADMIN.with(Flags::NO_MULTI)),
    &row("bgsave", -1, NodeCommand::BgSave).flags(ADMIN),
    &row("module", -2, NodeCommand::Module)
        .divided(MODULE)
        .and(Flags::BRIEF),
    &row("debug", -2, NodeCommand::Debug).flags(DIRECTIVES),
    &row("lastsave", 1, NodeCommand::LastSave).of(ADMINISTRATION),
    &row("shutdown", -1, NodeCommand::Shutdown)
        .flags(DIRECTIVES.with(Flags::NO_MULTI).with(Flags::ALLOW_BUSY)),
];

const ADMIN: Flags = Flags::ADMIN
    .with(Flags::NO_SCRIPT)
    .with(Flags::NO_ASYNC_LOADING);
const DIRECTIVES: Flags = Flags::ADMIN.with(Flags::NO_SCRIPT).with(Flags::ALWAYS);
const CONNECTION: Categories = Categories::CONNECTION;
const ADMINISTRATION: Categories = Categories::ADMIN.with(Categories::DANGEROUS);

/// The subcommands of MODULE.
const MODULE: &[Description] = &[
    help(Categories::NONE),
    part("list", 2, Flags::ADMIN.with(Flags::NO_SCRIPT)),
];

/// The subcommands of CONFIG.
const CONFIG: &[Description] = &[
    part("get", -3, DIRECTIVES),
    help(Categories::NONE),
    part("resetstat", 2, DIRECTIVES),
    part("rewrite", 2, DIRECTIVES),
    part("set", -4, DIRECTIVES),
];

/// The subcommands of ACL.
const ACL: &[Description] = &[
    part("cat", -2, OPEN),
    part("deluser", -3, USERS),
    part("dryrun", -4, USERS),
    part("genpass", -2, OPEN),
    part("getuser", 3, USERS),
    help(Categories::NONE),
    part("list", 2, USERS),
    part("load", 2, USERS),
    part("log", -2, USERS),
    part("save", 2, USERS),
    part("setuser", -3, USERS),
    part("users", 2, USERS),
    part("whoami", 2, OPEN),
];

const OPEN: Flags = Flags::NO_SCRIPT.with(Flags::ALWAYS);
const USERS: Flags = OPEN.with(Flags::ADMIN);
