//! Check C7: what a node makes of a crash is a state it was in, holds what it had promised to keep, and leaves
//! it either clean with nothing lost, or out of service until every lock it may have forgotten has expired.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::control::ControlRecord;
use quorlock_engine::restart::Stop;
use quorlock_engine::{Stored, StoredValue};
use quorlock_node::simulation::Node;
use quorlock_persistence::{DiskOperation, LogOptions as Sizes, MemoryDisk, Point, Recovery};

use super::held::Held;
use super::model::{Moment, Name, share_name, share_of};
use super::options::{Delay, Options, RATE_PPM};
use super::time::WorldClock;
use super::workload::Mode;
use super::world::World;

/// What must not happen, and did.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which part of the contract.
    pub what: String,
    /// The particulars.
    pub detail: String,
}

impl Violation {
    /// Whether it is that the node would not start.
    pub(crate) fn is_refusal(&self) -> bool {
        self.what == REFUSES
    }

    /// Whether the node would not start because both copies of a header are garbage, in two sectors. It cannot tell
    /// that from damage, and says so; nothing is lost by it.
    pub(crate) fn is_torn_header(&self) -> bool {
        self.is_refusal() && self.detail.contains("both copies of its header")
    }

    pub(crate) fn refusal(error: impl fmt::Display) -> Violation {
        Violation::new(REFUSES, error)
    }

    pub(crate) fn new(what: &str, detail: impl fmt::Display) -> Violation {
        Violation {
            what: what.to_owned(),
            detail: detail.to_string(),
        }
    }
}

/// How the node is started again after a crash.
#[derive(Clone, Debug)]
pub(crate) struct Reopening {
    pub(crate) clock: Arc<WorldClock>,
    pub(crate) is_other_boot: bool,
    /// Today's configuration.
    pub(crate) options: Options,
    /// The machine and the directory.
    pub(crate) directory_number: u64,
    /// The directory was put back or emptied: the cap that is on record there.
    pub(crate) gone_back: Option<u64>,
    /// The cap that counts beside it: today's, or that of an earlier start that is still under way.
    pub(crate) today_ns: u64,
    /// From this moment on an operator's experiment lets it serve, in true time.
    pub(crate) may_serve_from: Option<u64>,
    /// The oldest version that may be found.
    pub(crate) least: usize,
    /// Node time is known to go on.
    pub(crate) time_goes_on: bool,
}

/// A node that was started again, and is as it should be.
pub(crate) struct Reopened {
    pub(crate) node: Node,
    pub(crate) clock: Arc<WorldClock>,
    /// The version it was found to have; `None` where it is none of the last run.
    pub(crate) kept: Option<usize>,
    /// The locks that it does not know of and that clients hold.
    pub(crate) lost: BTreeMap<Name, Held>,
    /// The disk after each change of the start.
    pub(crate) points: Vec<Point>,
    /// It found no space for a segment, and went on in the last one.
    pub(crate) is_resumed: bool,
}

/// Starts the node on `disk` and checks what it makes of it.
pub(crate) fn reopen(
    world: &World,
    disk: &MemoryDisk,
    how: &Reopening,
) -> Result<Reopened, Violation> {
    let mut recorded = world.has_lied.then(|| newest_run(disk));
    if world.ahead_ns.is_none() {
        // The start under way tells nothing of a run that the disk lost before it.
        recorded = recorded.min(world.recorded);
    }
    disk.record_points();
    let node = start(disk, how, world.seed)?;
    let points = disk.take_points();
    let mut past = Past::read(world, &how.clock, &node)?;
    past.gone_back = how.gone_back;
    past.today_ns = how.today_ns;
    past.recorded = recorded;
    let kept = past.version(how.least)?;
    if let (Some(kept), None) = (kept, how.gone_back) {
        past.check_ttls(kept)?;
    }
    if how.time_goes_on && world.ahead_ns != Some(how.clock.raw_ns().wrapping_sub(past.now_ns)) {
        return Err(Violation::new(
            "time while the node was down did not count",
            "",
        ));
    }
    let lost = past.owed(kept, how.may_serve_from);
    past.check_delay(&node, kept, &lost, how)?;
    Ok(Reopened {
        node,
        clock: Arc::clone(&how.clock),
        kept,
        lost,
        is_resumed: !points.iter().any(makes_segment),
        points,
    })
}

