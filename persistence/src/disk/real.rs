//! A directory of the machine, held by one process at a time, or looked at.
//!
//! Invariant: while a `RealDisk` that was taken lives, no other process (and no other `RealDisk`) has the directory. One that is a view has
//! no lock and changes nothing: tools look beside a running node. All names are resolved against the opened directory, so
//! that none leads elsewhere when its path does.

use super::holder::{DiskLock, HolderNote, tried_again};
use super::origin::{FileOrigin, origin_at, this_machine};
use super::{DirectoryEntry, Disk, File, FileId, Presence, Volume, is_refusal, remedy};
use crate::segment_name;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of the machine.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    /// As it was given: a link to a directory is told from another link to it.
    given_path: PathBuf,
    directory: OwnedFd,
    /// Closing both gives the locks back, also when the process is killed. None: it is only looked at.
    lock: Option<fs::File>,
    /// The node that has it; the locks let in all of this opening.
    holder: HolderNote,
}

impl RealDisk {
    /// Takes the directory. It must exist: making one is a decision about a node's identity.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<RealDisk>, OpenError> {
        let path = path.as_ref();
        let failed = |cause: rustix::io::Errno| OpenError::Directory {
            directory: path.display().to_string(),
            cause: Arc::new(cause.into()),
        };
        let directory = open_directory(path).map_err(failed)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock =
            rustix::fs::openat(&directory, segment_name::LOCK, flags, FILE_MODE).map_err(failed)?;
        let lock = fs::File::from(lock);
        let taken = || OpenError::Locked {
            directory: path.display().to_string(),
            holder: holder_of(&lock),
        };
        // The file can be removed, and who makes it anew has another lock: so the directory is locked as well, where
        // the file system can do that (NFS cannot).
        if take_lock(directory.as_fd()) == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(taken());
        }
        match take_lock(lock.as_fd()) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(taken()),
            Err(cause) => return Err(failed(cause)),
        }
        // The process id is for people; a full disk must not keep a node from starting because of it.
        // Where the file has another name as well, it may be somebody else's: its bytes stay.
        if lock.metadata().is_ok_and(|about| about.nlink() == 1) {
            let _ = lock.set_len(0);
            let _ = lock.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0);
        }
        Ok(Self::of(path, directory, Some(lock)))
    }

    /// Opens the directory without taking it, to look at it: what would change anything is refused.
    pub fn view(path: impl AsRef<Path>) -> Result<Arc<RealDisk>, OpenError> {
        let path = path.as_ref();
        let directory = open_directory(path).map_err(|cause| OpenError::Unreadable {
            directory: path.display().to_string(),
            cause: Arc::new(cause.into()),
        })?;
        Ok(Self::of(path, directory, None))
    }

    fn of(path: &Path, directory: OwnedFd, lock: Option<fs::File>) -> Arc<RealDisk> {
        Arc::new(RealDisk {
            path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            given_path: path.to_owned(),
            directory,
            lock,
            holder: HolderNote::default(),
        })
    }

    /// The directory's full path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// The directory, to change something in it.
    fn taken(&self) -> io::Result<&OwnedFd> {
        let is_view = || io::Error::new(io::ErrorKind::ReadOnlyFilesystem, FOR_READING_ONLY);
        self.lock.as_ref().ok_or_else(is_view)?;
        Ok(&self.directory)
    }

    fn status(&self, name: &str) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// What has become of a file, unless the directory was closed to the node.
    fn presence(&self, name: &str, id: FileId, length: u64) -> io::Result<Option<Presence>> {
        match self.status(name) {
            Ok(status) if id_in(&status) == id => {
                let found = u64::try_from(status.st_size).map_err(io::Error::other)?;
                Ok(Some(of_length(found, length)))
            }
            Ok(_) | Err(rustix::io::Errno::NOENT) => Ok(Some(Presence::Gone)),
            Err(rustix::io::Errno::ACCESS) => Ok(None),
            Err(cause) => Err(cause.into()),
        }
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.taken()?, name, flags, FILE_MODE)?;
        Ok(Arc::new(RealFile::of(file)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        // Without following links: a file of the log is never one, and a link may lead anywhere.
        let flags = match self.lock {
            Some(_) => OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            None => VIEW_FLAGS,
        };
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        Ok(Arc::new(RealFile::of(file)?))
    }

    fn open_direct(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(self.taken()?, name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(Arc::new(RealFile::of(file)?))),
            Err(cause) if is_refusal(cause) => Ok(None),
            Err(cause) => Err(cause.into()),
        }
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        list_directory(&self.directory)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let directory = self.taken()?;
        Ok(rustix::fs::renameat(directory, from, directory, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.taken()?, name, AtFlags::empty())?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.taken()?)?)
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(self.taken()?, name, FOLDER_MODE) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    fn sync_folder(&self, name: &str) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(self.taken()?, name, flags, Mode::empty())?;
        Ok(rustix::fs::fsync(folder)?)
    }

    fn holds(&self, name: &str, file: &dyn File, length: u64) -> io::Result<Presence> {
        match self.presence(name, file.id(), length)? {
            Some(presence) => Ok(presence),
            // What is open tells of itself whether it has a name.
            None if file.is_named()? => Ok(of_length(file.len()?, length)),
            None => Ok(Presence::Gone),
        }
    }

    fn keeps(&self, name: &str, id: FileId, length: u64) -> io::Result<Presence> {
        let presence = self.presence(name, id, length)?;
        Ok(presence.unwrap_or(Presence::Whole))
    }

    fn id_of(&self, name: &str) -> io::Result<Option<FileId>> {
        let status = match name {
            "" => rustix::fs::stat(&self.path),
            name => self.status(name),
        };
        match status {
            Ok(status) => Ok(Some(id_in(&status))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(cause) => Err(cause.into()),
        }
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

    fn hold(&self) -> Result<DiskLock, OpenError> {
        let held = || OpenError::held_here(self.describe(""));
        self.holder.take().ok_or_else(held)
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // The kernel gives this many at once, or none.
        retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// Tries a lock that is held a few times more.
fn take_lock(lock: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let taken =
        tried_again(
            || match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => None,
                result => Some(result),
            },
        );
    taken.unwrap_or(Err(rustix::io::Errno::WOULDBLOCK))
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

/// Some file systems have no size.
fn volume_of(directory: &OwnedFd) -> io::Result<Option<Volume>> {
    let status = rustix::fs::fstatvfs(directory)?;
    let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
    Ok((status.f_blocks > 0).then(|| Volume {
        total_bytes: bytes(status.f_blocks),
        free_bytes: bytes(status.f_bavail),
    }))
}

/// The id of the process that holds the lock, if it wrote one: it is for people only.
pub(super) fn holder_of(lock: &fs::File) -> Option<u32> {
    let mut holder = [0; 20];
    let read = read_fully(lock, 0, &mut holder).ok()?;
    let holder = std::str::from_utf8(&holder[..read]).ok()?;
    holder.trim().parse().ok()
}

/// Everything in a directory, links not followed.
fn list_directory(directory: &OwnedFd) -> io::Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let is_file = match entry.file_type() {
            // Some file systems do not say; then the file itself is asked.
            FileType::Unknown => {
                let status = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
            }
            known => known == FileType::RegularFile,
        };
        entries.push(DirectoryEntry {
            name: name.to_string_lossy().into_owned(),
            is_file,
        });
    }
    Ok(entries)
}

/// Reads until `bytes` is full or the file ends; returns how many it read.
fn read_fully(file: &fs::File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let length = bytes.len();
    let mut rest = bytes;
    let mut offset = offset;
    while !rest.is_empty() {
        match file.read_at(rest, offset) {
            Ok(0) => break,
            Ok(read) => {
                offset = offset.saturating_add(read as u64);
                rest = &mut rest[read..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length.saturating_sub(rest.len()))
}

/// A file of the machine.
#[derive(Debug)]
struct RealFile {
    file: fs::File,
    id: FileId,
}

impl RealFile {
    fn of(file: OwnedFd) -> io::Result<RealFile> {
        let id = id_in(&rustix::fs::fstat(&file)?);
        let file = file.into();
        Ok(RealFile { file, id })
    }
}

fn of_length(found: u64, length: u64) -> Presence {
    match found == length {
        true => Presence::Whole,
        false => Presence::Length(found),
    }
}

fn id_in(status: &Stat) -> FileId {
    FileId {
        device: status.st_dev,
        inode: status.st_ino,
    }
}

impl File for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        read_fully(&self.file, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn is_named(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 0)
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// Why a directory could not be taken.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it, or another node of this one.
    #[error("the data directory {directory} is in use by {}", in_use_by(.holder))]
    Locked {
        /// The directory.
        directory: String,
        /// The process that has it, if it said so.
        holder: Option<u32>,
    },
    /// It is missing, not a directory, or not ours to write in.
    #[error(
        "the data directory {directory} cannot be used: {cause}; {}", remedy(.cause, "it must exist and be writable by this user")
    )]
    Directory {
        /// The directory.
        directory: String,
        /// What the system said.
        cause: Arc<io::Error>,
    },
    /// It cannot be looked at.
    #[error(
        "{directory} cannot be read: {cause}; {}", remedy(.cause, "name a node's data directory that this user may read")
    )]
    Unreadable {
        /// The directory.
        directory: String,
        /// What the system said.
        cause: Arc<io::Error>,
    },
}

impl OpenError {
    /// Another node of this process has it.
    pub(super) fn held_here(directory: String) -> OpenError {
        OpenError::Locked {
            directory,
            holder: Some(std::process::id()),
        }
    }
}

/// Who has a directory, what that means and what to do.
fn in_use_by(holder: &Option<u32>) -> String {
    if *holder == Some(std::process::id()) {
        return "another node of this process, or of a container whose process has the same number: two nodes must never share \
                one, or both grant the same locks. Wait until the other node has stopped (in code with its `stop`: a drop \
                within a runtime does not wait), or give this node a directory or disk of its own"
            .to_owned();
    }
    let process = holder.map(|id| format!(" (process {id})"));
    format!(
        "another process{}: two nodes must never share one; stop the other process or give this node a directory of its own",
        process.unwrap_or_default()
    )
}

/// Without waiting for what writes into a pipe.
pub(super) const VIEW_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
const FOR_READING_ONLY: &str = "the directory was opened for reading only";

/// Lock names are for the node's own user only.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER_MODE: Mode = Mode::RWXU;
