//! What is known of a command beside what runs it: what it is for, and what it does with its keys. COMMAND, the book's table
//! and the access rules of clients are made of this; what people read of it is in [`Documentation`](crate::Documentation).

use crate::command::flags::{Flags, KeyPositions};

/// What is told of a command, or of a subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// In lower case; of a subcommand without its command.
    pub name: &'static str,
    /// As [`crate::Spec::arity`]; of a subcommand with both names.
    pub arity: i8,
    /// Redis's flags are among these, and our own.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: KeyPositions,
    /// The rest.
    pub about: Docs,
}

/// What execution does not depend on.
#[derive(Clone, Copy, Debug)]
pub struct Docs {
    /// What it is for; some categories follow from the flags.
    pub categories: Categories,
    /// What it does with its keys: one for each key that is named on its own, and for all that follow the last.
    pub access: &'static [KeyAccess],
    /// What it is divided into.
    pub subcommands: &'static [Description],
    /// The argument that says how many keys follow it; 0 where none does.
    pub key_count_at: usize,
}

impl Docs {
    /// A command without subcommands.
    pub const fn new(categories: Categories, access: &'static [KeyAccess]) -> Docs {
        Docs {
            categories,
            access,
            subcommands: &[],
            key_count_at: 0,
        }
    }
}

/// The subcommand HELP of a command.
pub(crate) const fn help(categories: Categories) -> Description {
    part("help", 2, Flags::ALWAYS).of(categories)
}

/// A subcommand without keys.
pub(crate) const fn part(name: &'static str, arity: i8, flags: Flags) -> Description {
    Description {
        name,
        arity,
        flags,
        keys: KeyPositions::NONE,
        about: Docs::new(Categories::NONE, &[]),
    }
}

impl Description {
    /// In these categories as well as those of its flags.
    pub(crate) const fn of(mut self, categories: Categories) -> Description {
        self.about.categories = categories;
        self
    }

    /// The same whose next argument is a key.
    pub const fn on_key(mut self, access: &'static [KeyAccess]) -> Description {
        self.keys = KeyPositions::SECOND;
        self.about.access = access;
        self
    }

    /// Redis's words for the flags. A command that is divided has those of its parts.
    pub fn flag_words(&self) -> Vec<&'static str> {
        let is_told = |flag: Flags| {
            self.flags.contains(flag) && (!self.is_divided() || flag.is_of_container())
        };
        FLAG_WORDS
            .iter()
            .filter(|(flag, _)| is_told(*flag))
            .map(|(_, word)| *word)
            .collect()
    }

    /// Redis's words for the categories, each behind an `@`: those stated, and those that follow from the flags.
    pub fn category_words(&self) -> Vec<&'static str> {
        let categories = self.categories();
        CATEGORY_WORDS
            .iter()
            .filter(|(category, _)| categories.contains(*category))
            .map(|(_, word)| *word)
            .collect()
    }

    /// The same as a set.
    pub fn categories(&self) -> Categories {
        let is_scripting = self.about.categories.contains(Categories::SCRIPTING);
        let has = |flag: Flags| self.flags.contains(flag) && !self.is_divided();
        let implied = [
            (has(Flags::WRITE), Categories::WRITE),
            (has(Flags::READ) && !is_scripting, Categories::READ),
            (
                has(Flags::ADMIN),
                Categories::ADMIN.with(Categories::DANGEROUS),
            ),
            (has(Flags::PUBSUB), Categories::PUBSUB),
            (has(Flags::BLOCKING), Categories::BLOCKING),
            (has(Flags::FAST), Categories::FAST),
            (!has(Flags::FAST), Categories::SLOW),
        ];
        let implied = implied.iter().filter(|(is_so, _)| *is_so);
        implied.fold(self.about.categories, |all, (_, one)| all.with(*one))
    }

    /// The subcommand of this name, in any case.
    pub fn part(&self, name: &[u8]) -> Option<Description> {
        let mut parts = self.about.subcommands.iter();
        let is_it = |part: &&Description| part.name.as_bytes().eq_ignore_ascii_case(name);
        parts.find(is_it).copied()
    }

    /// Whether it has subcommands only.
    pub fn is_divided(&self) -> bool {
        !self.about.subcommands.is_empty() && self.arity != -1
    }

    /// What it does with its key of this number, from 0.
    pub fn access_to(&self, key: usize) -> KeyAccess {
        let access = self.about.access;
        let last = access.last().copied().unwrap_or(KeyAccess::NONE);
        access.get(key).copied().unwrap_or(last)
    }

    /// The group of COMMAND DOCS.
    pub fn group(&self) -> &'static str {
        let is_of = |category| self.about.categories.contains(category);
        let mut groups = GROUPS.iter().filter(|(category, _)| is_of(*category));
        match (groups.next(), groups.next()) {
            (None, _) => "server",
            (Some((_, group)), None) => group,
            // It is for values of several types.
            (Some(_), Some(_)) => "generic",
        }
    }
}

