//! The engine: keys, commands, scripts and time behind one type.
//!
//! It reads no clock, touches no file and uses no randomness. The node calls it under one lock,
//! logs what [`Effects`] holds, and replies once the log is as durable as the effects demand.

use std::time::Duration;

use crate::caller::Caller;
use crate::channels::{Channels, Published};
use crate::command::call::call;
use crate::command::spec::Handler;
use crate::command::{Command, numbered_spec};
use crate::context::CommandContext;
use crate::control::Ceiling;
use crate::effects::Effects;
use crate::error::{ErrorReply, OUT_OF_MEMORY};
use crate::fences::Fences;
use crate::keyspace::counting::HeldLocks;
use crate::keyspace::holders::ClientDescription;
use crate::keyspace::shrinking::STEPS_PER_COMMAND;
use crate::keyspace::{
    COLLECTION_BYTES_MAX, DATABASES, DatabaseCount, Discarded, JOURNAL_BYTES_MAX, Keyspace,
    KeyspaceRules, KeyspaceStatistics, Reclaimed, VALUE_BYTES_MAX,
};
use crate::lock_counts::{LockCounts, LockPatterns};
use crate::mutation::PayloadError;
use crate::notifications::Events;
use crate::position::LogPosition;
use crate::replay;
use crate::reply::{REPLY_BYTES_MAX, Reply};
use crate::script::runner::Runner;
use crate::script::{self, LogLine, ScriptLimits, Scripts};
use crate::snapshot::{self, SnapshotCursor};
use crate::time::{Deadline, Moment, NodeTime, RawTime};
use crate::tracking::ClientTracking;

/// How an engine is set up.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// The longest TTL for whose loss the restart delay makes up.
    pub restart_delay_max: Duration,
    /// Whether keys without a TTL, or with a longer one, are refused.
    pub require_ttl: bool,
    /// How many databases commands may name, at most [`DATABASES`].
    pub databases: u8,
    /// The longest key.
    pub key_bytes_max: usize,
    /// The longest string.
    pub value_bytes_max: usize,
    /// The largest hash, list, set or sorted set, with all its elements.
    pub collection_bytes_max: usize,
    /// The most that one command or script may add to the log.
    pub journal_bytes_max: usize,
    /// The most memory that one reply may take.
    pub reply_bytes_max: usize,
    /// What a script may use.
    pub script_limits: ScriptLimits,
    /// Whether scripts of conditions and calls alone run without the interpreter: faster, with the same replies and effects.
    pub runs_scripts_natively: bool,
    /// Makes the table's hash function unpredictable for clients. Give each node its own.
    pub hash_seed: u64,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            restart_delay_max: Duration::from_secs(60),
            require_ttl: false,
            databases: DATABASES,
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: VALUE_BYTES_MAX,
            collection_bytes_max: COLLECTION_BYTES_MAX,
            journal_bytes_max: JOURNAL_BYTES_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
            script_limits: ScriptLimits::default(),
            runs_scripts_natively: true,
            hash_seed: 0,
        }
    }
}

/// The keys of a node and the rules for changing them.
#[derive(Debug)]
pub struct Engine {
    pub(crate) keyspace: Box<Keyspace>,
    pub(crate) scripts: Scripts,
}

impl Engine {
    /// An engine without keys.
    pub fn new(options: EngineOptions) -> Engine {
        let rules = KeyspaceRules {
            restart_delay_max: options.restart_delay_max,
            require_ttl: options.require_ttl,
            databases: options.databases.min(DATABASES),
            key_bytes_max: options.key_bytes_max,
            value_bytes_max: options.value_bytes_max,
            collection_bytes_max: options.collection_bytes_max,
            journal_bytes_max: options.journal_bytes_max,
            reply_bytes_max: options.reply_bytes_max,
            memory_max: 0,
        };
        // Without a clock of its own only the other limits end a script.
        let clock = Box::new(|| RawTime::ZERO);
        Engine {
            keyspace: Box::new(Keyspace::new(options.hash_seed, rules)),
            scripts: Scripts::new(Runner::new(
                options.script_limits,
                clock,
                options.hash_seed,
                options.runs_scripts_natively,
            )),
        }
    }

    /// What [`Engine::prefetch`] finds a key by.
    pub fn key_hash(&self, database: u8, key: &[u8]) -> KeyHash {
        KeyHash(self.keyspace.hash(database, key))
    }