fn makes_segment(point: &Point) -> bool {
    point.operation == DiskOperation::Rename && point.file.starts_with("segment-")
}

fn start(disk: &MemoryDisk, how: &Reopening, seed: u64) -> Result<Node, Violation> {
    let setup = how.options.setup(disk, how.directory_number, seed ^ 0x5eed);
    let started = catch_unwind(AssertUnwindSafe(|| {
        how.options.start(disk, how.clock.clone(), &setup)
    }));
    match started {
        Ok(Ok(node)) => Ok(node),
        Ok(Err(error)) => Err(Violation::refusal(error)),
        Err(_) => Err(Violation::new("the node panics at its start", "see above")),
    }
}

/// The last run whose start is on record: a disk that lies may lose whole runs, which no node can notice.
pub(crate) fn newest_run(disk: &MemoryDisk) -> u64 {
    let copy = Arc::new(disk.after_process_end());
    let Ok(recovery) = Recovery::read(copy, &Sizes::default()) else {
        return 0;
    };
    let Ok(frames) = recovery.frames().collect() else {
        return 0;
    };
    let starts = frames.iter().filter_map(|frame| {
        let record = ControlRecord::decode(frame.kind, &frame.payload).ok()?;
        match record {
            ControlRecord::Start(start) => Some(start.incarnation),
            ControlRecord::Control(control) => Some(control.start.incarnation),
            _ => None,
        }
    });
    starts.max().unwrap_or(0)
}

/// What a node has read of its past, beside what the oracle knows of it.
pub(crate) struct Past<'a> {
    world: &'a World,
    clock: &'a WorldClock,
    pub(crate) stored: Vec<Stored>,
    now_ns: u64,
    pub(crate) true_ns: u64,
    /// The directory was put back or emptied: the cap that is on record there.
    gone_back: Option<u64>,
    /// Today's cap.
    today_ns: u64,
    /// The disk has lied: the last run that it remembers.
    recorded: Option<u64>,
}

