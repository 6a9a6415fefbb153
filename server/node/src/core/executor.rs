//! The engine and the end of the log under one lock: what one command changes, and what its
//! reply has to wait for.
//!
//! Invariant: positions are handed out in execution order, because commands execute and frames
//! are appended under the same lock. Nothing here blocks, writes or syncs.

pub mod locks;
pub(crate) mod room;
#[cfg(test)]
mod room_tests;
mod service;
mod serving;
mod told;
mod transactions;
mod waking;

use std::time::Duration;

use quorlock_engine::control::{ControlRecord, Durability, kind};
use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::restart::TtlBound;
use quorlock_engine::{
    Caller, Command, CommandGuard, DATABASES, Effects, Engine, Flags, KeyspaceStatistics, Moment,
    NodeTime, Reply, Served, WaitLimit, incarnation,
};
use quorlock_persistence::{Appender, FrameBatch, FrameKind, Position};

use crate::clock::saturated_nanos;
use crate::core::clients::Client;
use crate::core::durable_counts::Sample;
use crate::core::executor::room::GROUP_BYTES_MAX;
pub(crate) use crate::core::executor::service::needs_service;
use crate::core::outbox::Outbox;
use crate::core::time::Timekeeper;
use crate::core::wait::{DurabilityWait, position_of, to_engine};

/// Everything a command touches.
pub struct Executor {
    pub(crate) engine: Engine,
    /// The end of the log.
    pub appender: Appender,
    /// Node time and the time that commands see.
    pub time: Timekeeper,
    /// Whether the node serves locks.
    pub phase: Phase,
    /// How long a lock may outlive what is on record.
    pub ttl_bound: TtlBound,
    /// The mode of durability that is on record.
    pub mode: LiveMode,
    pub(crate) rules: Rules,
    /// Until when a crash has to be waited out for keys that were recovered and are not logged.
    pub(crate) owed_until: NodeTime,
    pub(super) effects: Effects,
    last: LastPositions,
    /// Rotations of the log that the TTL bound has followed.
    rotations: u64,
    record: Vec<u8>,
    pub(super) outbox: Outbox,
    /// Answers to clients that waited, and are not on their way yet.
    pub(super) served: Vec<ServedBehind>,
    pub(super) served_count: u64,
    /// How many clients watch keys.
    pub(crate) watching: usize,
    /// What the engine had counted when all was counted anew.
    pub(super) counted_before: KeyspaceStatistics,
    /// The last command found nothing and waits for at most so long.
    wait_limit: Option<WaitLimit>,
    /// What the reply of the last command has taken.
    reply_bytes: usize,
    was_refused: bool,
    /// A client that waits needs a segment of the log for what it is served.
    has_unserved: bool,
    /// When the maintenance comes back by itself, where it sleeps until then.
    maintained_at: Option<NodeTime>,
    memory_peak: usize,
}

/// Where in the log the last frames are that replies wait for.
#[derive(Clone, Copy, Debug, Default)]
struct LastPositions {
    /// The last raise of the TTL bound: what follows it may only be revealed once it is synced.
    ttl_bound: Position,
    /// The last ceiling of fences: no reply tells of a fence before it is synced.
    ceiling: Position,
    /// The last frame that changed a key.
    changed: Position,
    /// The last one that touched a key which no delay covers and which is synced for that.
    uncovered: Position,
}

/// An answer to a client that waited.
pub(crate) struct ServedBehind {
    pub(crate) served: Served,
    /// What has to be on record before it leaves.
    pub(crate) wait: DurabilityWait,
    /// How much was published before its command was executed, and is not on its way yet.
    pub(crate) published: usize,
}

/// Whether the node serves locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In its restart delay, until this node time, for this reason.
    Waiting(NodeTime, &'static str),
    /// Grants.
    Serving,
    /// Grants no more: it is stopping, or its log failed.
    Stopped(&'static str),
}

/// Keys that a run without a log has recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unlogged {
    /// How long the last of them with a TTL lives, in nanoseconds.
    pub(crate) left_ns: u64,
    /// How many have no TTL.
    pub(crate) without_ttl: u64,
}

/// The configured rules that a command's execution depends on.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// `no-ttl-durability sync`.
    pub(crate) no_ttl_is_synced: bool,
    /// `log-direct-io yes`.
    pub(crate) writes_direct: bool,
    /// `restart-delay-reply loading`.
    pub(crate) answers_loading: bool,
    /// The node's id, for the error that names it.
    pub(crate) node_id: String,
    /// What an operator can do about the delay, for the error that clients see.
    pub(crate) advice: &'static str,
}

