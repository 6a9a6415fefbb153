//! Locks that end with the connection that took them, or with the last connection of a named session, where clients ask for that.
//!
//! Invariants: what is released is the attempt that the session took or extended last. A lock that has changed hands since, or that another
//! agent has extended, is not touched. While it is not known whether an extension of that attempt has changed it, both are released. A session
//! knows all locks that it took and that may still be held, and each reader of a name by itself: one more than it can know is refused.
//! Of several that were taken together each is known by itself, since each may be released or extended alone.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::Call;
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::token::{Token, is_of_reader};
use quorlock_clock::ClientInstant;
use quorlock_engine::ErrorReply;

use crate::lock_command::SessionChoice;
use crate::next::release;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// Each connection is a session of its own, unless it asks for something else.
    is_on: bool,
    of_clients: HashMap<u64, Client>,
    named: HashMap<Bytes, Named>,
}

/// What a connection has asked for, and what it has taken.
#[derive(Debug)]
struct Client {
    membership: Membership,
    /// What ends with the connection.
    locks: Locks,
}

/// To which session the locks that a connection takes from now on belong.
#[derive(Clone, Debug, PartialEq)]
enum Membership {
    None,
    Own,
    Named(Bytes),
}

#[derive(Debug, Default)]
struct Named {
    /// How many connections are in it: one at least.
    connections: usize,
    locks: Locks,
}

#[derive(Debug, Default)]
struct Locks {
    /// In the order of their names. One that is held shared has the token of its reader as well: a name has many readers, and one other
    /// holder.
    all: BTreeMap<LockKey, Lock>,
    /// Of the names in it.
    bytes: usize,
    /// Those that have ended are looked for once there are so many.
    looked_through_at: usize,
}

/// A name, and the token of its reader if it is one.
type LockKey = (Bytes, Option<Token>);

#[derive(Debug)]
struct Lock {
    /// It may be held until then.
    ends: ClientInstant,
    /// Under which it was taken or extended last.
    token: Token,
    /// Of extensions that no majority has confirmed: it may be held under one of these in place of its token.
    unconfirmed: Vec<Token>,
}

impl Sessions {
    /// From now on each connection is a session of its own.
    pub(crate) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Whether this client's locks end with a session.
    pub(crate) fn is_on(&self, client: u64) -> bool {
        *self.membership(client) != Membership::None
    }

    /// A client chooses what happens with the locks that it takes from now on.
    ///
    /// # Errors
    /// It is in a session already, which it has to leave first.
    pub(crate) fn choose(&mut self, client: u64, choice: SessionChoice) -> Result<(), ErrorReply> {
        let wanted = match choice {
            SessionChoice::Off => Membership::None,
            SessionChoice::OfConnection => Membership::Own,
            SessionChoice::Named(name) => Membership::Named(name),
        };
        let present = self.membership(client);
        if *present == wanted {
            return Ok(());
        }
        match (present, &wanted) {
            (Membership::Named(name), Membership::None) => {
                let name = name.clone();
                // It lets go of what it shares: nothing is released but by a connection that ends.
                self.leave(&name);
            }
            (Membership::Named(_), _) => return Err(IN_SESSION),
            _ => {}
        }
        if let Membership::Named(name) = &wanted {
            self.named.entry(name.clone()).or_default().connections += 1;
        }
        let client = self.of_clients.entry(client).or_insert(Client::new());
        client.membership = wanted;
        if client.membership == Membership::None {
            client.locks = Locks::default();
        }
        Ok(())
    }

    /// A client has taken a lock under this token.
    ///
    /// # Errors
    /// Its session holds too many. The lock is to be released.
    pub(crate) fn note_taken(
        &mut self,
        now: ClientInstant,
        client: u64,
        name: &LockName,
        ends: ClientInstant,
        token: &Token,
    ) -> Result<(), ErrorReply> {
        let Some(locks) = self.locks(client) else {
            return Ok(());
        };
        locks.forget_ended(now);
        if !locks.has_room_for(name, token) {
            locks.retain(|lock| !now.has_reached(lock.ends));
        }
        if !locks.has_room_for(name, token) {
            return Err(FULL);
        }
        for name in name.parts() {
            let lock = Lock {
                ends,
                token: token.clone(),
                unconfirmed: Vec::new(),
            };
            locks.insert(key(name, token), lock);
        }
        Ok(())
    }

