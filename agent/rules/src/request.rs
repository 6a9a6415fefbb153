//! One request: what it reads, which step it is, and what its caller is told.
//!
//! Invariants: nothing is answered about a lock without a majority. Every step is conditional on the token that was read, or
//! assumed; where the condition fails, the request is read and executed again, a bounded number of times. An OK is told only while
//! the lock is valid for the ttl that the caller counts from then on.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{AcquireCall, Call, Outcome};
use quorlock_client_rules::name::check_name;
use quorlock_client_rules::outcome::{AcquireError, ExtendError, ReadError, Reading, Release};
use quorlock_client_rules::token::{OWN_TOKEN_BYTES_MAX, Token};
use quorlock_client_rules::wait::Wait;
use quorlock_clock::ClientInstant;
use quorlock_engine::{Caller, Categories, Reply, keys_of_request, spec_named};
use rand::Rng;

use crate::known_holders::KnownHolders;
use crate::refusal::{self, not_a_lock};
use crate::scratch::{Change, Executed, Holder, Scratch};
use crate::terms::{caller_ttl, node_ttl};
use quorlock_client_rules::settings::Drift;

/// The commands of a request: one, or those of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Each with its name first.
    pub all: Vec<Vec<Bytes>>,
    /// Whether they are answered with one array.
    pub is_transaction: bool,
}

/// What a request needs of its agent.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: ClientInstant,
    pub(crate) wall_us: u64,
    pub(crate) drift: Drift,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) known: &'a mut KnownHolders,
    pub(crate) random: &'a mut dyn Rng,
}

/// Until when a reply may leave, and what happens otherwise: whoever gets it counts a ttl from then on.
#[derive(Debug)]
pub struct Expiring {
    /// It may not leave from then on.
    pub until: ClientInstant,
    /// What the caller is told then.
    pub instead: Reply,
    /// What is to be asked of the nodes then.
    pub undo: Option<Call>,
}

/// What is to be done for a request.
#[derive(Debug)]
pub(crate) enum Next {
    Ask(Call),
    /// Nothing before this time.
    Pause(ClientInstant),
    Answer(Reply),
    /// The same, if it leaves before this is over.
    AnswerBefore(Reply, Expiring),
    /// The same, and the lock that was acquired is its caller's from now on.
    HandOver(Reply, Expiring),
    /// The same, and this lock is released, which nobody waits for.
    GiveBack(Reply, Call),
}

#[derive(Debug)]
pub(crate) struct Request {
    caller: Caller,
    commands: Commands,
    /// The lock that it is about.
    name: Bytes,
    stage: Stage,
    /// How often it was executed with what a majority said.
    rounds: u32,
    /// An attempt to acquire the lock was refused by those who have it.
    was_refused: bool,
    /// It has released a lock that no majority had.
    has_released: bool,
}

#[derive(Debug)]
enum Stage {
    Reading,
    Pausing,
    Acquiring {
        reply: Reply,
        ttl: Duration,
    },
    SettingEnd {
        reply: Reply,
        token: Token,
        ttl: Duration,
    },
    Releasing {
        reply: Reply,
    },
}

impl Request {
    /// Begins a request: it is answered at once where it needs no node.
    pub(crate) fn begin(
        caller: Caller,
        commands: Commands,
        world: &mut Surroundings<'_>,
    ) -> (Option<Self>, Next) {
        let name = match name_of(&commands) {
            Ok(Some(name)) => name,
            Ok(None) => {
                let executed = world
                    .scratch
                    .execute(world.wall_us, &caller, &commands, None);
                let reply = executed.map_or_else(|refusal| refusal, |executed| executed.reply);
                return (None, Next::Answer(reply));
            }
            Err(refusal) => return (None, Next::Answer(refusal)),
        };
        let mut request = Self {
            caller,
            commands,
            name,
            stage: Stage::Reading,
            rounds: 0,
            was_refused: false,
            has_released: false,
        };
        let next = request.assume(world);
        (Some(request), next)
    }

