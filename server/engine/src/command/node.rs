//! The rows of the commands about the connection and the node. What executes them is in the node; their rows are here
//! because a name is looked up once, by clients and by scripts alike, and scripts run in the engine.

mod administration;
mod connection;
mod diagnostics;
mod introspection;
mod subscriptions;
mod transactions;

use crate::command::about::{Categories, Description, KeyAccess};
use crate::command::spec::{Family, Flags, Handler, KeyPositions, NodeCommand, Spec};

/// In the order of COMMAND.
pub(super) const FAMILIES: &[Family] = &[
    connection::FAMILY,
    administration::FAMILY,
    diagnostics::FAMILY,
    transactions::FAMILY,
    subscriptions::FAMILY,
    introspection::FAMILY,
];

const fn row(name: &'static str, arity: i8, command: NodeCommand) -> Spec {
    Spec::new(name, arity, Handler::Node(command)).flags(Flags::ALWAYS.with(Flags::FAST))
}

impl Spec {
    /// In these categories as well as those of its flags.
    const fn of(mut self, categories: Categories) -> Spec {
        self.about.categories = categories;
        self
    }

    /// Its arguments are keys, or channels, which Redis tells of in the same way.
    const fn on_all(mut self, access: &'static [KeyAccess]) -> Spec {
        self.keys = KeyPositions::ALL;
        self.about.access = access;
        self
    }

    const fn divided(mut self, parts: &'static [Description]) -> Spec {
        self.flags = Flags::NONE;
        self.about.subcommands = parts;
        self
    }
}
