//! Commands: the table that says what exists, and the way from a request to a checked command.
//!
//! A command on keys is one constant [`Spec`] beside its function, listed in its family's table, and a line of
//! `documentation.txt`. Nothing else has to change when one is added. The commands of the node, and those that it does not
//! have, are rows of the same table. After [`Command::parse`] the name and the number of arguments are right; the function
//! checks what the arguments say.

mod about;
mod arguments;
mod bitfields;
mod bitmaps;
mod blocking;
pub(crate) mod call;
mod channels;
mod compare;
mod counters;
mod databases;
mod documentation;
mod dump;
mod expire;
mod flags;
mod floats;
mod handler;
mod hash_walks;
mod hashes;
mod keys;
mod list_moves;
mod list_parts;
mod lists;
mod lock_info;
mod lock_session;
mod lock_wait;
mod locks;
mod node;
mod object;
mod pops;
mod ranges;
mod refused;
mod rename;
mod request_keys;
mod scan;
mod scores;
mod scripting;
mod set_algebra;
mod set_options;
mod set_walks;
mod sets;
mod several_strings;
mod shared_locks;
mod sort;
mod sorted_set_algebra;
mod sorted_set_ranges;
mod sorted_set_removals;
mod sorted_set_waits;
mod sorted_set_walks;
mod sorted_sets;
pub(crate) mod spec;
mod strings;
mod subsequence;
mod walks;

use std::sync::LazyLock;

pub use crate::command::about::{Categories, Description, Docs, KeyAccess};
pub use crate::command::databases::database_index;
pub use crate::command::documentation::Documentation;
pub use crate::command::object::DEBUG_OBJECT;
use crate::command::refused::REFUSED;
pub use crate::command::request_keys::{RequestKey, keys_of_request};
use crate::command::spec::Family;
pub use crate::command::spec::{Flags, KeyPositions, NodeCommand, Spec, is_arity};
use crate::error::ErrorReply;
use crate::keyspace::JOURNAL_BYTES_MAX;

/// A command of the engine with a right number of arguments.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// What is known of the command.
    pub spec: &'static Spec,
    /// Its arguments, the name first.
    pub arguments: &'a [&'a [u8]],
}

impl<'a> Command<'a> {
    /// Looks a request up and checks the number of its arguments.
    pub fn parse(arguments: &'a [&'a [u8]]) -> Result<Command<'a>, ErrorReply> {
        let name = arguments.first().copied().unwrap_or_default();
        let spec = spec_named(name).filter(|spec| spec.is_of_engine());
        let spec = spec.ok_or_else(|| ErrorReply::unknown_command(arguments))?;
        if spec.accepts(arguments.len()) {
            return Ok(Command { spec, arguments });
        }
        Err(ErrorReply::wrong_arity(spec.name))
    }

    /// At most how many bytes of mutations follow from the arguments. What a script writes does not.
    pub fn mutation_bytes_max(&self) -> usize {
        // The key is written again with every mutation.
        let key_bytes = self.arguments.get(1).map_or(0, |key| key.len());
        let key_bytes = match self.spec.flags.contains(Flags::PAIRS) {
            true => key_bytes / 2,
            false => key_bytes,
        };
        let beside = key_bytes.saturating_add(BYTES_BESIDE_ARGUMENT);
        let found = match self.spec.flags.contains(Flags::WHOLE_VALUE) {
            true => JOURNAL_BYTES_MAX,
            false => 0,
        };
        self.arguments.iter().fold(found, |bytes: usize, argument| {
            bytes.saturating_add(argument.len()).saturating_add(beside)
        })
    }
}

/// The command of this name, in upper or lower case, if a node has it.
pub fn spec_named(name: &[u8]) -> Option<&'static Spec> {
    let spec = numbered_spec(name).map(|(_, spec)| spec);
    spec.filter(|spec| spec.refusal().is_none())
}

/// The row of this name with its number, which is its place in [`all_specs`], or behind all of them where a node does not
/// have the command.
pub fn numbered_spec(name: &[u8]) -> Option<(usize, &'static Spec)> {
    let mut slot = slot_of(name);
    while let Some((number, spec)) = TABLE[slot] {
        if spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some((number, spec));
        }
        slot = next_slot(slot);
    }
    None
}

