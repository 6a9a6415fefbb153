//! What was executed, what clients were told, and therefore what has to be there after a crash.
//!
//! Invariant: it never asks the log, nor the node for what was granted: states are those of `model`, which the engine
//! has to agree with after each request, and what was told is what the driver let through.

use std::collections::{BTreeMap, BTreeSet};

use quorlock_engine::Stored;

use super::batch::{Effects, Outcome, Played, Served};
use super::check::Violation;
use super::held::Held;
use super::model::{Expected, Item, Keys, Moment, Name, Rules, State, share_of};
use super::request::{Reads, Request};
use super::session::Part;
use super::waiting::WaitingClient;

/// The state after a request that changed something.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// Node time of the request, in nanoseconds.
    pub(crate) time: u64,
    pub(crate) keys: Keys,
    pub(crate) changed: Vec<Name>,
    /// The keys among them that no delay covers.
    uncovered: Vec<Name>,
    /// Somebody was told of it, or of a part of it.
    pub(crate) is_revealed: bool,
    /// The keys among `changed` whose state somebody was told of.
    told_of: BTreeSet<Name>,
    /// The request, for people.
    pub(crate) text: String,
}

/// A version that a reply tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) number: usize,
    /// By the state of this key; of all that it changed where there is none.
    name: Option<Name>,
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
    /// What the harness has configured.
    pub(crate) rules: Rules,
    /// Keys that have expired in this run: the node may free them, and tell of it, at any time.
    expired: BTreeSet<Vec<u8>>,
    /// The client that waits for an element, and what it has asked for.
    pub(super) waiting: Option<WaitingClient>,
}

impl Oracle {
    pub(crate) fn new(rules: Rules) -> Oracle {
        Oracle {
            versions: vec![Version::empty(0)],
            acknowledged: 0,
            durable: 0,
            forgotten: BTreeMap::new(),
            told: 0,
            newest: 0,
            rules,
            expired: BTreeSet::new(),
            waiting: None,
        }
    }

    pub(crate) fn last(&self) -> usize {
        self.versions.len() - 1
    }

    /// Executes a request and holds the node's reply against it. Returns what it may have done: one outcome, or
    /// those after which a script may have been ended, the latest first; each with what a client has got that was
    /// served behind it, and with that it was refused.
    pub(crate) fn candidates(&self, played: &Played) -> Result<Vec<Outcome>, Violation> {
        let Played {
            request,
            now,
            reply,
            ..
        } = played;
        let before = self.live(*now);
        let mut after = before.clone();
        let mut execution = self.execution(*now, played.database, &mut after);
        let expected = match &played.part {
            Part::Exec(queued) if queued.is_spoilt => Expected::Exactly(b"-EXECABORT".to_vec()),
            Part::Exec(queued) => execution.run_all(&queued.requests),
            Part::None | Part::Queued => execution.run(&request.words),
        };
        let (between, messages) = (execution.between, execution.messages);
        let refusal = self.refusal(*now, &before, &after, reply);
        let reply = if reply == b"_\r\n" { NIL } else { reply };
        if !played.is_refused() && !expected.is_met_by(reply) {
            return Err(wrong_reply(request, reply, &expected));
        }
        let after = State {
            keys: after,
            messages,
        };
        let states = match refusal {
            Refusal::No => vec![after],
            Refusal::Right if request.is_script() => {
                between.into_iter().chain([after]).rev().collect()
            }
            Refusal::Right => vec![State {
                keys: before,
                ..State::default()
            }],
            Refusal::Missing => {
                let what = "a key without a sufficient TTL is not refused";
                return Err(Violation::new(what, request.text()));
            }
        };
        let outcomes = states.into_iter().flat_map(|after| {
            let served = played.has_served.then(|| self.serve(*now, &after.keys));
            let both = served.flatten().map(Some).into_iter().chain([None]);
            both.map(move |served| Outcome {
                after: after.clone(),
                served,
            })
        });
        Ok(outcomes.collect())
    }

    /// The keys whose deadlines have come, of all databases.
    pub(crate) fn expired(&self, now: Moment) -> Vec<Vec<u8>> {
        let keys = self.versions[self.last()].keys.iter();
        let expired = keys.filter(|(_, item)| !item.is_live(now.node_ns));
        expired.map(|(name, _)| name.1.clone()).collect()
    }

