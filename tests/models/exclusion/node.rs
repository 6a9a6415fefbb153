//! A node of the model: one key, its log, and what a crash leaves of it.
//!
//! The rules that decide are the production ones: [`History`] (fold and judge), [`TtlBound`],
//! [`LiveMode`], the records. What the shell around them does (which records it appends, what a reply waits for) is
//! mirrored here from `server/node/src/`, and that is where the mutants are. The key's commands are
//! held to the production engine by a test.

use quorlock_engine::control::{ControlRecord, Durability, Start};
use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::restart::{Policy, TtlBound, node_time};
use quorlock_engine::{LogPosition, NodeTime, RawTime};

use super::image::{Entry, Frame, Image, Key};
use super::mutant::Mutant;
use super::scope::Configuration;
use crate::parts::Token;

/// Where in its life a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Down,
    /// Its START (and SERVING, where there is nothing to wait for) is written, not synced.
    Starting,
    /// In its restart delay.
    Waiting,
    Serving,
}

/// What a request wants of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Wish {
    Take,
    Extend,
    Release,
}

/// What the node tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Told {
    Granted,
    Busy,
    Extended,
    Gone,
    Other,
    Freed,
    NotHeld,
    Refused,
}

/// What a node's rules depend on, beside its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) mutant: Mutant,
    pub(crate) policy: Policy,
    /// The log keeps its frames one by one, so that a repair can cut what was durable.
    pub(crate) keeps_log: bool,
    /// Frames are numbered through, because a mode that changes refers to their positions.
    pub(crate) counts_frames: bool,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) phase: Phase,
    pub(crate) boot: u8,
    /// The log up to a position that is durable.
    pub(super) image: Image,
    /// What follows it.
    pub(crate) tail: Vec<Frame>,
    /// So many frames of the tail are durable as well.
    pub(super) synced: usize,
    pub(super) start: Option<Start>,
    pub(super) mode: Option<LiveMode>,
    /// Frames before the tail, where they are counted.
    pub(super) folded: u64,
    pub(super) ttl_bound: TtlBound,
    /// The last raise of the TTL bound is not durable yet.
    pub(super) bound_is_open: bool,
    pub(crate) key: Option<Key>,
    /// Until when a key is owed that was recovered and is not logged.
    pub(super) unlogged_until: NodeTime,
    /// What `NowCached` uses in place of the time.
    pub(super) cached: NodeTime,
    /// For the properties, not for the protocol: the delay that was begun in this boot.
    pub(super) owed_until: Option<NodeTime>,
    pub(crate) has_moved_delay: bool,
    pub(crate) has_lost_grant: bool,
    pub(crate) has_waited: bool,
}

impl Node {
    /// A node that was created and serves for the first time, with nothing left to sync.
    /// P is what earlier locks have made it.
    pub(crate) fn fresh(
        rules: &Rules,
        raw: RawTime,
        configuration: Configuration,
        first_bound_ns: u64,
    ) -> Node {
        let mut node = Node {
            phase: Phase::Down,
            boot: 0,
            image: Image::default(),
            tail: Vec::new(),
            synced: 0,
            start: None,
            mode: None,
            folded: 0,
            ttl_bound: TtlBound::default(),
            bound_is_open: false,
            key: None,
            unlogged_until: NodeTime::ZERO,
            cached: NodeTime::ZERO,
            owed_until: None,
            has_moved_delay: false,
            has_lost_grant: false,
            has_waited: false,
        };
        node.append(NodeTime::ZERO, Entry::Record(ControlRecord::Init));
        node.start(rules, raw, configuration);
        if let Some(bound_ns) = node.ttl_bound.raise(first_bound_ns) {
            node.append(
                node.now(raw),
                Entry::Record(ControlRecord::Promise(bound_ns)),
            );
        }
        node.sync(rules, raw);
        node.fold(rules);
        node
    }

    /// Node time at this reading of the raw clock.
    pub(crate) fn now(&self, raw: RawTime) -> NodeTime {
        self.start
            .and_then(|start| node_time(start.base, start.raw, raw))
            .unwrap_or(NodeTime::ZERO)
    }

    /// The end of the delay it waits out.
    pub(crate) fn waits_until(&self) -> Option<NodeTime> {
        let pending = self.start.and_then(|start| start.pending);
        pending
            .filter(|_| self.phase == Phase::Waiting)
            .map(|pending| pending.until)
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.start.map_or(0, |start| start.incarnation)
    }

    /// Mode and cap in force.
    pub(crate) fn in_force(&self) -> Option<Configuration> {
        self.mode.map(|mode| Configuration {
            mode: mode.durability(),
            cap_ns: mode.cap_ns(),
        })
    }

