//! The row of COMMAND, which tells of all rows.

use super::row;
use crate::command::about::{Categories, Description};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[&row("command", -1, NodeCommand::Command)
    .divided(PARTS)
    .flags(Flags::ALWAYS)
    .documented("2.8.13", Categories::CONNECTION, "Tells of commands")];

const PARTS: &[Description] = &[
    of("count", 2, "2.8.13", "Counts commands"),
    of("docs", -2, "7.0.0", "Tells what commands do").syntax("[command-name [command-name ...]]"),
    of("getkeys", -4, "2.8.13", "Tells the keys of a request").syntax("command arg [arg ...]"),
    of(
        "getkeysandflags",
        -4,
        "7.0.0",
        "Tells the keys of a request, and what it does with them",
    )
    .syntax("command arg [arg ...]"),
    of("help", 2, "5.0.0", "Tells of the subcommands"),
    of("info", -2, "2.8.13", "Tells the properties of commands")
        .syntax("[command-name [command-name ...]]"),
    of("list", -2, "7.0.0", "Lists commands")
        .syntax("[FILTERBY <filterby: MODULE module-name|ACLCAT category|PATTERN pattern>]"),
];

const fn of(
    name: &'static str,
    arity: i8,
    since: &'static str,
    summary: &'static str,
) -> Description {
    Description::subcommand(
        name,
        arity,
        Flags::ALWAYS,
        since,
        Categories::CONNECTION,
        summary,
    )
}