    /// The same, and those of before in this run.
    pub(crate) fn expired_until(&self, now: Moment) -> Vec<Vec<u8>> {
        let before = self.expired.iter().cloned();
        before.chain(self.expired(now)).collect()
    }

    /// The keys that are there now.
    fn live(&self, now: Moment) -> Keys {
        let mut keys = self.versions[self.last()].keys.clone();
        keys.retain(|_, item| item.is_live(now.node_ns));
        keys
    }

    /// Whether a node that has these keys is in the newest state.
    pub(crate) fn agrees(&self, stored: &[Stored], now: Moment) -> bool {
        is_state(&self.live(now), stored, now.node_ns)
    }

    /// Whether the node refused, and whether it should have.
    fn refusal(&self, now: Moment, before: &Keys, after: &Keys, reply: &[u8]) -> Refusal {
        let cap_ns = self.rules.cap_ns;
        let is_new = |name: &Name, item: &Item| {
            let old = before.get(name).map(|old| old.deadline);
            item.is_uncovered(now, cap_ns) && old != Some(item.deadline)
        };
        let lacks_ttl = after.iter().any(|(name, item)| is_new(name, item));
        match (
            reply.first() == Some(&b'-'),
            self.rules.requires_ttl && lacks_ttl,
        ) {
            (true, _) => Refusal::Right,
            (false, true) => Refusal::Missing,
            (false, false) => Refusal::No,
        }
    }

    /// Notes what a request has done.
    pub(crate) fn apply(&mut self, played: &Played, outcome: Outcome, effects: &mut Effects) {
        let Outcome { after, served } = outcome;
        if played.request.is_for_element() && played.reply.is_empty() {
            self.waiting = Some(WaitingClient {
                session: played.session,
                database: played.database,
                request: played.request.clone(),
            });
        }
        let number = self.note(played.now, played.request.text(), after.keys);
        effects.own = number.map(|number| self.own(number));
        effects.changed = number.map_or_else(Vec::new, |number| self.changed(number));
        effects.messages = after.messages;
        if played.has_served {
            self.waiting = None;
        }
        let Some(serving) = served else { return };
        if let Some(number) = self.note(played.now, serving.text, serving.after.keys) {
            effects.served = Some(Served {
                session: serving.session,
                reply: serving.reply,
                told: self.own(number),
                changed: self.changed(number),
                messages: serving.after.messages,
            });
        }
    }

    fn changed(&self, number: usize) -> Vec<Vec<u8>> {
        let changed = self.versions[number].changed.iter();
        changed.map(|name| name.1.clone()).collect()
    }

    /// Notes the state after a request; returns the version if it is a new one.
    fn note(&mut self, now: Moment, text: String, after: Keys) -> Option<usize> {
        let before = self.live(now);
        self.expired.extend(self.expired(now));
        let cap_ns = self.rules.cap_ns;
        let is_same = |name: &Name| match (before.get(name), after.get(name)) {
            (Some(old), Some(new)) => old.value == new.value && old.deadline == new.deadline,
            (None, None) => true,
            _ => false,
        };
        let mut names: Vec<Name> = before.keys().chain(after.keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !is_same(name));
        if names.is_empty() {
            return None;
        }
        let is_uncovered = |name: &Name| {
            let mut items = before.get(name).into_iter().chain(after.get(name));
            items.any(|item| item.is_uncovered(now, cap_ns))
        };
        self.versions.push(Version {
            time: now.node_ns,
            uncovered: names
                .iter()
                .filter(|name| is_uncovered(name))
                .cloned()
                .collect(),
            changed: names,
            keys: after,
            is_revealed: false,
            told_of: BTreeSet::new(),
            text,
        });
        Some(self.last())
    }

