//! The row of COMMAND, which tells of all rows.

use super::row;
use crate::command::about::{Categories, Description, help, part};
use crate::command::spec::{Family, Flags, NodeCommand};

pub(super) const FAMILY: Family = &[&row("command", -1, NodeCommand::Command)
    .divided(PARTS)
    .flags(Flags::ALWAYS)
    .of(Categories::CONNECTION)];

const PARTS: &[Description] = &[
    part("count", 2, Flags::ALWAYS).of(Categories::CONNECTION),
    part("docs", -2, Flags::ALWAYS).of(Categories::CONNECTION),
    part("getkeys", -4, Flags::ALWAYS).of(Categories::CONNECTION),
    part("getkeysandflags", -4, Flags::ALWAYS).of(Categories::CONNECTION),
    help(Categories::CONNECTION),
    part("info", -2, Flags::ALWAYS).of(Categories::CONNECTION),
    part("list", -2, Flags::ALWAYS).of(Categories::CONNECTION),
];
