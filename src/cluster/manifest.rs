//! `cluster.json`: which nodes were ever created in a cluster's directory.
//!
//! A node's identity is created once. The manifest is written as a draft before the identities are
//! made and completed after the last one, so a crash in between leaves a draft whose nodes never
//! served and may be made anew; once it is complete, a missing node is a loss to report and never
//! a reason to create it again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::home::{Certificates, ClusterHome};
use super::ownership::{READABLE, open_own};
use crate::exit_code::Failure;
use crate::output::shell_word;

/// The nodes of a cluster and how they are run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) version: u32,
    pub(super) name: String,
    /// What distinguishes this cluster from all others. Empty in one made by an earlier version.
    #[serde(default)]
    cluster_id: String,
    /// False until every node has its identity.
    pub(super) complete: bool,
    pub(super) appendfsync: String,
    /// The certificates that were made, where the nodes speak TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) issued: Option<Issued>,
    pub(super) nodes: Vec<Entry>,
}

/// Certificates that were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Issued {
    /// When they end, in seconds since 1970.
    pub(super) end: u64,
    /// Of the three files: what was cut off, damaged or replaced is made anew.
    pub(super) crc32c: u32,
}

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Counted from 1.
    pub(super) number: u16,
    /// The node's identity; empty while the manifest is a draft.
    pub(super) id: String,
    pub(super) port: u16,
}

impl Entry {
    pub(super) fn url(&self, speaks_tls: bool) -> String {
        let scheme = if speaks_tls { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.address())
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Manifest {
    /// What every node of the cluster calls it. Where an earlier version has made it, its first node's id.
    pub(super) fn cluster_id(&self) -> &str {
        match self.nodes.first() {
            Some(first) if self.cluster_id.is_empty() => &first.id,
            _ => &self.cluster_id,
        }
    }

    pub(super) fn new(name: String, appendfsync: String, ports: impl Iterator<Item = u16>) -> Self {
        let nodes = (1..)
            .zip(ports)
            .map(|(number, port)| Entry {
                number,
                id: String::new(),
                port,
            })
            .collect();
        Self {
            version: VERSION,
            name,
            cluster_id: format!("{:032x}", rand::random::<u128>()),
            complete: false,
            appendfsync,
            issued: None,
            nodes,
        }
    }

    /// The nodes a lock needs: more than half.
    pub(super) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Whether its nodes speak TLS, and nothing else.
    pub(super) fn speaks_tls(&self) -> bool {
        self.issued.is_some()
    }

    /// Where the certificates of its nodes are, if they speak TLS.
    pub(super) fn certificates(&self, home: &ClusterHome) -> Option<Certificates> {
        self.speaks_tls().then(|| home.certificates())
    }

    /// Whether all that its nodes granted ended with them.
    fn is_in_memory(&self) -> bool {
        self.nodes.iter().any(|node| node.id == IN_MEMORY)
    }

    /// What can be done about the cluster in `home`, which is stopped.
    pub(super) fn way_on(&self, home: &ClusterHome) -> String {
        let word = shell_word(home.directory().display());
        match self.is_in_memory() {
            true => format!(
                "its nodes were in memory, and their locks are gone with them; remove what is left with: quorlock cluster \
                 clean --dir {word}"
            ),
            false => format!("start it with: quorlock cluster up --dir {word}"),
        }
    }

    pub(super) fn urls(&self) -> Vec<String> {
        let nodes = self.nodes.iter();
        nodes.map(|node| node.url(self.speaks_tls())).collect()
    }

    pub(super) fn read(home: &ClusterHome) -> Result<Self, Failure> {
        let path = home.manifest();
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
        Self::parse(&text).map_err(|reason| {
            Failure::failed(format!("{} is not usable: {reason}", path.display())).remedy(
                "restore the file, or name another directory with --dir\n\
                 if its locks do not matter any more: remove the directory",
            )
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let manifest: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if manifest.version != VERSION {
            return Err(format!(
                "it has version {}, known is {VERSION}",
                manifest.version
            ));
        }
        let numbered = (1..)
            .zip(&manifest.nodes)
            .all(|(number, node)| node.number == number);
        if manifest.nodes.is_empty() || !numbered {
            return Err("its nodes are not numbered from 1 on".to_owned());
        }
        if manifest.complete && manifest.nodes.iter().any(|node| node.id.is_empty()) {
            return Err("it lists a node without an identity".to_owned());
        }
        Ok(manifest)
    }

    /// Writes the manifest so that it is either the old one or this one, also after a power loss.
    pub(super) fn write(&self, home: &ClusterHome) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(Failure::failed)?;
        let path = home.manifest();
        write_atomically(&path, &format!("{text}\n"), READABLE)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
    }
}

/// Replaces a file in one step: readers see the old text or the new one, whole.
pub(super) fn write_atomically(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let mut file = open_own(Path::new(&draft), mode)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    match path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Stands for the id of a node that has a new one at each start.
pub(super) const IN_MEMORY: &str = "in memory, new at each start";
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Manifest {
        Manifest::new(
            "dev".to_owned(),
            "always".to_owned(),
            [7101, 7102, 7103].into_iter(),
        )
    }

    #[test]
    fn is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let home = ClusterHome::at(directory.path()).unwrap();
        let manifest = three();
        manifest.write(&home).unwrap();
        assert_eq!(Manifest::read(&home).unwrap(), manifest);
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "no draft stays behind"
        );
    }

    #[test]
    fn every_cluster_has_an_id_of_its_own() {
        assert_ne!(three().cluster_id(), three().cluster_id());
        let text = serde_json::to_string(&three()).unwrap();
        let (before, after) = text.split_once("\"cluster_id\":").unwrap();
        let after = after.split_once(',').unwrap().1;
        let mut earlier = Manifest::parse(&format!("{before}{after}")).unwrap();
        earlier.nodes[0].id = "first".to_owned();
        assert_eq!(earlier.cluster_id(), "first");
    }

    #[test]
    fn a_quorum_is_more_than_half() {
        for (nodes, quorum) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (99, 50)] {
            let manifest = Manifest::new(String::new(), String::new(), 1..=nodes);
            assert_eq!(manifest.quorum(), quorum, "{nodes} nodes");
        }
    }

    #[test]
    fn refuses_what_it_did_not_write() {
        let good = serde_json::to_string(&three()).unwrap();
        assert!(Manifest::parse(&good).is_ok());
        let cases = [
            String::new(),
            "{}".to_owned(),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"number\":2", "\"number\":1"),
            good.replace("\"port\":7102", "\"port\":70102"),
            good.replace("\"complete\":false", "\"complete\":true"),
            good.replace("\"name\"", "\"label\""),
        ];
        for text in cases {
            assert!(Manifest::parse(&text).is_err(), "{text}");
        }
    }
}