impl Executor {
    pub(crate) fn new(
        engine: Engine,
        appender: Appender,
        time: Timekeeper,
        phase: Phase,
        mode: LiveMode,
        rules: Rules,
    ) -> Self {
        Self {
            engine,
            appender,
            time,
            phase,
            mode,
            rules,
            ttl_bound: TtlBound::default(),
            owed_until: NodeTime::ZERO,
            effects: Effects::default(),
            last: LastPositions::default(),
            rotations: 0,
            record: Vec::new(),
            outbox: Outbox::default(),
            served: Vec::new(),
            served_count: 0,
            watching: 0,
            counted_before: KeyspaceStatistics::default(),
            wait_limit: None,
            reply_bytes: 0,
            was_refused: false,
            has_unserved: false,
            maintained_at: None,
            memory_peak: 0,
        }
    }

    /// A client has gone, or is to go: it watches nothing, listens to nothing, waits for no element and is told of no change
    /// any more.
    pub(crate) fn forget_client(&mut self, client: &Client) {
        self.unwatch(client);
        let client = client.id;
        self.engine.channels().leave(client);
        self.engine.stop_waiting(client);
        self.engine.tracking().leave(client);
        self.engine.leave_lock_queues(client);
    }

    /// A client watches no key any more.
    pub(crate) fn unwatch(&mut self, client: &Client) {
        let watched = std::mem::take(&mut *client.watched());
        self.watching -= usize::from(!watched.is_empty());
        self.engine.unwatch(watched);
    }

    /// Takes what was appended, to be written, and the sizes of the databases behind it.
    pub(crate) fn take(&mut self, spare: FrameBatch) -> (FrameBatch, Sample) {
        (self.appender.take(spare), self.sample())
    }

    /// The sizes of the databases now, and what a reply that reveals them has to wait for.
    pub(crate) fn sample(&self) -> Sample {
        Sample {
            counts: std::array::from_fn(|database| {
                let database = u8::try_from(database).expect("there are as many databases");
                self.engine.count(database)
            }),
            position: self.last.changed,
            wait: self.wait_for_all(),
        }
    }

    /// What a reply waits for that reveals all changes.
    fn wait_for_all(&self) -> DurabilityWait {
        let mut wait = DurabilityWait::until_synced(self.last.ttl_bound.max(self.last.uncovered));
        wait.raise(self.reach(self.last.changed));
        wait
    }

    /// Executes one command and raises `wait` to what its reply depends on. `None` where the log lacks a segment that it
    /// needs: then nothing of it has happened, and it is to be executed again once one was made or could not be.
    pub(crate) fn execute(
        &mut self,
        now: Moment,
        caller: &Caller,
        command: &Command<'_>,
        wait: &mut DurabilityWait,
    ) -> Option<Reply> {
        // A refused command waits for nothing either.
        self.wait_limit = None;
        if let Some(refusal) = self.refuses(now.node, command.spec) {
            self.was_refused = true;
            return Some(Reply::Error(refusal));
        }
        let runs_script = command.spec.flags.contains(Flags::SCRIPT);
        let is_bounded = room::is_bounded(command.spec);
        if !is_bounded && self.lacks_room_for(command) {
            if self.is_segment_late() {
                return None;
            }
            self.was_refused = true;
            return Some(Reply::Error(self.no_room()));
        }
        self.begin(is_bounded);
        self.effects.room.is_retried = self.is_segment_late();
        self.effects.may_wait = !runs_script;
        let reply = self.engine.execute(now, caller, command, &mut self.effects);
        let lacks_room = self.effects.lacks_room();
        self.was_refused |= self.effects.ran_out_of_room && !runs_script && !lacks_room;
        self.log(now.node, wait);
        if lacks_room {
            self.engine.take_script_log();
            return None;
        }
        // A command that a script calls waits for nothing.
        self.wait_limit = self.effects.wait_limit.filter(|_| !runs_script);
        self.reply_bytes = self.effects.reply.taken();
        self.serve(now);
        self.reclaim_much_owed(now.node);
        Some(reply)
    }

    /// Asks this before each command that scripts call from now on.
    pub(crate) fn guard_scripts(&mut self, guard: Option<CommandGuard>) {
        self.effects.script_guard = guard;
    }

    /// Begins the effects of a command, a script or a transaction.
    pub(super) fn begin(&mut self, is_bounded_by_room: bool) {
        // Keys remember this position. Where a grant raises the TTL bound, its own frame is the one
        // after; both are in one batch, and so are written and synced as one.
        self.effects.begin(to_engine(self.appender.next_position()));
        if is_bounded_by_room && self.mode.is_logged() {
            self.bound_by_room();
        }
    }