    /// Reads what the execution of commands on these keys will read, and changes nothing. Their memory
    /// is then in the processor's caches: it is waited for once, and not key by key.
    pub fn prefetch(&self, keys: &[KeyHash]) {
        for key in keys {
            self.keyspace.prefetch(key.0);
        }
    }

    /// Runs one command. `effects` must have been begun for it.
    ///
    /// A caller's database beyond the last one is answered with an error.
    pub fn execute(
        &mut self,
        now: Moment,
        caller: &Caller,
        command: &Command<'_>,
        effects: &mut Effects,
    ) -> Reply {
        debug_assert!(
            effects.journal.is_empty(),
            "effects are begun for each command"
        );
        self.keyspace.channels.begin();
        let reply = self.run(now, caller, command, effects);
        self.keyspace.shrink(STEPS_PER_COMMAND);
        reply
    }

    #[inline]
    pub(crate) fn run(
        &mut self,
        now: Moment,
        caller: &Caller,
        command: &Command<'_>,
        effects: &mut Effects,
    ) -> Reply {
        if caller.database >= DATABASES {
            return Reply::Error(ErrorReply::fixed("ERR DB index is out of range"));
        }
        self.keyspace.ages.note(now.node, effects.position);
        effects.reply = self.keyspace.reply_budget();
        effects.shown_wall_us = None;
        let mut context = CommandContext {
            keyspace: &mut self.keyspace,
            now,
            caller: *caller,
            effects,
        };
        let reply = match command.spec.handler {
            Handler::Keys(function) | Handler::KeysAndNode(function, ..) => {
                call(&mut context, command.spec, function, command.arguments)
            }
            Handler::Script(which) => {
                let runner = self.scripts.get_mut();
                script::commands::execute(runner, which, &mut context, command.arguments)
            }
            Handler::Node(_) | Handler::Refused(_) => {
                Err(ErrorReply::unknown_command(command.arguments))
            }
        };
        reply.unwrap_or_else(Reply::Error)
    }

    /// Frees keys whose deadline has come, spending at most `budget` steps. Nothing is journalled:
    /// the deadlines are in the log already. Shrinks databases that have lost most of their keys, and forgets some of
    /// what is remembered for clients beyond the limit as well.
    pub fn reclaim(&mut self, now: NodeTime, budget: usize) -> Reclaimed {
        self.keyspace.channels.begin();
        let mut reclaimed = self.keyspace.reclaim(now, budget);
        reclaimed.more |= self.keyspace.keep_tracked_limit();
        reclaimed
    }

    /// The same at the pace of writes: a few steps for each deadline that was set since the last call. Called after every few
    /// commands, it keeps the keys that have expired fewer than those that live, however quickly clients write.
    pub fn reclaim_owed(&mut self, now: NodeTime) -> Reclaimed {
        self.keyspace.channels.begin();
        self.keyspace.reclaim_owed(now)
    }

    /// How many steps [`Engine::reclaim_owed`] would spend, if so much is due.
    pub fn owed_steps(&self) -> usize {
        self.keyspace.owed_steps()
    }

    /// Takes what was published without a command since the last call. It depends on all that is logged.
    pub fn take_unprompted(&mut self) -> Vec<Published> {
        self.keyspace.take_expired()
    }

    /// Whether [`Engine::reclaim`] has something to do whatever the time is: a database has lost most of its keys.
    pub fn is_sparse(&mut self) -> bool {
        self.keyspace.is_sparse()
    }

    /// Whether there are large collections to be freed that no key holds any more.
    pub fn has_discarded(&self) -> bool {
        self.keyspace.has_discarded()
    }

    /// Takes them, to be dropped when the engine is released.
    pub fn take_discarded(&mut self) -> Discarded {
        self.keyspace.take_discarded()
    }

    /// When [`Engine::reclaim`] next has something to do. It may turn out to be only some moving
    /// of links; it is at most a millisecond after the earliest deadline.
    pub fn next_deadline(&self) -> Option<NodeTime> {
        self.keyspace.next_due()
    }

    /// Replays one payload of the log: what one command or script did, or a part of a snapshot.
    ///
    /// It does not decide anything, not even whether a key has expired. A mutation of a key that is not
    /// there changes nothing: parts of a snapshot lie between groups, and later parts then hold
    /// the whole key. After an error the engine holds a part of the payload and must not serve.
    pub fn apply(&mut self, position: LogPosition, payload: &[u8]) -> Result<(), PayloadError> {
        let applied = replay::apply(&mut self.keyspace, position, payload);
        self.keyspace.forget_owed();
        self.keyspace.shrink(STEPS_PER_COMMAND);
        applied
    }

