//! The directory that an import makes a node in.
//!
//! Invariant: until the node is whole `node.id` says that it is not, which a start refuses. An import that fails removes what
//! it has made; one that is killed leaves a directory that no node starts from and no import writes to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorlock_node::past::identity::FILE;
use quorlock_node::past::{NodeIdentity, is_node_file};
use quorlock_node::start::StartError;
use quorlock_persistence::{Disk, LOCK_FILE, RealDisk};

use crate::node::require_empty;

/// A directory that is empty or does not exist.
#[derive(Debug)]
pub(super) struct Target {
    directory: PathBuf,
    exists: bool,
}

impl Target {
    /// Looks at it and changes nothing.
    pub(super) fn of(directory: &Path) -> Result<Self, StartError> {
        let exists = match fs::symlink_metadata(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            _ => {
                require_empty(directory)?;
                true
            }
        };
        Ok(Self {
            directory: directory.to_owned(),
            exists,
        })
    }

    /// Makes it if it does not exist, and takes it.
    pub(super) fn take(self) -> Result<TakenTarget, StartError> {
        let failed = failed(&self.directory);
        fs::create_dir_all(&self.directory).map_err(&failed)?;
        let mut taken = TakenTarget {
            disk: RealDisk::open(&self.directory).map_err(StartError::Open)?,
            target: self,
            is_complete: false,
        };
        // Somebody may have been quicker: what is there now is not ours to remove.
        if let Err(error) = require_empty(&taken.target.directory) {
            taken.is_complete = true;
            return Err(error);
        }
        let mark = || {
            let file = taken.disk.create(FILE)?;
            file.write_at(0, NOT_COMPLETE)?;
            file.sync()?;
            taken.disk.sync_dir()
        };
        mark().map_err(StartError::Disk)?;
        Ok(taken)
    }
}

/// The same with its lock.
#[derive(Debug)]
pub(super) struct TakenTarget {
    disk: Arc<RealDisk>,
    target: Target,
    is_complete: bool,
}

impl TakenTarget {
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// The log is durable: now a start may find the node.
    pub(super) fn complete(mut self, identity: &NodeIdentity) -> Result<(), StartError> {
        let failed = failed(&self.target.directory);
        if !self.target.exists {
            let parent = fs::canonicalize(self.target.directory.join("..")).map_err(&failed)?;
            fs::File::open(parent)
                .and_then(|parent| parent.sync_all())
                .map_err(&failed)?;
        }
        identity.write(&*self.disk).map_err(StartError::Disk)?;
        self.is_complete = true;
        Ok(())
    }
}

impl Drop for TakenTarget {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        // What cannot be removed is refused by a start: node.id goes last.
        let names = self.disk.list().unwrap_or_default();
        let made = names.iter().map(|entry| entry.name.as_str());
        for name in made.filter(|name| is_node_file(name) && *name != FILE) {
            let _ = self.disk.remove(name);
        }
        let _ = self.disk.remove(FILE);
        let _ = self.disk.remove(LOCK_FILE);
        if !self.target.exists {
            let _ = fs::remove_dir(&self.target.directory);
        }
    }
}

fn failed(directory: &Path) -> impl Fn(io::Error) -> StartError + use<> {
    let directory = directory.to_owned();
    move |source| StartError::Directory {
        directory: directory.clone(),
        source,
    }
}

/// What `node.id` holds until the node is whole.
const NOT_COMPLETE: &[u8] =
    b"an import of append-only files was interrupted: remove this directory and import again\n";
