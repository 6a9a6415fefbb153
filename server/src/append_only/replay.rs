//! The commands of append-only files, executed by the engine of a node.
//!
//! Invariant: no key ends while files are read. Redis ends none either while it loads: a lock whose first deadline has long
//! passed may have been extended by a later command. So commands run at the beginning of both clocks, where node time is
//! wall time since the epoch; what has ended is removed once all commands have run. A command whose effect depends on the
//! moment at which it runs is refused: the file does not say when that was.

use std::collections::BTreeMap;

use quorlock_engine::{
    Caller, Command, DATABASES, Effects, Engine, EngineOptions, Flags, LogPosition, Moment,
    NodeTime, Reply, database_index, numbered_spec, spec_named,
};

/// An engine that executes what append-only files hold.
#[derive(Debug)]
pub(super) struct Replay {
    engine: Engine,
    effects: Effects,
    caller: Caller,
    skips_unsupported: bool,
    commands: u64,
    skipped: BTreeMap<String, u64>,
}

/// Why a command is not executed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotReplayed {
    /// A node does not have it.
    Unsupported(String),
    /// A node has it, and does not execute it like this.
    Failed(String),
}

/// What came of all commands.
pub(super) struct Replayed {
    pub(super) engine: Engine,
    /// The commands that were executed.
    pub(super) commands: u64,
    /// The commands that were left out, by name.
    pub(super) skipped: BTreeMap<String, u64>,
    /// The keys that there are.
    pub(super) keys: u64,
    /// The keys that had ended.
    pub(super) ended: u64,
}

impl Replay {
    pub(super) fn new(hash_seed: u64, skips_unsupported: bool) -> Self {
        let options = EngineOptions {
            hash_seed,
            ..EngineOptions::default()
        };
        Self {
            engine: Engine::new(options),
            effects: Effects::default(),
            caller: Caller::default(),
            skips_unsupported,
            commands: 0,
            skipped: BTreeMap::new(),
        }
    }

    /// Each file begins in the first database.
    pub(super) fn begin_file(&mut self) {
        self.caller.database = 0;
    }

    /// Executes the next command.
    pub(super) fn execute(&mut self, arguments: &[&[u8]]) -> Result<(), NotReplayed> {
        let name = arguments.first().copied().unwrap_or_default();
        if is_transaction_mark(name) {
            return Ok(());
        }
        if name.eq_ignore_ascii_case(b"select") {
            return self.select(arguments);
        }
        if let Some(why) = unsupported(name) {
            // Scripts are no keys, and clients send theirs again.
            if self.skips_unsupported || name.eq_ignore_ascii_case(b"script") {
                self.skip(name);
                return Ok(());
            }
            return Err(NotReplayed::Unsupported(why));
        }
        if names_relative_time(arguments) {
            return Err(NotReplayed::Failed(RELATIVE.to_owned()));
        }
        let command =
            Command::parse(arguments).map_err(|error| NotReplayed::Failed(error.to_string()))?;
        self.effects.begin(FIRST);
        let reply = self
            .engine
            .execute(BEGINNING, &self.caller, &command, &mut self.effects);
        match reply {
            Reply::Error(error) => Err(NotReplayed::Failed(error.to_string())),
            _ => {
                self.commands += 1;
                Ok(())
            }
        }
    }

    /// Removes what has ended by this wall time, which is node time from here on.
    pub(super) fn finish(mut self, now: NodeTime) -> Replayed {
        let before = self.keys();
        while self.engine.reclaim(now, RECLAIMED_AT_ONCE).more {}
        let keys = self.keys();
        Replayed {
            engine: self.engine,
            commands: self.commands,
            skipped: self.skipped,
            keys,
            ended: before - keys,
        }
    }

    fn keys(&self) -> u64 {
        let counts = (0..DATABASES).map(|database| self.engine.count(database).keys);
        counts.sum()
    }