    /// What a reply has to wait for that reveals effects up to this position.
    pub(crate) fn reach(&self, revealed: Position) -> DurabilityWait {
        self.mode.reach(to_engine(revealed)).into()
    }

    /// What the reply of the last command has taken.
    pub(crate) fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// How long the client waits at most whose command was the last one, if it waits.
    pub(crate) fn wait_limit(&self) -> Option<WaitLimit> {
        self.wait_limit
    }

    /// Whether that is so much that the engine is better released before it is rendered, which takes
    /// about as long as releasing and locking it.
    pub(crate) fn has_long_reply(&self) -> bool {
        self.reply_bytes() >= LONG_REPLY_BYTES
    }

    /// What keys take with their values, in bytes.
    pub fn memory(&self) -> usize {
        self.engine.memory()
    }

    /// The most that they took when the engine was let go of. Asking counts as well.
    pub(crate) fn note_memory_peak(&mut self) -> usize {
        self.memory_peak = self.memory_peak.max(self.memory());
        self.memory_peak
    }

    /// Appends a control record; returns its position.
    pub fn append(&mut self, now: NodeTime, record: &ControlRecord) -> Position {
        self.record.clear();
        record.encode(&mut self.record);
        let kind = FrameKind::new(record.kind());
        self.appender.append(kind, now.as_nanos(), &self.record)
    }

    /// Puts on record that the node serves, and what it then owes for keys that it has recovered and
    /// does not log.
    pub(crate) fn append_serving(&mut self, now: NodeTime) -> Unlogged {
        let latest = self.latest_unlogged();
        let serving = incarnation::at_serving(self.mode.durability(), latest, now);
        self.append(now, &serving.record);
        if let Some(owed) = serving.owed {
            self.append(now, &owed);
        }
        if self.mode.is_logged() {
            return Unlogged::default();
        }
        self.owed_until = latest.unwrap_or(NodeTime::ZERO);
        let left_ns = self.owed_until.as_nanos().saturating_sub(now.as_nanos());
        let counts = (0..DATABASES).map(|database| self.engine.count(database));
        let without_ttl = counts.map(|count| count.keys.saturating_sub(count.with_ttl));
        Unlogged {
            left_ns,
            without_ttl: without_ttl.sum(),
        }
    }

    /// The latest deadline of any key, where keys are not logged; looks at all of them.
    pub(crate) fn latest_unlogged(&self) -> Option<NodeTime> {
        let is_unlogged = !self.mode.is_logged();
        is_unlogged
            .then(|| self.engine.longest_deadline())
            .flatten()
    }

    /// Puts the command's effects on record, after the TTL bound that covers them.
    pub(super) fn log(&mut self, now: NodeTime, wait: &mut DurabilityWait) {
        if let Some(ceiling) = self.effects.ceiling {
            self.last.ceiling = self.append(now, &ControlRecord::Ceiling(ceiling));
        }
        if self.effects.tells_fence {
            wait.raise(DurabilityWait::until_synced_at_once(self.last.ceiling));
        }
        if !self.effects.journal.is_empty() {
            self.log_group(now, wait);
        }
        let depends = self.effects.depends;
        let revealed = position_of(depends.any);
        // What was written under a raise that is not synced yet is revealed only after it.
        wait.raise(DurabilityWait::until_synced(
            self.last.ttl_bound.min(revealed),
        ));
        wait.raise(self.reach(revealed));
        if self.syncs_uncovered() {
            wait.raise(DurabilityWait::until_synced(position_of(depends.synced)));
        }
        if self.engine.has_lock_waiters() {
            self.hand_over(now);
        }
        // Looked at before anything is moved: a load of what was just stored waits for all stores before it, and those
        // of a new key miss the cache (60 ns of 760 per SET in a deep pipeline).
        if !self.effects.published.is_empty() || self.engine.tracking().has_broadcasts() {
            let published = self.effects.published.drain(..);
            self.outbox.extend(&mut self.engine, published, *wait);
        }
    }

    /// Takes the answers to clients that waited since the last call.
    pub(crate) fn take_served(&mut self) -> Vec<ServedBehind> {
        std::mem::take(&mut self.served)
    }

    /// Frees expired keys, at most so many steps of work; says whether there is more.
    pub(crate) fn reclaim(&mut self, now: NodeTime, budget: usize) -> bool {
        let reclaimed = self.engine.reclaim(now, budget);
        self.tell_unprompted();
        reclaimed.more
    }