    /// Writes the next part of the state into `out`: about `bytes` bytes, more only by the last
    /// string or element. Begin with the default cursor; `None` means that this was the last part. A part may be
    /// empty. Keys may change between the parts; another snapshot may begin only when this one goes on no more.
    pub fn snapshot(
        &mut self,
        cursor: SnapshotCursor,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<SnapshotCursor> {
        snapshot::snapshot(&mut self.keyspace, cursor, bytes, out)
    }

    /// The latest deadline of any key, found by looking at all of them.
    pub fn longest_deadline(&self) -> Option<NodeTime> {
        self.keyspace
            .entries(None)
            .filter_map(|(_, entry)| entry.deadline.unless_never())
            .max()
            .map(Deadline::node_time)
    }

    /// How many keys a database holds.
    pub fn count(&self, database: u8) -> DatabaseCount {
        self.keyspace.count(database)
    }

    /// Counters since the start.
    pub fn statistics(&self) -> KeyspaceStatistics {
        self.keyspace.statistics
    }

    /// What was counted of locks since the start.
    pub fn lock_counts(&self) -> &LockCounts {
        &self.keyspace.lock_counts
    }

    /// Counts locks anew, by these patterns of their names, at most [`LOCK_PATTERNS_MAX`].
    ///
    /// [`LOCK_PATTERNS_MAX`]: crate::lock_counts::LOCK_PATTERNS_MAX
    pub fn set_lock_patterns(&mut self, patterns: &[String]) {
        self.keyspace.lock_counts = LockCounts::new(LockPatterns::new(patterns));
    }

    /// How many keys may be locks.
    pub fn held_locks(&self) -> HeldLocks {
        self.keyspace.held_locks()
    }

    /// How long the lock is held that is held for the longest time, of those taken since the start. One call looks at a
    /// bounded number of keys: with more than that it is found after some calls.
    pub fn oldest_lock(&mut self, now: NodeTime) -> Option<Duration> {
        let since = self.keyspace.oldest_lock(now, OLDEST_LOCK_SLOTS)?;
        Some(now.saturating_since(since))
    }

    /// Begins with this ceiling of fences on record: all names go on above it.
    pub fn begin_fences(&mut self, ceiling: Ceiling) {
        self.keyspace.fences = Fences::new(ceiling);
    }

    /// Up to where fences may have been taken: what is on record, or about to be.
    pub fn ceiling(&self) -> Ceiling {
        self.keyspace.fences.ceiling()
    }

    /// The fences, which a model keeps in its states.
    #[doc(hidden)]
    pub fn fences(&self) -> &Fences {
        &self.keyspace.fences
    }

    /// Goes on with the fences of a model's state.
    #[doc(hidden)]
    pub fn set_fences(&mut self, fences: Fences) {
        self.keyspace.fences = fences;
    }

    /// Changes the cap on deadlines that the restart delay covers.
    pub fn set_restart_delay_max(&mut self, cap: Duration) {
        self.keyspace.rules.restart_delay_max = cap;
    }

    /// Changes whether keys beyond the cap are refused.
    pub fn set_require_ttl(&mut self, is_required: bool) {
        self.keyspace.rules.require_ttl = is_required;
    }

    /// Changes how much memory one reply may take.
    pub fn set_reply_bytes_max(&mut self, bytes: usize) {
        self.keyspace.rules.reply_bytes_max = bytes;
    }

    /// What scripts may use.
    pub fn script_limits(&self) -> ScriptLimits {
        self.scripts.get().limits()
    }

    /// Changes what scripts may use, and whether those that need no interpreter run without it. Scripts that are kept stay.
    pub fn set_script_limits(&mut self, limits: ScriptLimits, runs_natively: bool) {
        let runner = self.scripts.get_mut();
        runner.set_limits(limits, runs_natively);
    }

    /// Changes what keys may take with their values, in bytes, before commands that add are refused; 0 is no limit.
    pub fn set_memory_max(&mut self, bytes: usize) {
        self.keyspace.rules.memory_max = bytes;
    }

    /// What keys take with their values, in bytes: what [`Engine::set_memory_max`] bounds.
    pub fn memory(&self) -> usize {
        self.keyspace.memory()
    }

    /// Why what may add to what keys take ([`DENY_OOM`](crate::Flags::DENY_OOM)) is not executed, if they take too much.
    #[inline]
    pub fn refuses_to_grow(&self, may_grow: bool) -> Option<ErrorReply> {
        (may_grow && self.keyspace.is_out_of_memory()).then_some(OUT_OF_MEMORY)
    }

    /// Whether scripts that need no interpreter run without it.
    pub fn runs_scripts_natively(&self) -> bool {
        self.scripts.get().runs_natively()
    }

    /// Sets the raw clock that measures how long scripts run. It has no effect on keys.
    pub fn set_script_clock(&mut self, clock: Box<dyn FnMut() -> RawTime + Send>) {
        self.scripts.get_mut().set_clock(clock);
    }

    /// Sets where `math.random` takes its seed from, once for each script that uses it; `None` where there is none.
    /// Until then all scripts see the same numbers.
    pub fn set_script_seeds(&mut self, seeds: Box<dyn FnMut() -> Option<u64> + Send>) {
        self.scripts.get_mut().set_seeds(seeds);
    }

    /// Sets whom LOCK.INFO and LOCK.LIST ask about connections, by their numbers: those that are there and, as far as they are
    /// remembered, those that were. It is called while the engine is locked.
    pub fn set_client_directory(
        &mut self,
        directory: Box<dyn Fn(u64) -> Option<ClientDescription> + Send>,
    ) {
        self.keyspace.holders.set_directory(directory);
    }

    /// Who listens to which channel.
    pub fn channels(&mut self) -> &mut Channels {
        &mut self.keyspace.channels
    }

    /// Sets which events of keys are published.
    pub fn set_events(&mut self, events: Events) {
        self.keyspace.events = events;
    }

    /// Who keeps which keys, and is told of their changes.
    pub fn tracking(&mut self) -> &mut ClientTracking {
        &mut self.keyspace.tracking
    }

    /// How many scripts are known.
    pub fn script_count(&self) -> usize {
        self.scripts.get().scripts()
    }

    /// Whether a request may change or publish something. A script that declares otherwise cannot.
    pub fn may_write(&self, command: &Command<'_>) -> bool {
        command.spec.flags.may_write() && !self.declares_no_writes(command)
    }

    fn declares_no_writes(&self, command: &Command<'_>) -> bool {
        match (&command.spec.handler, command.arguments.get(1)) {
            (Handler::Script(which), Some(named)) => {
                script::commands::declares_no_writes(self.scripts.get(), *which, named)
            }
            _ => false,
        }
    }

    /// The memory of the scripts' interpreter, in bytes.
    pub fn script_memory(&self) -> usize {
        self.scripts.get().used_memory()
    }

    /// How long the script took that was executed last, outside a transaction, if its time was counted: that of a script of
    /// few steps, none of which may take long, is not.
    pub fn take_script_time(&mut self) -> Option<Duration> {
        self.scripts.get_mut().take_measured()
    }

    /// What scripts have written with `redis.log` since the last call.
    pub fn take_script_log(&mut self) -> Vec<LogLine> {
        self.scripts.get_mut().take_log()
    }
}

/// A request's first key, for [`Engine::prefetch`]. `None` where the request has no key, or a long one.
///
/// Execution looks the command up and hashes the key again; what that costs and what prefetching
/// saves is in docs/adr/0007-prefetching-looks-up-twice.md.
pub fn key_to_prefetch<'a>(argument: impl Fn(usize) -> Option<&'a [u8]>) -> Option<&'a [u8]> {
    let (_, spec) = numbered_spec(argument(0)?)?;
    argument(spec.first_key()?).filter(|key| key.len() <= PREFETCH_KEY_BYTES_MAX)
}

/// Hashing a longer key costs more than prefetching it saves.
const PREFETCH_KEY_BYTES_MAX: usize = 256;

/// The hash of a key in its database, by which [`Engine::prefetch`] finds it.
#[derive(Clone, Copy, Debug)]
pub struct KeyHash(u64);

/// The longest key unless told otherwise.
const KEY_BYTES_MAX: usize = 1 << 20;

/// So many keys a search for the oldest lock looks at: about a tenth of a millisecond.
const OLDEST_LOCK_SLOTS: u32 = 4096;