    /// Whether a sync would change anything.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.tail.len() > self.synced
    }

    pub(crate) fn unsynced(&self) -> usize {
        self.tail.len() - self.synced
    }

    pub(crate) fn durable_frames(&self) -> usize {
        self.synced
    }

    /// Runs one request. The flag says that the reply has to wait for a sync.
    pub(crate) fn execute(
        &mut self,
        rules: &Rules,
        raw: RawTime,
        (wish, token, ttl_ns): (Wish, Token, u64),
    ) -> (Told, bool) {
        if self.phase != Phase::Serving {
            return (Told::Refused, false);
        }
        // `require-ttl yes`, which the book asks for where keys are not logged.
        let is_beyond = |mode: LiveMode| !mode.is_logged() && ttl_ns > mode.cap_ns();
        if wish != Wish::Release && self.mode.is_some_and(is_beyond) {
            return (Told::Refused, false);
        }
        let mut now = self.now(raw);
        if rules.mutant == Mutant::NowCached {
            now = std::mem::replace(&mut self.cached, now);
        }
        let key = self.key.filter(|key| key.deadline > now);
        let deadline = NodeTime::from_nanos(now.as_nanos() + ttl_ns);
        let fresh = |is_extension| Key {
            token,
            deadline,
            is_extension,
        };
        match (wish, key) {
            (Wish::Take, None) => {
                let waits = self.put(rules, now, Some(fresh(false)), Some(ttl_ns));
                (Told::Granted, waits)
            }
            (Wish::Take, Some(key)) if key.token == token => {
                (Told::Granted, self.waits_as_is(rules))
            }
            (Wish::Take, Some(_)) => (Told::Busy, false),
            (Wish::Extend, None) if rules.mutant == Mutant::ExtensionCreates => {
                let waits = self.put(rules, now, Some(fresh(true)), Some(ttl_ns));
                (Told::Extended, waits)
            }
            (Wish::Extend, None) => (Told::Gone, false),
            (Wish::Extend, Some(key)) if key.token != token => (Told::Other, false),
            (Wish::Extend, Some(key)) => {
                let shortens = rules.mutant == Mutant::ExtensionShortens;
                if deadline <= key.deadline && !shortens {
                    return (Told::Extended, self.waits_as_is(rules));
                }
                let is_covered = rules.mutant != Mutant::ExtensionNotCovered;
                let ttl_ns = is_covered.then_some(ttl_ns);
                let key = Key { deadline, ..key };
                (Told::Extended, self.put(rules, now, Some(key), ttl_ns))
            }
            (Wish::Release, Some(key))
                if key.token == token || rules.mutant == Mutant::ReleaseWithoutOwner =>
            {
                (Told::Freed, self.put(rules, now, None, None))
            }
            (Wish::Release, _) => (Told::NotHeld, false),
        }
    }

    /// As `Core::log_group` does: the TTL bound first, then the group; what the reply waits for.
    fn put(&mut self, rules: &Rules, now: NodeTime, key: Option<Key>, ttl: Option<u64>) -> bool {
        self.key = key;
        let Some(mode) = self.mode else { return false };
        let mut waits = false;
        if let Some(ttl_ns) = ttl {
            let is_covered = ttl_ns <= mode.cap_ns();
            let covered_ns = if is_covered || !mode.is_logged() {
                ttl_ns.min(mode.cap_ns())
            } else {
                waits = rules.mutant != Mutant::UncoveredNotSynced;
                0
            };
            if let Some(bound_ns) = self.ttl_bound.raise(covered_ns) {
                self.append(now, Entry::Record(ControlRecord::Promise(bound_ns)));
                self.bound_is_open = true;
            }
            waits |= self.bound_is_open && rules.mutant != Mutant::BoundNotDurable;
        }
        if mode.is_logged() {
            self.append(now, Entry::Group(key));
        }
        waits || self.waits_for_mode(rules, self.written())
    }

    /// A reply that reveals the key as it is waits for what the key waits for.
    fn waits_as_is(&self, rules: &Rules) -> bool {
        let is_group = |frame: &Frame| matches!(frame.entry, Entry::Group(_));
        let group = self.tail.iter().rposition(is_group);
        let position = group.map_or(self.folded, |index| self.folded + index as u64 + 1);
        self.bound_is_open || self.waits_for_mode(rules, position)
    }

    /// Whether the mode lets a reply leave that reveals effects up to this position.
    fn waits_for_mode(&self, rules: &Rules, position: u64) -> bool {
        let Some(mode) = self.mode else { return false };
        if rules.mutant == Mutant::WeakerModeNotDurable && mode.durability() != Durability::Always {
            return false;
        }
        let waits = mode.reach(LogPosition::from_raw(position));
        waits.synced.get() > self.folded + self.synced as u64
    }

    pub(super) fn written(&self) -> u64 {
        self.folded + self.tail.len() as u64
    }

    /// Everything written becomes durable; the node goes on to what waited for it.
    pub(crate) fn sync(&mut self, rules: &Rules, raw: RawTime) {
        self.synced = self.tail.len();
        self.bound_is_open = false;
        if !rules.keeps_log {
            self.fold(rules);
        }
        if self.phase == Phase::Starting {
            let waits = self.image_now(rules.mutant).history.pending.is_some();
            self.phase = if waits {
                Phase::Waiting
            } else {
                Phase::Serving
            };
        }
        if self.phase == Phase::Serving {
            self.owed_until = None;
            self.complete_mode(raw);
        }
    }

    /// Once what a weaker mode has revealed is synced, the log is told that the stronger one counts.
    pub(super) fn complete_mode(&mut self, raw: RawTime) {
        let synced = self.folded + self.synced as u64;
        let complete = self
            .mode
            .as_mut()
            .and_then(|mode| mode.complete(LogPosition::from_raw(synced)));
        if let Some(record) = complete {
            self.append(self.now(raw), Entry::Record(ControlRecord::Mode(record)));
        }
    }

    pub(super) fn append(&mut self, time: NodeTime, entry: Entry) {
        self.tail.push(Frame { time, entry });
    }

    pub(super) fn fold(&mut self, rules: &Rules) {
        if rules.counts_frames {
            self.folded += self.synced as u64;
        }
        for frame in self.tail.drain(..self.synced) {
            self.image.apply(&frame, rules.mutant);
        }
        self.synced = 0;
    }

    pub(super) fn image_now(&self, mutant: Mutant) -> Image {
        let mut image = self.image.clone();
        for frame in &self.tail {
            image.apply(frame, mutant);
        }
        image
    }
}
