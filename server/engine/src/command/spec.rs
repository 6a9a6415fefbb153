//! What is known of a command without running it: its row in the table.

use crate::command::about::{About, Description};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

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
    /// What its execution does not depend on.
    pub about: About,
    pub(crate) handler: Handler,
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
    /// All arguments but the last are keys.
    pub const ALL_BUT_LAST: KeyPositions = KeyPositions {
        first: 1,
        last: -2,
        step: 1,
    };
    /// The argument after a subcommand is the only key.
    pub const SECOND: KeyPositions = KeyPositions {
        first: 2,
        last: 2,
        step: 1,
    };
    /// The first two arguments are keys.
    pub const TWO: KeyPositions = KeyPositions {
        first: 1,
        last: 2,
        step: 1,
    };
    /// The first argument is a key, and every second one after it.
    pub const EVERY_SECOND: KeyPositions = KeyPositions {
        first: 1,
        last: -1,
        step: 2,
    };
}

/// Properties of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

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
    /// Reveals keys or changes them, so that it is refused during a restart delay.
    pub const TOUCHES_KEYS: Flags = Flags(1 << 7);
    /// Can destroy much at once.
    pub const DANGEROUS: Flags = Flags(1 << 8);
    /// The arguments after the key are pairs, and each pair is one mutation. Elsewhere each argument may
    /// become one.
    pub const PAIRS: Flags = Flags(1 << 9);
    /// May log a whole value that it has found, however short its arguments are.
    pub const WHOLE_VALUE: Flags = Flags(1 << 10);
    /// Not a write by itself, but may have the effects of one: a pause of writes holds it up.
    pub const MAY_REPLICATE: Flags = Flags(1 << 11);
    /// About channels.
    pub const PUBSUB: Flags = Flags(1 << 12);
    /// Redis's: allowed while it loads.
    pub const LOADING: Flags = Flags(1 << 13);
    /// Redis's: allowed on a replica whose data may be old.
    pub const STALE: Flags = Flags(1 << 14);
    /// Redis's: MONITOR does not show it.
    pub const SKIP_MONITOR: Flags = Flags(1 << 15);
    /// Redis's: the slow log does not show it.
    pub const SKIP_SLOWLOG: Flags = Flags(1 << 16);
    /// May be sent before AUTH.
    pub const NO_AUTH: Flags = Flags(1 << 17);
    /// Redis's: allowed while a script runs for too long.
    pub const ALLOW_BUSY: Flags = Flags(1 << 18);
    /// Redis's: refused between MULTI and EXEC.
    pub const NO_MULTI: Flags = Flags(1 << 19);
    /// Redis's: refused while it loads beside its old data.
    pub const NO_ASYNC_LOADING: Flags = Flags(1 << 20);
    /// How many keys there are stands in an argument.
    pub const MOVABLE_KEYS: Flags = Flags(1 << 21);
    /// It may have no key at all.
    pub const NO_MANDATORY_KEYS: Flags = Flags(1 << 22);
    /// May block its connection.
    pub const BLOCKING: Flags = Flags(1 << 23);

    /// What Redis allows at any time.
    pub const ALWAYS: Flags = Flags::LOADING.with(Flags::STALE);

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

    /// Whether a command that is divided has this flag itself.
    pub(crate) const fn is_of_container(self) -> bool {
        Flags::ALWAYS.contains(self)
    }

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What runs a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handler {
    /// A function on keys. Its arguments begin with the command's name.
    Keys(fn(&mut CommandContext<'_>, &[&[u8]]) -> Result<Reply, ErrorReply>),
    /// The interpreter, which is above this table.
    Script(ScriptCommand),
}

/// The commands that run or keep scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptCommand {
    /// Runs the text that came with it.
    Eval {
        /// The script may not write.
        is_read_only: bool,
    },
    /// Runs a text that is known, named by its SHA-1.
    EvalSha {
        /// The script may not write.
        is_read_only: bool,
    },
    /// SCRIPT and its subcommands.
    Manage,
}

/// A family is the commands of one file.
pub(crate) type Family = &'static [&'static Spec];

impl Spec {
    /// What is told of it.
    pub const fn description(&self) -> Description {
        Description {
            name: self.name,
            arity: self.arity,
            flags: self.flags,
            keys: self.keys,
            summary: self.summary,
            about: self.about,
        }
    }

    /// Which argument is the first key, if the command has one.
    pub(crate) fn first_key(&self) -> Option<usize> {
        match usize::try_from(self.keys.first) {
            Ok(0) if self.flags.contains(Flags::SCRIPT) => Some(SCRIPT_KEY),
            Ok(position) if position > 0 => Some(position),
            _ => None,
        }
    }

    /// Whether the command may have that many arguments, its name included.
    pub(crate) fn accepts(&self, arguments: usize) -> bool {
        is_arity(self.arity, arguments)
    }
}

/// Whether a command of this arity may have that many arguments, its name included. As in Redis an
/// arity is the exact number, or the least where it is negative.
pub fn is_arity(arity: i8, arguments: usize) -> bool {
    let needed = usize::from(arity.unsigned_abs());
    if arity < 0 {
        arguments >= needed
    } else {
        arguments == needed
    }
}

/// `EVAL script 1 key`.
const SCRIPT_KEY: usize = 3;
