//! What people read of a command: COMMAND DOCS and the book's page are made of it.
//!
//! `documentation.txt` has a line for each command and each subcommand: its name, then what [`Documentation`] has, in its order,
//! with ` -- ` between the parts.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What is told of a command, or of a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Documentation {
    /// The version of Redis in which it came, or of the server that invented it.
    pub since: &'static str,
    /// The arguments that follow its name, as Redis's documentation writes them; empty where there are none. How to
    /// read it is in the server's `session/syntax.rs`.
    pub syntax: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
}

impl Documentation {
    /// That of a command, such as `get`, or of a subcommand, such as `client|kill`.
    ///
    /// # Panics
    /// If the node has no command of this name.
    pub fn of(name: &str) -> Documentation {
        let found = ALL.get(name).copied();
        found.expect("each command has its line in the table")
    }
}

/// By name.
static ALL: LazyLock<HashMap<&'static str, Documentation>> = LazyLock::new(|| {
    let read = |line: &'static str| {
        let (name, rest) = line.split_once(' ')?;
        let (since, rest) = rest.split_once(" -- ")?;
        let (syntax, summary) = rest.split_once(" -- ")?;
        let read = Documentation {
            since,
            syntax,
            summary,
        };
        Some((name, read))
    };
    TABLE.lines().filter_map(read).collect()
});

const TABLE: &str = include_str!("documentation.txt");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::all_specs;

    #[test]
    fn each_command_and_subcommand_has_one_line_and_nothing_else_has() {
        let mut count = 0;
        for spec in all_specs() {
            Documentation::of(spec.name);
            for part in spec.about.subcommands {
                Documentation::of(&format!("{}|{}", spec.name, part.name));
            }
            count += 1 + spec.about.subcommands.len();
        }
        assert_eq!(TABLE.lines().count(), count);
    }
}
