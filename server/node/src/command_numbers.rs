//! Numbers for commands and their subcommands, by which calls are counted: the commands in the order of their table, and
//! behind them the subcommands of all of them.

use std::sync::LazyLock;

use quorlock_engine::{Flags, all_specs};

/// A command whose calls are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedCommand {
    pub(crate) name: String,
    /// How long it takes depends on its arguments and on the keys, so that each call is timed.
    pub(crate) may_take_long: bool,
}

struct Numbers {
    counted: Vec<CountedCommand>,
    /// The number of each command's first subcommand.
    parts: Vec<usize>,
}

static NUMBERS: LazyLock<Numbers> = LazyLock::new(|| {
    // Scripts measure themselves where they take long.
    let shorts = [Flags::FAST, Flags::BRIEF, Flags::SCRIPT];
    let counted = |name: String, flags: Flags| CountedCommand {
        name,
        may_take_long: !shorts.iter().any(|short| flags.contains(*short)),
    };
    let commands = all_specs().map(|one| counted(one.name.to_owned(), one.flags));
    let mut all: Vec<CountedCommand> = commands.collect();
    let mut parts = Vec::with_capacity(all.len());
    for command in all_specs() {
        parts.push(all.len());
        let of_it = command.about.subcommands.iter();
        all.extend(of_it.map(|part| {
            let name = format!("{}|{}", command.name, part.name);
            counted(name, part.flags)
        }));
    }
    Numbers {
        counted: all,
        parts,
    }
});

/// All of them, named as Redis does in INFO: `get`, `client|setname`.
pub(crate) fn counted() -> Vec<CountedCommand> {
    NUMBERS.counted.clone()
}

/// The number of a subcommand, given by its place among its command's.
pub(crate) fn part(command: usize, place: usize) -> usize {
    NUMBERS.parts[command] + place
}

/// How many there are.
pub(crate) fn count() -> usize {
    NUMBERS.counted.len()
}
