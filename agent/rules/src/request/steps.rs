//! The steps that a request takes on the nodes, and what it does once they are taken, or are not.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{AcquireCall, Call};
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::outcome::{AcquireError, ExtendError, Release};
use quorlock_client_rules::token::{OWN_TOKEN_BYTES_MAX, Token};
use quorlock_clock::ClientInstant;
use quorlock_engine::{Purpose, Reply};

use super::{Held, Request, Stage, holders, tokens};
use crate::change::Change;
use crate::next::{Next, Releasing, has_freed, release};
use crate::pauses::ROUNDS_MAX;
use crate::refusal::{self, not_a_lock};
use crate::scratch::Executed;
use crate::surroundings::Surroundings;
use crate::terms::node_ttl;

impl Request {
    /// Takes the step that a request is, on the condition that its locks are held under these tokens, or are free.
    pub(super) fn take_step(
        &mut self,
        reply: Reply,
        change: Change,
        held: &[Option<Token>],
        world: &mut Surroundings<'_>,
    ) -> Next {
        if self.rounds > ROUNDS_MAX {
            return Next::Answer(match change {
                Change::None => reply,
                _ => Reply::Error(refusal::TRY_AGAIN),
            });
        }
        let token = change.token(held).cloned();
        match (change, token) {
            (Change::None, _) => Next::Answer(reply),
            (Change::Acquire(token, ttl), _) => self.acquire(reply, &token, ttl, world),
            (Change::SetEnd(ttl), Some(token)) => self.set_end(reply, token, ttl, world),
            (Change::Release(gone), Some(token)) => {
                let names = gone.iter().map(|at| self.name.parts()[*at].clone());
                let name = LockName::of_all(names);
                let lasts = (self.lasts).max(world.known.longest(world.now, name.parts()));
                let releasing = Releasing {
                    name: name.clone(),
                    token: token.clone(),
                    ends_at: lasts.map(|lasts| world.now.after(lasts)),
                };
                self.stage = Stage::Releasing(reply, releasing);
                self.forget(world);
                Next::Ask(release(name, token, lasts))
            }
            // They may have been read while their token changed.
            (Change::SetEnd(_) | Change::Release(_), None) if self.rounds + 1 < ROUNDS_MAX => {
                self.pause(world)
            }
            (Change::SetEnd(_) | Change::Release(_), None) => {
                Next::Answer(Reply::Error(not_a_lock(
                    "the request is about several locks that were not taken together, so that each has a token of its own. \
                     Use one key for each request",
                )))
            }
        }
    }

    fn acquire(
        &mut self,
        reply: Reply,
        token: &[u8],
        ttl: Duration,
        world: &Surroundings<'_>,
    ) -> Next {
        if token.len() > OWN_TOKEN_BYTES_MAX {
            let reason = format!(
                "the lock's value has {} bytes, and a token has {OWN_TOKEN_BYTES_MAX} at most",
                token.len()
            );
            return Next::Answer(Reply::Error(not_a_lock(&reason)));
        }
        self.stage = Stage::Acquiring { reply, ttl };
        Next::Ask(Call::Acquire(AcquireCall {
            own_token: Some(Bytes::copy_from_slice(token)),
            min_validity: ttl,
            ..AcquireCall::new(self.name.clone(), node_ttl(ttl, world.drift))
        }))
    }

    fn set_end(
        &mut self,
        reply: Reply,
        token: Token,
        ttl: Duration,
        world: &mut Surroundings<'_>,
    ) -> Next {
        // Whose attempt it was may have been told that it failed, by another agent that still owes its release: libraries
        // take a lock again that they find held under their own token. So may who was told here that it has it, if it tried to release
        // it there since: who takes it where it is free does not count on having it.
        let mut names = self.name.parts().iter();
        let is_known = names.all(|name| world.known.token(world.now, name) == Some(&token));
        let free = self.name.parts().iter().map(|_| None);
        let if_free = self.run(free, Purpose::Question, world);
        let takes = if_free.is_ok_and(|it| matches!(it.change, Change::Acquire(..)));
        let new_token = match is_known && !takes {
            true => None,
            false => token.next_attempt(world.random),
        };
        let call = Call::SetEnd {
            name: self.name.clone(),
            token: token.clone(),
            new_token: new_token.clone(),
            ttl: node_ttl(ttl, world.drift),
        };
        let extended = new_token.unwrap_or_else(|| token.clone());
        let ends = world.now.after(node_ttl(ttl, world.drift));
        let tokens = (&token, &extended);
        (world.sessions).note_extending(world.client, &self.name, ends, tokens);
        // Nodes may keep it for so long, also where no majority confirms that in time.
        for name in self.name.parts() {
            world.known.extend(world.now, name, &token, ends);
        }
        self.stage = Stage::SettingEnd {
            reply,
            token: extended,
            ttl,
        };
        Next::Ask(call)
    }

