//! The row of COMMAND, which tells of all rows.

use super::row;
use crate::command::about::{Categories, Description, help, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[&row("command", -1, NodeCommand::Command)
    .divided(PARTS)
    .flags(Flags::ALWAYS)
    .documented("2.8.13", Categories::CONNECTION, "Tells of commands")];

const PARTS: &[Description] = &[
    part("count", 2, Flags::ALWAYS).documented("2.8.13", Categories::CONNECTION, "Counts commands"),
    part("docs", -2, Flags::ALWAYS)
        .documented("7.0.0", Categories::CONNECTION, "Tells what commands do")
        .syntax("[command-name [command-name ...]]"),
    part("getkeys", -4, Flags::ALWAYS)
        .documented(
            "2.8.13",
            Categories::CONNECTION,
            "Tells the keys of a request",
        )
        .syntax("command arg [arg ...]"),
    part("getkeysandflags", -4, Flags::ALWAYS)
        .documented(
            "7.0.0",
            Categories::CONNECTION,
            "Tells the keys of a request, and what it does with them",
        )
        .syntax("command arg [arg ...]"),
    help("5.0.0", Categories::CONNECTION),
    part("info", -2, Flags::ALWAYS)
        .documented(
            "2.8.13",
            Categories::CONNECTION,
            "Tells the properties of commands",
        )
        .syntax("[command-name [command-name ...]]"),
    part("list", -2, Flags::ALWAYS)
        .documented("7.0.0", Categories::CONNECTION, "Lists commands")
        .syntax("[FILTERBY <filterby: MODULE module-name|ACLCAT category|PATTERN pattern>]"),
];
