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
    /// Of all names and tokens.
    bytes: usize,
    /// When those whose time is over were looked for last.
    swept_at: Option<ClientInstant>,
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
        self.forget(name);
        let more = bytes_of(name, &token);
        if !self.has_room(more) {
            self.sweep(now);
        }
        if self.has_room(more) {
            self.bytes += more;
            self.tokens.insert(name.clone(), (token, until));
        }
    }

    fn has_room(&self, more: usize) -> bool {
        self.tokens.len() < KNOWN_MAX && self.bytes + more <= KNOWN_BYTES_MAX
    }

    /// Forgets those whose time is over, unless it did so a moment ago.
    fn sweep(&mut self, now: ClientInstant) {
        if (self.swept_at).is_some_and(|at| now.since(at) < SWEPT_EVERY) {
            return;
        }
        self.swept_at = Some(now);
        self.tokens.retain(|_, (_, until)| !now.has_reached(*until));
        let all = self.tokens.iter();
        self.bytes = all.map(|(name, (token, _))| bytes_of(name, token)).sum();
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
        if let Some((token, _)) = self.tokens.remove(name) {
            self.bytes -= bytes_of(name, &token);
        }
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

fn bytes_of(name: &Bytes, token: &Token) -> usize {
    name.len() + token.as_bytes().len()
}

/// About 20 MB with names and tokens of usual lengths. Beyond it a release costs one more round.
const KNOWN_MAX: usize = 100_000;
/// Names have up to 64 KiB.
const KNOWN_BYTES_MAX: usize = 16 << 20;
/// How often those whose time is over are looked for where there is no room.
const SWEPT_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> ClientInstant {
        ClientInstant::from_nanos(7_000_000_000, 3_000_000_000)
    }

    /// How many of so many locks with names of this length are known.
    fn known(length: usize, count: usize) -> (KnownHolders, usize) {
        let mut known = KnownHolders::default();
        let end = now().after(Duration::from_secs(10));
        let name = |number: usize| Bytes::from(format!("{number:0>length$}"));
        for number in 0..count {
            known.note(now(), &name(number), Token::from("me"), end);
            // Its token changes.
            known.note(now(), &name(number), Token::from("you"), end);
        }
        let tokens = (0..count).filter(|number| known.token(now(), &name(*number)).is_some());
        let tokens = tokens.count();
        (known, tokens)
    }

    #[test]
    fn what_is_known_is_bounded_in_number_and_in_bytes() {
        assert_eq!(known(6, KNOWN_MAX + 9).1, KNOWN_MAX);
        let (mut known, tokens) = known(60_000, 300);
        assert_eq!(tokens, KNOWN_BYTES_MAX / 60_003);
        // Each that is forgotten makes room for another one.
        known.forget(&Bytes::from(format!("{:0>60000}", 0)));
        let end = now().after(Duration::from_secs(10));
        let other = Bytes::from(vec![b'x'; 60_000]);
        known.note(now(), &other, Token::from("you"), end);
        assert!(known.token(now(), &other).is_some());
        // And so do those whose time is over.
        let later = end.after(Duration::from_secs(1));
        let next = Bytes::from(vec![b'y'; 60_000]);
        known.note(
            later,
            &next,
            Token::from("me"),
            later.after(Duration::from_secs(1)),
        );
        assert!(known.token(later, &next).is_some());
        assert_eq!((known.tokens.len(), known.bytes), (1, 60_002));
    }
}
