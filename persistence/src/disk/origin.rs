//! What a file does not have in common with any copy of it.
//!
//! Invariant: what is read here goes into fingerprints that are on record in logs. The same file has the same origin in
//! every version.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The inode of a file and its time of birth: a backup brings back bytes, never these. All 0 where there is no such file;
/// no birth where the file system does not know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOrigin {
    /// The number of the inode.
    pub inode: u128,
    /// When the file was made, since the epoch.
    pub born_ns: u128,
}

/// The origin of what is at a path, a link not followed.
pub(super) fn origin_at(path: &Path) -> FileOrigin {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return FileOrigin::default();
    };
    let born = metadata
        .created()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    FileOrigin {
        inode: u128::from(metadata.ino()),
        born_ns: born.map_or(0, |time| time.as_nanos()),
    }
}

/// How this machine names itself.
pub(super) fn this_machine() -> Vec<u8> {
    std::fs::read(MACHINE_FILE).unwrap_or_default()
}

const MACHINE_FILE: &str = "/etc/machine-id";
