//! What was executed, what clients were told, and therefore what has to be there after a crash.
//!
//! Invariant: it never asks the log. States are those of the running engine after each request, and what was
//! told is what the driver let through.

use std::collections::BTreeMap;

use quorlock_engine::{Stored, StoredValue};

use super::request::Reads;

/// A key in its database.
pub(crate) type Name = (u8, Vec<u8>);

/// What a key held after some request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) value: StoredValue,
    /// In node time, in nanoseconds.
    pub(crate) deadline: Option<u64>,
    /// The same in true time: until then the lock was promised to its holder.
    pub(crate) until: Option<u64>,
    /// The part of it that a restart delay can cover.
    pub(crate) covered_until: Option<u64>,
    /// The request that gave it this state.
    changed: usize,
}

/// The state after a request that changed something.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// Node time of the request, in nanoseconds.
    pub(crate) time: u64,
    pub(crate) keys: BTreeMap<Name, Item>,
    pub(crate) changed: Vec<Name>,
    /// The keys among them that no delay covers.
    uncovered: Vec<Name>,
    /// Somebody was told of it.
    pub(crate) is_revealed: bool,
    /// The request, for people.
    pub(crate) text: String,
}

/// A lock as its holder knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) value: StoredValue,
    /// Until when it is held, as far as a restart delay can cover it, in true time.
    pub(crate) until: u64,
}

/// A version that a reply tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) number: usize,
    /// By a key that no delay covers.
    is_uncovered: bool,
}

/// What is known of one node over all its starts.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    /// The state at the start of this incarnation, then one for each change.
    pub(crate) versions: Vec<Version>,
    /// A process that ends keeps at least this version.
    pub(crate) acknowledged: usize,
    /// A power loss leaves at least this one.
    pub(crate) durable: usize,
    /// Locks that clients hold and that an earlier crash has taken.
    pub(crate) forgotten: BTreeMap<Name, Held>,
    /// Replies that were let through and told of a write.
    pub(crate) told: u64,
    /// Node time of the newest step: what has expired by then may have left memory, and a checkpoint.
    pub(crate) newest: u64,
    /// `restart-delay-max` in force.
    pub(crate) cap_ns: u64,
}

/// The moment of a request, in both times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) node_ns: u64,
    pub(crate) true_ns: u64,
}

impl Oracle {
    pub(crate) fn new(cap_ns: u64) -> Oracle {
        Oracle {
            versions: vec![Version::empty(0)],
            acknowledged: 0,
            durable: 0,
            forgotten: BTreeMap::new(),
            told: 0,
            newest: 0,
            cap_ns,
        }
    }

    pub(crate) fn last(&self) -> usize {
        self.versions.len() - 1
    }

    /// Notes the state after a request; returns the version if it is a new one.
    pub(crate) fn executed(
        &mut self,
        now: Moment,
        stored: Vec<Stored>,
        text: &str,
    ) -> Option<usize> {
        let number = self.versions.len();
        let previous = &self.versions[number - 1];
        let mut version = Version::empty(now.node_ns);
        let mut old = previous.keys.clone();
        old.retain(|_, item| item.is_live(now.node_ns));
        for stored in stored {
            let deadline = stored.deadline.map(|deadline| deadline.as_nanos());
            if deadline.is_some_and(|deadline| deadline <= now.node_ns) {
                continue;
            }
            let name = (stored.database, stored.key);
            let before = old.remove(&name);
            let same = before
                .clone()
                .filter(|item| item.value == stored.value && item.deadline == deadline);
            let item = same.unwrap_or_else(|| {
                version.changed.push(name.clone());
                self.item(now, stored.value, deadline, number)
            });
            if item.changed == number {
                let mut touched = before.iter().chain([&item]);
                if touched.any(|item| self.is_uncovered(now, item)) {
                    version.uncovered.push(name.clone());
                }
            }
            version.keys.insert(name, item);
        }
        let deleted = old.iter().filter(|(_, item)| self.is_uncovered(now, item));
        version
            .uncovered
            .extend(deleted.map(|(name, _)| name.clone()));
        version.changed.extend(old.into_keys());
        if version.changed.is_empty() {
            return None;
        }
        version.text = text.to_owned();
        self.versions.push(version);
        Some(number)
    }

    /// What a reply tells of which changed something.
    pub(crate) fn own(&self, number: usize) -> Told {
        Told {
            number,
            is_uncovered: !self.versions[number].uncovered.is_empty(),
        }
    }

    /// What a reply tells of which read this.
    pub(crate) fn seen(&self, database: u8, reads: &Reads) -> Vec<Told> {
        match reads {
            Reads::Nothing => Vec::new(),
            Reads::Everything => (1..self.versions.len())
                .map(|number| self.own(number))
                .collect(),
            Reads::Key(key) => {
                let name = (database, key.clone());
                let is_change = |version: &Version| version.changed.contains(&name);
                let number = self.versions.iter().rposition(is_change);
                let told = |number: usize| Told {
                    number,
                    // What else the same request did to other keys is not told of.
                    is_uncovered: self.versions[number].uncovered.contains(&name),
                };
                number
                    .into_iter()
                    .filter(|number| *number > 0)
                    .map(told)
                    .collect()
            }
        }
    }

