//! One request: what it reads, which step it is, and what its caller is told.
//!
//! Invariants: nothing is answered about a lock without a majority. Every step is conditional on the token that was read, or
//! assumed; where the condition fails, the request is read and executed again, a bounded number of times. An OK is told only while
//! the lock is valid for the ttl that the caller counts from then on.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{AcquireCall, Call, Outcome};
use quorlock_client_rules::outcome::{AcquireError, ExtendError, ReadError, Reading, Release};
use quorlock_client_rules::token::{OWN_TOKEN_BYTES_MAX, Token};
use quorlock_client_rules::wait::Wait;
use quorlock_clock::ClientInstant;
use quorlock_engine::{Caller, Reply};

use crate::commands::Commands;
use crate::lock_name::lock_name;
use crate::next::{Expiring, Next};
use crate::pauses::{ROUNDS_MAX, pause_until};
use crate::refusal::{self, not_a_lock};
use crate::scratch::{Change, Executed, Holder};
use crate::surroundings::Surroundings;
use crate::terms::{caller_ttl, node_ttl};

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
    /// It has released what some nodes had under this token, and no majority.
    released: Option<Token>,
    was_held_back: bool,
}

#[derive(Debug)]
enum Stage {
    Reading,
    Pausing,
    HeldBack,
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
        let name = match lock_name(&commands) {
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
            released: None,
            was_held_back: false,
        };
        let next = request.try_again(world);
        (Some(request), next)
    }

    /// The lock that it is about.
    pub(crate) fn name(&self) -> &Bytes {
        &self.name
    }

    /// Whether it waits for its lock, which a client that has gone has no use for.
    pub(crate) fn is_held_back(&self) -> bool {
        matches!(self.stage, Stage::HeldBack)
    }

    /// Begins, or begins anew behind a time for which it was held back.
    fn try_again(&mut self, world: &mut Surroundings<'_>) -> Next {
        let holder = world.watched.holder(&self.name).cloned();
        let Some(reply) = holder.and_then(|holder| self.refusal(&holder, world)) else {
            return self.assume(world);
        };
        world.watched.note_refused(world.now, &self.name);
        match world.hold_back {
            Some(hold_back) if !self.was_held_back => {
                self.was_held_back = true;
                self.stage = Stage::HeldBack;
                Next::HoldBack(world.now.after(hold_back))
            }
            _ => Next::Answer(reply),
        }
    }

    /// What it is answered while the lock is held under this token, if it does nothing but try to take it. One that would extend a
    /// lock of its own is more than a try: its caller may have the lock, through another agent, and would take the answer for a loss.
    fn refusal(&self, holder: &Token, world: &mut Surroundings<'_>) -> Option<Reply> {
        let mut execute = |holder: Option<(&[u8], Duration)>| {
            let holder = holder.map(|(token, left)| Holder {
                token,
                left: Some(left),
            });
            let key = Some((&self.name[..], holder));
            (world.scratch).execute(world.wall_us, &self.caller, &self.commands, key)
        };
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(1));
        let other = holder.without_attempt();
        let refused = execute(Some((other, long))).ok()?;
        // What is told of the time that is left has to be read.
        let depends = execute(Some((other, short))).as_ref() != Ok(&refused);
        if depends || refused.change != Change::None {
            return None;
        }
        let Ok(Executed {
            change: Change::Acquire(own, _),
            ..
        }) = execute(None)
        else {
            return None;
        };
        let is_try = execute(Some((&own, long))).is_ok_and(|again| again.change == Change::None);
        is_try.then_some(refused.reply)
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
    pub(crate) fn go_on(&mut self, world: &mut Surroundings<'_>) -> Next {
        match self.stage {
            Stage::HeldBack => self.try_again(world),
            _ => self.read(),
        }
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
            Ok(Reading::Split { token, left }) => {
                // Who only tries to take it is refused, as by one server: that some nodes hold it is enough.
                match self.refusal(&token, world) {
                    Some(reply) if self.rounds >= ROUNDS_MAX => Next::Answer(reply),
                    _ => self.release_split(token, left, world),
                }
            }
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
            Ok(executed)
                if executed.change == Change::Release && self.released.as_ref() != Some(&token) =>
            {
                self.released = Some(token.clone());
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
                if let (Change::None, Some(token)) = (&executed.change, &token)
                    && self.refusal(token, world).is_some()
                {
                    world.watched.note_refused(world.now, &self.name);
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
                // Whose attempt it was may have been told that it failed, by another agent that still owes its release: libraries
                // take a lock again that they find held under their own token.
                let new_token = match world.known.token(world.now, &self.name) {
                    Some(known) if *known == token => None,
                    _ => token.next_attempt(world.random),
                };
                let call = Call::SetEnd {
                    name: self.name.clone(),
                    token: token.clone(),
                    new_token: new_token.clone(),
                    ttl: node_ttl(ttl, world.drift),
                };
                let token = new_token.unwrap_or(token);
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
        (world.sessions).note_taken(world.now, world.client, &self.name, valid_until, &undo);
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
        match error {
            ExtendError::Lost(_) => {
                world.known.forget(&self.name);
                self.again(world)
            }
            error => Next::Answer(Reply::Error(refusal::not_extended(error))),
        }
    }

    fn released(&mut self, release: &Release, reply: Reply, world: &mut Surroundings<'_>) -> Next {
        if release.released() {
            world.watched.note_free(world.now, &self.name);
            world.sessions.note_released(world.client, &self.name);
            Next::Answer(reply)
        } else if release.was_lost() || self.released.is_some() {
            // Some nodes may have it under the token of another attempt.
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
        match pause_until(self.rounds, world.now, &mut *world.random) {
            Some(until) => {
                self.stage = Stage::Pausing;
                Next::Pause(until)
            }
            None => Next::Answer(Reply::Error(refusal::TRY_AGAIN)),
        }
    }
}

pub(crate) fn release(name: Bytes, token: Token) -> Call {
    Call::Release {
        held: None,
        name: name.into(),
        token,
        waits_for_all: false,
        keeps_lost: false,
    }
}
