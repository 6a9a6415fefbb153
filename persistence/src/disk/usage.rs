//! Whether a process uses a directory that is looked at.

use super::real::{RealDisk, VIEW_FLAGS, holder_of};
use crate::segment_name;
use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::AsFd;

/// Whether a process uses a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryUse {
    /// No process.
    Free,
    /// A process; its id, if it is known.
    Taken(Option<u32>),
}

impl RealDisk {
    /// Whether a process uses the directory now, for a disk that is a [view](Self::view). The lock is tried and given back at once; a node
    /// that starts in that instant tries a second time.
    pub fn usage(&self) -> io::Result<DirectoryUse> {
        let directory = self.directory();
        let opened = rustix::fs::openat(directory, segment_name::LOCK, VIEW_FLAGS, Mode::empty());
        let lock = match opened {
            Ok(lock) => Some(fs::File::from(lock)),
            Err(Errno::NOENT) => None,
            Err(cause) => return Err(cause.into()),
        };
        // Not every file system locks directories.
        let mut is_taken = is_locked(directory).unwrap_or(false);
        if let Some(lock) = &lock {
            is_taken |= is_locked(lock)?;
        }
        Ok(match is_taken {
            true => DirectoryUse::Taken(lock.as_ref().and_then(holder_of)),
            false => DirectoryUse::Free,
        })
    }
}

/// The lock is tried, and given back at once.
fn is_locked(file: impl AsFd) -> io::Result<bool> {
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(true),
        Err(cause) => return Err(cause.into()),
    }
    rustix::fs::flock(&file, FlockOperation::Unlock)?;
    Ok(false)
}
