//! Numbers for commands and their subcommands, by which calls are counted: the commands in the order of their table, and
//! behind them the subcommands of all of them.

use std::sync::LazyLock;

use quorlock_engine::all_specs;

struct Numbers {
    names: Vec<String>,
    /// The number of each command's first subcommand.
    parts: Vec<usize>,
}

static NUMBERS: LazyLock<Numbers> = LazyLock::new(|| {
    let mut names: Vec<String> = all_specs().map(|one| one.name.to_owned()).collect();
    let mut parts = Vec::with_capacity(names.len());
    for command in all_specs() {
        parts.push(names.len());
        let of_it = command.about.subcommands.iter();
        names.extend(of_it.map(|part| format!("{}|{}", command.name, part.name)));
    }
    Numbers { names, parts }
});

/// As Redis writes them in INFO: `get`, `client|setname`.
pub(crate) fn names() -> Vec<String> {
    NUMBERS.names.clone()
}

/// The number of a subcommand, given by its place among its command's.
pub(crate) fn part(command: usize, place: usize) -> usize {
    NUMBERS.parts[command] + place
}

/// How many there are.
pub(crate) fn count() -> usize {
    NUMBERS.names.len()
}
