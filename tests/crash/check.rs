//! Check C7: what a node makes of a crash is a state it was in, holds what it had promised to keep, and leaves
//! it either clean with nothing lost, or out of service until every lock it may have forgotten has expired.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::restart::Stop;
use quorlock_engine::{Stored, StoredValue};
use quorlock_persistence::{MemoryDisk, Point};
use quorlock_server::simulation::Node;

use super::defect::{Defect, DefectiveDisk};
use super::oracle::{Held, Name};
use super::time::WorldClock;
use super::workload::Mode;
use super::world::{World, setup};

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
    /// The mode of today's configuration, which has no say in what happened before.
    pub(crate) mode: Mode,
    /// `trust-fsync`: what was synced survives a power loss, which here is so unless the disk lies.
    pub(crate) trusts_fsync: bool,
    /// The oldest version that may be found.
    pub(crate) least: usize,
    /// Node time is known to go on.
    pub(crate) time_goes_on: bool,
    pub(crate) defect: Option<Defect>,
}

/// A node that was started again, and is as it should be.
pub(crate) struct Reopened {
    pub(crate) node: Node,
    pub(crate) clock: Arc<WorldClock>,
    /// The version it was found to have.
    pub(crate) kept: usize,
    /// The locks that it does not know of and that clients hold.
    pub(crate) lost: BTreeMap<Name, Held>,
    /// The disk after each change of the start.
    pub(crate) points: Vec<Point>,
}

/// Starts the node on `disk` and checks what it makes of it.
pub(crate) fn reopen(
    world: &World,
    disk: &MemoryDisk,
    how: &Reopening,
) -> Result<Reopened, Violation> {
    disk.record_points();
    let node = start(disk, how, world.seed)?;
    let points = disk.take_points();
    let failed = |error| Violation::new("the node failed at its start", error);
    let (now, stored) = (node.now().map_err(failed)?, node.stored().map_err(failed)?);
    let true_ns = how.clock.true_ns();
    let found = Found {
        world,
        how,
        stored,
        now_ns: now.as_nanos(),
        true_ns,
    };
    let kept = found.version()?;
    found.check_ttls(kept)?;
    if how.time_goes_on && world.ahead_ns != Some(true_ns.wrapping_sub(found.now_ns)) {
        return Err(Violation::new(
            "time while the node was down did not count",
            "",
        ));
    }
    let lost = found.lost(kept);
    found.check_delay(&node, kept, &lost)?;
    Ok(Reopened {
        node,
        clock: Arc::clone(&how.clock),
        kept,
        lost,
        points,
    })
}

fn start(disk: &MemoryDisk, how: &Reopening, seed: u64) -> Result<Node, Violation> {
    let mut setup = setup(how.mode, seed ^ 0x5eed);
    setup.config.trust_fsync = how.trusts_fsync;
    let defective = DefectiveDisk::around(disk, how.defect);
    let started = catch_unwind(AssertUnwindSafe(|| {
        Node::start(defective, how.clock.clone(), &setup)
    }));
    match started {
        Ok(Ok(node)) => Ok(node),
        Ok(Err(error)) => Err(Violation::new(REFUSES, error)),
        Err(_) => Err(Violation::new("the node panics at its start", "see above")),
    }
}

/// What was found after a crash.
struct Found<'a> {
    world: &'a World,
    how: &'a Reopening,
    stored: Vec<Stored>,
    now_ns: u64,
    true_ns: u64,
}

