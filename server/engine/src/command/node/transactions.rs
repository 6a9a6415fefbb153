//! The rows of the commands about transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use super::row;
use crate::command::about::{Categories, KeyAccess};
use crate::command::spec::{Family, Flags, NodeCommand, Spec};

pub(super) const FAMILY: Family = &[
    &of("multi", 1, NodeCommand::Multi)
        .and(Flags::AT_ONCE)
        .documented("1.2.0", TRANSACTION, "Begins a transaction"),
    &of("exec", 1, NodeCommand::Exec)
        .flags(Flags::NO_SCRIPT.with(Flags::ALWAYS))
        .and(Flags::SKIP_SLOWLOG.with(Flags::BRIEF))
        .and(Flags::AT_ONCE)
        .documented("1.2.0", TRANSACTION, "Executes what was queued since MULTI"),
    &of("discard", 1, NodeCommand::Discard)
        .and(Flags::AT_ONCE)
        .documented("2.0.0", TRANSACTION, "Forgets what was queued since MULTI"),
    &of("watch", -2, NodeCommand::Watch)
        .and(Flags::AT_ONCE)
        .documented(
            "2.2.0",
            TRANSACTION,
            "Has EXEC fail if one of these keys changes",
        )
        .syntax("key [key ...]")
        .on_all(&[KeyAccess::LOOK]),
    &of("unwatch", 1, NodeCommand::Unwatch).documented(
        "2.2.0",
        TRANSACTION,
        "Watches no key any more",
    ),
];

const fn of(name: &'static str, arity: i8, command: NodeCommand) -> Spec {
    row(name, arity, command).and(Flags::NO_SCRIPT.with(Flags::ALLOW_BUSY).with(Flags::BRIEF))
}

const TRANSACTION: Categories = Categories::TRANSACTION;
