//! The rows of the commands about transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use super::row;
use crate::command::about::{Categories, KeyAccess};
use crate::command::spec::{Family, Flags, NodeCommand, Spec};

pub(super) const FAMILY: Family = &[
    &of("multi", 1, NodeCommand::Multi).and(Flags::AT_ONCE),
    &of("exec", 1, NodeCommand::Exec)
        .flags(Flags::NO_SCRIPT.with(Flags::ALWAYS))
        .and(Flags::SKIP_SLOWLOG.with(Flags::BRIEF))
        .and(Flags::AT_ONCE),
    &of("discard", 1, NodeCommand::Discard).and(Flags::AT_ONCE),
    &of("watch", -2, NodeCommand::Watch)
        .and(Flags::AT_ONCE)
        .on_all(&[KeyAccess::LOOK]),
    &of("unwatch", 1, NodeCommand::Unwatch),
];

const fn of(name: &'static str, arity: i8, command: NodeCommand) -> Spec {
    row(name, arity, command)
        .and(Flags::NO_SCRIPT.with(Flags::ALLOW_BUSY).with(Flags::BRIEF))
        .of(Categories::TRANSACTION)
}
