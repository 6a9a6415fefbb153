//! Cutting a log that a start refuses, so that the node can go on without what was lost.
//!
//! Invariant: only what a start refuses is cut, and the frame LOST that says so is part of the cut itself. It
//! names the longest TTL that anything in the log, or the default cap, speaks of: the next start waits that
//! long, whatever TTL bound the kept part holds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::control::{ControlRecord, Start, kind};
use quorlock_persistence::{
    Disk, Frame, FrameKind, LogIdentity, RealDisk, Recovery, RecoveryError, Repair, RepairCut,
    Repaired, StartSpace, WriteError,
};

use super::check::{is_understood, of_past};
use super::{DataDirectory, DirectoryFinding, Unreadable, options};
use crate::clock::{Reading, SystemClock, saturated_nanos};
use crate::config::Config;
use quorlock_node::past::{self, Directory, Log, Past};
use quorlock_node::start::StartError;

/// Why a log was not repaired; as text with what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// It cannot be looked at, or holds nothing of a node; nothing was created in it.
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    /// The directory cannot be taken: a node runs, or it is none.
    #[error("{0}")]
    Directory(StartError),
    /// A start does not refuse it.
    #[error(
        "nothing to repair: a start does not refuse the log in {directory}; it was left as it is"
    )]
    NothingToRepair {
        /// The directory.
        directory: String,
    },
    /// A start refuses it for a reason that no cut mends.
    #[error("no repair: {}: {}; {}", .0.file, .0.what, .0.remedy)]
    NoDamage(Box<DirectoryFinding>),
    /// Neither a header nor `node.id` says whose log it is.
    #[error(
        "no repair: nothing in {directory} says whose log it is; move the directory away and create the node anew"
    )]
    Nobodys {
        /// The directory.
        directory: String,
    },
    /// It failed.
    #[error(
        "the repair failed, and the log still refuses to start or is repaired in part; run it again: {0}"
    )]
    Write(WriteError),
}

/// A repair that could be made, with the directory's lock: no node starts there until this is committed or dropped.
#[derive(Debug)]
pub struct PlannedRepair {
    repair: Repair,
    node_id: [u8; 20],
    finding: DirectoryFinding,
    lost_ns: u64,
    /// The count of the last start that anything speaks of.
    incarnation: u64,
}

/// What a repair would do, or did: to be shown before [`PlannedRepair::commit`], and kept afterwards.
#[derive(Clone, Debug)]
pub struct RepairReport {
    /// Why a start refuses.
    pub finding: DirectoryFinding,
    /// Where the log is cut; `None` if nothing is kept.
    pub cut: Option<RepairCut>,
    /// The files that are moved into the folder.
    pub set_aside: Vec<String>,
    /// The next start serves no locks for at least so long.
    pub wait: Duration,
}

/// Takes a directory and finds what can be kept of its log. Changes nothing of the log.
///
/// # Errors
/// When the directory cannot be taken, or there is nothing that a cut could mend.
pub fn plan_repair(directory: &Path) -> Result<PlannedRepair, RepairError> {
    // To take a directory creates its lock, which has no place in one that is no node's.
    let data_directory = DataDirectory::open(directory)?;
    if matches!(data_directory.identity(), Ok(None))
        && data_directory.inspection()?.segments().is_empty()
    {
        return Err(RepairError::Unreadable(Unreadable::NoLog {
            directory: data_directory.name(),
        }));
    }
    let of_start = RepairError::Directory;
    let disk = RealDisk::open(directory).map_err(|error| of_start(StartError::Open(error)))?;
    plan_on(&data_directory, disk)
}

fn plan_on(
    data_directory: &DataDirectory,
    disk: Arc<dyn Disk>,
) -> Result<PlannedRepair, RepairError> {
    let known =
        past::NodeIdentity::read(&*disk).map_err(|error| RepairError::Directory(error.into()))?;
    let options = options(known.as_ref());
    let error = match Recovery::read(Arc::clone(&disk), &options) {
        Ok(recovery) => return Err(why_not(data_directory, &*disk, known.as_ref(), &recovery)),
        Err(error) => error,
    };
    let finding = repairable(&error)?;
    let repair =
        Repair::plan(Arc::clone(&disk), &options).map_err(|error| match repairable(&error) {
            Ok(finding) => RepairError::NoDamage(Box::new(finding)),
            Err(error) => error,
        })?;
    let node_id = match (&known, repair.newest_identity()) {
        (Some(known), _) => known.id.bytes(),
        (None, Some(written)) => written.node_id,
        (None, None) => {
            return Err(RepairError::Nobodys {
                directory: repair.describe(),
            });
        }
    };
    let mut lost_ns = saturated_nanos(Config::default().restart_delay_max);
    let marked = past::fingerprint::newest_incarnation(&*disk);
    let mut incarnation =
        marked.map_err(|error| RepairError::Directory(StartError::Disk(error)))?;
    let visited = repair.visit(|frame| {
        lost_ns = lost_ns.max(longest_ns(frame));
        incarnation = incarnation.max(incarnation_of(frame));
    });
    visited.map_err(|error| RepairError::NoDamage(Box::new(DirectoryFinding::of_error(&error))))?;
    Ok(PlannedRepair {
        repair,
        node_id,
        finding,
        lost_ns,
        incarnation,
    })
}