impl<'a> Past<'a> {
    pub(crate) fn read(
        world: &'a World,
        clock: &'a WorldClock,
        node: &Node,
    ) -> Result<Past<'a>, Violation> {
        let failed = |error| Violation::new("the node failed at its start", error);
        Ok(Past {
            world,
            clock,
            stored: node.stored().map_err(failed)?,
            now_ns: node.now().map_err(failed)?.as_nanos(),
            true_ns: clock.true_ns(),
            gone_back: world.gone_back,
            today_ns: world.options.cap_ns(),
            recorded: world.recorded,
        })
    }

    pub(crate) fn now(&self) -> Moment {
        Moment {
            node_ns: self.now_ns,
            true_ns: self.true_ns,
        }
    }

    /// The version that it has, not older than `least`; `None` where it has none of the last run.
    pub(crate) fn kept(&self, least: usize) -> Option<usize> {
        let least = if self.gone_back.is_some() { 0 } else { least };
        self.world.oracle.version_of(&self.stored, least)
    }

    /// Which version it is: a legal prefix, with all that had to be kept.
    fn version(&self, least: usize) -> Result<Option<usize>, Violation> {
        let oracle = &self.world.oracle;
        let found = self.kept(least);
        // In this mode nothing is logged; keys of an earlier run are there until a checkpoint. A disk that has lied
        // may remember an earlier run.
        let is_lenient = self.world.mode == Mode::Volatile || self.world.has_lied;
        if found.is_some() || self.gone_back.is_some() || is_lenient {
            return Ok(found);
        }
        let (what, detail) = match oracle.version_of(&self.stored, 0) {
            Some(older) => {
                let lost = &oracle.versions[older + 1].text;
                let detail = format!(
                    "kept {older} of at least {least} changes; the first lost one is: {lost}"
                );
                ("what had to be kept is lost", detail)
            }
            None => {
                let detail = format!("found {:?}", self.stored);
                ("the state is none the node was ever in", detail)
            }
        };
        Err(Violation::new(what, detail))
    }

    /// No key ends before the time its holder was told.
    fn check_ttls(&self, kept: usize) -> Result<(), Violation> {
        let promised = self.world.oracle.versions[kept].keys.iter();
        let promised = promised.flat_map(|(name, item)| {
            let whole = item.until.map(|until| (name.clone(), until, item.granted));
            let shares = item
                .shares
                .iter()
                .map(|(token, share)| (share_name(name, token), share.until, share.granted));
            whole.into_iter().chain(shares)
        });
        for (name, until, granted) in promised {
            let ends = self.end_of(&name).unwrap_or(0);
            let least = until - self.slack(granted, until);
            if ends < least && least > self.true_ns && self.world.mode != Mode::Volatile {
                let short_ns = until - ends;
                let key = String::from_utf8_lossy(&name.1);
                let detail = format!("{key} ends {short_ns} ns before its time");
                return Err(Violation::new("a TTL is shorter than granted", detail));
            }
        }
        Ok(())
    }

    /// The locks that clients hold, that this node does not know, and that its delay has to cover; and until when.
    pub(crate) fn owed(
        &self,
        kept: Option<usize>,
        may_serve_from: Option<u64>,
    ) -> BTreeMap<Name, Held> {
        let is_volatile = self.world.mode == Mode::Volatile;
        let mut lost = self.world.oracle.lost(kept.filter(|_| !is_volatile));
        lost.retain(|name, held| {
            let slack = self.slack(held.granted, held.until);
            let is_known = self
                .value_of(name)
                .is_some_and(|known| holds(known, &held.value) || share_of(name).is_some())
                && self
                    .end_of(name)
                    .is_some_and(|ends| ends + slack >= held.until);
            held.until = self
                .owed_until(held)
                .min(may_serve_from.unwrap_or(u64::MAX));
            // A clock that was as fast as it may be has let it go already, here or in a delay that an earlier start has
            // waited out; its holder has counted that off.
            held.until.saturating_sub(slack) > self.true_ns && !is_known
        });
        lost
    }

    /// How long the delay has to last for a lock that is lost.
    fn owed_until(&self, held: &Held) -> u64 {
        let at_most = |cap_ns: u64| {
            let cap_ns = cap_ns.max(self.today_ns);
            held.until.min(held.granted.saturating_add(cap_ns))
        };
        match (self.gone_back, self.recorded) {
            (Some(cap_ns), _) => at_most(cap_ns),
            (None, None) => held.until,
            (None, Some(run)) if held.run > run => 0,
            (None, Some(run)) => at_most(self.world.caps.get(&run).copied().unwrap_or(0)),
        }
    }

    /// Either clean and nothing is lost, or out of service for long enough.
    fn check_delay(
        &self,
        node: &Node,
        kept: Option<usize>,
        lost: &BTreeMap<Name, Held>,
        how: &Reopening,
    ) -> Result<(), Violation> {
        let verdict = node.verdict();
        // A node that crashed while it waited has not served either; its delay goes on, and is checked below.
        let claims_all = matches!(verdict.stop, Stop::Clean | Stop::NeverRan | Stop::Complete);
        let is_logged = self.world.mode != Mode::Volatile;
        let loses = kept.is_some_and(|kept| self.world.oracle.loses_what_was_told(kept));
        let is_known =
            self.recorded.is_none() && self.gone_back.is_none() && how.may_serve_from.is_none();
        if is_logged && claims_all && verdict.delay.is_none() && loses && is_known {
            let detail = format!("it calls this a {}", verdict.stop.reason());
            return Err(Violation::new("clean with loss", detail));
        }
        let is_clean = matches!(
            verdict.stop,
            Stop::Clean | Stop::NeverRan | Stop::NeverServed
        );
        if how.options.delay == Delay::Always && !is_clean && node.is_serving() {
            let detail = verdict.stop.reason();
            return Err(Violation::new("restart-delay always did not wait", detail));
        }
        let left = node.delay_left().unwrap_or(None).unwrap_or(Duration::ZERO);
        let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        let serves_at = match node.is_serving() {
            true => self.true_ns,
            false => self
                .true_ns
                .saturating_add(self.clock.true_for_raw(left_ns)),
        };
        // For keys of an earlier run that it does not log a node waits as long as it would have kept them itself.
        let cause = verdict.delay.map_or(verdict.stop, |delay| delay.cause);
        let is_counted = cause == Stop::Clean || !is_logged;
        let is_early = |held: &Held| {
            let slack = if is_counted {
                self.slack(held.granted, held.until)
            } else {
                0
            };
            held.until - slack > serves_at
        };
        match lost.iter().find(|(_, held)| is_early(held)) {
            None => Ok(()),
            Some((name, held)) => {
                let key = String::from_utf8_lossy(&name.1);
                let early_ms = held.until.saturating_sub(serves_at) / 1_000_000;
                let reason = verdict.stop.reason();
                let detail = format!(
                    "{key} is forgotten and still held; the node serves {early_ms} ms too early ({reason})"
                );
                Err(Violation::new("the restart delay is too short", detail))
            }
        }
    }

    /// True time at which this node lets go of a key; `None` if it has none of that name.
    fn end_of(&self, name: &Name) -> Option<u64> {
        let mut stored = self.stored.iter();
        let share = share_of(name);
        let (key, token) = match &share {
            Some((key, token)) => (key, Some(*token)),
            None => (name, None),
        };
        let known = stored.find(|stored| (stored.database, &stored.key) == (key.0, &key.1))?;
        let deadline = match (token, &known.value) {
            (None, _) => known.deadline,
            // A holder ends with the key at the latest.
            (Some(token), StoredValue::SharedLock(holders)) => {
                Some(holders.get(token).copied()?).min(known.deadline)
            }
            (Some(_), _) => return None,
        };
        Some(match deadline {
            None => u64::MAX / 2,
            Some(deadline) => {
                let left_ns = deadline.as_nanos().saturating_sub(self.now_ns);
                self.true_ns + self.clock.true_for_raw(left_ns)
            }
        })
    }

    fn value_of(&self, name: &Name) -> Option<&StoredValue> {
        let mut stored = self.stored.iter();
        let key = share_of(name).map_or_else(|| name.clone(), |(key, _)| key);
        let known = stored.find(|stored| (stored.database, &stored.key) == (key.0, &key.1));
        known.map(|known| &known.value)
    }

    /// What clocks within the drift bound may take from a TTL: its holder has counted that off.
    fn slack(&self, granted: u64, until: u64) -> u64 {
        match self.world.is_exact && self.clock.is_exact() {
            true => 0,
            false => (until - granted) / (1_000_000 / RATE_PPM.unsigned_abs() as u64) + 2,
        }
    }
}

