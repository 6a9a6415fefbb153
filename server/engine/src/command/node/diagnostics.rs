//! The rows of the commands that show what the node does and what takes long: SLOWLOG and MONITOR.

use super::row;
use crate::command::about::{Categories, Description, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[
    &row("slowlog", -2, NodeCommand::SlowLog)
        .divided(SLOWLOG)
        .documented("2.2.12", Categories::NONE, "Tells which commands took long"),
    &row("monitor", -1, NodeCommand::Monitor)
        .flags(ADMIN.with(Flags::NO_SCRIPT).with(Flags::NO_MULTI))
        .documented(
            "1.0.0",
            Categories::NONE,
            "Sends this connection every request that is executed, with FULL also whole values and tokens",
        )
        .syntax("[FULL]"),
];

/// The subcommands of SLOWLOG.
const SLOWLOG: &[Description] = &[
    part("get", -2, ADMIN)
        .documented("2.2.12", Categories::NONE, "Tells the newest entries")
        .syntax("[count:integer]"),
    part("help", 2, Flags::ALWAYS).documented(
        "6.2.0",
        Categories::NONE,
        "Tells of the subcommands",
    ),
    part("len", 2, ADMIN).documented("2.2.12", Categories::NONE, "Counts the entries"),
    part("reset", 2, ADMIN).documented("2.2.12", Categories::NONE, "Forgets the entries"),
];

/// As in Redis a script may call them there. None may here, as with all commands about the node.
const ADMIN: Flags = Flags::ADMIN.with(Flags::ALWAYS);
