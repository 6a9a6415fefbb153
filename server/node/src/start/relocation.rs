//! Moving a stopped node's directory: RELEASED where it was, ADOPTED where it is.
//!
//! Invariant: whatever a crash leaves, the directory is released or is not, and is adopted or is not; and what was returned
//! is durable. Each takes an incarnation of its own and makes its marker before the record, and removes the marker before it
//! after the record, as a start does: an older state of the same files that is put back is not at home. Whether it may
//! be done is decided in `past::relocation`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use quorlock_engine::control::ControlRecord;
use quorlock_engine::relocation::{Adoption, Relocation};
use quorlock_engine::restart::History;
use quorlock_persistence::{Disk, LogIdentity, LogOptions, Recovery};

use crate::clock::{Clock, Reading};
use crate::past::relocation as decision;
use crate::past::{Directory, Log, NodeId, NodeIdentity, Receipt, RelocationRefusal, fingerprint};
use crate::start::StartError;
use crate::start::open_log::{open_log, put_on_record};

/// Why a directory was not released, or not adopted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelocationError {
    /// Its past does not allow it.
    #[error(transparent)]
    Refused(RelocationRefusal),
    /// It cannot be read, or its log cannot be written.
    #[error(transparent)]
    Directory(#[from] StartError),
    /// A file in it cannot be made or removed.
    #[error(
        "the directory cannot be written: {0}. Run the command again once it can, as the user of the node: it says what was done"
    )]
    Disk(#[source] io::Error),
}

impl From<RelocationRefusal> for RelocationError {
    fn from(refusal: RelocationRefusal) -> Self {
        match refusal {
            RelocationRefusal::Past(error) => Self::Directory(error.into()),
            refusal => Self::Refused(refusal),
        }
    }
}

/// What a release and an adoption need of the world.
pub struct RelocationScene<'a> {
    /// The directory.
    pub disk: Arc<dyn Disk>,
    /// The sizes of the log.
    pub sizes: LogOptions,
    /// The machine's clocks.
    pub clock: &'a dyn Clock,
    /// Fills with bytes that nobody can guess.
    pub random: &'a dyn Fn(&mut [u8]) -> Result<(), StartError>,
}

/// A directory from which no node starts until it is adopted.
#[derive(Clone, Copy, Debug)]
pub struct ReleasedNode {
    /// Whose it is.
    pub id: NodeId,
    /// What the adoption wants.
    pub receipt: Receipt,
}

/// Releases the directory of a node that stopped cleanly. Once this returns, no node starts from it, or from a copy of
/// it, before it is adopted.
///
/// # Errors
/// When it may not be released, or cannot be read or written.
pub fn release(world: &RelocationScene<'_>) -> Result<ReleasedNode, RelocationError> {
    let mut bytes = [0; 16];
    (world.random)(&mut bytes)?;
    let receipt = Receipt::of(bytes);
    let now = Reading::now(world.clock);
    let found = FoundDirectory::read(world)?;
    let incarnation = decision::release(&found.directory(world), found.history.clone(), &now)?;
    let id = found.identity.id;
    found.conclude(world, incarnation, |_| {
        ControlRecord::Released(receipt.digest())
    })?;
    Ok(ReleasedNode { id, receipt })
}

/// Adopts a released directory where it is now. With the receipt of its release its next start is one after a clean
/// stop; without, it waits as in a directory that was moved.
///
/// # Errors
/// When it may not be adopted, or cannot be read or written.
pub fn adopt(
    world: &RelocationScene<'_>,
    receipt: Option<&Receipt>,
) -> Result<NodeId, RelocationError> {
    let mut bytes = [0; 4];
    (world.random)(&mut bytes)?;
    let found = FoundDirectory::read(world)?;
    let newest = decision::adopt(&found.directory(world), &found.history, receipt)?;
    // Another adoption of the same release would take the next number as well, and clients would take both for one run.
    let leap = u64::from(u32::from_le_bytes(bytes) % LEAP_MAX);
    let incarnation = newest.saturating_add(1).saturating_add(leap);
    let id = found.identity.id;
    let is_proven = receipt.is_some();
    found.conclude(world, incarnation, |fingerprint| {
        ControlRecord::Adopted(Adoption {
            incarnation,
            fingerprint,
            is_proven,
        })
    })?;
    Ok(id)
}

/// Refuses a directory that is released. One that cannot be read is not said to be.
///
/// # Errors
/// When it is released.
pub fn require_not_released(disk: &dyn Disk, log: &Recovery) -> Result<(), StartError> {
    let history = Log::Recovered(log)
        .history(|_, _| Ok(()))
        .unwrap_or_default();
    match history.relocation {
        Relocation::Released(_) => {
            let directory = disk.describe("");
            Err(StartError::Released { directory })
        }
        _ => Ok(()),
    }
}

/// What lies in the directory.
struct FoundDirectory {
    identity: NodeIdentity,
    recovery: Recovery,
    options: LogOptions,
    history: History,
}

impl FoundDirectory {
    fn read(world: &RelocationScene<'_>) -> Result<Self, StartError> {
        let disk = &world.disk;
        let Some(identity) = NodeIdentity::read(&**disk)? else {
            let directory = PathBuf::from(disk.describe(""));
            return Err(StartError::NoNode { directory });
        };
        let options = LogOptions {
            expected_node: Some(identity.id.bytes()),
            ..world.sizes.on(disk.volume().unwrap_or(None))
        };
        let recovery = Recovery::read(Arc::clone(disk), &options).map_err(StartError::Log)?;
        let history = Log::Recovered(&recovery).history(|_, _| Ok(()))?;
        Ok(Self {
            identity,
            recovery,
            options,
            history,
        })
    }

    fn directory<'a>(&'a self, world: &'a RelocationScene<'_>) -> Directory<'a> {
        Directory {
            disk: &*world.disk,
            identity: Some(&self.identity),
            log: Log::Recovered(&self.recovery),
        }
    }

    /// Puts on record what is made of the fingerprint of the directory. No time passes on record: nothing says how long the
    /// move takes.
    fn conclude(
        self,
        world: &RelocationScene<'_>,
        incarnation: u64,
        record: impl FnOnce(u64) -> ControlRecord,
    ) -> Result<(), RelocationError> {
        let disk = &world.disk;
        let fingerprint = fingerprint::mark(&**disk, incarnation).map_err(RelocationError::Disk)?;
        let identity = LogIdentity {
            node_id: self.identity.id.bytes(),
            boot_id: world.clock.boot().0,
            incarnation,
        };
        let log = open_log(self.recovery, disk, &self.options, identity)?;
        let time_ns = self.history.newest.as_nanos();
        put_on_record(log, &record(fingerprint), time_ns)?;
        fingerprint::remove_older(&**disk, incarnation).map_err(RelocationError::Disk)
    }
}

/// So far at most an adoption leaves numbers out. There is room for hundreds of millions of adoptions.
const LEAP_MAX: u32 = 1 << 24;