/// Whether whoever holds the lock `held` is still known. A field that was deleted and is back is a lost release:
/// others only wait longer.
fn holds(known: &StoredValue, held: &StoredValue) -> bool {
    match (known, held) {
        (StoredValue::Hash(known), StoredValue::Hash(held)) => held
            .iter()
            .all(|(field, value)| known.get(field) == Some(value)),
        (known, held) => known == held,
    }
}

impl Reopened {
    /// The node refuses to grant until its delay is over, and grants then.
    pub(crate) fn check_service(mut self) -> Result<(), Violation> {
        let ask = |node: &mut Node| node.execute(&[b"SET", b"fresh", b"t", b"NX", b"PX", b"1000"]);
        let failed = |error| Violation::new("the node failed while it waited", error);
        if let Some(left) = self.node.delay_left().map_err(failed)? {
            let reply = ask(&mut self.node);
            if !reply.starts_with(b"-RESTARTDELAY") {
                let detail = String::from_utf8_lossy(&reply).into_owned();
                return Err(Violation::new(
                    "a node in its restart delay answers",
                    detail,
                ));
            }
            self.clock
                .advance_raw(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            if !self.node.serve_if_due().map_err(failed)? {
                return Err(Violation::new("the restart delay does not end", ""));
            }
        }
        let mut reply = ask(&mut self.node);
        if self.is_resumed && reply.starts_with(b"-MISCONF the log has no room") {
            // There is space by now, for which a node looks once a second.
            self.clock.advance_raw(1_100_000_000);
            let _ = self.node.maintain().map_err(failed)?;
            self.node.work_on_log().map_err(failed)?;
            reply = ask(&mut self.node);
        }
        if !reply.starts_with(b"+OK") {
            let detail = String::from_utf8_lossy(&reply).into_owned();
            return Err(Violation::new("a node that serves does not grant", detail));
        }
        Ok(())
    }
}

const REFUSES: &str = "the node refuses to start";