/// Redis's ACL categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// None but those that follow from the flags.
    pub const NONE: Categories = Categories(0);
    /// Keys of every type.
    pub const KEYSPACE: Categories = Categories(1);
    /// Reads keys.
    pub const READ: Categories = Categories(1 << 1);
    /// Writes keys.
    pub const WRITE: Categories = Categories(1 << 2);
    /// Sets.
    pub const SET: Categories = Categories(1 << 3);
    /// Sorted sets.
    pub const SORTED_SET: Categories = Categories(1 << 4);
    /// Lists.
    pub const LIST: Categories = Categories(1 << 5);
    /// Hashes.
    pub const HASH: Categories = Categories(1 << 6);
    /// Strings.
    pub const STRING: Categories = Categories(1 << 7);
    /// Channels.
    pub const PUBSUB: Categories = Categories(1 << 8);
    /// For administrators.
    pub const ADMIN: Categories = Categories(1 << 9);
    /// Takes constant or logarithmic time.
    pub const FAST: Categories = Categories(1 << 10);
    /// Does not.
    pub const SLOW: Categories = Categories(1 << 11);
    /// May block its connection.
    pub const BLOCKING: Categories = Categories(1 << 12);
    /// Not for everybody.
    pub const DANGEROUS: Categories = Categories(1 << 13);
    /// About the connection.
    pub const CONNECTION: Categories = Categories(1 << 14);
    /// About transactions.
    pub const TRANSACTION: Categories = Categories(1 << 15);
    /// About scripts.
    pub const SCRIPTING: Categories = Categories(1 << 16);
    /// Strings as rows of bits.
    pub const BITMAP: Categories = Categories(1 << 17);
    /// HyperLogLogs, which a node does not have. Rules of users may name the category all the same.
    pub const HYPERLOGLOG: Categories = Categories(1 << 18);
    /// Positions, which a node does not have either.
    pub const GEO: Categories = Categories(1 << 19);
    /// Streams, which a node does not have either.
    pub const STREAM: Categories = Categories(1 << 20);

    /// These and those.
    pub const fn with(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }

    /// Whether any of the others is among these.
    pub const fn intersects(self, others: Categories) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether all of the others are among these.
    pub const fn contains(self, other: Categories) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of all categories, without the `@`, in Redis's order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CATEGORY_WORDS.iter().map(|(_, word)| &word[1..])
    }

    /// The category of this name, in any case and without the `@`.
    pub fn named(name: &[u8]) -> Option<Categories> {
        let is_it = |word: &str| word.as_bytes()[1..].eq_ignore_ascii_case(name);
        let found = CATEGORY_WORDS.iter().find(|(_, word)| is_it(word));
        found.map(|(category, _)| *category)
    }
}

/// What a command does with a key, in Redis's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess(u16);

impl KeyAccess {
    /// Nothing is known.
    pub const NONE: KeyAccess = KeyAccess(0);
    const RO: KeyAccess = KeyAccess(1);
    const RW: KeyAccess = KeyAccess(1 << 1);
    const OW: KeyAccess = KeyAccess(1 << 2);
    const RM: KeyAccess = KeyAccess(1 << 3);
    const ACCESSES: KeyAccess = KeyAccess(1 << 4);
    const UPDATES: KeyAccess = KeyAccess(1 << 5);
    const INSERTS: KeyAccess = KeyAccess(1 << 6);
    const DELETES: KeyAccess = KeyAccess(1 << 7);
    /// The argument is a channel.
    pub const NOT_KEY: KeyAccess = KeyAccess(1 << 8);