    /// A client asks the nodes to extend a lock that is held under the first token, and under the second one then, until this time at
    /// most. Its session remembers that only of an attempt that it has taken or extended: another connection may have taken the lock
    /// since, under the same own token.
    pub(crate) fn note_extending(
        &mut self,
        client: u64,
        name: &LockName,
        ends: ClientInstant,
        (from, to): (&Token, &Token),
    ) {
        self.change(client, name, to, |lock| {
            if !lock.may_be_under(from) {
                return;
            }
            if lock.ends.earlier(ends) == lock.ends {
                lock.ends = ends;
            }
            if !lock.may_be_under(to) {
                if lock.unconfirmed.len() >= UNCONFIRMED_MAX {
                    lock.unconfirmed.remove(0);
                }
                lock.unconfirmed.push(to.clone());
            }
        });
    }

    /// A client has extended a lock, which is held under this token from now on.
    pub(crate) fn note_extended(
        &mut self,
        client: u64,
        name: &LockName,
        ends: ClientInstant,
        token: &Token,
    ) {
        self.change(client, name, token, |lock| {
            lock.ends = ends;
            lock.token = token.clone();
            lock.unconfirmed.clear();
        });
    }

    /// A client has released what was held under this token.
    pub(crate) fn note_released(&mut self, client: u64, name: &LockName, token: &Token) {
        if let Some(locks) = self.locks(client) {
            for name in name.parts() {
                let key = key(name, token);
                // Another connection of its session may have taken the lock meanwhile.
                let lock = locks.all.get(&key);
                if lock.is_some_and(|lock| lock.may_be_under(token)) {
                    locks.remove(&key);
                }
            }
        }
    }

    /// Changes what is known of a lock of the client's session. Of another caller's lock under the same name it stays as it was.
    fn change(
        &mut self,
        client: u64,
        name: &LockName,
        token: &Token,
        mut change: impl FnMut(&mut Lock),
    ) {
        let Some(locks) = self.locks(client) else {
            return;
        };
        for name in name.parts() {
            let lock = locks.all.get_mut(&key(name, token));
            let is_its = |lock: &&mut Lock| lock.token.without_attempt() == token.without_attempt();
            if let Some(lock) = lock.filter(is_its) {
                change(lock);
            }
        }
    }

    /// A client has gone: what releases the locks that end with it, those together that were taken together.
    pub(crate) fn end(
        &mut self,
        now: ClientInstant,
        client: u64,
    ) -> impl Iterator<Item = (LockName, Call)> + use<> {
        let mut locks = Locks::default();
        if let Some(client) = self.of_clients.remove(&client) {
            locks = client.locks;
            if let Membership::Named(name) = client.membership {
                locks.all.append(&mut self.leave(&name).all);
            }
        }
        locks.all.retain(|_, lock| !lock.is_forgotten(now));
        let mut of_tokens: BTreeMap<Token, (Vec<Bytes>, Duration)> = BTreeMap::new();
        for ((name, _), lock) in locks.all {
            let left = now.until(lock.ends);
            for token in std::iter::once(lock.token).chain(lock.unconfirmed) {
                let (names, lasts) = of_tokens.entry(token).or_default();
                names.push(name.clone());
                *lasts = left.max(*lasts);
            }
        }
        of_tokens.into_iter().map(|(token, (names, lasts))| {
            let name = LockName::of_all(names);
            (name.clone(), release(name, token, Some(lasts)))
        })
    }

    fn membership(&self, client: u64) -> &Membership {
        match self.of_clients.get(&client) {
            Some(client) => &client.membership,
            None if self.is_on => &Membership::Own,
            None => &Membership::None,
        }
    }

    /// The locks of the session that the client is in, if it is in one.
    fn locks(&mut self, client: u64) -> Option<&mut Locks> {
        match self.membership(client).clone() {
            Membership::None => None,
            Membership::Named(name) => self.named.get_mut(&name).map(|named| &mut named.locks),
            Membership::Own => {
                let client = self.of_clients.entry(client).or_insert(Client::new());
                Some(&mut client.locks)
            }
        }
    }

    /// A connection is not in this session any more: its locks, if that was the last one.
    fn leave(&mut self, name: &Bytes) -> Locks {
        let Some(named) = self.named.get_mut(name) else {
            return Locks::default();
        };
        named.connections -= 1;
        match named.connections {
            0 => {
                let ended = self.named.remove(name);
                ended.map(|it| it.locks).unwrap_or_default()
            }
            _ => Locks::default(),
        }
    }
}

impl Client {
    fn new() -> Self {
        Self {
            membership: Membership::Own,
            locks: Locks::default(),
        }
    }
}

impl Locks {
    /// Whether it can know these as well, under this token.
    fn has_room_for(&self, name: &LockName, token: &Token) -> bool {
        let names = name.parts().iter();
        let new = names.filter(|name| !self.all.contains_key(&key(name, token)));
        let (count, bytes) = new.fold((0, 0), |(count, bytes), name| {
            (count + 1, bytes + name.len())
        });
        self.all.len() + count <= LOCKS_MAX && self.bytes + bytes <= NAME_BYTES_MAX
    }