/// Why a log that can be read is not repaired.
fn why_not(
    data_directory: &DataDirectory,
    disk: &dyn Disk,
    identity: Option<&past::NodeIdentity>,
    recovery: &Recovery,
) -> RepairError {
    let directory = Directory {
        disk,
        identity,
        log: Log::Recovered(recovery),
    };
    let policy = past::policy(&Config::default());
    let history = directory.log.history(is_understood);
    let judge = |history| Past::judge(&directory, history, &Reading::now(&SystemClock), &policy);
    match history.and_then(judge) {
        Ok(_) => match data_directory.start_space(identity) {
            StartSpace::None(bytes) => {
                let finding = DirectoryFinding::of_missing_space(data_directory.name(), bytes);
                RepairError::NoDamage(Box::new(finding))
            }
            _ => RepairError::NothingToRepair {
                directory: data_directory.name(),
            },
        },
        Err(error) => RepairError::NoDamage(Box::new(of_past(data_directory, error))),
    }
}

fn repairable(error: &RecoveryError) -> Result<DirectoryFinding, RepairError> {
    let finding = DirectoryFinding::of_error(error);
    if finding.kind.is_repairable() {
        Ok(finding)
    } else {
        Err(RepairError::NoDamage(Box::new(finding)))
    }
}

impl PlannedRepair {
    /// What it would do, for somebody to agree to.
    pub fn report(&self) -> RepairReport {
        RepairReport {
            finding: self.finding.clone(),
            cut: self.repair.cut(),
            set_aside: self.repair.set_aside(),
            wait: Duration::from_nanos(self.lost_ns),
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn commit(self) -> Result<Repaired, RepairError> {
        let written = self.repair.newest_identity();
        let identity = LogIdentity {
            node_id: self.node_id,
            boot_id: written.map_or([0; 16], |identity| identity.boot_id),
            // The next start counts on from here. Clients take no vote of an incarnation that goes back.
            incarnation: written
                .map_or(0, |identity| identity.incarnation)
                .max(self.repair.newest_number())
                .max(self.incarnation),
        };
        let mut payload = Vec::new();
        ControlRecord::Lost(self.lost_ns).encode(&mut payload);
        let time_ns = self.repair.newest_node_time_ns();
        let repaired = self
            .repair
            .commit(identity, FrameKind::new(kind::LOST), time_ns, &payload);
        repaired.map_err(RepairError::Write)
    }
}

/// The start that a frame records. One on a full disk begins no segment, so no number of a segment need be as large.
fn incarnation_of(frame: &Frame<'_>) -> u64 {
    match ControlRecord::decode(frame.kind, frame.payload) {
        Ok(ControlRecord::Start(start)) => start.incarnation,
        Ok(ControlRecord::Control(control)) => control.start.incarnation,
        _ => 0,
    }
}

/// The longest TTL, cap or delay that a frame speaks of, in nanoseconds.
fn longest_ns(frame: &Frame<'_>) -> u64 {
    let pending = |start: &Start| start.pending.map_or(0, |pending| pending.length_ns);
    match ControlRecord::decode(frame.kind, frame.payload) {
        Ok(ControlRecord::Start(start)) => start.cap_ns.max(pending(&start)),
        Ok(ControlRecord::Mode(mode)) => mode.cap_ns,
        Ok(ControlRecord::Promise(ttl_ns) | ControlRecord::Lost(ttl_ns)) => ttl_ns,
        Ok(ControlRecord::Shutdown(owed)) => owed.map_or(0, |pending| pending.length_ns),
        Ok(ControlRecord::Control(control)) => control
            .start
            .cap_ns
            .max(pending(&control.start))
            .max(control.ttl_bound_ns),
        // What was owed until then, from the moment it was put on record.
        Ok(ControlRecord::Owed(until)) => until.as_nanos().saturating_sub(frame.node_time_ns),
        // Groups hold deadlines of any length; what no delay covers is gone, and is said to be.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use quorlock_engine::NodeTime;
    use quorlock_engine::control::{Ceiling, Durability};
    use quorlock_persistence::{FrameBatch, LogOptions, MemoryDisk};

    use super::*;
    use crate::clock::{Clock, SettableClock};

    /// A start on a full disk begins no segment, so the number of the newest segment says too little.
    #[test]
    fn the_last_start_is_known_although_it_began_no_segment() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let identity = LogIdentity {
            node_id: [1; 20],
            boot_id: [2; 16],
            incarnation: 1,
        };
        let recovery = Recovery::read(Arc::clone(&disk), &LogOptions::default()).unwrap();
        let mut log = recovery.into_log(identity).unwrap();
        let mut payload = Vec::new();
        let clock = SettableClock::new();
        ControlRecord::Start(Start {
            incarnation: 41,
            boot: clock.boot(),
            fingerprint: 0,
            durability: Durability::Always,
            base: NodeTime::ZERO,
            raw: clock.raw(),
            wall_us: clock.wall_us(),
            boottime: clock.boottime(),
            pending: None,
            cap_ns: 60_000_000_000,
            ceiling: Ceiling::NONE,
        })
        .encode(&mut payload);
        log.appender
            .append(FrameKind::new(kind::START), 0, &payload);
        let mut batch = log.appender.take(FrameBatch::default());
        log.writer.write(&mut batch).unwrap();
        let repair = Repair::plan(disk, &LogOptions::default()).unwrap();
        let mut newest = 0;
        let visited = repair.visit(|frame| newest = newest.max(incarnation_of(frame)));
        visited.unwrap();
        assert_eq!((newest, repair.newest_number()), (41, 1));
    }
}
