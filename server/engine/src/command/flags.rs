//! Properties of commands: what kind they are of, and which of their arguments are keys.

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
    pub const NONE: KeyPositions = KeyPositions::new(0, 0, 0);
    /// The first argument is the only key.
    pub const ONE: KeyPositions = KeyPositions::new(1, 1, 1);
    /// All arguments are keys.
    pub const ALL: KeyPositions = KeyPositions::new(1, -1, 1);
    /// All arguments but the last are keys.
    pub const ALL_BUT_LAST: KeyPositions = KeyPositions::new(1, -2, 1);
    /// The argument after a subcommand is the only key.
    pub const SECOND: KeyPositions = KeyPositions::new(2, 2, 1);
    /// The first two arguments are keys.
    pub const TWO: KeyPositions = KeyPositions::new(1, 2, 1);
    /// The first argument is a key, and every second one after it.
    pub const EVERY_SECOND: KeyPositions = KeyPositions::new(1, -1, 2);

    pub(crate) const fn new(first: i8, last: i8, step: i8) -> KeyPositions {
        KeyPositions { first, last, step }
    }
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
    /// Takes little time, though Redis does not call it fast. A command of the node then takes less than to let go of the
    /// engine and to take it again: it runs while a batch holds it. What it changes is the connection, if anything.
    pub const BRIEF: Flags = Flags(1 << 24);
    /// Executed between MULTI and EXEC as well, and not queued: it acts on the transaction.
    pub const AT_ONCE: Flags = Flags(1 << 25);
    /// Allowed of a connection with RESP2 that listens.
    pub const WHILE_LISTENING: Flags = Flags(1 << 26);
    /// Scripts are told that there is no such command. They may not call the others that are not the engine's.
    pub const UNKNOWN_TO_SCRIPTS: Flags = Flags(1 << 27);
    /// Answers a number, a text, OK, nothing, or an error, whatever its arguments: a script that calls no other
    /// commands runs natively.
    pub const SIMPLE: Flags = Flags(1 << 28);
    /// May put another ceiling of fences on record, also on a node that logs no keys.
    pub const RAISES_CEILING: Flags = Flags(1 << 29);
    /// Its client may be sent a message later on.
    pub const SENDS_LATER: Flags = Flags(1 << 30);

    /// What Redis allows at any time.
    pub const ALWAYS: Flags = Flags::LOADING.with(Flags::STALE);

    /// A command that reads keys.
    pub const READ_KEYS: Flags = Flags::READ.with(Flags::TOUCHES_KEYS);
    /// A command that only takes keys or time away.
    pub const WRITE_KEYS: Flags = Flags::WRITE.with(Flags::TOUCHES_KEYS);
    /// A command that may add keys or bytes.
    pub const GROW_KEYS: Flags = Flags::WRITE_KEYS.with(Flags::DENY_OOM);

    /// Whether such a command may change or publish something.
    pub const fn may_write(self) -> bool {
        self.contains(Flags::WRITE) || self.contains(Flags::MAY_REPLICATE)
    }

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
