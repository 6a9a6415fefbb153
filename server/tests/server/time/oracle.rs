//! What must hold, judged by true time alone: who was granted a lock, and until when nobody else
//! may be, on any clock within the drift bound.
//!
//! It knows nothing of logs, boots or delays. A node may always refuse to serve locks; what it
//! says when it does must fit.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_engine::RawTime;

/// The locks that somebody may rely on.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    claims: BTreeMap<u8, Claim>,
    /// Replies that said something about a lock that was held.
    pub(crate) checked: u32,
}

/// One grant or extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// Tells one holder from the next.
    pub(crate) token: u32,
    /// The time that the holder may count on.
    pub(crate) at_least: Duration,
    /// The time that the node may have understood.
    pub(crate) at_most: Duration,
    /// True time when it was granted.
    pub(crate) from: Duration,
    /// The raw clock then; `None` where it does not say when the lock ends.
    pub(crate) raw: Option<RawTime>,
}

impl Grant {
    /// Until when it must hold, in true time: the node's clock may run fast by the drift bound.
    fn until(&self) -> Duration {
        let nanos = self.at_least.as_nanos() * 1_000_000 / (1_000_000 + DRIFT_PPM);
        self.from + Duration::from_nanos(u64::try_from(nanos).unwrap())
    }
}

impl Oracle {
    /// A lock was granted or extended.
    pub(crate) fn granted(&mut self, key: u8, grant: Grant) {
        let longest = match self.claims.get(&key) {
            // An extension may be forgotten, and an older, longer end come back.
            Some(claim) if claim.grant.token == grant.token => claim.longest.max(grant.at_most),
            _ => grant.at_most,
        };
        self.claims.insert(key, Claim { grant, longest });
    }

    /// Nobody relies on it any more; it may be there for a while all the same.
    pub(crate) fn released(&mut self, key: u8) {
        self.claims.remove(&key);
    }

    /// The raw clock is another one, or was set: when a lock ends exactly is no longer known.
    pub(crate) fn raw_clock_changed(&mut self) {
        for claim in self.claims.values_mut() {
            claim.grant.raw = None;
        }
    }

    /// Whether a lock of this key must be refused to others.
    pub(crate) fn is_held(&self, key: u8, now: Duration) -> bool {
        let claim = self.claims.get(&key);
        claim.is_some_and(|claim| now < claim.grant.until())
    }

    /// The token in force, for a holder that extends or releases.
    pub(crate) fn token(&self, key: u8) -> Option<u32> {
        self.claims.get(&key).map(|claim| claim.grant.token)
    }

    /// Judges what a node that serves locks says of a key: its token and its time left in ms.
    pub(crate) fn judge(
        &mut self,
        key: u8,
        (token, pttl): (Option<u32>, i128),
        now: Duration,
        raw: RawTime,
    ) -> Result<(), String> {
        let Some(Claim { grant, longest }) = self.claims.get(&key).copied() else {
            return Ok(());
        };
        let context = format!("{grant:?} {token:?} {pttl} at {now:?}, raw {raw:?}");
        let is_there = token == Some(grant.token);
        if now < grant.until() {
            self.checked += 1;
            if !is_there {
                return Err(format!("ended early: {context}"));
            }
        }
        if is_there && pttl > i128::try_from(longest.as_millis()).unwrap() {
            return Err(format!("more time left than was given: {context}"));
        }
        let Some(granted) = grant.raw else {
            return Ok(());
        };
        let ttl_ns = u64::try_from(grant.at_least.as_nanos()).unwrap();
        let left_ns = granted.plus_nanos(ttl_ns).nanos_since(raw);
        let due = if left_ns == 0 {
            (None, -2)
        } else {
            (Some(grant.token), i128::from(left_ns.div_ceil(1_000_000)))
        };
        if (token, pttl) != due {
            return Err(format!("not exact, {due:?} was due: {context}"));
        }
        Ok(())
    }
}

/// What a holder relies on, and the longest time its token was ever given.
#[derive(Clone, Copy, Debug)]
struct Claim {
    grant: Grant,
    longest: Duration,
}

/// The drift bound of a node as it comes.
pub(crate) const DRIFT_PPM: u128 = 10_000;
