//! Numbers for commands and their subcommands, by which calls are counted: the engine's commands first, then the node's,
//! then the subcommands of all of them.

use std::sync::LazyLock;

use quorlock_engine::{all_specs, numbered_spec};

use crate::session::introspection::{descriptions, full_name, part_of, rows};
use crate::session::table::Row;

struct Numbers {
    names: Vec<String>,
    /// How many commands are the engine's.
    specs: usize,
    /// The number of each command's first subcommand.
    parts: Vec<usize>,
}

static NUMBERS: LazyLock<Numbers> = LazyLock::new(|| {
    let mut names: Vec<String> = descriptions().map(|one| one.name.to_owned()).collect();
    let mut parts = Vec::with_capacity(names.len());
    for command in descriptions() {
        parts.push(names.len());
        let of_it = command.about.subcommands.iter();
        names.extend(of_it.map(|part| full_name(&command, part)));
    }
    Numbers {
        names,
        specs: all_specs().count(),
        parts,
    }
});

/// As Redis writes them in INFO: `get`, `client|setname`.
pub(crate) fn names() -> Vec<String> {
    NUMBERS.names.clone()
}

/// The row for a name in any case, with the command's number.
pub(super) fn numbered_row(name: &[u8]) -> Option<(usize, &'static Row)> {
    let is_it = |(_, row): &(usize, &Row)| row.name.as_bytes().eq_ignore_ascii_case(name);
    let (place, row) = rows().enumerate().find(is_it)?;
    Some((NUMBERS.specs + place, row))
}

/// The number of a subcommand, given by its place among its command's.
pub(super) fn part(command: usize, place: usize) -> usize {
    NUMBERS.parts[command] + place
}

/// The number under which a request is counted; none where its command or its subcommand is unknown.
pub(super) fn of_request(arguments: &[&[u8]]) -> Option<usize> {
    let name = arguments.first().copied().unwrap_or_default();
    let of_engine = numbered_spec(name).map(|(number, spec)| (number, spec.about.subcommands));
    let of_node = || numbered_row(name).map(|(number, row)| (number, row.parts()));
    let (number, parts) = of_engine.or_else(of_node)?;
    match (part_of(parts, arguments), parts, arguments) {
        (Some((place, _)), ..) => Some(part(number, place)),
        (None, [], _) | (None, _, [_]) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_and_subcommand_has_the_number_of_its_name() {
        let names = names();
        for (number, name) in names.iter().enumerate() {
            let words: Vec<&[u8]> = name.split('|').map(str::as_bytes).collect();
            assert_eq!(of_request(&words), Some(number), "{name}");
        }
        assert_eq!(of_request(&[b"CLIENT", b"NoSuch"]), None);
        assert_eq!(of_request(&[b"nosuch"]), None);
        let number = of_request(&[b"Client", b"SetName", b"x"]);
        assert_eq!(number.map(|number| &*names[number]), Some("client|setname"));
    }
}
