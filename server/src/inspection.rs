//! Looking at a node's data directory: what a start would make of it, and what is in it. For programs that check directories before
//! they start nodes on them, or their copies; `quorlock log` is made of this.
//!
//! ```
//! use quorlock_server::inspection::{State, check};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let directory = home.path().join("locks");
//! quorlock_server::init(&directory, &quorlock_server::config::Config::default())?;
//! let report = check(&directory)?;
//! assert_eq!((report.state, report.holder), (State::Whole, None)); // no node runs there
//! # Ok(())
//! # }
//! ```
//!
//! Invariant: nothing is changed, whether the node runs or not, and memory holds one segment at a time. The
//! verdict is that of the code which starts a node; only what it means is put into words here. The exception is
//! `repair`, which has the directory to itself.

mod check;
mod dump;
mod finding;
mod repair;
mod statistics;

use std::path::Path;
use std::sync::Arc;

use quorlock_engine::control::kind;
use quorlock_persistence::{
    DirectoryUse, Disk, DiskError, Inspection, Log, LogOptions, OpenError, RealDisk,
};

pub(crate) use check::of_past;
pub use check::{DirectoryReport, NextStart, RemainingDelay, State, check};
pub use dump::{FrameBody, Line, dump};
pub use finding::{DirectoryFinding, FindingKind};
pub use quorlock_engine::control::{Ceiling, ControlRecord, Pending, Start};
pub use quorlock_engine::relocation::Adoption;
pub use quorlock_engine::restart::Stop;
pub use quorlock_engine::{Change, Collection, Deadline, End, Mutation, NewValue, NodeTime};
pub use quorlock_node::past::Location;
pub use quorlock_persistence::{
    InspectedFrame, LogIdentity, LogSummary, Position, SegmentFile, SegmentHeader, SegmentState,
    StartSpace, hexadecimal,
};
pub use repair::{PlannedRepair, RepairError, RepairReport, plan_repair};
pub use statistics::{KindCount, LogStatistics, statistics};

use quorlock_node::past::{NodeIdentity, PastError};

/// Why a directory cannot be looked at. It is no verdict on its log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It cannot be opened.
    #[error("{0}")]
    Open(OpenError),
    /// It cannot be listed, or a file in it cannot be read.
    #[error("{0}; check the disk and the directory's permissions")]
    Disk(#[from] DiskError),
    /// Whether a node runs there cannot be found out.
    #[error("cannot look at the lock of {directory}: {cause}; run this as the node's user")]
    Lock {
        /// The directory.
        directory: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// There is nothing of a node in it.
    #[error(
        "{directory} holds no log: it has neither a segment nor a node.id; name a node's data directory"
    )]
    NoLog {
        /// The directory.
        directory: String,
    },
    /// A running node changed it faster than it could be read.
    #[error(
        "{directory} changed at every one of {looks} looks, so nothing can be said of it; try again when \
         the node has less to do"
    )]
    Restless {
        /// The directory.
        directory: String,
        /// How often it was looked at.
        looks: u32,
    },
}

/// A directory, opened to be looked at.
pub(crate) struct DataDirectory {
    view: Arc<RealDisk>,
}

impl DataDirectory {
    pub(crate) fn open(directory: &Path) -> Result<Self, Unreadable> {
        let view = RealDisk::view(directory).map_err(Unreadable::Open)?;
        Ok(Self { view })
    }

    /// The process that has the directory: `None` if it is free, `Some(None)` if it did not say its id.
    pub(crate) fn holder(&self) -> Result<Option<Option<u32>>, Unreadable> {
        match self.view.usage() {
            Ok(DirectoryUse::Free) => Ok(None),
            Ok(DirectoryUse::Taken(id)) => Ok(Some(id)),
            Err(cause) => Err(Unreadable::Lock {
                directory: self.name(),
                cause,
            }),
        }
    }

    pub(crate) fn identity(&self) -> Result<Option<NodeIdentity>, PastError> {
        NodeIdentity::read(&*self.view)
    }

    fn inspection(&self) -> Result<Inspection, Unreadable> {
        Ok(Inspection::open(Arc::clone(&self.view) as _)?)
    }

    /// The log, of which there is at least one segment.
    pub(crate) fn log(&self) -> Result<Inspection, Unreadable> {
        let inspection = self.inspection()?;
        if inspection.segments().is_empty() {
            return Err(Unreadable::NoLog {
                directory: self.name(),
            });
        }
        Ok(inspection)
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.view
    }

    /// Where a start would go on with the log. What cannot be measured is not held against it.
    fn start_space(&self, identity: Option<&NodeIdentity>) -> StartSpace {
        let disk: Arc<dyn Disk> = Arc::clone(&self.view) as _;
        Log::start_space(&disk, &options(identity)).unwrap_or(StartSpace::Segment)
    }

    pub(crate) fn name(&self) -> String {
        self.view.path().display().to_string()
    }
}

/// The options of a node's log that matter for reading it.
pub(crate) fn options(identity: Option<&NodeIdentity>) -> LogOptions {
    LogOptions {
        expected_node: identity.map(|identity| identity.id.bytes()),
        ..LogOptions::default()
    }
}

/// The name of a frame's kind, as the book's chapter on the log's format has it: to print a [`Line`].
pub fn kind_name(code: u8) -> &'static str {
    match code {
        kind::GROUP => "GROUP",
        kind::START => "START",
        kind::SERVING => "SERVING",
        kind::MODE => "MODE",
        kind::PROMISE => "PROMISE",
        kind::SHUTDOWN => "SHUTDOWN",
        kind::TICK => "TICK",
        kind::CONTROL => "CONTROL",
        kind::SNAPSHOT => "SNAPSHOT",
        kind::END => "END",
        kind::INIT => "INIT",
        kind::LOST => "LOST",
        kind::WALL => "WALL",
        kind::OWED => "OWED",
        kind::CEILING => "CEILING",
        kind::RELEASED => "RELEASED",
        kind::ADOPTED => "ADOPTED",
        _ => "UNKNOWN",
    }
}

/// Unpredictable for the one who chose the fields of a hash; without randomness slow, but never wrong.
pub(crate) fn hash_seed() -> u64 {
    crate::random::number().unwrap_or_default()
}