impl Found<'_> {
    /// Which version it is: a legal prefix, with all that had to be kept.
    fn version(&self) -> Result<usize, Violation> {
        let oracle = &self.world.oracle;
        if self.world.mode == Mode::Volatile {
            // Nothing of this incarnation is logged; an earlier one's keys are there until a checkpoint.
            return Ok(oracle.version_of(&self.stored, 0).unwrap_or(0));
        }
        if let Some(version) = oracle.version_of(&self.stored, self.how.least) {
            return Ok(version);
        }
        let (what, detail) = match oracle.version_of(&self.stored, 0) {
            Some(older) => {
                let lost = &oracle.versions[older + 1].text;
                let least = self.how.least;
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
        for (name, item) in &self.world.oracle.versions[kept].keys {
            let Some(until) = item.until else { continue };
            let ends = self.end_of(name).unwrap_or(0);
            if ends < until && until > self.true_ns && self.world.mode != Mode::Volatile {
                let short_ns = until - ends;
                let key = String::from_utf8_lossy(&name.1);
                let detail = format!("{key} ends {short_ns} ns before its time");
                return Err(Violation::new("a TTL is shorter than granted", detail));
            }
        }
        Ok(())
    }

    /// The locks that clients hold and this node does not know.
    fn lost(&self, kept: usize) -> BTreeMap<Name, Held> {
        let oracle = &self.world.oracle;
        let mut lost = oracle.lost(kept);
        if self.world.mode == Mode::Volatile {
            let later = &oracle.versions[1..];
            for (name, item) in &oracle.versions[0].keys {
                let is_changed = later.iter().any(|version| version.changed.contains(name));
                if let (Some(held), false) = (item.held(), is_changed) {
                    lost.insert(name.clone(), held);
                }
            }
        }
        lost.retain(|name, held| {
            let mut stored = self.stored.iter();
            let known = stored.find(|stored| (stored.database, &stored.key) == (name.0, &name.1));
            let is_known = known.is_some_and(|known| holds(&known.value, &held.value))
                && self.end_of(name).is_some_and(|ends| ends >= held.until);
            held.until > self.true_ns && !is_known
        });
        lost
    }

    /// Either clean and nothing is lost, or out of service for long enough.
    fn check_delay(
        &self,
        node: &Node,
        kept: usize,
        lost: &BTreeMap<Name, Held>,
    ) -> Result<(), Violation> {
        let verdict = node.verdict();
        // A node that crashed while it waited has not served either; its delay goes on, and is checked below.
        let claims_all = matches!(verdict.stop, Stop::Clean | Stop::NeverRan | Stop::Complete);
        let is_logged = self.world.mode != Mode::Volatile;
        if is_logged
            && claims_all
            && verdict.delay.is_none()
            && self.world.oracle.loses_what_was_told(kept)
        {
            let detail = format!("it calls this a {}", verdict.stop.reason());
            return Err(Violation::new("clean with loss", detail));
        }
        let left = node.delay_left().unwrap_or(None).unwrap_or(Duration::ZERO);
        let serves_at = match node.is_serving() {
            true => self.true_ns,
            false => self.true_ns + u64::try_from(left.as_nanos()).unwrap_or(u64::MAX),
        };
        match lost.iter().find(|(_, held)| held.until > serves_at) {
            None => Ok(()),
            Some((name, held)) => {
                let key = String::from_utf8_lossy(&name.1);
                let early_ms = (held.until - serves_at) / 1_000_000;
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
        let known = stored.find(|stored| (stored.database, &stored.key) == (name.0, &name.1))?;
        Some(match known.deadline {
            None => u64::MAX,
            Some(deadline) => (self.true_ns + deadline.as_nanos()).saturating_sub(self.now_ns),
        })
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
        let ask = |node: &mut Node| {
            node.execute(&[b"SET", b"fresh", b"t", b"NX", b"PX", b"1000"])
                .0
        };
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
                .advance(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            if !self.node.serve_if_due().map_err(failed)? {
                return Err(Violation::new("the restart delay does not end", ""));
            }
        }
        let reply = ask(&mut self.node);
        if !reply.starts_with(b"+OK") {
            let detail = String::from_utf8_lossy(&reply).into_owned();
            return Err(Violation::new("a node that serves does not grant", detail));
        }
        Ok(())
    }
}

const REFUSES: &str = "the node refuses to start";
