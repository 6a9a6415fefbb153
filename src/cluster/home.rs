//! The directory of a cluster: where its files are, and who may use it.
//!
//! One supervisor holds the directory's lock for as long as it lives. A directory that holds
//! anything but a cluster is never written to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::ownership::{self, NOFOLLOW};
use crate::clock;
use crate::exit_code::Failure;

/// A cluster's directory, as an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterHome {
    directory: PathBuf,
}

/// What the nodes of a cluster with TLS show their clients, as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificates {
    /// What clients trust.
    pub(super) authority: PathBuf,
    pub(super) node: PathBuf,
    pub(super) key: PathBuf,
}

/// Proof that this process is the directory's only supervisor.
#[derive(Debug)]
pub(super) struct Ownership {
    _lock: File,
}

impl ClusterHome {
    pub(super) fn at(directory: &Path) -> Result<Self, Failure> {
        let directory = std::path::absolute(directory).map_err(|error| {
            Failure::usage(format!(
                "'{}' is not a directory: {error}",
                directory.display()
            ))
        })?;
        Ok(Self { directory })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The name of the cluster: that of its directory.
    pub(super) fn name(&self) -> String {
        let name = self
            .directory
            .file_name()
            .unwrap_or(self.directory.as_os_str());
        name.to_string_lossy().into_owned()
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.directory.join("cluster.json")
    }

    pub(super) fn socket_name(&self) -> &'static str {
        "control.sock"
    }

    pub(super) fn events_log(&self) -> PathBuf {
        self.directory.join("cluster.log")
    }

    pub(super) fn node_directory(&self, node: u16) -> PathBuf {
        self.directory.join(format!("node-{node}"))
    }

    pub(super) fn node_log(&self, node: u16) -> PathBuf {
        self.directory.join(format!("node-{node}.log"))
    }

    pub(super) fn certificates(&self) -> Certificates {
        let [authority, node, key] = CERTIFICATES.map(|name| self.directory.join(name));
        Certificates {
            authority,
            node,
            key,
        }
    }

    /// Refuses a cluster that another user owns or may change.
    pub(super) fn check_ownership(&self) -> Result<(), Failure> {
        ownership::check_behind_links(&self.directory)?;
        ownership::check(&self.manifest())
    }

    /// Makes the directory if there is none; refuses one that holds something else, or is not this user's alone.
    pub(super) fn make(&self) -> Result<(), Failure> {
        self.find_or_create()?;
        self.check_ownership()
    }

    fn find_or_create(&self) -> Result<(), Failure> {
        let shown = self.directory.display();
        match fs::read_dir(&self.directory) {
            Ok(entries) => {
                let is_foreign = !self.manifest().is_file()
                    && entries
                        .flatten()
                        .any(|entry| entry.file_name() != LOCK_NAME);
                if is_foreign {
                    return Err(Failure::failed(format!(
                        "{shown} holds something that is not a cluster; nothing was changed"
                    ))
                    .remedy("name an empty or new directory with --dir"));
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.directory)
                .map_err(|error| self.failure("cannot create", &error)),
            Err(error) => Err(self.failure("cannot use", &error)),
        }
    }

    /// Becomes the directory's supervisor, or says that there is one.
    pub(super) fn own(&self) -> Result<Ownership, Failure> {
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .custom_flags(NOFOLLOW)
            .open(self.directory.join(LOCK_NAME))
            .map_err(|error| self.failure("cannot write to", &error))?;
        for _ in 0..LOCK_TRIES {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Ownership { _lock: lock }),
                // A process that only looks whether it is held lets go at once.
                Err(rustix::io::Errno::WOULDBLOCK) => clock::block_for(LOCK_STEP),
                Err(error) => return Err(self.failure("cannot lock", &error.into())),
            }
        }
        Err(self.already_runs())
    }

    /// Whether a supervisor holds this directory.
    pub(super) fn is_running(&self) -> bool {
        match File::open(self.directory.join(LOCK_NAME)) {
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockShared).is_err(),
            Err(_) => false,
        }
    }

    pub(super) fn already_runs(&self) -> Failure {
        Failure::failed(format!(
            "a cluster already runs in {}",
            self.directory.display()
        ))
        .remedy(
            "look at it with: quorlock cluster status\nstop it with: quorlock cluster down\n\
             or start another one elsewhere with --dir and its own --base-port",
        )
    }

    pub(super) fn failure(&self, what: &str, error: &io::Error) -> Failure {
        Failure::failed(format!("{what} {}: {error}", self.directory.display()))
            .remedy("name another directory with --dir, or use --ephemeral")
    }
}

/// What a name stands for in a directory of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    /// The directory of a node, or a part of one.
    Node,
    Foreign,
}

/// What a name in a cluster's directory stands for. Where its nodes speak no TLS, certificates are not the cluster's.
pub(super) fn kind_of(name: &str, speaks_tls: bool) -> Kind {
    let is_number = |text: &str| {
        text.parse::<u32>()
            .is_ok_and(|number| number.to_string() == text)
    };
    let is_written_whole =
        |name| name == "cluster.json" || speaks_tls && CERTIFICATES.contains(&name);
    let draft = name.rsplit_once('.');
    let is_draft =
        draft.is_some_and(|(file, process)| is_written_whole(file) && is_number(process));
    let is_other = ["cluster.log", "control.sock", LOCK_NAME].contains(&name);
    if is_written_whole(name) || is_draft || is_other {
        return Kind::File;
    }
    match name.strip_prefix("node-") {
        Some(number) if is_number(number) => Kind::Node,
        Some(rest) if rest.strip_suffix(".log").is_some_and(is_number) => Kind::File,
        _ => Kind::Foreign,
    }
}

/// Where a cluster is kept by default.
pub(super) const DEFAULT_DIRECTORY: &str = ".quorlock/dev";

const CERTIFICATES: [&str; 3] = ["ca.pem", "node.pem", "node.key"];
const LOCK_NAME: &str = "lock";
const LOCK_TRIES: u32 = 5;
const LOCK_STEP: Duration = Duration::from_millis(10);