    fn select(&mut self, arguments: &[&[u8]]) -> Result<(), NotReplayed> {
        let index = arguments.get(1).filter(|_| arguments.len() == 2);
        let index = index.and_then(|index| database_index(index, DATABASES).ok());
        let refused = || NotReplayed::Failed(format!("a node has {DATABASES} databases"));
        self.caller.database = index.ok_or_else(refused)?;
        Ok(())
    }

    fn skip(&mut self, name: &[u8]) {
        let is_listed = self.skipped.len() < SKIPPED_NAMES_MAX;
        let name = match numbered_spec(name) {
            Some((_, spec)) => spec.name.to_uppercase(),
            None if is_listed => shown(name),
            None => "others".to_owned(),
        };
        *self.skipped.entry(name).or_default() += 1;
    }
}

/// Whether a command begins or ends a transaction. They are executed one after the other: nobody looks on, and one that is not
/// complete was left out before.
pub(super) fn is_transaction_mark(name: &[u8]) -> bool {
    begins_transaction(name) || ends_transaction(name)
}

/// Whether a server may have logged a command of this name. DISCARD ends a transaction of which nothing is logged.
pub(super) fn is_logged(name: &[u8]) -> bool {
    is_transaction_mark(name)
        || !name.eq_ignore_ascii_case(b"discard")
            && (spec_named(name).is_some() || numbered_spec(name).is_some())
}

pub(super) fn begins_transaction(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"multi")
}

pub(super) fn ends_transaction(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"exec")
}

/// A command's name for people, whatever its bytes are.
pub(super) fn shown(name: &[u8]) -> String {
    let clipped = &name[..name.len().min(NAME_BYTES_SHOWN)];
    clipped.escape_ascii().to_string()
}

/// Why a node cannot execute a command of this name out of a file, if it cannot.
fn unsupported(name: &[u8]) -> Option<String> {
    if let Some(why) = numbered_spec(name).and_then(|(_, spec)| spec.refusal()) {
        return Some(why.to_owned());
    }
    let Some(spec) = spec_named(name) else {
        return Some("a node does not have this command".to_owned());
    };
    let what = match spec.flags {
        flags if flags.contains(Flags::SCRIPT) => {
            "Redis before version 7 logs scripts where it does not log their effects, and these depend on the time"
        }
        flags if flags.contains(Flags::BLOCKING) || !flags.contains(Flags::WRITE) => {
            "no server logs this command: it changes no key, or waits"
        }
        // LOCK.ACQUIRE and its like: their times count from the moment of execution.
        _ if spec.name.contains('.') => "no Redis has this command",
        _ => return None,
    };
    Some(what.to_owned())
}

/// Whether a command sets a time that counts from its execution. Redis logs the absolute time instead.
fn names_relative_time(arguments: &[&[u8]]) -> bool {
    let name = arguments.first().copied().unwrap_or_default();
    let is_name = |one: &str| name.eq_ignore_ascii_case(one.as_bytes());
    if ["expire", "pexpire", "setex", "psetex"]
        .into_iter()
        .any(is_name)
    {
        return true;
    }
    let options = match (is_name("set"), is_name("getex")) {
        (true, _) => arguments.get(3..),
        (_, true) => arguments.get(2..),
        _ => None,
    };
    let is_relative =
        |option: &&[u8]| option.eq_ignore_ascii_case(b"ex") || option.eq_ignore_ascii_case(b"px");
    options.unwrap_or_default().iter().any(is_relative)
}

/// The moment at which all commands run.
const BEGINNING: Moment = Moment {
    node: NodeTime::ZERO,
    wall_us: 0,
};

/// All commands are one state of the log, which is written afterwards.
const FIRST: LogPosition = LogPosition::from_raw(1);

const RELATIVE: &str = "it sets a time that counts from its execution, and the file does not say when that was. Redis since version 2.6 \
     logs the absolute time";

const RECLAIMED_AT_ONCE: usize = 1 << 16;
const SKIPPED_NAMES_MAX: usize = 32;
const NAME_BYTES_SHOWN: usize = 64;