    /// Frees expired keys at the pace of the deadlines that commands have set since the last call: clients that write more
    /// quickly than the maintenance frees would fill the memory.
    pub(crate) fn reclaim_owed(&mut self, now: NodeTime) {
        if self.engine.reclaim_owed(now).freed > 0 {
            self.tell_unprompted();
        }
    }

    /// The same after a command that may have set many deadlines, as scripts do: before the next one like it.
    pub(super) fn reclaim_much_owed(&mut self, now: NodeTime) {
        if self.engine.owed_steps() >= OWED_STEPS_MAX {
            self.reclaim_owed(now);
        }
    }

    fn tell_unprompted(&mut self) {
        let wait = self.wait_for_all();
        let told = self.engine.take_unprompted().into_iter();
        self.outbox.extend(&mut self.engine, told, wait);
    }

    /// Whether keys that no delay covers are synced before the reply.
    fn syncs_uncovered(&self) -> bool {
        self.rules.no_ttl_is_synced && self.mode.is_logged()
    }

    fn log_group(&mut self, now: NodeTime, wait: &mut DurabilityWait) {
        if let Some(deadline) = self.effects.longest_deadline {
            let ttl_ns = deadline.as_nanos().saturating_sub(now.as_nanos());
            let cap_ns = self.mode.cap_ns();
            // A TTL beyond the cap is synced itself, since no delay could cover it. Where it is
            // not, by configuration, the delay covers at least the cap.
            let is_covered = ttl_ns <= cap_ns || !self.syncs_uncovered();
            let covered_ns = if is_covered {
                ttl_ns.min(cap_ns)
            } else {
                // A script may have set shorter deadlines beside the one that is synced itself.
                self.effects.longest_covered.map_or(0, |deadline| {
                    deadline.as_nanos().saturating_sub(now.as_nanos())
                })
            };
            // A node without a log of keys asks for no room before a grant. With little left, its next
            // raise is the last: to the cap, which no grant exceeds.
            let is_last = !self.mode.is_logged() && self.appender.room() < GROUP_BYTES_MAX;
            let raise_ns = if is_last && covered_ns > self.ttl_bound.on_record_ns {
                cap_ns
            } else {
                covered_ns
            };
            if let Some(ttl_bound_ns) = self.ttl_bound.raise(raise_ns) {
                self.last.ttl_bound = self.append(now, &ControlRecord::Promise(ttl_bound_ns));
                // Grants of others wait for it as well.
                wait.raise(DurabilityWait::until_synced_at_once(self.last.ttl_bound));
            }
            // Also a grant under a raise that somebody else made waits until that is synced: a
            // power loss would take both.
            wait.raise(DurabilityWait::until_synced(self.last.ttl_bound));
        }
        if !self.mode.is_logged() {
            return;
        }
        let journal = &self.effects.journal;
        let kind = FrameKind::new(kind::GROUP);
        let position = self.appender.append(kind, now.as_nanos(), journal);
        self.last.changed = position;
        wait.raise(self.reach(position));
        if self.effects.uncovered && self.syncs_uncovered() {
            self.last.uncovered = position;
            wait.raise(DurabilityWait::until_synced(position));
        }
        let rotations = self.appender.rotations();
        if rotations != self.rotations {
            self.rotations = rotations;
            self.lower_ttl_bound(now);
        }
    }

    /// Lowers the TTL bound to the longest TTL granted since it was last lowered.
    ///
    /// No sync is waited for: a log that holds the lower bound holds all that was granted under
    /// the higher one before it, because what a crash leaves is a prefix; a log that does not
    /// hold it still has the higher one.
    fn lower_ttl_bound(&mut self, now: NodeTime) {
        if let Some(ttl_bound_ns) = self.ttl_bound.lower() {
            self.append(now, &ControlRecord::Promise(ttl_bound_ns));
        }
    }

    /// Changes mode and cap; returns the position of the record, which has to be synced before the
    /// change is acknowledged. Everything executed from here on follows the new mode.
    pub(crate) fn change_mode(
        &mut self,
        now: NodeTime,
        durability: Durability,
        cap: Duration,
    ) -> Position {
        let cap_ns = saturated_nanos(cap);
        let position = to_engine(self.appender.next_position());
        let record = self.mode.change(durability, cap_ns, position);
        self.engine.set_restart_delay_max(cap);
        let is_direct = self.rules.writes_direct && durability == Durability::Always;
        self.appender.write_direct(is_direct);
        self.append(now, &ControlRecord::Mode(record))
    }
}

/// Those of a few hundred deadlines; the steps of fewer are taken before the engine is released.
const OWED_STEPS_MAX: usize = 1024;

const LONG_REPLY_BYTES: usize = 64 * 1024;