    /// Tries what it would do to the lock as this agent knows it: a step is conditional on that, so it need not be asked for.
    /// Where it does nothing, or what it does depends on how long the lock lasts, that has to be read.
    fn assume(&mut self, world: &mut Surroundings<'_>) -> Next {
        let known = world.known.token(world.now, &self.name).cloned();
        let mut execute = |left| {
            let holder = known.as_ref().map(|token| Holder {
                token: token.without_attempt(),
                left: Some(left),
            });
            let key = Some((&self.name[..], holder));
            (world.scratch).execute(world.wall_us, &self.caller, &self.commands, key)
        };
        let executed = execute(Duration::from_secs(60));
        // How long it lasts is not known here: what depends on that has to be read.
        let depends = known.is_some() && executed != execute(Duration::from_millis(1));
        if depends {
            return self.read();
        }
        match (executed, known) {
            (Ok(executed), None) if matches!(executed.change, Change::Acquire(..)) => {
                self.take_step(executed.reply, executed.change, None, world)
            }
            (Ok(executed), Some(token)) if executed.change == Change::Release => {
                self.take_step(executed.reply, executed.change, Some(token), world)
            }
            _ => self.read(),
        }
    }

    fn read(&mut self) -> Next {
        self.stage = Stage::Reading;
        Next::Ask(Call::Read {
            name: self.name.clone(),
        })
    }

    /// What was asked for has come to this.
    pub(crate) fn handle(&mut self, outcome: Outcome, world: &mut Surroundings<'_>) -> Next {
        let stage = std::mem::replace(&mut self.stage, Stage::Reading);
        match (outcome, stage) {
            (Outcome::Read(told), Stage::Reading) => self.was_read(told, world),
            (
                Outcome::Acquired {
                    token, valid_until, ..
                },
                Stage::Acquiring { reply, ttl },
            ) => self.acquired(token, valid_until, reply, ttl, world),
            (Outcome::NotAcquired(error), Stage::Acquiring { .. }) => {
                self.not_acquired(&error, world)
            }
            (Outcome::Extended(result), Stage::SettingEnd { reply, token, ttl }) => match result {
                Ok(extended) if world.now.until(extended.valid_until) >= ttl => {
                    let until = extended.valid_until;
                    world.known.note(world.now, &self.name, token, until);
                    let expiring = Expiring {
                        until: until.before(ttl),
                        instead: Reply::Error(refusal::extended_too_late()),
                        undo: None,
                    };
                    Next::AnswerBefore(reply, expiring)
                }
                Ok(_) => Next::Answer(Reply::Error(refusal::extended_too_late())),
                Err(error) => self.not_extended(&error, world),
            },
            (Outcome::Released(release), Stage::Releasing { reply }) => {
                self.released(&release, reply, world)
            }
            // The client has ended.
            (outcome, stage) => {
                debug_assert!(false, "{outcome:?} in {stage:?}");
                Next::Answer(Reply::Error(refusal::TRY_AGAIN))
            }
        }
    }

    /// The pause is over.
    pub(crate) fn go_on(&mut self) -> Next {
        self.read()
    }

    fn was_read(&mut self, told: Result<Reading, ReadError>, world: &mut Surroundings<'_>) -> Next {
        match told {
            Err(error) => Next::Answer(Reply::Error(refusal::not_read(&error))),
            Ok(Reading::Free) => {
                world.known.forget(&self.name);
                self.execute(None, None, world)
            }
            Ok(Reading::Held {
                token,
                left,
                longest,
            }) => self.execute(Some((token, left)), longest, world),
            // Those who have it have refused it: that is an answer to who wanted it.
            Ok(Reading::Split { token, left }) if self.was_refused => {
                self.execute(Some((token, left)), None, world)
            }
            Ok(Reading::Split { token, left }) => self.release_split(token, left, world),
        }
    }

    /// No majority has it. Who releases it may do so: that is told only where a majority has freed it. All else waits.
    fn release_split(
        &mut self,
        token: Token,
        left: Option<Duration>,
        world: &mut Surroundings<'_>,
    ) -> Next {
        let holder = Holder {
            token: token.without_attempt(),
            left,
        };
        let key = Some((&self.name[..], Some(holder)));
        let executed = world
            .scratch
            .execute(world.wall_us, &self.caller, &self.commands, key);
        match executed {
            Ok(executed) if executed.change == Change::Release && !self.has_released => {
                self.has_released = true;
                self.take_step(executed.reply, executed.change, Some(token), world)
            }
            _ => self.pause(world),
        }
    }

