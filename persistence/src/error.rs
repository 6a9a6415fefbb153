//! What can go wrong with the log: one type for reading it, one for writing it.
//!
//! Invariant: every message names the file, says what the matter means and what can be done. An error of
//! writing is final: the log keeps it and gives it back to every later call.

use crate::disk::{Disk, OUT_OF_FILES, is_out_of_files, remedy};
use crate::position::Position;
use crate::segment_name;
use std::io;
use std::sync::Arc;

/// An operation on a file or on the directory that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {operation} {file}: {cause}")]
pub struct DiskError {
    /// What was tried: "write", "sync", "create" and so on.
    pub operation: &'static str,
    /// The file or directory.
    pub file: String,
    /// What the system said.
    pub cause: Arc<io::Error>,
}

impl DiskError {
    /// Makes the error of an operation on the file with this name, or on the directory where it is empty.
    pub(crate) fn at(
        disk: &dyn Disk,
        operation: &'static str,
        name: &str,
    ) -> impl FnOnce(io::Error) -> DiskError {
        move |cause| DiskError {
            operation,
            file: disk.describe(name),
            cause: Arc::new(cause),
        }
    }

    /// The same for the file of a segment.
    pub(crate) fn at_segment(
        disk: &dyn Disk,
        operation: &'static str,
        number: u64,
    ) -> impl FnOnce(io::Error) -> DiskError {
        move |cause| DiskError::at(disk, operation, &segment_name::segment(number))(cause)
    }

    /// Whether the process has no descriptors or memory left for another file. It passes.
    pub(crate) fn is_out_of_files(&self) -> bool {
        is_out_of_files(&self.cause)
    }

    /// What to look at: the limit of open files, or what `otherwise` says.
    fn remedy(&self, otherwise: &'static str) -> &'static str {
        remedy(&self.cause, otherwise)
    }

    /// Whether the disk (or the user's share of it) is full.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(
            self.cause.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }
}

/// Why the log can no longer be written. Final: the node must stop acknowledging and end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A write failed: what is in the file is unknown.
    #[error(
        "{0}; what reached the disk is unknown, so nothing more may be acknowledged; check the disk"
    )]
    Write(DiskError),
    /// A sync failed: the system may have dropped the data, and a second sync would not say so.
    #[error(
        "{0}; the data may be lost even if a later sync succeeds, so nothing more may be acknowledged; check the disk"
    )]
    Sync(DiskError),
    /// A segment that is in use was removed, renamed or replaced.
    #[error(
        "{file} was removed or renamed while the node was using it: the next start does not find what it holds, synced or \
         not, so nothing more may be acknowledged. Find out who removes or moves files of the data directory, and put \
         the file back if it was moved: without it the next start refuses or waits"
    )]
    Removed {
        /// The file.
        file: String,
    },
    /// A segment that is in use was cut, or made longer.
    #[error(
        "{file} has {found} bytes and no longer {expected}: another program has changed it while the node was using it. What \
         it held may be gone, so nothing more may be acknowledged. Find out who writes to files of the data directory; \
         the next start says what is left of the log, and refuses or waits"
    )]
    Resized {
        /// The file.
        file: String,
        /// The bytes it has now.
        found: u64,
        /// The bytes it had when it was made.
        expected: u64,
    },
    /// A segment could not be made, used or removed for another reason than a full disk.
    #[error("{0}; the log cannot go on; {remedy}", remedy = .0.remedy(CHECK))]
    Segment(DiskError),
    /// There is no space for the first segment, or more was appended than `room` had allowed.
    #[error("{0}; the log has no space to go on; free some space on this disk")]
    NoSpace(DiskError),
    /// There is no descriptor, or no memory, for the next segment. The disk has nothing to do with it.
    #[error("{0}; the log has no file to go on with; {remedy}", remedy = OUT_OF_FILES)]
    NoFiles(DiskError),
    /// The log belongs to another node than the one that is to write it.
    #[error(
        "the log in {directory} belongs to node {found}, not to node {expected}; two nodes must never share \
         or inherit a log: give this node its own data directory"
    )]
    ForeignNode {
        /// The directory.
        directory: String,
        /// The node that wrote the log.
        found: String,
        /// The node that wanted to go on with it.
        expected: String,
    },
}

impl WriteError {
    /// A full disk is an error of its own, and so are too few descriptors; any other one is what `otherwise` makes of it.
    pub(crate) fn full_or(error: DiskError, otherwise: fn(DiskError) -> WriteError) -> WriteError {
        if error.is_no_space() {
            WriteError::NoSpace(error)
        } else if error.is_out_of_files() {
            WriteError::NoFiles(error)
        } else {
            otherwise(error)
        }
    }
}

/// What a sync reports: the same errors, final in the same way.
pub type SyncError = WriteError;

/// Why a log could not be read. Nothing was written or removed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// Data that a sync had confirmed is gone.
    #[error(
        "durable data was lost: {file} is damaged at offset {offset}: the frame at position {lost} cannot be read, \
         but a later frame ({claimed_in} at offset {claimed_at}) proves that everything up to position \
         {claimed} had been synced. The disk, its file system or somebody changed the file. The node does not start, \
         because it could forget locks it has granted. Restore the file from the disk's own redundancy; or see what \
         is left with `quorlock log check`, and cut the log with `quorlock log repair`"
    )]
    DurableDataLost {
        /// The damaged file.
        file: String,
        /// Where the first unreadable frame should begin.
        offset: u64,
        /// The position of that frame.
        lost: Position,
        /// What had been synced, at least.
        claimed: Position,
        /// The file that proves it.
        claimed_in: String,
        /// Where in that file.
        claimed_at: u64,
    },
    /// A version of the format that this program does not know.
    #[error(
        "{file} has version {version} of the log's format (offset 8), and this program knows versions up to {known}. \
         It was written by a newer program: start that one, or one newer still. A log cannot be taken back to an \
         older program"
    )]
    UnknownVersion {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The log of another node.
    #[error(
        "{file} belongs to node {found}, not to node {expected} (offset 16). Two nodes must never share or inherit a \
         log. Give this node its own data directory, or put the other node's files back where they belong"
    )]
    ForeignNode {
        /// The file.
        file: String,
        /// The node that wrote it.
        found: String,
        /// The node whose log it should be.
        expected: String,
    },
    /// A segment of the stream is not there.
    #[error(
        "{file} is missing: the log goes on after it, and what it held is not in a checkpoint. Somebody removed it, \
         or the directory was copied in part. Put the file back; or cut the log before it with `quorlock log repair`"
    )]
    MissingSegment {
        /// The file that should be there.
        file: String,
    },
    /// A file that cannot be what its name says.
    #[error(
        "{file} is damaged at offset {offset}: {meaning}. No crash explains this: the disk, its file system or \
         somebody changed the file. Restore it; or cut the log before it with `quorlock log repair`"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// What is wrong with it.
        meaning: String,
    },
    /// A file or the directory could not be read.
    #[error("{0}; the log cannot be read; {remedy}", remedy = .0.remedy(CHECK))]
    Disk(#[from] DiskError),
}

const CHECK: &str = "check the disk and the directory's permissions";

/// Bytes, such as a node's id, as people see them.
pub fn hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