    /// What a reply tells of which changed something.
    pub(crate) fn own(&self, number: usize) -> Told {
        Told {
            number,
            name: None,
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
                    name: Some(name.clone()),
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
        for Told {
            number,
            name,
            is_uncovered,
        } in told
        {
            let (number, is_uncovered) = (*number, *is_uncovered);
            let version = &mut self.versions[number];
            version.is_revealed = true;
            match name {
                Some(name) => drop(version.told_of.insert(name.clone())),
                None => version.told_of.extend(version.changed.iter().cloned()),
            }
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

    /// The locks that clients hold by what they were told, and that version `kept` knows nothing of; all of them
    /// where what the node has is none of the versions.
    pub(crate) fn lost(&self, kept: Option<usize>) -> BTreeMap<Name, Held> {
        let mut lost = self.forgotten.clone();
        if kept.is_none() {
            let base = self.versions[0].keys.iter();
            lost.extend(base.flat_map(|(name, item)| item.held(name)));
        }
        for version in &self.versions[kept.map_or(1, |kept| kept + 1)..] {
            for name in &version.told_of {
                lost.remove(name);
                lost.retain(|other, _| share_of(other).is_none_or(|(key, _)| key != *name));
                let item = version.keys.get(name);
                lost.extend(item.into_iter().flat_map(|item| item.held(name)));
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

    /// The next incarnation begins with version `kept`, or with another state, and these locks are lost.
    pub(crate) fn restarted(
        &mut self,
        kept: Option<usize>,
        lost: BTreeMap<Name, Held>,
        now: Moment,
        stored: &[Stored],
        is_logged: bool,
    ) {
        let mut base = Version::empty(now.node_ns);
        self.expired.clear();
        let none = BTreeMap::new();
        let old = kept.map_or(&none, |kept| &self.versions[kept].keys);
        for stored in stored {
            let name = (stored.database, stored.key.clone());
            let deadline = stored.deadline.map(|deadline| deadline.as_nanos());
            let ttl_ns = deadline.map(|deadline| deadline.saturating_sub(now.node_ns));
            if ttl_ns == Some(0) {
                self.expired.insert(stored.key.clone());
                continue;
            }
            let is_same = |item: &&Item| item.value == stored.value && item.deadline == deadline;
            let known = old.get(&name).filter(is_same).cloned();
            let mut item = known.unwrap_or_else(|| {
                // A state that was put back: what it has is granted anew.
                Item::granted(stored.value.clone(), ttl_ns, now, self.rules)
            });
            if !is_logged {
                // A log that takes no keys forgets it: the delay of the next start covers all of it.
                item.covered_until = item.until;
                for share in item.shares.values_mut() {
                    share.covered_until = share.until;
                }
            }
            base.keys.insert(name, item);
        }
        self.forgotten = lost;
        self.forgotten.retain(|_, held| held.until > now.true_ns);
        self.versions = vec![base];
        self.waiting = None;
        self.newest = now.node_ns;
        self.acknowledged = 0;
        self.durable = 0;
    }
}

/// Whether a node refused a request.
enum Refusal {
    /// It did not, and need not have.
    No,
    /// It did. Why is its business: a delay, a full disk, a missing TTL.
    Right,
    /// It did not, and `require-ttl` says that it has to.
    Missing,
}

/// With RESP2; RESP3 has another one.
const NIL: &[u8] = b"$-1\r\n";

fn wrong_reply(request: &Request, reply: &[u8], expected: &Expected) -> Violation {
    let reply = String::from_utf8_lossy(reply);
    let detail = format!("{}: {reply:?}, not {expected:?}", request.text());
    Violation::new("a reply is not what the request says", detail)
}

/// Whether a node that has `stored` has these keys, but for expired ones.
fn is_state(keys: &Keys, stored: &[Stored], node_ns: u64) -> bool {
    let mut found = 0;
    for stored in stored {
        let deadline = stored.deadline.map(|deadline| deadline.as_nanos());
        if deadline.is_some_and(|deadline| deadline <= node_ns) {
            continue;
        }
        let item = keys.get(&(stored.database, stored.key.clone()));
        let is_same = |item: &Item| item.value == stored.value && item.deadline == deadline;
        if !item.is_some_and(is_same) {
            return false;
        }
        found += 1;
    }
    found == keys.len()
}

impl Version {
    fn empty(time: u64) -> Version {
        Version {
            time,
            keys: BTreeMap::new(),
            changed: Vec::new(),
            uncovered: Vec::new(),
            is_revealed: false,
            told_of: BTreeSet::new(),
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