/// All commands of a node, in the order of COMMAND: those of the engine first.
pub fn all_specs() -> impl Iterator<Item = &'static Spec> {
    let families = FAMILIES.iter().chain(node::FAMILIES);
    families.flat_map(|family| family.iter().copied())
}

/// The commands of Redis that a node does not have, and says why.
pub fn refused_specs() -> impl Iterator<Item = &'static Spec> {
    REFUSED.iter()
}

const FAMILIES: &[Family] = &[
    strings::FAMILY,
    locks::FAMILY,
    lock_wait::FAMILY,
    lock_session::FAMILY,
    lock_info::FAMILY,
    several_strings::FAMILY,
    ranges::FAMILY,
    bitmaps::FAMILY,
    bitfields::FAMILY,
    subsequence::FAMILY,
    compare::FAMILY,
    counters::FAMILY,
    floats::FAMILY,
    hashes::FAMILY,
    hash_walks::FAMILY,
    lists::FAMILY,
    list_parts::FAMILY,
    list_moves::FAMILY,
    sorted_sets::FAMILY,
    sorted_set_ranges::FAMILY,
    sorted_set_removals::FAMILY,
    sorted_set_algebra::FAMILY,
    sorted_set_walks::FAMILY,
    sets::FAMILY,
    set_walks::FAMILY,
    set_algebra::FAMILY,
    blocking::FAMILY,
    sorted_set_waits::FAMILY,
    sort::FAMILY,
    keys::FAMILY,
    rename::FAMILY,
    dump::FAMILY,
    object::FAMILY,
    expire::FAMILY,
    scan::FAMILY,
    databases::FAMILY,
    scripting::FAMILY,
    channels::FAMILY,
];

/// Open addressing: a name that finds its slot taken is in one of the next ones.
static TABLE: LazyLock<Box<[Slot; SLOT_COUNT]>> = LazyLock::new(|| {
    let mut table = Box::new([None; SLOT_COUNT]);
    for (number, spec) in all_specs().chain(refused_specs()).enumerate() {
        let mut slot = slot_of(spec.name.as_bytes());
        while table[slot].is_some() {
            slot = next_slot(slot);
        }
        table[slot] = Some((number, spec));
    }
    table
});

type Slot = Option<(usize, &'static Spec)>;

/// Length, first and last letter tell the names of commands apart well enough.
fn slot_of(name: &[u8]) -> usize {
    let first = usize::from(name.first().copied().unwrap_or_default() | LOWER_CASE);
    let last = usize::from(name.last().copied().unwrap_or_default() | LOWER_CASE);
    (name.len().wrapping_mul(7) ^ first.wrapping_mul(31) ^ last) % SLOT_COUNT
}

fn next_slot(slot: usize) -> usize {
    slot.wrapping_add(1) % SLOT_COUNT
}

/// What one mutation may hold beside key and argument: DEL of many short keys writes more than it reads.
const BYTES_BESIDE_ARGUMENT: usize = 32;
const LOWER_CASE: u8 = 0x20;
/// Several times as many as there are commands.
const SLOT_COUNT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_the_table_once() {
        let all = all_specs().chain(refused_specs());
        let mut names: Vec<&str> = all.map(|spec| spec.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(
            count < SLOT_COUNT / 2,
            "else a search may be long, or endless"
        );
    }

    #[test]
    fn every_command_is_found_in_any_case_and_nothing_else() {
        let all = || all_specs().chain(refused_specs());
        for (number, spec) in all().enumerate() {
            for name in [spec.name.to_uppercase(), spec.name.to_lowercase()] {
                let (found, same) = numbered_spec(name.as_bytes()).expect("it is in the table");
                assert_eq!((found, same.name), (number, spec.name));
            }
            // The second begins its search in the same slot.
            let longer = format!("{}x", spec.name);
            let similar = format!("{}_{}", &spec.name[..1], &spec.name[2..]);
            for wrong in [longer, similar] {
                let is_name = all().any(|it| it.name == wrong);
                assert!(
                    is_name || numbered_spec(wrong.as_bytes()).is_none(),
                    "{wrong}"
                );
            }
        }
        assert!(spec_named(b"").is_none());
    }
}
