//! A node's life in the model: starts, changes, stops, crashes, repairs.
//!
//! What a start must wait for, and what it, the service, a checkpoint and a stop put on record, is
//! decided by the production code (`restart`, `incarnation`). What a mutant makes of that is at the
//! end of this file. The order of the steps mirrors `server/node/src/start.rs` and `maintenance.rs`.

use quorlock_engine::control::{Boot, Ceiling, ControlRecord, Pending, Start};
use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::restart::{History, Policy, Rebased, Seen, TtlBound, node_time};
use quorlock_engine::{BootTime, LogPosition, NodeTime, RawTime, incarnation};

use super::image::{Entry, Frame, Key};
use super::mutant::Mutant;
use super::node::{Node, Phase, Rules};
use super::scope::{Configuration, TICK_NS};

impl Node {
    /// Starts the node: reads its log, judges the past, puts START on record.
    pub(crate) fn start(&mut self, rules: &Rules, raw: RawTime, configuration: Configuration) {
        // What was read is synced before anything else is written.
        self.synced = self.tail.len();
        if !rules.keeps_log {
            self.fold(rules);
        }
        let image = self.image_now(rules.mutant);
        let mut history = image.history.clone();
        let boot = Boot([self.boot; 16]);
        let Rebased {
            is_same_boot,
            base,
            raw: base_raw,
        } = match history.start {
            Some(start) if rules.mutant == Mutant::DeadlinesNotRebased => Rebased {
                is_same_boot: start.boot == boot,
                base: start.base,
                raw: start.raw,
            },
            _ => history.rebase(boot, raw, BootTime::from_nanos(raw.as_nanos())),
        };
        let now = node_time(base, base_raw, raw).unwrap_or(base);
        let seen = Seen {
            now,
            is_same_boot,
            is_whole: true,
            is_same_directory: true,
            has_identity: true,
            // The log alone has to tell.
            has_marker: false,
        };
        let policy = Policy {
            cap_ns: configuration.cap_ns,
            trusts_fsync: rules.policy.trusts_fsync || rules.mutant == Mutant::DiskTrusted,
            ..rules.policy
        };
        mislead(&mut history, rules.mutant, is_same_boot, configuration);
        let verdict = history.judge(&seen, &policy);
        let delay = misjudge(verdict.delay, rules.mutant, now, history.ttl_bound_ns);
        self.watch_delay(is_same_boot, now, delay);
        let start = Start {
            incarnation: self.incarnation() + 1,
            boot,
            fingerprint: 0,
            durability: configuration.mode,
            base,
            raw: base_raw,
            wall_us: 0,
            boottime: BootTime::ZERO,
            pending: delay,
            cap_ns: configuration.cap_ns,
            ceiling: Ceiling::NONE,
        };
        self.cached = now;
        self.put_on_record(rules, raw, start, image.key);
    }

    fn put_on_record(&mut self, rules: &Rules, raw: RawTime, start: Start, key: Option<Key>) {
        self.start = Some(start);
        self.mode = Some(LiveMode::new(&start));
        let now = self.now(raw);
        let on_record = Start {
            pending: start
                .pending
                .filter(|_| rules.mutant != Mutant::DelayForgottenByCrash),
            ..start
        };
        for record in incarnation::at_start(on_record) {
            self.append(now, Entry::Record(record));
        }
        self.key = key;
        self.ttl_bound = TtlBound::default();
        self.phase = Phase::Starting;
        if start.pending.is_none() {
            self.append_serving(rules, now);
        } else if rules.mutant == Mutant::DelayForgottenByCrash {
            self.phase = Phase::Waiting;
            self.sync(rules, raw);
        }
    }

    /// The delay is over: SERVING goes on record, and once it is durable the node grants.
    pub(crate) fn end_delay(&mut self, rules: &Rules, raw: RawTime) {
        self.append_serving(rules, self.now(raw));
        self.phase = Phase::Starting;
        self.has_waited = true;
    }

    fn append_serving(&mut self, rules: &Rules, now: NodeTime) {
        let Some(mode) = self.mode else { return };
        let mut latest = self.key.map(|key| key.deadline);
        if rules.mutant == Mutant::RecoveredCappedByToday {
            let limit = NodeTime::from_nanos(now.as_nanos() + mode.cap_ns());
            latest = latest.map(|latest| latest.min(limit));
        }
        let serving = incarnation::at_serving(mode.durability(), latest, now);
        self.append(now, Entry::Record(serving.record));
        self.unlogged_until = NodeTime::ZERO;
        if let Some(ControlRecord::Owed(until)) = serving.owed {
            self.unlogged_until = until;
            self.append(now, Entry::Record(ControlRecord::Owed(until)));
        }
    }

    /// The orderly stop: everything synced, SHUTDOWN last.
    pub(crate) fn stop(&mut self, rules: &Rules, raw: RawTime) {
        let now = self.now(raw);
        let waiting = self.start.and_then(|start| start.pending).filter(|_| {
            self.phase == Phase::Waiting && rules.mutant != Mutant::CleanStopErasesDelay
        });
        let latest = self.key.map(|key| key.deadline);
        let latest = latest.filter(|_| rules.mutant != Mutant::NoLogStopWithoutDelay);
        if let Some(mode) = self.mode {
            let shutdown = incarnation::at_stop(waiting, mode.durability(), latest, now);
            self.append(now, Entry::Record(shutdown));
        }
        self.sync(rules, raw);
        self.go_down();
    }

