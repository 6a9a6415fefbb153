//! What has to hold.
//!
//! Invariant: the truth is what nodes store, and what callers were told and count by clocks of their own; never what an agent, its
//! client, or a reply about a ttl says.

use quorlock_engine::StoredValue;

use super::library::Verdict;
use super::open::{Ask, Open};
use super::world::{MS, World};

/// A lock that its caller counts on.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) name: usize,
    /// The caller, and which of its processes.
    pub(super) owner: (usize, u64),
    /// It reads, and others may read beside it.
    pub(super) is_shared: bool,
    pub(super) until_ns: u64,
}

impl World {
    /// A caller counts on a lock from now on: nobody else does, but who reads beside it.
    pub(super) fn check_alone(&mut self, new: &Hold) {
        let now_ns = self.now();
        self.holds.retain(|hold| hold.until_ns > now_ns);
        let other = self.holds.iter().find(|hold| {
            let is_beside = hold.is_shared && new.is_shared;
            hold.name == new.name && hold.owner != new.owner && !is_beside
        });
        if let Some(other) = other {
            self.violation = Some(format!(
                "{:?} (caller, process) has lock {}, which {:?} counts on for another {} ms",
                new.owner,
                new.name,
                other.owner,
                (other.until_ns - now_ns) / MS
            ));
        }
    }

    /// A caller was told a fence: it is larger than all that were told for the name before.
    pub(super) fn check_fence(&mut self, name: usize, fence: i64) {
        self.report.fences += 1;
        let last = self.fences.insert(name, fence);
        if last.is_some_and(|last| fence <= last) {
            self.violation = Some(format!(
                "lock {name} was granted with the fence {fence} after {last:?}"
            ));
        }
    }

    /// What a majority of the nodes holds under a name, on nodes that answer or will.
    pub(super) fn kept(&mut self, name: usize) -> Option<Vec<u8>> {
        let now_ns = self.now();
        let key = super::caller::lock_name(name);
        let mut values = Vec::new();
        for server in &mut self.agents.cluster.servers {
            server.tell_time(now_ns);
            if server.node.as_ref().is_some_and(|node| node.is_serving()) {
                let mut keys = server.keys().into_iter();
                let found = keys.find(|(found, _)| found == key.as_bytes());
                if let Some((_, StoredValue::String(value))) = found {
                    values.push(value.to_vec());
                }
            }
        }
        let is_majority = |value: &&Vec<u8>| {
            let same = values.iter().filter(|other| other == value).count();
            2 * same > self.plan.nodes
        };
        values.iter().find(is_majority).cloned()
    }

    /// What a caller was told of a lock that a majority has kept for it from the request to the reply.
    pub(super) fn check_told(&mut self, open: &Open, verdict: Verdict) {
        let Some(kept) = &open.kept else {
            return;
        };
        // Beyond what its caller counts nodes may let it go.
        let still: Option<Vec<_>> = open.names.iter().map(|name| self.kept(*name)).collect();
        if open.counted_ns <= self.now() || still.as_ref() != Some(kept) {
            return;
        }
        let is_lost = matches!(open.ask, Ask::Extend { .. } | Ask::Release | Ask::Read)
            && verdict == Verdict::No;
        if is_lost {
            self.violation = Some(format!(
                "caller {} was told that it does not hold locks {:?}, which a majority kept for it: {:?}",
                open.caller, open.names, open.ask
            ));
        }
        if open.ask == Ask::Release
            && verdict == Verdict::Yes
            && !open.keeps
            && !self.plan.loses_power()
        {
            self.violation = Some(format!(
                "caller {} was told that it has released locks {:?}, which a majority still keeps",
                open.caller, open.names
            ));
        }
    }

    /// Every request is answered in time by an agent that runs.
    pub(super) fn check_answered(&mut self) {
        let now_ns = self.now();
        for open in self.open.values() {
            let since_ns = open.sent_ns.max(self.well_ns[open.agent]);
            if since_ns + ANSWERED_NS < now_ns {
                self.violation = Some(format!(
                    "no answer for {} ms: {open:?}",
                    (now_ns - since_ns) / MS
                ));
                return;
            }
        }
    }

    /// All is over: every caller had its lock once more, and nothing is left of them.
    pub(super) fn check_nothing_left(&mut self) {
        for (number, server) in self.agents.cluster.servers.iter().enumerate() {
            let keys = server.keys();
            if !keys.is_empty() {
                self.violation = Some(format!(
                    "all locks are released or over, and node {number} still has {} of them",
                    keys.len()
                ));
            }
        }
    }

    /// How long nodes may keep a lock after its last request: its ttl, a tenth of that for the round, and what clocks differ by.
    pub(super) fn left_ns(&self) -> u64 {
        let ttl_ns = self.plan.ttl_ms * MS;
        ttl_ns + (ttl_ns / 10).clamp(50 * MS, 1_000 * MS) + ttl_ns / 40 + 100 * MS
    }
}

/// The longest that an agent takes for an answer, which is an error where too few nodes answer.
const ANSWERED_NS: u64 = 15_000 * MS;
