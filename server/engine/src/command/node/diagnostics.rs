//! The rows of the commands that show what the node does and what takes long: SLOWLOG, LATENCY and MONITOR.

use super::row;
use crate::command::about::{Categories, Description, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[
    &row("slowlog", -2, NodeCommand::SlowLog)
        .divided(SLOWLOG)
        .documented("2.2.12", Categories::NONE, "Tells which commands took long"),
    &row("latency", -2, NodeCommand::Latency)
        .divided(LATENCY)
        .documented("2.8.13", Categories::NONE, "Tells when something took long, and how long commands take"),
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

/// The subcommands of LATENCY.
const LATENCY: &[Description] = &[
    part("doctor", 2, DIRECTIVES).documented(
        "2.8.13",
        Categories::NONE,
        "Tells in words what took long, and where to look",
    ),
    part("graph", 3, DIRECTIVES)
        .documented("2.8.13", Categories::NONE, "Draws the samples of an event")
        .syntax("event"),
    part("help", 2, Flags::ALWAYS).documented(
        "2.8.13",
        Categories::NONE,
        "Tells of the subcommands",
    ),
    part("histogram", -2, DIRECTIVES)
        .documented(
            "7.0.0",
            Categories::NONE,
            "Counts the calls of commands by how long they took",
        )
        .syntax("[command [command ...]]"),
    part("history", 3, DIRECTIVES)
        .documented("2.8.13", Categories::NONE, "Tells the samples of an event")
        .syntax("event"),
    part("latest", 2, DIRECTIVES).documented(
        "2.8.13",
        Categories::NONE,
        "Tells the newest sample of each event",
    ),
    part("reset", -2, DIRECTIVES)
        .documented(
            "2.8.13",
            Categories::NONE,
            "Forgets the samples of events, or of all",
        )
        .syntax("[event [event ...]]"),
];

const DIRECTIVES: Flags = ADMIN.with(Flags::NO_SCRIPT);

/// As in Redis a script may call them there. None may here, as with all commands about the node.
const ADMIN: Flags = Flags::ADMIN.with(Flags::ALWAYS);
