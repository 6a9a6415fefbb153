//! What goes wrong, when, and how: only what was asked for.
//!
//! Invariant: the same requests and the same operations give the same faults. Nothing here is random.

use std::fmt;
use std::io;
use std::sync::Arc;

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskOperation {
    /// Making a file.
    Create,
    /// Opening one.
    Open,
    /// Listing the directory.
    List,
    /// Writing to a file.
    Write,
    /// Reading from one, or mapping it.
    Read,
    /// Syncing a file.
    Sync,
    /// Asking for its length.
    Length,
    /// Giving it another name.
    Rename,
    /// Removing it.
    Remove,
    /// Syncing the directory.
    SyncDirectory,
}

impl DiskOperation {
    /// Those that change what is on the disk.
    pub const CHANGES: [DiskOperation; 6] = [
        DiskOperation::Create,
        DiskOperation::Write,
        DiskOperation::Sync,
        DiskOperation::Rename,
        DiskOperation::Remove,
        DiskOperation::SyncDirectory,
    ];
}

/// How an operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// It answers this error number and does nothing. A sync that fails gives its data up: as on Linux, the
    /// next one answers Ok, and the data is not durable.
    Error(i32),
    /// A write stores so many bytes, then answers this error number.
    Short(usize, i32),
    /// A sync answers Ok and makes nothing durable.
    Lie,
}

/// What was asked for and has not happened yet.
#[derive(Clone, Default)]
pub(super) struct Faults {
    planned: Vec<Planned>,
    /// What has happened since the last `take_done`.
    done: Vec<(DiskOperation, DiskFault)>,
    /// Syncs lie until told otherwise.
    pub(super) all_syncs_lie: bool,
    /// Called at every sync, without the directory's lock.
    pub(super) on_sync: Option<Hook>,
    /// Called at every direct write, likewise.
    pub(super) on_direct_write: Option<Hook>,
}

pub(super) type Hook = Arc<dyn Fn() + Send + Sync>;

#[derive(Clone, Debug)]
struct Planned {
    operations: Vec<DiskOperation>,
    left: u64,
    fault: DiskFault,
}

impl Faults {
    /// The operation after the next `after` ones of these kinds goes wrong, once.
    pub(super) fn plan(&mut self, operations: &[DiskOperation], after: u64, fault: DiskFault) {
        self.planned.push(Planned {
            operations: operations.to_vec(),
            left: after,
            fault,
        });
    }

    /// What happens to this operation, which is about to be done.
    pub(super) fn take_due(&mut self, operation: DiskOperation) -> Option<DiskFault> {
        let mut due = None;
        self.planned.retain_mut(|planned| {
            if !planned.operations.contains(&operation) {
                return true;
            }
            if planned.left == 0 {
                due = due.or(Some(planned.fault));
                return false;
            }
            planned.left -= 1;
            true
        });
        let is_sync = matches!(
            operation,
            DiskOperation::Sync | DiskOperation::SyncDirectory
        );
        let due = due.or((is_sync && self.all_syncs_lie).then_some(DiskFault::Lie));
        self.done.extend(due.map(|fault| (operation, fault)));
        due
    }

    /// The faults since the last call, oldest first.
    pub(super) fn take_done(&mut self) -> Vec<(DiskOperation, DiskFault)> {
        std::mem::take(&mut self.done)
    }
}

impl DiskFault {
    /// The error for operations that a fault can only make fail.
    pub(super) fn error(self) -> io::Error {
        match self {
            DiskFault::Error(number) | DiskFault::Short(_, number) => {
                io::Error::from_raw_os_error(number)
            }
            DiskFault::Lie => io::Error::other("only a sync can lie"),
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Faults")
            .field("planned", &self.planned)
            .field("all_syncs_lie", &self.all_syncs_lie)
            .finish_non_exhaustive()
    }
}
