//! The keyspace on which a request is executed: it holds the request's keys, and these only while the request runs.
//!
//! Invariant: between two requests it is empty. Only the scripts that were loaded stay.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorlock_clock::saturated;
use quorlock_engine::channels::{Published, PushMessage, Subscriber, Subscription};
use quorlock_engine::tracking::TrackingOptions;
use quorlock_engine::{
    Caller, Command, CommandGuard, Effects, Engine, EngineOptions, LogPosition, Moment, Mutations,
    NodeTime, Purpose, Reply, ScriptLimits,
};
use rand::Rng as _;
use rand::rngs::StdRng;

use crate::change::Change;
use crate::commands::Commands;
use crate::refusal::not_a_lock;
use crate::terms::TTL_MAX;

/// What a request has come to on the scratch keyspace.
#[derive(Debug, PartialEq)]
pub(crate) struct Executed {
    /// What its caller is told once the step is taken.
    pub(crate) reply: Reply,
    pub(crate) change: Change,
    /// It has asked how long its locks last, so that another time may have come to something else.
    pub(crate) reads_end: bool,
}

/// A key of a request, and what is taken for its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) holder: Option<Holder<'a>>,
}

/// Who holds a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeldBy<T> {
    /// One holder, under this token.
    One(T),
    /// Those who read, or a key of another type has the lock's name.
    Others,
}

/// What a key holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) by: HeldBy<&'a [u8]>,
    /// How long the key lasts, if it ends.
    pub(crate) left: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct Scratch {
    engine: Engine,
    effects: Effects,
    /// Grows with every command, as the positions of a log do.
    position: u64,
}

impl Scratch {
    /// Scripts draw from these random numbers.
    pub(crate) fn new(mut random: StdRng) -> Self {
        let options = EngineOptions {
            databases: 1,
            // A longer lock is kept as any other.
            restart_delay_max: TTL_MAX * 2,
            // A script of a lock takes a few dozen steps, and others wait meanwhile.
            script_limits: ScriptLimits {
                steps: 10_000,
                memory_bytes: 8 << 20,
                ..ScriptLimits::default()
            },
            ..EngineOptions::default()
        };
        let mut engine = Engine::new(options);
        engine.set_script_seeds(Box::new(move || Some(random.next_u64())));
        let listener = Subscriber {
            worker: 0,
            connection: 0,
            client: AGENT,
        };
        // What a script publishes is noticed by who listens.
        engine
            .channels()
            .subscribe(listener, Subscription::Pattern, b"*");
        Self {
            engine,
            effects: Effects::default(),
            position: 0,
        }
    }

