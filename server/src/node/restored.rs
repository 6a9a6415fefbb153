//! Marking a node's directory as put back: from an image of its file system nothing in it can tell that by itself.
//!
//! Invariant: the next start finds a directory that is not the one of its last run, as it does in a copy; no lock and no
//! byte of the log is changed. A mark that is made in part is a mark.

use std::path::Path;

use quorlock_persistence::{LogOptions, RealDisk, Recovery};

use crate::node::identity::require_directory;
use quorlock_node::past::{NodeId, NodeIdentity, fingerprint};
use quorlock_node::start::{StartError, require_not_released};

/// Says of a node's directory that an older image of its file system was put back: its next start waits for
/// `restart-delay-max`, in every mode, because what was granted after the image is in no log. To be called before the first
/// start from the image.
///
/// # Errors
/// When the directory holds no node, is in use by one that runs, was released (`adopt` without a receipt says the same of that), or
/// cannot be written.
pub fn mark_restored(directory: &Path) -> Result<NodeId, StartError> {
    require_directory(directory)?;
    let disk = RealDisk::open(directory).map_err(StartError::Open)?;
    let Some(identity) = NodeIdentity::read(&*disk)? else {
        return Err(StartError::NoNode {
            directory: directory.to_owned(),
        });
    };
    // The adoption takes note of the directory as it is then: it would undo what is done here.
    if let Ok(log) = Recovery::read(disk.clone(), &LogOptions::default()) {
        require_not_released(&*disk, &log)?;
    }
    // A file of its own in place of the one that the last run has on record.
    identity.write(&*disk).map_err(StartError::Disk)?;
    // And the trace of a run, for a log that knows of none yet.
    let newest = fingerprint::newest_incarnation(&*disk).map_err(StartError::Disk)?;
    fingerprint::mark(&*disk, newest.saturating_add(1)).map_err(StartError::Disk)?;
    Ok(identity.id)
}
