//! A directory that is looked at: by tools, beside a running node as well.
//!
//! Invariant: nothing is changed, and the directory's lock is not kept.

use super::origin::{FileOrigin, origin_at, this_machine};
use super::real::{holder_of, list_directory, open_directory, read_fully, volume_of};
use super::{DirectoryEntry, Disk, File, OpenError, Volume};
use crate::segment_name;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of the machine, for reading only.
#[derive(Debug)]
pub struct DirectoryView {
    path: PathBuf,
    given_path: PathBuf,
    directory: OwnedFd,
}

/// Whether a process uses a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryUse {
    /// No process.
    Free,
    /// A process; its id, if it is known.
    Taken(Option<u32>),
}

impl DirectoryView {
    /// Opens the directory without taking it.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<DirectoryView>, OpenError> {
        let path = path.as_ref();
        let failed = |cause: Errno| OpenError::Unreadable {
            directory: path.display().to_string(),
            cause: Arc::new(cause.into()),
        };
        let directory = open_directory(path).map_err(failed)?;
        let given_path = path.to_owned();
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(Arc::new(DirectoryView {
            path,
            given_path,
            directory,
        }))
    }

    /// Whether a process uses the directory now. The lock is tried and given back at once; a node that starts in
    /// that instant tries a second time.
    pub fn usage(&self) -> io::Result<DirectoryUse> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.directory, segment_name::LOCK, flags, Mode::empty());
        let lock = match opened {
            Ok(lock) => Some(fs::File::from(lock)),
            Err(Errno::NOENT) => None,
            Err(cause) => return Err(cause.into()),
        };
        // Not every file system locks directories.
        let mut is_taken = is_locked(&self.directory).unwrap_or(false);
        if let Some(lock) = &lock {
            is_taken |= is_locked(lock)?;
        }
        Ok(match is_taken {
            true => DirectoryUse::Taken(lock.as_ref().and_then(holder_of)),
            false => DirectoryUse::Free,
        })
    }

    /// The directory's full path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for DirectoryView {
    fn create(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Err(for_reading_only())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        Ok(Arc::new(ViewedFile(file.into())))
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        list_directory(&self.directory)
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(for_reading_only())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(for_reading_only())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Err(for_reading_only())
    }

    fn origin_of(&self, name: &str) -> Option<FileOrigin> {
        Some(match name {
            "" => origin_at(&self.given_path),
            name => origin_at(&self.given_path.join(name)),
        })
    }

    fn machine(&self) -> Vec<u8> {
        this_machine()
    }

    fn volume(&self) -> io::Result<Option<Volume>> {
        volume_of(&self.directory)
    }

    fn random(&self) -> io::Result<u64> {
        Err(for_reading_only())
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// A file that is looked at.
#[derive(Debug)]
struct ViewedFile(fs::File);

impl File for ViewedFile {
    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(for_reading_only())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        read_fully(&self.0, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Err(for_reading_only())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
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

fn for_reading_only() -> io::Error {
    io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "the directory was opened for reading only",
    )
}
