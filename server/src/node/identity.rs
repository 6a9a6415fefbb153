//! Who a node is: created once, kept in its directory, never guessed.
//!
//! The file `node.id` names the node. Together with the log's INIT record it tells a new node
//! from one whose past was lost. Whether its directory is still the same one is for `place` to say.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use quorlock_engine::control::{Boot, Record, kind};
use quorlock_persistence::{Disk, Kind, Options, RealDisk, Recovery};

use crate::node::error::StartError;

/// A node's id: 160 random bits, made once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId([u8; 20]);

impl NodeId {
    /// The id's bytes, as stored in the log.
    pub const fn bytes(self) -> [u8; 20] {
        self.0
    }

    fn random() -> Result<Self, StartError> {
        let mut bytes = [0; 20];
        getrandom::fill(&mut bytes).map_err(|_| StartError::Randomness)?;
        Ok(Self(bytes))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 20];
        // Digits only: a sign would be read as part of a number.
        if text.len() != 40 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..40).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeId({self})")
    }
}

/// What `node.id` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: NodeId,
    pub(crate) cluster_id: Option<String>,
}

impl Identity {
    /// A new identity.
    pub(crate) fn random(cluster_id: Option<String>) -> Result<Self, StartError> {
        Ok(Self {
            id: NodeId::random()?,
            cluster_id,
        })
    }

    /// The identity that a log's segments carry.
    pub(crate) fn known(bytes: [u8; 20], cluster_id: Option<String>) -> Self {
        Self {
            id: NodeId(bytes),
            cluster_id,
        }
    }

    /// Reads `node.id`; `None` when there is none.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, StartError> {
        let names = disk.list().map_err(StartError::Disk)?;
        let Some(entry) = names.iter().find(|entry| entry.name == FILE) else {
            return Ok(None);
        };
        let bad = |reason: String| StartError::BadIdentity {
            file: disk.describe(FILE),
            reason,
        };
        if !entry.is_file {
            return Err(bad("it is not a regular file".to_owned()));
        }
        let bytes = read_whole(disk).map_err(|error| bad(error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Self::parse(&text)
            .map(Some)
            .ok_or_else(|| bad("it does not hold a node identity".to_owned()))
    }

    /// Writes `node.id` so that it is there whole or not at all, also after a power loss.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), StartError> {
        let cluster = self.cluster_id.as_deref().unwrap_or("");
        let text = format!("{HEADER}\nid {}\ncluster {cluster}\n", self.id);
        // A crash while it was written may have left the half-made file.
        let _ = disk.remove(FILE_NEW);
        let file = disk.create(FILE_NEW).map_err(StartError::Disk)?;
        file.write_at(0, text.as_bytes())
            .map_err(StartError::Disk)?;
        file.sync().map_err(StartError::Disk)?;
        disk.rename(FILE_NEW, FILE).map_err(StartError::Disk)?;
        disk.sync_dir().map_err(StartError::Disk)
    }

    /// The id, with the name that people use beside it if there is one.
    pub(crate) fn shown(&self, name: Option<&str>) -> String {
        match name {
            Some(name) => format!("{} ({name})", self.id),
            None => self.id.to_string(),
        }
    }

    /// A value that differs in every run of the process, as `run_id` does in Redis.
    pub(crate) fn run_id(&self, incarnation: u64) -> String {
        let mut text = self.id.to_string();
        text.truncate(24);
        format!("{text}{incarnation:016x}")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != HEADER {
            return None;
        }
        let id = NodeId::parse(lines.next()?.strip_prefix("id ")?)?;
        let cluster = lines.next()?.strip_prefix("cluster ")?;
        Some(Self {
            id,
            cluster_id: (!cluster.is_empty()).then(|| cluster.to_owned()),
        })
    }
}

fn read_whole(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open(FILE)?;
    let length = file.len()?.min(FILE_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let filled = file.read_at(0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Creates a node in `directory`: its identity, and a log that says it has never run.
///
/// Such a node serves at its first start, whatever `first-start` says. To be done once in the
/// node's life: a directory whose contents were lost must not be initialised again, or locks
/// granted before the loss could be granted twice.
///
/// # Errors
/// When the directory holds a node or anything else already, is in use, or cannot be written.
pub fn init(directory: &Path, cluster_id: Option<&str>) -> Result<NodeId, StartError> {
    let failed = |error: io::Error| StartError::Directory {
        directory: directory.to_owned(),
        reason: error.to_string(),
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let names = names(directory).map_err(failed)?;
    // A node that is there gets the error that says how to start it.
    if let Some(first) = names.first().filter(|_| !names.iter().any(|it| it == FILE)) {
        return Err(StartError::NotEmpty {
            directory: directory.to_owned(),
            first: first.escape_debug().to_string(),
        });
    }
    let disk = RealDisk::open(directory).map_err(StartError::Open)?;
    let recovery = Recovery::read(disk.clone(), &Options::default()).map_err(StartError::Log)?;
    if Identity::read(&*disk)?.is_some() || !recovery.summary().is_empty {
        return Err(StartError::AlreadyInitialised {
            directory: directory.to_owned(),
        });
    }
    let identity = Identity::random(cluster_id.map(str::to_owned))?;
    create(&*disk, &identity, recovery)?;
    Ok(identity.id)
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

/// Writes identity and INIT record into an empty directory.
pub(crate) fn create(
    disk: &dyn Disk,
    identity: &Identity,
    recovery: Recovery,
) -> Result<(), StartError> {
    let log_identity = quorlock_persistence::Identity {
        node_id: identity.id.bytes(),
        boot_id: Boot::default().0,
        incarnation: 0,
    };
    let mut log = recovery.into_log(log_identity).map_err(StartError::Write)?;
    let mut payload = Vec::new();
    Record::Init.encode(&mut payload);
    log.appender.append(Kind::new(kind::INIT), 0, &payload);
    let mut batch = log.appender.take(quorlock_persistence::Batch::default());
    log.writer.write(&mut batch).map_err(StartError::Write)?;
    log.writer.sync().map_err(StartError::Sync)?;
    // The identity comes last: without it, a half-made directory is an unknown past.
    identity.write(disk)
}

/// Opens the directory of a node, taking its lock.
pub(crate) fn open(directory: &Path) -> Result<Arc<dyn Disk>, StartError> {
    let disk = RealDisk::open(directory).map_err(StartError::Open)?;
    Ok(disk)
}

/// The name of the file.
pub(crate) const FILE: &str = "node.id";
/// Its name while it is being written.
pub(crate) const FILE_NEW: &str = "node.id.new";
const FILE_BYTES_MAX: u64 = 4096;
const HEADER: &str = "quorlock node 1";