    /// Executes commands on a keyspace that holds the keys of the request in these states: in earnest, or to know what they would do.
    ///
    /// # Errors
    /// The refusal, where they do something else to them than to locks.
    pub(crate) fn execute(
        &mut self,
        wall_us: u64,
        caller: &Caller,
        commands: &Commands,
        purpose: Purpose,
        keys: &[Key<'_>],
    ) -> Result<Executed, Reply> {
        let now = Moment { node: NOW, wall_us };
        let reads_end = Arc::new(AtomicBool::new(false));
        self.effects.script_guard = Some(guard(commands, purpose, &reads_end));
        if !keys.iter().all(|key| self.load(now, key)) {
            self.clear(now);
            return Err(Reply::Error(not_a_lock(
                "the key holds what is no token of a lock on the nodes: it is too long",
            )));
        }
        // What is read from here on is noted.
        let options = TrackingOptions::default();
        self.engine.tracking().start(AGENT, options);
        let caller = Caller {
            client_id: AGENT,
            keeps_reads: true,
            keeps_all: true,
            ..*caller
        };
        let mut touched = vec![false; keys.len()];
        let mut replies = Vec::with_capacity(commands.all.len());
        let mut refusal = None;
        for command in &commands.all {
            let arguments: Vec<&[u8]> = command.iter().map(|one| &one[..]).collect();
            note_end(&arguments, &reads_end);
            let reply = match Command::parse(&arguments) {
                Ok(command) => self.run(now, &caller, &command),
                Err(error) => Reply::Error(error),
            };
            let own_refusal = self.refusal(keys, &mut touched);
            refusal = refusal.or(own_refusal);
            replies.push(reply);
        }
        let change = match refusal {
            None => self.change(now, keys, &touched),
            Some(_) => Ok(Change::None),
        };
        self.clear(now);
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let reply = match commands.is_transaction {
            true => Reply::Array(replies),
            false => replies.pop().unwrap_or(Reply::Nil),
        };
        Ok(Executed {
            reply,
            change: change?,
            reads_end: reads_end.load(Ordering::Relaxed),
        })
    }

    /// Whether the key has its state now.
    fn load(&mut self, now: Moment, key: &Key<'_>) -> bool {
        let Some(holder) = key.holder else {
            return true;
        };
        let set: &[&[u8]] = match holder.by {
            HeldBy::One(token) => &[b"SET", key.name, token],
            HeldBy::Others => &[b"HSET", key.name, b"", b""],
        };
        let is_set = !matches!(self.inspect(now, set), Reply::Error(_));
        if let Some(left) = holder.left {
            let left = whole_ms(left).as_millis().to_string();
            self.inspect(now, &[b"PEXPIRE", key.name, left.as_bytes()]);
        }
        is_set
    }

    fn run(&mut self, now: Moment, caller: &Caller, command: &Command<'_>) -> Reply {
        self.position += 1;
        self.effects.begin(LogPosition::from_raw(self.position));
        self.engine.execute(now, caller, command, &mut self.effects)
    }

    /// Executes a command of the agent's own.
    fn inspect(&mut self, now: Moment, arguments: &[&[u8]]) -> Reply {
        match Command::parse(arguments) {
            Ok(command) => self.run(now, &Caller::default(), &command),
            Err(error) => Reply::Error(error),
        }
    }

    /// Why the command that was run last may not have run, as far as that is to be seen from what it did beside its keys. Those that
    /// it has changed are noted.
    fn refusal(&mut self, keys: &[Key<'_>], touched: &mut [bool]) -> Option<Reply> {
        let mut touch = |target: Option<(u8, &[u8])>| {
            let key = target.filter(|(database, _)| *database == 0);
            let at = key.and_then(|(_, name)| keys.iter().position(|key| key.name == name));
            at.map(|at| touched[at] = true).is_some()
        };
        let journal = &self.effects.journal;
        let touches_others = match Mutations::of(journal, 0) {
            _ if journal.is_empty() => false,
            Ok(mut mutations) => !mutations.all(|one| one.is_ok_and(|one| touch(one.target()))),
            Err(_) => true,
        };
        let names = keys.iter().map(|key| key.name);
        if touches_others || self.engine.tracking().keeps_beside(AGENT, names) {
            return Some(Reply::Error(not_a_lock(
                "the script uses a key that is not among its KEYS, and an agent reads and changes no other. Name the lock in KEYS",
            )));
        }
        let is_message =
            |published: &Published| matches!(published.message, PushMessage::Published(_));
        if self.effects.published.iter().any(is_message) {
            return Some(Reply::Error(not_a_lock(
                "the script publishes a message, and an agent sends only those of PUBLISH by itself: it may execute a script several times before \
                 it takes one step on the nodes. Use the library's polling mode, or send PUBLISH by itself behind the script",
            )));
        }
        None
    }

    /// What has become of all keys.
    fn change(&mut self, now: Moment, keys: &[Key<'_>], touched: &[bool]) -> Result<Change, Reply> {
        let keys = keys.iter().zip(touched);
        let changes = keys.map(|(key, is_touched)| match is_touched {
            true => self.change_of(now, *key),
            false => Ok(Change::None),
        });
        Change::of_all(changes.collect::<Result<_, _>>()?)
    }

    /// What has become of a key.
    fn change_of(&mut self, now: Moment, key: Key<'_>) -> Result<Change, Reply> {
        let (name, before) = (key.name, key.holder);
        let refused = |reason| Err(Reply::Error(not_a_lock(reason)));
        if self.inspect(now, &[b"TYPE", name]) == Reply::status("none") {
            return match before.map(|before| before.by) {
                Some(HeldBy::One(_)) => Ok(Change::Release(vec![0])),
                Some(HeldBy::Others) => refused(NOT_EXCLUSIVE),
                None => Ok(Change::None),
            };
        }
        let token = match self.inspect(now, &[b"GET", name]) {
            Reply::Bulk(token) => Arc::from(token),
            Reply::Shared(token) => token,
            _ => {
                return refused(match before {
                    Some(_) => NOT_EXCLUSIVE,
                    None => {
                        "the request makes a key of another type than a string, which is no lock. Use a server of its own for it"
                    }
                });
            }
        };
        let left = match self.inspect(now, &[b"PTTL", name]) {
            Reply::Integer(ms) => u64::try_from(ms).ok().map(Duration::from_millis),
            _ => None,
        };
        match before.map(|before| before.by) {
            Some(HeldBy::Others) => refused(NOT_EXCLUSIVE),
            Some(HeldBy::One(before)) if before != &token[..] => refused(
                "the request replaces the token of a lock that is held, which no majority can do safely. Release it first",
            ),
            _ => match left {
                Some(left) if left <= TTL_MAX => Ok(match before {
                    Some(_) => Change::SetEnd(left),
                    None => Change::Acquire(token, left),
                }),
                Some(_) => refused("a lock lasts 360 days at most. Use a shorter ttl"),
                None => refused(
                    "the request makes a key without a ttl, and a lock must end by itself. Use SET ... NX PX, or a timeout in the library",
                ),
            },
        }
    }

    fn clear(&mut self, now: Moment) {
        self.engine.tracking().leave(AGENT);
        while self.engine.tracking().has_departed() {
            self.engine.reclaim(now.node, RECLAIMED_AT_ONCE);
        }
        self.inspect(now, &[b"FLUSHALL"]);
        self.engine.take_unprompted();
        self.effects.published.clear();
        self.effects.script_guard = None;
        let _freed = self.engine.take_discarded();
    }
}

/// What is asked before each command of a script. A script that is only tried calls nothing: what it is refused is no refusal.
fn guard(commands: &Commands, purpose: Purpose, reads_end: &Arc<AtomicBool>) -> CommandGuard {
    let (guard, reads_end) = (commands.script_guard.clone(), Arc::clone(reads_end));
    CommandGuard::new(move |arguments, asked| {
        note_end(arguments, &reads_end);
        let asked = match purpose {
            Purpose::Call => asked,
            Purpose::Question => purpose,
        };
        guard.as_ref()?.refuses(arguments, asked)
    })
}

/// Notes a command whose reply, or whose effect, depends on how long a key lasts.
fn note_end(arguments: &[&[u8]], reads_end: &AtomicBool) {
    let is_one_of = |names: &[&str]| {
        let name = arguments.first().copied().unwrap_or_default();
        names
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
    };
    // With NX, XX, GT or LT.
    let has_condition = arguments.len() > 3;
    if is_one_of(&["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"])
        || has_condition && is_one_of(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
    {
        reads_end.store(true, Ordering::Relaxed);
    }
}

/// What a key that lasts so long is given on the scratch keyspace: nodes count in milliseconds.
fn whole_ms(left: Duration) -> Duration {
    Duration::from_millis(saturated(left.as_millis()).max(1))
}

const RECLAIMED_AT_ONCE: usize = 1024;
/// The number of the only client of the scratch keyspace.
const AGENT: u64 = 1;
/// The scratch keyspace is empty before and after each request, so that all of them may run at the same time.
const NOW: NodeTime = NodeTime::from_nanos(1_000_000_000);
const NOT_EXCLUSIVE: &str = "those who read hold the lock, or a key of another type has its name, and the request would change that. A reader \
     releases by LOCK.RELEASE with the token that it was told";