    /// The process ends; what it had written is in the page cache.
    pub(crate) fn kill(&mut self) {
        let forgets = self.mode.is_some_and(|mode| !mode.is_logged());
        self.has_lost_grant |= forgets && self.key.is_some();
        self.go_down();
    }

    /// The machine goes down: so many frames that were not synced survive, and the boot is over.
    pub(crate) fn lose_power(&mut self, survivors: usize) {
        let cut = (self.synced + survivors).min(self.tail.len());
        let lost = self.tail.drain(cut..);
        let is_grant = |frame: Frame| matches!(frame.entry, Entry::Group(Some(_)));
        self.has_lost_grant |= lost.into_iter().any(is_grant);
        self.boot += 1;
        self.kill();
    }

    /// The machine goes down, and its disk has kept only so many of the frames it had acknowledged.
    pub(crate) fn lose_acknowledged(&mut self, kept: usize) {
        self.has_lost_grant |= self.key.is_some();
        self.tail.truncate(kept);
        self.synced = self.tail.len();
        self.boot += 1;
        self.kill();
    }

    /// A disk that loses a whole run cannot be noticed: of the last one, at least START stays.
    pub(crate) fn kept_by_liar(&self) -> usize {
        let is_start =
            |frame: &Frame| matches!(frame.entry, Entry::Record(ControlRecord::Start(_)));
        self.tail.iter().rposition(is_start).map_or(0, |at| at + 1)
    }

    /// Memory is gone; only the log is left.
    fn go_down(&mut self) {
        self.phase = Phase::Down;
        self.mode = None;
        self.key = None;
        self.ttl_bound = TtlBound::default();
        self.bound_is_open = false;
    }

    /// The disk loses durable frames, and the operator repairs the log: it is cut there, and LOST
    /// says how long a lock may have lived that went with it.
    pub(crate) fn repair(&mut self, rules: &Rules, kept: usize) {
        self.has_lost_grant = true;
        let whole = self.image_now(rules.mutant).history;
        self.tail.truncate(kept);
        if rules.mutant != Mutant::RepairKeepsBound {
            let longest_ns = whole.cap_ns.max(whole.ttl_bound_ns);
            self.append(whole.newest, Entry::Record(ControlRecord::Lost(longest_ns)));
        }
        self.synced = self.tail.len();
        self.owed_until = None;
    }

    /// `CONFIG SET appendfsync` or `restart-delay-max`.
    pub(crate) fn change(&mut self, raw: RawTime, to: Configuration) {
        let next = self.written() + 1;
        let Some(mode) = &mut self.mode else { return };
        let record = mode.change(to.mode, to.cap_ns, LogPosition::from_raw(next));
        self.append(self.now(raw), Entry::Record(ControlRecord::Mode(record)));
    }

    /// A checkpoint opens: the TTL bound is lowered to what was granted lately.
    pub(crate) fn open_checkpoint(&mut self, rules: &Rules, raw: RawTime) {
        let (Some(start), Some(mode)) = (self.start, self.mode) else {
            return;
        };
        let bound_ns = match mode.is_logged() {
            true => self
                .ttl_bound
                .lower()
                .unwrap_or(self.ttl_bound.on_record_ns),
            false => self.ttl_bound.on_record_ns,
        };
        let now = self.now(raw);
        let control = mode.control(&start, self.phase == Phase::Serving, bound_ns);
        let opening = incarnation::at_checkpoint(control, self.unlogged_until, now);
        self.append(now, Entry::Record(opening.record));
        if let Some(owed) = opening.owed {
            self.append(now, Entry::Record(owed));
        }
        if !mode.is_logged() {
            // Its checkpoint drops the keys of earlier runs.
            self.append(now, Entry::Group(None));
        }
        if rules.mutant == Mutant::BoundLoweredAhead {
            self.image.history.ttl_bound_ns = bound_ns;
        }
        self.append(self.now(raw), Entry::End);
    }

    fn watch_delay(&mut self, is_same_boot: bool, now: NodeTime, delay: Option<Pending>) {
        let before = self.owed_until.filter(|until| is_same_boot && *until > now);
        let until = delay.map(|pending| pending.until);
        self.has_moved_delay |= before.is_some() && before != until;
        self.owed_until = until;
    }
}

/// What a mutant believes of the past.
fn mislead(history: &mut History, mutant: Mutant, is_same_boot: bool, today: Configuration) {
    match mutant {
        Mutant::ModeFromConfiguration => history.weakest = today.mode,
        Mutant::CapLimitsBound => history.ttl_bound_ns = history.ttl_bound_ns.min(today.cap_ns),
        Mutant::DelayOfOtherBootPassed if !is_same_boot => history.pending = None,
        _ => {}
    }
}

/// What a mutant makes of the verdict.
fn misjudge(
    delay: Option<Pending>,
    mutant: Mutant,
    now: NodeTime,
    bound_ns: u64,
) -> Option<Pending> {
    let pending = delay?;
    let length_ns = match mutant {
        Mutant::NoDelay => return None,
        Mutant::DelayOneTickShort => bound_ns.saturating_sub(TICK_NS),
        Mutant::DelayBeginsAnew => pending.length_ns,
        _ => return delay,
    };
    let until = NodeTime::from_nanos(now.as_nanos() + length_ns);
    Some(Pending {
        until,
        length_ns,
        ..pending
    })
    .filter(|pending| pending.until > now)
}
