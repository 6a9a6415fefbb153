//! The rows of the commands that show what the node does and what takes long: SLOWLOG, LATENCY and MONITOR.

use super::row;
use crate::command::about::{Categories, Description, help, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[
    &row("slowlog", -2, NodeCommand::SlowLog).divided(SLOWLOG),
    &row("latency", -2, NodeCommand::Latency).divided(LATENCY),
    &row("monitor", -1, NodeCommand::Monitor)
        .flags(ADMIN.with(Flags::NO_SCRIPT).with(Flags::NO_MULTI)),
];

/// The subcommands of SLOWLOG.
const SLOWLOG: &[Description] = &[
    part("get", -2, ADMIN),
    help(Categories::NONE),
    part("len", 2, ADMIN),
    part("reset", 2, ADMIN),
];

/// The subcommands of LATENCY.
const LATENCY: &[Description] = &[
    part("doctor", 2, DIRECTIVES),
    part("graph", 3, DIRECTIVES),
    help(Categories::NONE),
    part("histogram", -2, DIRECTIVES),
    part("history", 3, DIRECTIVES),
    part("latest", 2, DIRECTIVES),
    part("reset", -2, DIRECTIVES),
];

const DIRECTIVES: Flags = ADMIN.with(Flags::NO_SCRIPT);

/// As in Redis a script may call them there. None may here, as with all commands about the node.
const ADMIN: Flags = Flags::ADMIN.with(Flags::ALWAYS);