    /// Executes the request with what a majority says, and takes the step that it is. An end that depends on how long the lock
    /// lasts is the later one, where nodes do not agree on that: its holder may count on what only some of them have heard of.
    fn execute(
        &mut self,
        held: Option<(Token, Option<Duration>)>,
        longest: Option<Duration>,
        world: &mut Surroundings<'_>,
    ) -> Next {
        self.rounds += 1;
        let token = held.as_ref().map(|(token, _)| token.clone());
        let drift = world.drift;
        let mut execute = |left: Option<Duration>| {
            let holder = token.as_ref().map(|token| Holder {
                token: token.without_attempt(),
                left: left.map(|left| caller_ttl(left, drift)),
            });
            let key = Some((&self.name[..], holder));
            (world.scratch).execute(world.wall_us, &self.caller, &self.commands, key)
        };
        let left = held.as_ref().and_then(|(_, left)| *left);
        let executed = execute(left);
        match executed {
            Err(refusal) => Next::Answer(refusal),
            Ok(mut executed) => {
                if let Change::SetEnd(end) = &mut executed.change
                    && longest > left
                    && let Ok(Executed {
                        change: Change::SetEnd(later),
                        ..
                    }) = execute(longest)
                {
                    *end = later.max(*end);
                }
                self.take_step(executed.reply, executed.change, token, world)
            }
        }
    }

    fn take_step(
        &mut self,
        reply: Reply,
        change: Change,
        held: Option<Token>,
        world: &mut Surroundings<'_>,
    ) -> Next {
        if self.rounds > ROUNDS_MAX {
            return Next::Answer(match change {
                Change::None => reply,
                _ => Reply::Error(refusal::TRY_AGAIN),
            });
        }
        match (change, held) {
            (Change::None, _) => Next::Answer(reply),
            (Change::Acquire(token, _), _) if token.len() > OWN_TOKEN_BYTES_MAX => {
                let reason = format!(
                    "the lock's value has {} bytes, and a token has {OWN_TOKEN_BYTES_MAX} at most",
                    token.len()
                );
                Next::Answer(Reply::Error(not_a_lock(&reason)))
            }
            (Change::Acquire(token, ttl), _) => {
                self.stage = Stage::Acquiring { reply, ttl };
                Next::Ask(Call::Acquire(AcquireCall {
                    name: self.name.clone().into(),
                    own_token: Some(Bytes::copy_from_slice(&token)),
                    permits: None,
                    owner: None,
                    ttl: node_ttl(ttl, world.drift),
                    lock_delay: Duration::ZERO,
                    wait: Wait::None,
                    renews: false,
                    min_validity: ttl,
                    reserve: Duration::ZERO,
                    max_lifetime: None,
                    is_fenced: false,
                    is_shared: false,
                    text: None,
                }))
            }
            (Change::SetEnd(ttl), Some(token)) => {
                let call = Call::SetEnd {
                    name: self.name.clone(),
                    token: token.clone(),
                    ttl: node_ttl(ttl, world.drift),
                };
                self.stage = Stage::SettingEnd { reply, token, ttl };
                Next::Ask(call)
            }
            (Change::Release, Some(token)) => {
                self.stage = Stage::Releasing { reply };
                world.known.forget(&self.name);
                Next::Ask(release(self.name.clone(), token))
            }
            (Change::SetEnd(_) | Change::Release, None) => {
                debug_assert!(false, "there was no lock to change");
                Next::Answer(Reply::Error(refusal::TRY_AGAIN))
            }
        }
    }

    fn acquired(
        &mut self,
        token: Token,
        valid_until: ClientInstant,
        reply: Reply,
        ttl: Duration,
        world: &mut Surroundings<'_>,
    ) -> Next {
        let instead = Reply::Error(refusal::too_late());
        let undo = release(self.name.clone(), token.clone());
        if world.now.until(valid_until) < ttl {
            return Next::GiveBack(instead, undo);
        }
        world.known.note(world.now, &self.name, token, valid_until);
        let expiring = Expiring {
            until: valid_until.before(ttl),
            instead,
            undo: Some(undo),
        };
        Next::HandOver(reply, expiring)
    }

    fn not_acquired(&mut self, error: &AcquireError, world: &mut Surroundings<'_>) -> Next {
        match error {
            AcquireError::Busy { .. } => {
                self.was_refused = true;
                world.known.forget(&self.name);
                self.read()
            }
            error => Next::Answer(Reply::Error(refusal::not_acquired(error))),
        }
    }

