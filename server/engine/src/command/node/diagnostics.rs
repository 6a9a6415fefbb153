//! The rows of the commands that show what the node does and what takes long: SLOWLOG, LATENCY and MONITOR.

use super::row;
use crate::command::about::{Categories, Description, help, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[
    &row("slowlog", -2, NodeCommand::SlowLog)
        .divided(SLOWLOG)
        .since("2.2.12", "Tells which commands took long"),
    &row("latency", -2, NodeCommand::Latency)
        .divided(LATENCY)
        .since("2.8.13", "Tells when something took long, and how long commands take"),
    &row("monitor", -1, NodeCommand::Monitor)
        .flags(ADMIN.with(Flags::NO_SCRIPT).with(Flags::NO_MULTI))
        .since("1.0.0", "Sends this connection every request that is executed, with FULL also whole values and tokens")
        .syntax("[FULL]"),
];

/// The subcommands of SLOWLOG.
const SLOWLOG: &[Description] = &[
    part("get", -2, ADMIN)
        .since("2.2.12", "Tells the newest entries")
        .syntax("[count:integer]"),
    help("6.2.0", Categories::NONE),
    part("len", 2, ADMIN).since("2.2.12", "Counts the entries"),
    part("reset", 2, ADMIN).since("2.2.12", "Forgets the entries"),
];

/// The subcommands of LATENCY.
const LATENCY: &[Description] = &[
    part("doctor", 2, DIRECTIVES)
        .since("2.8.13", "Tells in words what took long, and where to look"),
    part("graph", 3, DIRECTIVES)
        .since("2.8.13", "Draws the samples of an event")
        .syntax("event"),
    help("2.8.13", Categories::NONE),
    part("histogram", -2, DIRECTIVES)
        .since(
            "7.0.0",
            "Counts the calls of commands by how long they took",
        )
        .syntax("[command [command ...]]"),
    part("history", 3, DIRECTIVES)
        .since("2.8.13", "Tells the samples of an event")
        .syntax("event"),
    part("latest", 2, DIRECTIVES).since("2.8.13", "Tells the newest sample of each event"),
    part("reset", -2, DIRECTIVES)
        .since("2.8.13", "Forgets the samples of events, or of all")
        .syntax("[event [event ...]]"),
];

const DIRECTIVES: Flags = ADMIN.with(Flags::NO_SCRIPT);

/// As in Redis a script may call them there. None may here, as with all commands about the node.
const ADMIN: Flags = Flags::ADMIN.with(Flags::ALWAYS);
