//! The directory of a node: made once, required by each start.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use quorlock_persistence::{Disk, LOCK_FILE, LogOptions, RealDisk, Recovery};

use crate::config::Config;
use crate::random;
use quorlock_node::past::identity::FILE;
use quorlock_node::past::{NodeId, NodeIdentity};
use quorlock_node::start::StartError;

/// Creates a node in `directory`: its identity, and a log that says it has never run. The directory is made if it
/// does not exist, for its owner alone.
///
/// Such a node serves at its first start, whatever `first-start` says. To be done once in the
/// node's life: a directory whose contents were lost must not be initialised again, or locks
/// granted before the loss could be granted twice.
///
/// Of the configuration it keeps `cluster-id` and `cluster-size`, which hold for starts that do not say otherwise.
///
/// # Errors
/// When the directory holds a node or anything else already, is in use, or cannot be written.
pub fn init(directory: &Path, config: &Config) -> Result<NodeId, StartError> {
    let failed = |source: io::Error| StartError::Directory {
        directory: directory.to_owned(),
        source,
    };
    make_directory(directory).map_err(failed)?;
    let names = names(directory).map_err(failed)?;
    // A node that is there gets the error that says how to start it.
    if let Some(first) = names.first().filter(|_| !names.iter().any(|it| it == FILE)) {
        return Err(StartError::NotEmpty {
            directory: directory.to_owned(),
            first: first.escape_debug().to_string(),
        });
    }
    let disk = RealDisk::open(directory).map_err(StartError::Open)?;
    let recovery = Recovery::read(disk.clone(), &LogOptions::default()).map_err(StartError::Log)?;
    if NodeIdentity::read(&*disk)?.is_some() || !recovery.summary().is_empty {
        return Err(StartError::AlreadyInitialised {
            directory: directory.to_owned(),
        });
    }
    let mut bytes = [0; 20];
    random::fill(&mut bytes).map_err(|_| StartError::Randomness)?;
    let identity = NodeIdentity::known(bytes, config);
    quorlock_node::start::create(&*disk, &identity, recovery)?;
    Ok(identity.id)
}

/// Makes a directory that its owner alone may enter, and those above it as the system makes them. One that exists stays as it is.
fn make_directory(directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(_) if directory.is_dir() => Ok(()),
        made => made,
    }
}

/// Refuses a directory that holds anything.
///
/// # Errors
/// When it does, or cannot be read.
pub(crate) fn require_empty(directory: &Path) -> Result<(), StartError> {
    let names = names(directory).map_err(|source| StartError::Directory {
        directory: directory.to_owned(),
        source,
    })?;
    match names.iter().find(|name| *name != LOCK_FILE) {
        None => Ok(()),
        Some(first) => Err(StartError::NotEmpty {
            directory: directory.to_owned(),
            first: first.escape_debug().to_string(),
        }),
    }
}

/// What is in a directory, in order. A file system of its own has `lost+found` from the start.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "lost+found" {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether a node has a directory to start in. Only [`init`] makes one: where a volume is not mounted, a node would
/// start beside its log, and nobody would notice before its locks are granted twice.
///
/// # Errors
/// When there is none, or it cannot be looked at.
pub fn require_directory(directory: &Path) -> Result<(), StartError> {
    let directory = directory.to_owned();
    match directory.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(StartError::Directory {
            directory,
            source: io::ErrorKind::NotADirectory.into(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StartError::NoDirectory { directory })
        }
        Err(source) => Err(StartError::Directory { directory, source }),
    }
}

/// Opens the directory of a node, taking its lock.
pub(crate) fn open(directory: &Path) -> Result<Arc<dyn Disk>, StartError> {
    require_directory(directory)?;
    let disk = RealDisk::open(directory).map_err(StartError::Open)?;
    Ok(disk)
}