    fn insert(&mut self, key: LockKey, lock: Lock) {
        self.remove(&key);
        self.bytes += key.0.len();
        self.all.insert(key, lock);
    }

    fn remove(&mut self, key: &LockKey) {
        if self.all.remove(key).is_some() {
            self.bytes -= key.0.len();
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&Lock) -> bool) {
        self.all.retain(|_, lock| is_kept(lock));
        self.bytes = self.all.keys().map(|(name, _)| name.len()).sum();
    }

    /// Forgets those that nodes do not keep any more, when their number has doubled.
    fn forget_ended(&mut self, now: ClientInstant) {
        if self.all.len() >= self.looked_through_at.max(LOOKED_THROUGH_LEAST) {
            self.retain(|lock| !lock.is_forgotten(now));
            self.looked_through_at = self.all.len().saturating_mul(2);
        }
    }
}

impl Lock {
    /// Whether it has ended long ago. Nodes keep a lock for a little longer than its session counts.
    fn is_forgotten(&self, now: ClientInstant) -> bool {
        now.has_reached(self.ends.after(KEPT_AFTER_END))
    }

    /// Whether it may be held under this token, as far as its session has taken or extended it.
    fn may_be_under(&self, token: &Token) -> bool {
        self.token == *token || self.unconfirmed.contains(token)
    }
}

fn key(name: &Bytes, token: &Token) -> LockKey {
    (name.clone(), is_of_reader(token).then(|| token.clone()))
}

/// How many extensions of one lock are remembered that no majority has confirmed. What an earlier one has left ends with its ttl.
const UNCONFIRMED_MAX: usize = 8;
/// How long a lock that has ended is remembered and released. Nodes keep it by then only if its ttl was an hour or more, by what clocks may
/// differ.
const KEPT_AFTER_END: Duration = Duration::from_secs(60);
/// A session of fewer locks is not looked through.
const LOOKED_THROUGH_LEAST: usize = 64;
/// How many locks end with one session.
pub(crate) const LOCKS_MAX: usize = 10_000;
/// How many bytes their names have together. A name has up to 64 KiB.
const NAME_BYTES_MAX: usize = 4 << 20;
const IN_SESSION: ErrorReply = ErrorReply::fixed(
    "ERR this connection is in a named session: leave it with LOCK.SESSION OFF first, which keeps its locks until their ttl",
);
const FULL: ErrorReply = ErrorReply::fixed(
    "ERR this session holds 10000 locks, or names of 4 MiB together, and no more can end with it: the lock was not taken. Release some, or \
     use another session",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_ended_long_ago_are_forgotten_and_not_released() {
        let mut sessions = Sessions::default();
        sessions.begin();
        let mut now = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let mut known_most = 0;
        for number in 0..5_000 {
            let token = Token::from(format!("me~sharing-{number:016x}"));
            let ends = now.after(Duration::from_secs(10));
            let taken = sessions.note_taken(now, 7, &"a".into(), ends, &token);
            assert!(taken.is_ok(), "{number}");
            known_most = known_most.max(sessions.of_clients[&7].locks.all.len());
            now = now.after(Duration::from_secs(1));
        }
        // 69 of them may be held at any time.
        assert!(known_most <= 140, "{known_most}");
        assert_eq!(sessions.end(now, 7).count(), 69);
    }

    #[test]
    fn a_session_knows_names_of_so_many_bytes_and_no_more() {
        let mut sessions = Sessions::default();
        sessions.begin();
        let now = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let token = Token::from("me~attempt-0123456789abcdef");
        let name = |number: usize| LockName::from(Bytes::from(format!("{number:0>60000}")));
        let take = |sessions: &mut Sessions, at: ClientInstant, number: usize| {
            let ends = at.after(Duration::from_secs(10));
            let taken = sessions.note_taken(at, 7, &name(number), ends, &token);
            taken.is_ok()
        };
        let most = NAME_BYTES_MAX / 60_000;
        for number in 0..most {
            assert!(take(&mut sessions, now, number), "{number}");
        }
        assert!(!take(&mut sessions, now, most));
        assert!(take(&mut sessions, now, 0), "it has that one already");
        sessions.note_released(7, &name(0), &token);
        assert!(take(&mut sessions, now, most));
        assert!(!take(&mut sessions, now, 0));
        // Those that have ended make room.
        let later = now.after(Duration::from_secs(11));
        assert!(take(&mut sessions, later, 0));
        assert_eq!(sessions.of_clients[&7].locks.bytes, 60_000);
    }
}