    fn not_extended(&mut self, error: &ExtendError, world: &mut Surroundings<'_>) -> Next {
        world.known.forget(&self.name);
        match error {
            ExtendError::Lost(_) => self.again(world),
            error => Next::Answer(Reply::Error(refusal::not_extended(error))),
        }
    }

    fn released(&mut self, release: &Release, reply: Reply, world: &mut Surroundings<'_>) -> Next {
        if release.released() {
            Next::Answer(reply)
        } else if release.was_lost() {
            self.again(world)
        } else {
            Next::Answer(Reply::Error(refusal::not_released(release)))
        }
    }

    /// The lock was not as it was read, or assumed: it is read once more.
    fn again(&mut self, world: &mut Surroundings<'_>) -> Next {
        match self.rounds {
            0 => self.read(),
            _ => self.pause(world),
        }
    }

    /// Votes are split: others are taking the lock, or letting it go.
    fn pause(&mut self, world: &mut Surroundings<'_>) -> Next {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Next::Answer(Reply::Error(refusal::TRY_AGAIN));
        }
        self.stage = Stage::Pausing;
        let part = f64::from(world.random.next_u32()) / f64::from(u32::MAX);
        // Longer with each round: others who are in the way must have had time to give up.
        let most = PAUSE_STEP.saturating_mul(self.rounds);
        Next::Pause(world.now.after(most.mul_f64(0.25 + 0.75 * part)))
    }
}

/// The lock that a request is about; none where it needs no key.
///
/// # Errors
/// The refusal, where it is about several, or about what an agent has not.
fn name_of(commands: &Commands) -> Result<Option<Bytes>, Reply> {
    let refused = |reason: &str| Err(Reply::Error(not_a_lock(reason)));
    let mut name: Option<&[u8]> = None;
    for command in &commands.all {
        let arguments: Vec<&[u8]> = command.iter().map(|one| &one[..]).collect();
        let Some(spec) = arguments.first().and_then(|name| spec_named(name)) else {
            continue;
        };
        if spec.name.starts_with("lock.") {
            return refused("an agent does not have the LOCK commands yet. Send them to a node");
        }
        if spec.about.categories.intersects(OTHER_TYPES) {
            return refused(&format!(
                "{} is for another type than a string, and an agent keeps nothing but locks. Use a server of its own for other data",
                spec.name.to_uppercase()
            ));
        }
        let keys = keys_of_request(spec.description(), &arguments).unwrap_or_default();
        let counts_none = arguments.get(2) == Some(&&b"0"[..]);
        if keys.is_empty() && spec.about.key_count_at > 0 && !counts_none {
            // What is wrong with the number of its keys its own error says.
            continue;
        }
        if keys.is_empty() && !NEED_NO_KEY.contains(&spec.name) {
            return refused(&format!(
                "{} is about no single lock, and an agent keeps nothing but locks. Use a server of its own for other data",
                spec.name.to_uppercase()
            ));
        }
        for key in keys {
            if *name.get_or_insert(key.name) != key.name {
                return refused(
                    "the request is about several keys, and an agent takes one lock at a time. Use one key for each request",
                );
            }
        }
    }
    match name.map(|name| (name, check_name(name))) {
        None => Ok(None),
        Some((name, Ok(()))) => Ok(Some(Bytes::copy_from_slice(name))),
        Some((_, Err(reason))) => refused(&reason),
    }
}

fn release(name: Bytes, token: Token) -> Call {
    Call::Release {
        held: None,
        name: name.into(),
        token,
        waits_for_all: false,
        keeps_lost: false,
    }
}

const OTHER_TYPES: Categories = Categories::LIST
    .with(Categories::HASH)
    .with(Categories::SET)
    .with(Categories::SORTED_SET)
    .with(Categories::BITMAP)
    .with(Categories::BLOCKING);
/// Commands that name no key and are executed on the scratch keyspace alone.
const NEED_NO_KEY: [&str; 2] = ["script", "time"];
/// How often a request is executed because the lock was not as it had been read.
const ROUNDS_MAX: u32 = 8;
/// By how much a pause for votes that are split may last longer than the one before.
const PAUSE_STEP: Duration = Duration::from_millis(15);
