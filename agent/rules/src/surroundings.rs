//! What a request needs of its agent.

use std::time::Duration;

use quorlock_client_rules::name::LockName;
use quorlock_client_rules::outcome::Release;
use quorlock_client_rules::settings::Drift;
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;
use quorlock_engine::Reply;
use rand::Rng;

use crate::channels::Channels;
use crate::known_holders::KnownHolders;
use crate::next::{Expiring, Next, Releasing, has_freed, release};
use crate::pauses::pause_until;
use crate::refusal;
use crate::scratch::Scratch;
use crate::sessions::Sessions;
use crate::watched_names::WatchedNames;

/// What a request needs of its agent.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: ClientInstant,
    pub(crate) wall_us: u64,
    pub(crate) drift: Drift,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) known: &'a mut KnownHolders,
    pub(crate) watched: &'a mut WatchedNames,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) channels: &'a mut Channels,
    /// Whose request it is.
    pub(crate) client: u64,
    /// How long a try may be held back now, if it may.
    pub(crate) hold_back: Option<Duration>,
    pub(crate) random: &'a mut dyn Rng,
}

impl Surroundings<'_> {
    /// Hands over a lock that was acquired, if it is valid for the ttl that its caller counts from the reply on, and its session can
    /// note it. It is released otherwise.
    pub(crate) fn hand_over(
        &mut self,
        name: &LockName,
        (token, valid_until): (&Token, ClientInstant),
        ttl: Duration,
        reply: Reply,
    ) -> Next {
        let instead = Reply::Error(refusal::too_late());
        let lasts = Some(self.now.until(valid_until));
        let undo = release(name.clone(), token.clone(), lasts);
        if self.now.until(valid_until) < ttl {
            return Next::GiveBack(instead, undo);
        }
        let (now, client) = (self.now, self.client);
        if let Err(full) = (self.sessions).note_taken(now, client, name, valid_until, token) {
            return Next::GiveBack(Reply::Error(full), undo);
        }
        let expiring = Expiring {
            until: valid_until.before(ttl),
            instead,
            undo: Some(undo),
        };
        Next::HandOver(reply, expiring)
    }

    /// Whether this release has freed the lock, rather than the end of its time. Its session and its watch note that it is free.
    pub(crate) fn note_release(&mut self, lock: &Releasing, release: &Release) -> bool {
        let has_ended = lock.ends_at.is_some_and(|at| self.now.has_reached(at));
        let is_freed = release.released() || has_freed(release) && !has_ended;
        if is_freed {
            for name in lock.name.parts() {
                self.watched.note_free(self.now, name);
            }
            (self.sessions).note_released(self.client, &lock.name, &lock.token);
        }
        is_freed
    }

    /// Votes are split, or the lock has changed: one round more behind a pause, unless there were enough.
    pub(crate) fn pause(&mut self, rounds: &mut u32) -> Next {
        *rounds += 1;
        match pause_until(*rounds, self.now, &mut *self.random) {
            Some(until) => Next::Pause(until),
            None => Next::Answer(Reply::Error(refusal::TRY_AGAIN)),
        }
    }
}