    /// All its locks are held under this token, at most until then.
    pub(super) fn note_known(
        &self,
        token: &Token,
        until: ClientInstant,
        world: &mut Surroundings<'_>,
    ) {
        for name in self.name.parts() {
            world.known.note(world.now, name, token.clone(), until);
        }
    }

    fn forget(&self, world: &mut Surroundings<'_>) {
        for name in self.name.parts() {
            world.known.forget(name);
        }
    }

    pub(super) fn acquired(
        &mut self,
        token: &Token,
        valid_until: ClientInstant,
        reply: Reply,
        ttl: Duration,
        world: &mut Surroundings<'_>,
    ) -> Next {
        let next = world.hand_over(&self.name, (token, valid_until), ttl, reply);
        match next {
            Next::HandOver(..) => self.note_known(token, valid_until, world),
            _ => self.forget(world),
        }
        next
    }

    pub(super) fn not_acquired(
        &mut self,
        error: &AcquireError,
        world: &mut Surroundings<'_>,
    ) -> Next {
        match error {
            AcquireError::Busy { .. } => {
                self.was_refused = true;
                self.forget(world);
                self.read(Vec::new())
            }
            error => Next::Answer(Reply::Error(refusal::not_acquired(error))),
        }
    }

    pub(super) fn not_extended(
        &mut self,
        error: &ExtendError,
        world: &mut Surroundings<'_>,
    ) -> Next {
        match error {
            ExtendError::Lost(_) => {
                self.forget(world);
                self.again(world)
            }
            error => Next::Answer(Reply::Error(refusal::not_extended(error))),
        }
    }

    /// What it has asked nodes to release is free, or is not: all of its locks, or some of them.
    ///
    /// Some nodes may have had nothing to free, and others may be away, so that no majority has freed them. If a majority does not have
    /// them any more, that is so for certain, and it is this request that has freed them, unless a majority may have lost them before.
    /// That is also taken to be so where their time is over: then the request is executed on what a majority says now, and its caller is
    /// told that the lock was not held any more.
    pub(super) fn released(
        &mut self,
        release: &Release,
        reply: Reply,
        releasing: &Releasing,
        world: &mut Surroundings<'_>,
    ) -> Next {
        if world.note_release(releasing, release) {
            if release.released() {
                return Next::Answer(reply);
            }
            match self.freed.replace((releasing.token.clone(), reply)) {
                None => self.read(Vec::new()),
                Some(_) => self.pause(world),
            }
        } else if release.was_lost() || self.released.is_some() || has_freed(release) {
            // Some nodes may have it under the token of another attempt.
            self.again(world)
        } else {
            Next::Answer(Reply::Error(refusal::not_released(release)))
        }
    }

    /// It has freed its locks under one token. If a majority says that the same caller holds them under the token of another attempt, it
    /// goes on with that one; else it is answered, and touches nothing that others hold.
    pub(super) fn answer_freed(
        &mut self,
        known: &[Option<Held>],
        world: &mut Surroundings<'_>,
    ) -> Option<Next> {
        let (freed, reply) = self.freed.clone()?;
        let by_votes = holders(known, |held| held.left);
        let again = self.run(by_votes, Purpose::Question, world);
        let held = tokens(known);
        let is_callers = |token: &Token| token.without_attempt() == freed.without_attempt();
        match again {
            Ok(Executed {
                change: change @ Change::Release(_),
                ..
            }) if change.token(&held).is_some_and(is_callers) => None,
            _ if known.iter().flatten().any(|held| held.is_split) => Some(self.pause(world)),
            _ => Some(Next::Answer(reply)),
        }
    }

    /// The lock was not as it was read, or assumed: it is read once more.
    fn again(&mut self, world: &mut Surroundings<'_>) -> Next {
        match self.rounds {
            0 => self.read(Vec::new()),
            _ => self.pause(world),
        }
    }

    /// Votes are split: others are taking the lock, or letting it go.
    pub(super) fn pause(&mut self, world: &mut Surroundings<'_>) -> Next {
        self.stage = Stage::Pausing;
        match (world.pause(&mut self.rounds), &self.freed) {
            (Next::Answer(_), Some((_, reply))) => Next::Answer(reply.clone()),
            (next, _) => next,
        }
    }
}
