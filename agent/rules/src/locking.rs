//! One LOCK command: which calls to the nodes it is, and what its caller is told.
//!
//! Invariants: those of `request`. A lock is granted only while it is valid for the ttl that its caller counts from the reply on,
//! and nothing is said of one without a majority. Whoever has gone while it waits for a lock does not get it.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{AcquireCall, Call, Extended, Outcome};
use quorlock_client_rules::outcome::{
    AcquireError, ExtendError, Loss, ReadError, Reading, Release,
};
use quorlock_client_rules::token::Token;
use quorlock_client_rules::wait::Wait;
use quorlock_clock::{ClientInstant, saturated};
use quorlock_engine::Reply;

use crate::lock_command::{HolderCall, LockTerms, has_attempt};
use crate::next::{Expiring, Next, Releasing, has_freed, release};
use crate::refusal;
use crate::surroundings::Surroundings;
use crate::terms::node_ttl;

#[derive(Debug, Default)]
pub(crate) struct Locking {
    pub(crate) name: Bytes,
    stage: Stage,
    /// How often the lock was not as it had been read.
    rounds: u32,
    /// How long nodes keep it, as far as they have said that.
    lasts: Option<Duration>,
    /// A release has freed it under the token of one attempt.
    has_freed: bool,
}

#[derive(Debug, Default)]
enum Stage {
    Acquiring {
        ttl: Duration,
        is_shared: bool,
    },
    /// Which attempt of the caller's own token holds the lock is asked, for a step that is taken then.
    Resolving(OwnToken, HolderCall),
    Pausing(OwnToken, HolderCall),
    /// The step is taken. Whoever has named the whole token is told whether that one held the lock.
    Extending(Option<OwnToken>, Token, Duration),
    Releasing(Option<OwnToken>, Releasing),
    /// Nothing is asked for.
    #[default]
    Idle,
}

/// What a caller named when it acquired the lock.
type OwnToken = Bytes;

impl Locking {
    /// Begins with another end for a lock, or its release.
    pub(crate) fn change(
        name: Bytes,
        token: Token,
        step: HolderCall,
        world: &mut Surroundings<'_>,
    ) -> (Self, Next) {
        let mut locking = Self {
            name,
            ..Self::default()
        };
        let next = match has_attempt(&token) {
            true => locking.take_step(token, None, step, world),
            false => locking.resolve(Bytes::copy_from_slice(token.as_bytes()), step, world),
        };
        (locking, next)
    }

    /// Whether it ends when its client has gone.
    pub(crate) fn ends_with_client(&self) -> bool {
        matches!(self.stage, Stage::Acquiring { .. })
    }

