//! The fences of a node's locks: numbers that a resource can check, so that it refuses who has lost the lock.
//!
//! A fence belongs to a name and grows with every grant. A client takes the same one on a majority of nodes, so any two
//! grants have a node in common that has taken the smaller one before the larger one. Each node takes for a name only what is
//! above all that it took before.
//!
//! Fences themselves are not logged. A node puts a ceiling on record before it takes a fence above the last one, and each
//! reply that tells of a fence waits until that is durable, in every mode. After a restart the ceiling is the floor of
//! all names: what the node took before, it does not take again.
//!
//! Invariant: each fence taken is at most the ceiling, and neither a fence, nor the floor, nor the ceiling ever falls.

use std::collections::{BTreeMap, VecDeque};

use crate::control::Ceiling;

/// What a node has taken. Public for the model of fences, which keeps it in its states.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fences {
    ceiling: Ceiling,
    /// What every name has at least.
    floor: u64,
    by_name: BTreeMap<Box<[u8]>, Fence>,
    /// The names above, the first one first taken.
    order: VecDeque<Box<[u8]>>,
    /// Bytes of names and tokens.
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fence {
    value: u64,
    /// The token of the lock that took it.
    token: Box<[u8]>,
}

/// Why a fence is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceRefusal {
    /// It is not above the one that the name has.
    TooLow,
    /// It is so far above that one that nobody can have come there by counting.
    TooHigh,
}

/// What is to be put on record before anybody is told of a fence that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The new ceiling, where the fence is above the old one.
    pub(crate) ceiling: Option<Ceiling>,
}

impl Fences {
    /// None taken by this node in this run, and this ceiling on record.
    pub fn new(ceiling: Ceiling) -> Fences {
        Fences {
            ceiling,
            floor: ceiling.value(),
            by_name: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }

    /// What is on record, or about to be.
    pub fn ceiling(&self) -> Ceiling {
        self.ceiling
    }

    /// The fence of a name: the next one to take is above it.
    pub(crate) fn of(&self, name: &FenceName) -> u64 {
        let own = self.by_name.get(&*name.0).map_or(0, |fence| fence.value);
        own.max(self.floor)
    }

    /// The fence that the lock with this token has taken, as far as the node remembers it.
    pub(crate) fn taken_by(&self, name: &FenceName, token: &[u8]) -> Option<u64> {
        let own = self.by_name.get(&*name.0);
        own.filter(|own| *own.token == *token).map(|own| own.value)
    }

    /// Whether the lock with this token may take a fence. To take the one again that it has is no change: the reply may have
    /// been lost.
    pub(crate) fn judge(
        &self,
        name: &FenceName,
        token: &[u8],
        fence: u64,
    ) -> Result<(), FenceRefusal> {
        let current = self.of(name);
        let is_own = self
            .by_name
            .get(&*name.0)
            .is_some_and(|own| own.value == fence && *own.token == *token);
        match fence.checked_sub(current) {
            Some(0) if is_own => Ok(()),
            None | Some(0) => Err(FenceRefusal::TooLow),
            Some(step) if step > STEP_MAX => Err(FenceRefusal::TooHigh),
            Some(_) => Ok(()),
        }
    }

    /// The name is free: whoever holds it next has taken no fence yet, whatever its token.
    pub(crate) fn disown(&mut self, name: &FenceName) {
        if let Some(fence) = self.by_name.get_mut(&*name.0) {
            self.bytes = self.bytes.saturating_sub(fence.token.len());
            fence.token = Box::default();
        }
    }

    /// Takes a fence for the lock with this token.
    pub(crate) fn take(
        &mut self,
        name: FenceName,
        token: &[u8],
        fence: u64,
    ) -> Result<Taken, FenceRefusal> {
        self.judge(&name, token, fence)?;
        let ceiling = match self.ceiling {
            Ceiling::Known(ceiling) if fence <= ceiling => None,
            _ => Some(Ceiling::Known(
                fence.saturating_add(BLOCK).min(Ceiling::MAX),
            )),
        };
        self.ceiling = ceiling.unwrap_or(self.ceiling);
        self.note(name, token, fence);
        Ok(Taken { ceiling })
    }

    /// Takes over the ceiling of other nodes: what this one may have forgotten is not above it. Returns the ceiling to be put
    /// on record.
    pub(crate) fn adopt(&mut self, ceiling: u64) -> Ceiling {
        self.ceiling = Ceiling::Known(self.ceiling.value().max(ceiling));
        self.floor = self.floor.max(ceiling);
        self.ceiling
    }

    fn note(&mut self, name: FenceName, token: &[u8], fence: u64) {
        let FenceName(name) = name;
        self.bytes = self.bytes.saturating_add(token.len());
        let taken = Fence {
            value: fence,
            token: token.into(),
        };
        match self.by_name.insert(name.clone(), taken) {
            Some(before) => self.bytes = self.bytes.saturating_sub(before.token.len()),
            None => {
                let twice = name.len().saturating_mul(2);
                self.bytes = self.bytes.saturating_add(twice);
                self.order.push_back(name);
            }
        }
        while self.bytes > BYTES_MAX || self.order.len() > NAMES_MAX {
            self.forget_oldest();
        }
    }

    /// Raises the floor to what is forgotten: all names go on above it.
    pub fn forget_oldest(&mut self) {
        let Some(name) = self.order.pop_front() else {
            return;
        };
        if let Some(fence) = self.by_name.remove(&name) {
            self.floor = self.floor.max(fence.value);
            let twice = name.len().saturating_mul(2);
            let bytes = twice.saturating_add(fence.token.len());
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

/// A lock's name in its database.
#[derive(Clone, Debug)]
pub(crate) struct FenceName(Box<[u8]>);

impl FenceName {
    pub(crate) fn new(database: u8, name: &[u8]) -> FenceName {
        FenceName([&[database], name].concat().into())
    }
}

/// Nobody gets so far by counting: one mistake does not use up the numbers.
const STEP_MAX: u64 = 1 << 40;

/// A ceiling is so far above the fence that needs it: one sync in so many grants of a name, and so many fences that are
/// left out at a restart.
const BLOCK: u64 = 1 << 16;

/// More names are not remembered one by one.
const NAMES_MAX: usize = 1 << 18;
/// Nor more bytes of names and tokens.
const BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
#[path = "fences_tests.rs"]
mod tests;
