//! Who a node is: created once, kept in its directory, never guessed.
//!
//! The file `node.id` names the node. Together with the log's INIT record it tells a new node
//! from one whose past was lost. Whether its directory is still the same one is for `fingerprint` to say.

use std::fmt;
use std::io;

use quorlock_persistence::{Disk, hexadecimal};

use crate::config::Config;
use crate::past::PastError;

/// A node's id: 160 random bits, made once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId([u8; 20]);

impl NodeId {
    /// The id's bytes, as stored in the log.
    pub const fn bytes(self) -> [u8; 20] {
        self.0
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
        formatter.write_str(&hexadecimal(&self.0))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeId({self})")
    }
}

/// What `node.id` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The node's id, made once.
    pub id: NodeId,
    pub(crate) cluster_id: Option<String>,
    /// How many nodes that cluster has; 0 where nobody has said so.
    pub(crate) cluster_size: u8,
}

impl NodeIdentity {
    /// A node with this id in the cluster that a configuration names.
    pub fn known(bytes: [u8; 20], config: &Config) -> Self {
        Self {
            id: NodeId(bytes),
            cluster_id: config.cluster_id.clone(),
            cluster_size: config.cluster_size.nodes(),
        }
    }

    /// Reads `node.id`; `None` when there is none.
    pub fn read(disk: &dyn Disk) -> Result<Option<Self>, PastError> {
        let names = disk.list().map_err(PastError::Disk)?;
        let Some(entry) = names.iter().find(|entry| entry.name == FILE) else {
            return Ok(None);
        };
        let bad = |reason: String| PastError::BadIdentity {
            file: disk.describe(FILE),
            reason,
        };
        if !entry.is_file {
            return Err(bad("it is not a regular file".to_owned()));
        }
        let bytes = read_whole(disk).map_err(|error| bad(error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.starts_with(INTERRUPTED) {
            return Err(PastError::Interrupted {
                directory: disk.describe(""),
            });
        }
        Self::parse(&text)
            .map(Some)
            .ok_or_else(|| bad("it does not hold a node identity".to_owned()))
    }

    /// Writes `node.id` so that it is there whole or not at all, also after a power loss.
    pub fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        let cluster = self.cluster_id.as_deref().unwrap_or("");
        let mut text = format!("{HEADER}\nid {}\ncluster {cluster}\n", self.id);
        if self.cluster_size > 0 {
            text += &format!("size {}\n", self.cluster_size);
        }
        // A crash while it was written may have left the half-made file.
        let _ = disk.remove(FILE_NEW);
        let file = disk.create(FILE_NEW)?;
        file.write_at(0, text.as_bytes())?;
        file.sync()?;
        disk.rename(FILE_NEW, FILE)?;
        disk.sync_dir()
    }

    /// The id, with the name that people use beside it if there is one.
    pub(crate) fn shown(&self, name: Option<&str>) -> String {
        match name {
            Some(name) => format!("{} ({name})", self.id),
            None => self.id.to_string(),
        }
    }

    /// A value that differs in every run of the process, as `run_id` does in Redis.
    pub fn run_id(&self, incarnation: u64) -> String {
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
        // Files of earlier versions end here.
        let cluster_size = match lines.next() {
            Some(line) => line.strip_prefix("size ")?.parse().ok()?,
            None => 0,
        };
        Some(Self {
            id,
            cluster_id: (!cluster.is_empty()).then(|| cluster.to_owned()),
            cluster_size,
        })
    }
}

fn read_whole(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open(FILE)?;
    let length = file.len()?.min(FILE_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(length).expect("at most 4 KiB")];
    let filled = file.read_at(0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// What the file begins with as long as a directory is being filled with what another server has kept.
pub const INTERRUPTED: &str = "an import of append-only files was interrupted";
/// The name of the file.
pub const FILE: &str = "node.id";
/// Its name while it is being written.
pub(crate) const FILE_NEW: &str = "node.id.new";
const FILE_BYTES_MAX: u64 = 4096;
const HEADER: &str = "quorlock node 1";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use quorlock_persistence::MemoryDisk;

    use super::*;
    use crate::config::ClusterSize;

    fn identity(cluster: Option<&str>, size: u8) -> NodeIdentity {
        let mut config = Config::default();
        config.set("cluster-id", &[cluster.unwrap_or("")]).unwrap();
        config.cluster_size = ClusterSize::of(size);
        let bytes = std::array::from_fn(|at| u8::try_from(at * 13).unwrap());
        NodeIdentity::known(bytes, &config)
    }

    const HEX: &str = "000d1a2734414e5b6875828f9ca9b6c3d0ddeaf7";

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        for (cluster, size) in [(None, 0), (Some("blue"), 0), (Some("blue"), 5), (None, 64)] {
            let (disk, written) = (MemoryDisk::new(), identity(cluster, size));
            assert_eq!(NodeIdentity::read(&disk).unwrap(), None);
            disk.create(FILE_NEW).unwrap();
            written.write(&disk).unwrap();
            assert_eq!(NodeIdentity::read(&disk).unwrap(), Some(written));
            let names: Vec<String> = disk.list().unwrap().into_iter().map(|it| it.name).collect();
            assert_eq!(names, [FILE]);
        }
    }

    #[test]
    fn only_what_was_written_is_an_identity() {
        let whole = format!("{HEADER}\nid {HEX}\ncluster \n");
        assert_eq!(NodeIdentity::parse(&whole), Some(identity(None, 0)));
        let short = &HEX[..39];
        for id in [
            short,
            &format!("{HEX}0"),
            &format!("{short}g"),
            &format!("+{}", &HEX[1..]),
        ] {
            assert_eq!(NodeIdentity::parse(&whole.replace(HEX, id)), None, "{id}");
        }
        assert_eq!(
            NodeIdentity::parse(&whole.replace("node 1", "node 2")),
            None
        );
        assert_eq!(NodeIdentity::parse(&whole.replace("cluster ", "")), None);
        for size in ["size", "size ", "size -1", "size 256", "size five"] {
            assert_eq!(
                NodeIdentity::parse(&format!("{whole}{size}\n")),
                None,
                "{size}"
            );
        }
    }

    #[test]
    fn people_and_clients_see_forty_digits() {
        let identity = identity(None, 0);
        assert_eq!(identity.shown(None), HEX);
        assert_eq!(identity.shown(Some("one")), format!("{HEX} (one)"));
        assert_eq!(format!("{:?}", identity.id), format!("NodeId({HEX})"));
        let run_id = identity.run_id(0xab);
        assert_eq!(run_id, format!("{}00000000000000ab", &HEX[..24]));
    }
}