    /// What was asked for has come to this.
    pub(crate) fn handle(&mut self, outcome: Outcome, world: &mut Surroundings<'_>) -> Next {
        let stage = std::mem::take(&mut self.stage);
        match (outcome, stage) {
            (
                Outcome::Acquired {
                    token,
                    valid_until,
                    fence,
                    ..
                },
                Stage::Acquiring { ttl, is_shared },
            ) => {
                let next = self.acquired(&token, valid_until, fence, ttl, world);
                if !is_shared && matches!(next, Next::HandOver(..)) {
                    (world.known).note(world.now, &self.name, token, valid_until);
                }
                next
            }
            (Outcome::NotAcquired(error), Stage::Acquiring { .. }) => not_acquired(&error),
            (Outcome::Read(told), Stage::Resolving(own, step)) => {
                self.was_read(told, own, step, world)
            }
            (Outcome::Extended(result), Stage::Extending(own, token, ttl)) => {
                self.extended(result, own, (&token, ttl), world)
            }
            (Outcome::Released(release), Stage::Releasing(own, releasing)) => {
                self.released(&release, own, &releasing, world)
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
        if let Stage::Pausing(own, step) = &self.stage {
            self.stage = Stage::Resolving(own.clone(), *step);
        }
        self.read()
    }

    pub(crate) fn acquire(terms: LockTerms, world: &Surroundings<'_>) -> (Self, Next) {
        let ttl = node_ttl(terms.ttl, world.drift);
        let call = AcquireCall {
            own_token: Some(terms.own_token),
            wait: match terms.wait {
                Duration::ZERO => Wait::None,
                wait => Wait::For(wait),
            },
            min_validity: terms.ttl,
            is_fenced: terms.is_fenced,
            is_shared: terms.is_shared,
            text: terms.owner,
            ..AcquireCall::new(terms.name.clone().into(), ttl)
        };
        let stage = Stage::Acquiring {
            ttl: terms.ttl,
            is_shared: terms.is_shared,
        };
        let locking = Self {
            name: terms.name,
            stage,
            ..Self::default()
        };
        (locking, Next::Ask(Call::Acquire(call)))
    }

    fn acquired(
        &self,
        token: &Token,
        valid_until: ClientInstant,
        fence: Option<u64>,
        ttl: Duration,
        world: &mut Surroundings<'_>,
    ) -> Next {
        let reply = Reply::Array(vec![
            Reply::flag(true),
            fence.map_or(Reply::Nil, number),
            Reply::bulk(token.as_bytes()),
            // More is left now, and may be gone when the reply leaves.
            number(saturated(ttl.as_millis())),
        ]);
        let name = self.name.clone().into();
        world.hand_over(&name, (token, valid_until), ttl, reply)
    }

    /// Finds the attempt of the caller's that holds the lock. One that this agent knows is tried first: the step is conditional on it.
    fn resolve(&mut self, own: OwnToken, step: HolderCall, world: &mut Surroundings<'_>) -> Next {
        let known = world.known.token(world.now, &self.name).cloned();
        match known.filter(|token| token.without_attempt() == own) {
            Some(token) => self.take_step(token, Some(own), step, world),
            None => {
                self.stage = Stage::Resolving(own, step);
                self.read()
            }
        }
    }

    fn read(&self) -> Next {
        Next::Ask(Call::Read {
            name: self.name.clone(),
        })
    }

    fn was_read(
        &mut self,
        told: Result<Reading, ReadError>,
        own: OwnToken,
        step: HolderCall,
        world: &mut Surroundings<'_>,
    ) -> Next {
        match told {
            Err(error) => Next::Answer(Reply::Error(match self.has_freed {
                true => refusal::not_read_again(&error),
                false => refusal::not_read(&error),
            })),
            Ok(Reading::Held {
                token,
                left,
                longest,
            }) if token.without_attempt() == own => {
                self.lasts = longest.max(left);
                self.take_step(token, Some(own), step, world)
            }
            // Those who read go by their whole tokens.
            Ok(Reading::Free | Reading::Held { .. } | Reading::OtherType { .. }) => {
                Next::Answer(Reply::flag(self.has_freed))
            }
            // No majority has it, and what nodes keep under the caller's token is freed as it wants.
            Ok(Reading::Split { token, .. })
                if token.without_attempt() == own && matches!(step, HolderCall::Release) =>
            {
                self.take_step(token, Some(own), step, world)
            }
            Ok(Reading::Split { .. }) => self.pause(own, step, world),
        }
    }

    fn take_step(
        &mut self,
        token: Token,
        own: Option<OwnToken>,
        step: HolderCall,
        world: &mut Surroundings<'_>,
    ) -> Next {
        let name = self.name.clone();
        match step {
            HolderCall::Extend(ttl) => {
                self.stage = Stage::Extending(own, token.clone(), ttl);
                let ttl = node_ttl(ttl, world.drift);
                let (ends, lock) = (world.now.after(ttl), name.clone().into());
                (world.sessions).note_extending(world.client, &lock, ends, (&token, &token));
                // A release is owed for so long, and judged by whether that is over.
                world.known.extend(world.now, &name, &token, ends);
                Next::Ask(Call::Extend {
                    name,
                    token,
                    ttl,
                    waits_for_all: false,
                })
            }
            HolderCall::Release => {
                let is_known = world.known.token(world.now, &name) == Some(&token);
                let known = (world.known).longest(world.now, std::slice::from_ref(&name));
                let lasts = self.lasts.max(known.filter(|_| is_known));
                let releasing = Releasing {
                    name: name.clone().into(),
                    token: token.clone(),
                    ends_at: lasts.map(|lasts| world.now.after(lasts)),
                };
                self.stage = Stage::Releasing(own, releasing);
                world.known.forget(&name);
                // Another agent may have given it longer than is known here.
                let lasts = self.lasts.max(known).max(Some(OWED_LEAST));
                Next::Ask(release(name.into(), token, lasts))
            }
        }
    }

    fn extended(
        &mut self,
        result: Result<Extended, ExtendError>,
        own: Option<OwnToken>,
        (token, ttl): (&Token, Duration),
        world: &mut Surroundings<'_>,
    ) -> Next {
        let too_late = || Reply::Error(refusal::not_longer_in_time());
        match result {
            Ok(extended) if world.now.until(extended.valid_until) >= ttl => {
                let name = self.name.clone().into();
                let until = extended.valid_until;
                (world.sessions).note_extended(world.client, &name, until, token);
                let expiring = Expiring {
                    until: extended.valid_until.before(ttl),
                    instead: too_late(),
                    undo: None,
                };
                Next::AnswerBefore(Reply::flag(true), expiring)
            }
            Ok(_) | Err(ExtendError::Lost(Loss::Late)) => Next::Answer(too_late()),
            Err(ExtendError::Lost(Loss::BelowMajority)) => {
                self.not_held(own, HolderCall::Extend(ttl), world)
            }
            Err(error) => Next::Answer(Reply::Error(refusal::not_longer(&error))),
        }
    }

    /// It is free, or is not: what that is judged by is said at the same step of a request.
    fn released(
        &mut self,
        release: &Release,
        own: Option<OwnToken>,
        releasing: &Releasing,
        world: &mut Surroundings<'_>,
    ) -> Next {
        if world.note_release(releasing, release) {
            match own {
                // Another attempt of the caller's may hold it.
                Some(own) if !release.released() && self.has_freed => {
                    self.pause(own, HolderCall::Release, world)
                }
                Some(own) if !release.released() => {
                    self.has_freed = true;
                    self.stage = Stage::Resolving(own, HolderCall::Release);
                    self.read()
                }
                _ => Next::Answer(Reply::flag(true)),
            }
        } else if release.was_lost() || has_freed(release) {
            self.not_held(own, HolderCall::Release, world)
        } else {
            Next::Answer(Reply::Error(refusal::not_released(release)))
        }
    }

    /// A majority does not hold the lock under the token of that attempt: another one of the caller's may.
    fn not_held(
        &mut self,
        own: Option<OwnToken>,
        step: HolderCall,
        world: &mut Surroundings<'_>,
    ) -> Next {
        world.known.forget(&self.name);
        match own {
            None => Next::Answer(Reply::flag(false)),
            // It may have been what this agent knew, and not what the nodes say.
            Some(own) if self.rounds == 0 => {
                self.rounds += 1;
                self.stage = Stage::Resolving(own, step);
                self.read()
            }
            Some(own) => self.pause(own, step, world),
        }
    }

    fn pause(&mut self, own: OwnToken, step: HolderCall, world: &mut Surroundings<'_>) -> Next {
        self.stage = Stage::Pausing(own, step);
        match world.pause(&mut self.rounds) {
            Next::Answer(_) if self.has_freed => Next::Answer(Reply::flag(true)),
            next => next,
        }
    }
}

/// The lock is held by others: as a node says it, with the token that holds it, and for how long where that is known.
fn not_acquired(error: &AcquireError) -> Next {
    let AcquireError::Busy {
        holder, time_left, ..
    } = error
    else {
        return Next::Answer(Reply::Error(refusal::not_acquired(error)));
    };
    let holder = holder.as_ref();
    let left = time_left.map(|left| number(saturated(left.as_millis())));
    Next::Answer(Reply::Array(vec![
        Reply::flag(false),
        Reply::Nil,
        holder.map_or(Reply::Nil, |token| Reply::bulk(token.as_bytes())),
        left.unwrap_or(Reply::Nil),
    ]))
}

/// For how long a release by its command is owed at least.
const OWED_LEAST: Duration = Duration::from_secs(3600);

/// A number that no client says.
pub(crate) fn number(number: u64) -> Reply {
    match i64::try_from(number) {
        Ok(number) => Reply::Integer(number),
        // No node has such a fence, unless it says anything.
        Err(_) => Reply::bulk(number.to_string()),
    }
}