    /// Reads what is known of the key, and not its value.
    pub const LOOK: KeyAccess = KeyAccess::RO;
    /// Reads the value.
    pub const READ: KeyAccess = KeyAccess::RO.with(KeyAccess::ACCESSES);
    /// Changes the value and tells of it.
    pub const CHANGE: KeyAccess = KeyAccess::UPDATE.with(KeyAccess::ACCESSES);
    /// Changes the value.
    pub const UPDATE: KeyAccess = KeyAccess::RW.with(KeyAccess::UPDATES);
    /// Adds to the value.
    pub const ADD: KeyAccess = KeyAccess::RW.with(KeyAccess::INSERTS);
    /// Takes from the value.
    pub const SUBTRACT: KeyAccess = KeyAccess::RW.with(KeyAccess::DELETES);
    /// Takes from the value, or the key, and tells what it took.
    pub const TAKE: KeyAccess = KeyAccess::SUBTRACT.with(KeyAccess::ACCESSES);
    /// Replaces the value, whatever it was.
    pub const OVERWRITE: KeyAccess = KeyAccess::OW.with(KeyAccess::UPDATES);
    /// Makes a key that is not there.
    pub const INSERT: KeyAccess = KeyAccess::OW.with(KeyAccess::INSERTS);
    /// Deletes the key.
    pub const REMOVE: KeyAccess = KeyAccess::RM.with(KeyAccess::DELETES);

    /// Writes a key that is named first, and reads the others.
    pub const STORE: &'static [KeyAccess] = &[KeyAccess::OVERWRITE, KeyAccess::READ];
    /// Takes from a key what another one gets.
    pub const MOVE: &'static [KeyAccess] = &[KeyAccess::TAKE, KeyAccess::ADD];
    /// Reads a key, and writes another one.
    pub const COPY: &'static [KeyAccess] = &[KeyAccess::READ, KeyAccess::OVERWRITE];

    const fn with(self, other: KeyAccess) -> KeyAccess {
        KeyAccess(self.0 | other.0)
    }

    /// Whether the value is told, or copied elsewhere: what `%R~` of a user's rules is about.
    pub const fn reads(self) -> bool {
        self.0 & KeyAccess::ACCESSES.0 != 0
    }

    /// Whether the value is changed: what `%W~` of a user's rules is about.
    pub const fn writes(self) -> bool {
        let changes = KeyAccess::UPDATES.0 | KeyAccess::INSERTS.0 | KeyAccess::DELETES.0;
        self.0 & changes != 0
    }

    /// Redis's words.
    pub fn words(self) -> Vec<&'static str> {
        let words = ACCESS_WORDS.iter();
        let words = words.filter(|(access, _)| self.0 & access.0 == access.0);
        words.map(|(_, word)| *word).collect()
    }
}

const ACCESS_WORDS: &[(KeyAccess, &str)] = &[
    (KeyAccess::RO, "RO"),
    (KeyAccess::RW, "RW"),
    (KeyAccess::OW, "OW"),
    (KeyAccess::RM, "RM"),
    (KeyAccess::ACCESSES, "access"),
    (KeyAccess::UPDATES, "update"),
    (KeyAccess::INSERTS, "insert"),
    (KeyAccess::DELETES, "delete"),
    (KeyAccess::NOT_KEY, "not_key"),
];

const FLAG_WORDS: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READ, "readonly"),
    (Flags::DENY_OOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NO_SCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLE_KEYS, "movablekeys"),
    (Flags::ALLOW_BUSY, "allow_busy"),
];

const CATEGORY_WORDS: &[(Categories, &str)] = &[
    (Categories::KEYSPACE, "@keyspace"),
    (Categories::READ, "@read"),
    (Categories::WRITE, "@write"),
    (Categories::SET, "@set"),
    (Categories::SORTED_SET, "@sortedset"),
    (Categories::LIST, "@list"),
    (Categories::HASH, "@hash"),
    (Categories::STRING, "@string"),
    (Categories::BITMAP, "@bitmap"),
    (Categories::HYPERLOGLOG, "@hyperloglog"),
    (Categories::GEO, "@geo"),
    (Categories::STREAM, "@stream"),
    (Categories::PUBSUB, "@pubsub"),
    (Categories::ADMIN, "@admin"),
    (Categories::FAST, "@fast"),
    (Categories::SLOW, "@slow"),
    (Categories::BLOCKING, "@blocking"),
    (Categories::DANGEROUS, "@dangerous"),
    (Categories::CONNECTION, "@connection"),
    (Categories::TRANSACTION, "@transaction"),
    (Categories::SCRIPTING, "@scripting"),
];

const GROUPS: &[(Categories, &str)] = &[
    (Categories::STRING, "string"),
    (Categories::BITMAP, "bitmap"),
    (Categories::HASH, "hash"),
    (Categories::LIST, "list"),
    (Categories::SET, "set"),
    (Categories::SORTED_SET, "sorted-set"),
    (Categories::SCRIPTING, "scripting"),
    (Categories::TRANSACTION, "transactions"),
    (Categories::PUBSUB, "pubsub"),
    (Categories::CONNECTION, "connection"),
    (Categories::KEYSPACE, "generic"),
];
