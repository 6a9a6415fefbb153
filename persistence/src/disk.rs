//! The interface to the world: one flat directory, the files in it, and random numbers.
//!
//! Invariant: nothing in this crate touches files except through these traits. A write is durable only
//! after `File::sync`, a name only after `Disk::sync_dir`. No retries, no caching: that is for the caller
//! to decide, and the log decides never to retry. Bytes are copied out: nothing lends a file's content, which another
//! process may change or cut at any time.

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::sync::Arc;

mod holder;
#[allow(
    clippy::arithmetic_side_effects,
    reason = "offsets in memory are lengths of what is there"
)]
mod memory;
mod origin;
mod real;
mod usage;

pub use holder::DiskLock;
pub use memory::{DiskFault, DiskOperation, Fate, MemoryDisk, Point, PowerLoss, Sector, Unsynced};
pub use origin::FileOrigin;
pub use real::{OpenError, RealDisk};
pub use usage::DirectoryUse;

/// One directory.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a new, empty file. Fails if the name exists.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for writes that go past the page cache; `None` where the file system knows no
    /// such writes. Which blocks they must come in shows when they are tried.
    fn open_direct(&self, _name: &str) -> io::Result<Option<Arc<dyn File>>> {
        Ok(None)
    }
    /// Everything in the directory.
    fn list(&self) -> io::Result<Vec<DirectoryEntry>>;
    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes names durable: files made, renamed and removed so far.
    fn sync_dir(&self) -> io::Result<()>;
    /// Makes a folder in the directory, for files that a repair sets aside. One that exists is as good.
    fn make_folder(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }
    /// Makes the names in such a folder durable.
    fn sync_folder(&self, _name: &str) -> io::Result<()> {
        self.sync_dir()
    }
    /// Whether this name still leads to this file, and the file has this length. Of what is synced into another one the
    /// next start finds nothing.
    fn holds(&self, _name: &str, file: &dyn File, _length: u64) -> io::Result<Presence> {
        Ok(match file.is_named()? {
            true => Presence::Whole,
            false => Presence::Gone,
        })
    }
    /// The same of a file that is not open. One that cannot be looked at counts as whole: a node may have given up the right
    /// to see its own path.
    fn keeps(&self, _name: &str, _id: FileId, _length: u64) -> io::Result<Presence> {
        Ok(Presence::Whole)
    }
    /// Which file has this name, and with an empty name: which directory has this one's path. `None` where there is none.
    fn id_of(&self, _name: &str) -> io::Result<Option<FileId>> {
        Ok(Some(FileId::default()))
    }
    /// What no copy has in common with the file that has this name, and with an empty name: with the directory itself. `None`
    /// from a disk that cannot tell a file from a copy of it.
    fn origin_of(&self, _name: &str) -> Option<FileOrigin> {
        None
    }
    /// How the machine that has the directory names itself; empty where it has no name.
    fn machine(&self) -> Vec<u8> {
        Vec::new()
    }
    /// The file system of the directory; `None` where it does not say how large it is.
    fn volume(&self) -> io::Result<Option<Volume>> {
        Ok(None)
    }
    /// Takes the disk for one node of this process, as long as the result lives. One that keeps no note of its holder is
    /// not refused.
    fn hold(&self) -> Result<DiskLock, OpenError> {
        Ok(DiskLock::default())
    }
    /// A number that cannot be guessed.
    fn random(&self) -> io::Result<u64>;
    /// The file's full path, for people.
    fn describe(&self, name: &str) -> String;
}

/// Whether an error says that the file system takes no such direct write, and not that the disk fails.
pub(crate) fn is_refusal(error: Errno) -> bool {
    [Errno::INVAL, Errno::OPNOTSUPP].contains(&error)
}

/// Whether the process or the machine has no descriptor or memory left for another file.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    error.is_some_and(|error| [Errno::NOMEM, Errno::NFILE, Errno::MFILE].contains(&error))
}

/// What to do about an error of the system: too few descriptors are no fault of what was to be opened.
pub fn remedy(error: &io::Error, otherwise: &'static str) -> &'static str {
    match is_out_of_files(error) {
        true => OUT_OF_FILES,
        false => otherwise,
    }
}

/// The remedy where the system has given no descriptor.
pub(crate) const OUT_OF_FILES: &str = "the process or the machine has no file descriptor or memory left; the disk is not the cause. Close \
    files or connections, or raise the limit of open files (ulimit -n, LimitNOFILE of a systemd unit)";

/// One open file.
pub trait File: Send + Sync + fmt::Debug {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads into `bytes` from `offset`; fewer bytes than asked for only at the end of the file.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// Makes everything written so far durable. After an error nothing about the file is certain.
    fn sync(&self) -> io::Result<()>;
    /// Whether the file still has a name. Without one it ends with the process, however often it was synced.
    fn is_named(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Which file it is, whatever its name.
    fn id(&self) -> FileId {
        FileId::default()
    }
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// What tells a file of the machine from every other one that exists at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileId {
    /// The file system's number.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
}

/// How large a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// All of it.
    pub total_bytes: u64,
    /// What this user may still take of it.
    pub free_bytes: u64,
}

/// What has become of a file under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is there, with its length.
    Whole,
    /// The name is gone, or leads to another file.
    Gone,
    /// It has so many bytes instead.
    Length(u64),
}

/// A name in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, with foreign bytes replaced (such a name is never one of the log).
    pub name: String,
    /// Whether it is a regular file.
    pub is_file: bool,
}