    /// A reply that tells of these versions was let through.
    pub(crate) fn reveal(&mut self, told: &[Told], is_always: bool, syncs_uncovered: bool) {
        for &Told {
            number,
            is_uncovered,
        } in told
        {
            self.versions[number].is_revealed = true;
            self.acknowledged = self.acknowledged.max(number);
            if is_always || is_uncovered && syncs_uncovered {
                self.durable = self.durable.max(number);
            }
        }
        self.told += u64::from(!told.is_empty());
    }

    /// Everything up to this version was written when a sync began that has succeeded.
    pub(crate) fn synced(&mut self, number: usize) {
        self.durable = self.durable.max(number);
    }

    /// The power failed: what was acknowledged and not durable may be gone for good.
    pub(crate) fn lost_power(&mut self) {
        self.acknowledged = self.durable;
    }

    /// The newest version, not older than `least`, that this is the state of.
    pub(crate) fn version_of(&self, recovered: &[Stored], least: usize) -> Option<usize> {
        (least..self.versions.len())
            .rev()
            .find(|number| self.versions[*number].is(recovered, self.newest))
    }

    /// The locks that clients hold by what they were told, and that version `kept` knows nothing of.
    pub(crate) fn lost(&self, kept: usize) -> BTreeMap<Name, Held> {
        let mut lost = self.forgotten.clone();
        for version in &self.versions[kept + 1..] {
            if !version.is_revealed {
                continue;
            }
            for name in &version.changed {
                match version.keys.get(name).and_then(Item::held) {
                    Some(held) => lost.insert(name.clone(), held),
                    None => lost.remove(name),
                };
            }
        }
        lost
    }

    /// Whether a client was told of something that is not in version `kept`.
    pub(crate) fn loses_what_was_told(&self, kept: usize) -> bool {
        self.versions[kept + 1..]
            .iter()
            .any(|version| version.is_revealed)
    }

    /// The next incarnation begins with version `kept`.
    pub(crate) fn restarted(&mut self, kept: usize, now: Moment, stored: &[Stored]) {
        self.forgotten = self.lost(kept);
        self.forgotten.retain(|_, held| held.until > now.true_ns);
        let mut base = Version::empty(now.node_ns);
        let old = &self.versions[kept].keys;
        for stored in stored {
            let name = (stored.database, stored.key.clone());
            let deadline = stored.deadline.map(|deadline| deadline.as_nanos());
            if deadline.is_some_and(|deadline| deadline <= now.node_ns) {
                continue;
            }
            let known = old.get(&name).cloned();
            let mut item =
                known.unwrap_or_else(|| self.item(now, stored.value.clone(), deadline, 0));
            item.changed = 0;
            base.keys.insert(name, item);
        }
        self.versions = vec![base];
        self.newest = now.node_ns;
        self.acknowledged = 0;
        self.durable = 0;
    }

    fn item(&self, now: Moment, value: StoredValue, deadline: Option<u64>, changed: usize) -> Item {
        let ttl_ns = deadline.map(|deadline| deadline.saturating_sub(now.node_ns));
        Item {
            value,
            deadline,
            until: ttl_ns.map(|ttl_ns| now.true_ns + ttl_ns),
            covered_until: ttl_ns.map(|ttl_ns| now.true_ns + ttl_ns.min(self.cap_ns)),
            changed,
        }
    }

    fn is_uncovered(&self, now: Moment, item: &Item) -> bool {
        let limit = now.node_ns + self.cap_ns;
        item.deadline.is_none_or(|deadline| deadline > limit)
    }
}

impl Item {
    /// The lock that this is to its holder, if a restart delay can cover any of it.
    pub(crate) fn held(&self) -> Option<Held> {
        let value = self.value.clone();
        self.covered_until.map(|until| Held { value, until })
    }

    fn is_live(&self, now_ns: u64) -> bool {
        self.deadline.is_none_or(|deadline| deadline > now_ns)
    }
}

impl Version {
    fn empty(time: u64) -> Version {
        Version {
            time,
            keys: BTreeMap::new(),
            changed: Vec::new(),
            uncovered: Vec::new(),
            is_revealed: false,
            text: "start".to_owned(),
        }
    }

    /// Whether a log that ends with this version is replayed to these keys. Those that had expired at its time
    /// may still be in memory, and those that have expired since may be gone: a request that finds one removes it,
    /// which is no change.
    fn is(&self, recovered: &[Stored], newest: u64) -> bool {
        let mut found = 0;
        for stored in recovered {
            let deadline = stored.deadline.map(|deadline| deadline.as_nanos());
            if deadline.is_some_and(|deadline| deadline <= self.time) {
                continue;
            }
            let named = |name: &Name| name.0 == stored.database && name.1 == stored.key;
            let item = self.keys.iter().find(|(name, _)| named(name));
            if !item
                .is_some_and(|(_, item)| item.value == stored.value && item.deadline == deadline)
            {
                return false;
            }
            found += usize::from(deadline.is_none_or(|deadline| deadline > newest));
        }
        let still_live = self.keys.values().filter(|item| item.is_live(newest));
        found == still_live.count()
    }
}
