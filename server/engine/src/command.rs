//! Commands: the table that says what exists, and the way from a request to a checked command.
//!
//! A command is one constant [`Spec`] beside its function, listed in its family's table. Nothing
//! else has to change when one is added. After [`Command::parse`] the name and the number of
//! arguments are right; what the arguments say is the function's business.

mod arguments;
mod counters;
mod databases;
mod expire;
mod glob;
#[cfg(test)]
mod glob_tests;
mod hashes;
mod keys;
mod scan;
mod strings;

use std::sync::LazyLock;

pub use glob::{PATTERN_BYTES_MAX, PATTERN_TOO_LONG, glob_matches};

use crate::error::ErrorReply;
use crate::reply::Reply;
use crate::script::{self, Scripts};
use crate::turn::Turn;

/// What is known of a command without running it.
#[derive(Debug)]
pub struct Spec {
    /// The name in lower case.
    pub name: &'static str,
    /// The number of arguments with the name; negative means at least that many.
    pub arity: i8,
    /// What kind of command it is.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: KeyPositions,
    /// What it does, in one line.
    pub summary: &'static str,
    pub(crate) action: Action,
}

/// Which arguments are keys, in Redis's convention: all zero means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPositions {
    /// The first key's argument.
    pub first: i8,
    /// The last key's argument; negative counts from the end.
    pub last: i8,
    /// From key to key.
    pub step: i8,
}

impl KeyPositions {
    /// No argument is a key.
    pub const NONE: KeyPositions = KeyPositions {
        first: 0,
        last: 0,
        step: 0,
    };
    /// The first argument is the only key.
    pub const ONE: KeyPositions = KeyPositions {
        first: 1,
        last: 1,
        step: 1,
    };
    /// All arguments are keys.
    pub const ALL: KeyPositions = KeyPositions {
        first: 1,
        last: -1,
        step: 1,
    };
}

/// Properties of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// Nothing in particular.
    pub const NONE: Flags = Flags(0);
    /// Reads keys.
    pub const READ: Flags = Flags(1);
    /// May change keys.
    pub const WRITE: Flags = Flags(1 << 1);
    /// Takes constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 2);
    /// Runs a script.
    pub const SCRIPT: Flags = Flags(1 << 3);
    /// May not be called by a script.
    pub const NO_SCRIPT: Flags = Flags(1 << 4);
    /// For administrators.
    pub const ADMIN: Flags = Flags(1 << 5);
    /// Needs memory.
    pub const DENY_OOM: Flags = Flags(1 << 6);
    /// Tells of keys or changes them, so that it is refused during a restart delay.
    pub const TOUCHES_KEYS: Flags = Flags(1 << 7);
    /// Can destroy much at once.
    pub const DANGEROUS: Flags = Flags(1 << 8);

    /// A command that reads keys.
    pub const READ_KEYS: Flags = Flags::READ.with(Flags::TOUCHES_KEYS);
    /// A command that only takes keys or time away.
    pub const WRITE_KEYS: Flags = Flags::WRITE.with(Flags::TOUCHES_KEYS);
    /// A command that may add keys or bytes.
    pub const GROW_KEYS: Flags = Flags::WRITE_KEYS.with(Flags::DENY_OOM);

    /// These and those.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a command is run.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// A function on keys.
    Data(Run),
    /// A function on keys and scripts.
    Script(RunScript),
}

impl std::fmt::Debug for Action {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Action::Data(_) => "Data",
            Action::Script(_) => "Script",
        })
    }
}

/// A command's function. Its arguments begin with the command's name.
pub(crate) type Run = fn(&mut Turn<'_>, &[&[u8]]) -> Result<Reply, ErrorReply>;

/// The function of a command that runs or keeps scripts.
pub(crate) type RunScript = fn(&mut Scripts, &mut Turn<'_>, &[&[u8]]) -> Reply;

/// A command with a right number of arguments.
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
        let spec = spec_named(name).ok_or_else(|| ErrorReply::unknown_command(arguments))?;
        Command::of(spec, arguments)
    }

    /// A request whose name has been looked up: checks the number of its arguments.
    pub fn of(spec: &'static Spec, arguments: &'a [&'a [u8]]) -> Result<Command<'a>, ErrorReply> {
        if spec.accepts(arguments.len()) {
            return Ok(Command { spec, arguments });
        }
        Err(ErrorReply::wrong_arity(spec.name))
    }
}

impl Spec {
    /// Which argument is the first key, if the command has one.
    pub(crate) fn first_key(&self) -> Option<usize> {
        match usize::try_from(self.keys.first) {
            Ok(0) if self.flags.contains(Flags::SCRIPT) => Some(SCRIPT_KEY),
            Ok(position) if position > 0 => Some(position),
            _ => None,
        }
    }

    /// Whether the command may have that many arguments, its name included.
    pub fn accepts(&self, arguments: usize) -> bool {
        fits_arity(self.arity, arguments)
    }
}

/// Whether a request may have that many words: as in Redis an arity is the exact count, or the least
/// where it is negative.
pub fn fits_arity(arity: i8, words: usize) -> bool {
    let needed = usize::from(arity.unsigned_abs());
    if arity < 0 {
        words >= needed
    } else {
        words == needed
    }
}

/// The command of this name, in upper or lower case.
pub fn spec_named(name: &[u8]) -> Option<&'static Spec> {
    let bucket = &BUCKETS[bucket_of(name)];
    bucket
        .iter()
        .find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
        .copied()
}

/// All commands of the engine.
pub fn all_specs() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().flat_map(|family| family.iter().copied())
}

/// A family is the commands of one file.
pub(crate) type Family = &'static [&'static Spec];

const FAMILIES: &[Family] = &[
    strings::FAMILY,
    counters::FAMILY,
    hashes::FAMILY,
    keys::FAMILY,
    expire::FAMILY,
    scan::FAMILY,
    databases::FAMILY,
    script::commands::FAMILY,
];

static BUCKETS: LazyLock<Vec<Vec<&'static Spec>>> = LazyLock::new(|| {
    let mut buckets = vec![Vec::new(); BUCKET_COUNT];
    for spec in all_specs() {
        buckets[bucket_of(spec.name.as_bytes())].push(spec);
    }
    buckets
});

/// Length, first and last letter tell the names of commands apart well enough.
fn bucket_of(name: &[u8]) -> usize {
    let first = usize::from(name.first().copied().unwrap_or_default() | LOWER_CASE);
    let last = usize::from(name.last().copied().unwrap_or_default() | LOWER_CASE);
    (name.len().wrapping_mul(7) ^ first.wrapping_mul(31) ^ last) % BUCKET_COUNT
}

/// `EVAL script 1 key`.
const SCRIPT_KEY: usize = 3;
const LOWER_CASE: u8 = 0x20;
const BUCKET_COUNT: usize = 512;
