//! Locks that were taken through this agent, and their tokens on the nodes.
//!
//! They save a question: what a request does to a lock that is still held under that token is tried first, on the condition that
//! it is. A wrong one costs a round and nothing else, so what a restart loses here is not missed.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;

#[derive(Debug, Default)]
pub(crate) struct KnownHolders {
    tokens: HashMap<Bytes, (Token, ClientInstant)>,
}

impl KnownHolders {
    /// The lock is held under this token, at most until then.
    pub(crate) fn note(
        &mut self,
        now: ClientInstant,
        name: &Bytes,
        token: Token,
        until: ClientInstant,
    ) {
        if self.tokens.len() >= KNOWN_MAX && !self.tokens.contains_key(name) {
            self.tokens.retain(|_, (_, until)| !now.has_reached(*until));
            if self.tokens.len() >= KNOWN_MAX {
                return;
            }
        }
        self.tokens.insert(name.clone(), (token, until));
    }

    /// A lock that is known to be held under this token may be extended until then.
    pub(crate) fn extend(
        &mut self,
        now: ClientInstant,
        name: &Bytes,
        token: &Token,
        until: ClientInstant,
    ) {
        if let Some((known, ends)) = self.tokens.get_mut(name)
            && *known == *token
            && !now.has_reached(*ends)
            && !ends.has_reached(until)
        {
            *ends = until;
        }
    }

    pub(crate) fn forget(&mut self, name: &Bytes) {
        self.tokens.remove(name);
    }

    /// The token under which the lock may still be held.
    pub(crate) fn token(&self, now: ClientInstant, name: &Bytes) -> Option<&Token> {
        let (token, until) = self.tokens.get(name)?;
        (!now.has_reached(*until)).then_some(token)
    }

    /// For how long one of these may still be held, if that is known.
    pub(crate) fn longest(&self, now: ClientInstant, names: &[Bytes]) -> Option<Duration> {
        let known = names.iter().filter_map(|name| self.tokens.get(name));
        known.map(|(_, until)| now.until(*until)).max()
    }
}

/// About 20 MB with names and tokens of usual lengths. Beyond it a release costs one more round.
const KNOWN_MAX: usize = 100_000;
