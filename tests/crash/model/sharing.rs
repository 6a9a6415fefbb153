//! Locks that many may hold at a time: what each holder was promised, beside what the key holds.

use std::collections::BTreeMap;

use quorlock_engine::{Deadline, NodeTime, StoredValue};

use super::{Execution, Expected, Item, Moment, Name, Rules, nanoseconds, number};

/// What one holder was promised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Until then, in true time.
    pub(crate) until: u64,
    /// The part of it that a restart delay can cover.
    pub(crate) covered_until: u64,
    /// When that was granted, in true time.
    pub(crate) granted: u64,
    /// The node's start in whose run it was.
    pub(crate) run: u64,
}

/// A holder of a lock as if it were a key of its own.
pub(crate) fn share_name((database, key): &Name, token: &[u8]) -> Name {
    (*database, [key.as_slice(), &[SEPARATOR], token].concat())
}

/// The key and the token, if this is the name of a holder.
pub(crate) fn share_of((database, key): &Name) -> Option<(Name, &[u8])> {
    let at = key.iter().position(|byte| *byte == SEPARATOR)?;
    Some(((*database, key[..at].to_vec()), &key[at + 1..]))
}

/// No key of a workload has it.
const SEPARATOR: u8 = 0;

impl Execution<'_> {
    /// The requests of readers. None if it is another one.
    pub(super) fn run_on_shared(&mut self, words: &[Vec<u8>]) -> Option<Expected> {
        let (key, token) = (words.get(1)?, words.get(2)?);
        Some(match &words[0][..] {
            b"LOCK.ACQUIRE" => self.acquire_shared(key, token, nanoseconds(&words[3])),
            b"LOCK.EXTEND" => number(usize::from(self.extend_shared(
                key,
                token,
                nanoseconds(&words[3]),
            ))),
            b"LOCK.RELEASE" | b"LOCK.FORCE-RELEASE" => {
                number(usize::from(self.release_shared(key, token)))
            }
            _ => return None,
        })
    }

    fn acquire_shared(&mut self, key: &[u8], token: &[u8], ttl_ns: u64) -> Expected {
        let now_ns = self.now.node_ns;
        let (mut holders, mut shares) = self.holders(key);
        if is_live(&holders, token, now_ns) {
            let head = format!("*2\r\n:0\r\n${}\r\n", token.len());
            return Expected::Exactly([head.as_bytes(), token, b"\r\n"].concat());
        }
        // Those whose time is over make room, and there are never many.
        holders.retain(|_, end| end.as_nanos() > now_ns);
        shares.retain(|token, _| holders.contains_key(token));
        self.put_shared(key, (holders, shares), token, ttl_ns);
        self.tell("expire", key);
        Expected::Exactly(b"*2\r\n:1\r\n$-1\r\n".to_vec())
    }

    fn extend_shared(&mut self, key: &[u8], token: &[u8], ttl_ns: u64) -> bool {
        let now_ns = self.now.node_ns;
        let (holders, shares) = self.holders(key);
        if !is_live(&holders, token, now_ns) {
            return false;
        }
        if now_ns + ttl_ns > holders[token].as_nanos() {
            self.put_shared(key, (holders, shares), token, ttl_ns);
            self.tell("expire", key);
        }
        true
    }

    fn release_shared(&mut self, key: &[u8], token: &[u8]) -> bool {
        let now_ns = self.now.node_ns;
        let (mut holders, mut shares) = self.holders(key);
        if !is_live(&holders, token, now_ns) {
            return false;
        }
        holders.remove(token);
        shares.remove(token);
        match holders.values().any(|end| end.as_nanos() > now_ns) {
            true => self.put_holders(key, holders, shares),
            false => drop(self.delete(key)),
        }
        true
    }

    fn put_shared(
        &mut self,
        key: &[u8],
        (mut holders, mut shares): (Holders, Shares),
        token: &[u8],
        ttl_ns: u64,
    ) {
        let end = Deadline::at(NodeTime::from_nanos(self.now.node_ns + ttl_ns));
        holders.insert(token.to_vec(), end);
        shares.insert(token.to_vec(), Share::granted(ttl_ns, self.now, self.rules));
        self.put_holders(key, holders, shares);
    }

    fn put_holders(&mut self, key: &[u8], holders: Holders, shares: Shares) {
        self.note();
        let value = StoredValue::SharedLock(holders);
        let mut item = Item::granted(value, None, self.now, self.rules);
        item.shares = shares;
        item.follow_shares();
        self.keys.insert(self.name(key), item);
    }

    fn holders(&self, key: &[u8]) -> (Holders, Shares) {
        let item = self.item(key);
        match item.map(|item| (&item.value, &item.shares)) {
            Some((StoredValue::SharedLock(holders), shares)) => (holders.clone(), shares.clone()),
            None => <(Holders, Shares)>::default(),
            Some(_) => panic!("only readers have these keys"),
        }
    }
}

type Holders = BTreeMap<Vec<u8>, Deadline>;
type Shares = BTreeMap<Vec<u8>, Share>;

fn is_live(holders: &Holders, token: &[u8], now_ns: u64) -> bool {
    let end = holders.get(token);
    end.is_some_and(|end| end.as_nanos() > now_ns)
}

impl Share {
    fn granted(ttl_ns: u64, now: Moment, rules: Rules) -> Share {
        Share {
            until: now.true_ns + ttl_ns,
            covered_until: now.true_ns + ttl_ns.min(rules.cap_ns),
            granted: now.true_ns,
            run: rules.run,
        }
    }
}

impl Item {
    /// Those who hold it shared count as if each had been granted what is left now.
    pub(super) fn with_shares(mut self, now: Moment, rules: Rules) -> Item {
        if let StoredValue::SharedLock(holders) = &self.value {
            let left = |end: &Deadline| end.as_nanos().saturating_sub(now.node_ns);
            let shares = holders.iter();
            let shares =
                shares.map(|(token, end)| (token.clone(), Share::granted(left(end), now, rules)));
            self.shares = shares.collect();
            self.follow_shares();
        }
        self
    }

    /// The key ends with the last of its holders.
    fn follow_shares(&mut self) {
        let StoredValue::SharedLock(holders) = &self.value else {
            return;
        };
        self.deadline = holders.values().map(|end| end.as_nanos()).max();
        let last = self.shares.values().max_by_key(|share| share.until);
        if let Some(last) = last {
            self.until = Some(last.until);
            self.granted = last.granted;
        }
        self.covered_until = self.shares.values().map(|share| share.covered_until).max();
    }
}
