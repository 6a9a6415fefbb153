//! Why a node could not start. Every text says what happened, what it means for locks, and what
//! to do. It names directives ("the directive port"): a program sets them in code, and the command says its flags instead.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use quorlock_persistence::{OpenError, Position, RecoveryError, SyncError, WriteError, remedy};

use crate::core::commit::Failure;
use crate::past::{FrameError, PastError};

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A directive has a value that cannot be used.
    #[error("{0}")]
    Config(String),
    /// The machine's clock of this name is before its zero.
    #[error(
        "{0} is before its zero, so no deadline would come. Nothing was started; give the time \
         namespace a larger offset (time_namespaces(7)), or start the node outside it"
    )]
    ClockBeforeZero(&'static str),
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}. Nothing was started and no lock is affected; {}",
        remedy(.source, "stop what uses the port, or choose another with the directive port")
    )]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The Unix socket cannot be made.
    #[error(
        "cannot listen on the Unix socket {}: {source}. Nothing was started and no lock is affected; {}",
        path.display(),
        remedy(
            .source,
            "make its directory if there is none, move what has this name out of the way, or choose another path with the directive unixsocket"
        )
    )]
    BindUnix {
        /// The path asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The address of the metrics cannot be listened on.
    #[error(
        "cannot listen on {address} for metrics: {source}. Nothing was started and no lock is \
         affected; {}",
        remedy(.source, "stop what uses the port, or choose another with the directive metrics-port")
    )]
    BindMetrics {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No address at all could be listened on.
    #[error("none of the addresses of `bind` exist on this machine; name at least one that does")]
    NoAddress,
    /// The directory of a new node cannot be made or read, or that of a node not be looked at.
    #[error(
        "cannot use {} as data directory: {source}. {}",
        directory.display(),
        remedy(.source, "Make it a directory this user may write, or name another with the directive dir")
    )]
    Directory {
        /// The directory asked for.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no data directory, and a start makes none: it may lie on a volume that is not mounted.
    #[error(
        "the data directory {} (directive dir) does not exist. Nothing was started and no lock is affected. If it \
         is on another volume, mount that: a node in a new directory would not know the locks that it has granted. \
         For a new node, create it once with: quorlock node init {} (in a program: quorlock_server::init)",
        directory.display(), directory.display()
    )]
    NoDirectory {
        /// The directory asked for.
        directory: PathBuf,
    },
    /// The process may not open enough files for one client.
    #[error(
        "the process may open {available} files, and {needed} are needed for the logs of its nodes and one client. Nothing was started and \
         no lock is affected. Raise the limit: ulimit -n, or LimitNOFILE of a systemd unit"
    )]
    Descriptors {
        /// How many it may open.
        available: u64,
        /// How many it needs at least.
        needed: u64,
    },
    /// The data directory is in use or cannot be opened.
    #[error(transparent)]
    Open(OpenError),
    /// The log cannot be used.
    #[error(transparent)]
    Log(RecoveryError),
    /// The data directory failed.
    #[error("the data directory failed while the node started: {0}; no lock was granted")]
    Disk(#[source] io::Error),
    /// The log cannot be written.
    #[error(transparent)]
    Write(WriteError),
    /// The log cannot be synced.
    #[error(transparent)]
    Sync(SyncError),
    /// A frame of the log does not decode.
    #[error(
        "the log's frame at position {position} is whole but not understood: {error}. It was \
         probably written by a newer version: start that version, or use another directory"
    )]
    NotUnderstood {
        /// The frame's position.
        position: Position,
        /// What is wrong with it.
        #[source]
        error: FrameError,
    },
    /// `node.id` is not an identity.
    #[error(
        "{file} cannot be used: {reason}. The node does not start, because it cannot know whose \
         locks its log holds, and no lock is affected. Restore this one file; or remove it, then \
         the node takes the id that its log carries and waits out restart-delay-max once"
    )]
    BadIdentity {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An import into the directory was interrupted.
    #[error(
        "an import of append-only files into {directory} was interrupted, and it holds a part of the locks alone. The node does not \
         start, and no lock is affected. Remove the directory with its node.id, and import again"
    )]
    Interrupted {
        /// The directory.
        directory: String,
    },
    /// The directory was released to be moved, and not adopted since.
    #[error(
        "the node in {directory} was released to be moved, so it does not start here: it may serve where it was moved to. Nothing \
         was started and no lock is affected. Where the node is to go on, adopt it with the receipt that the release \
         printed: quorlock node adopt DIR --receipt RECEIPT. If the receipt is lost, or the node has run elsewhere \
         since: quorlock node adopt DIR --wait"
    )]
    Released {
        /// The directory.
        directory: String,
    },
    /// `node init` on a directory that has a node.
    #[error(
        "{} holds a node already; it was left as it is. A node is created once: to start it, name this directory with \
         the directive dir. To create another, choose an empty directory",
        directory.display()
    )]
    AlreadyInitialised {
        /// The directory.
        directory: PathBuf,
    },
    /// `node restored` on a directory without a node.
    #[error(
        "{} holds no node: there is no node.id in it. Nothing was changed. Name the directory that the node's directive dir names; \
         one whose log is left without its node.id waits for restart-delay-max by itself",
        directory.display()
    )]
    NoNode {
        /// The directory.
        directory: PathBuf,
    },
    /// `node init` on a directory that is not empty.
    #[error(
        "{} is not empty: it holds {first}. It was left as it is: what is there may be what is left \
         of a node, and a new one in its place would grant its locks again. Name a new directory, \
         or empty this one if nothing in it is needed and no lock of an earlier node can be held",
        directory.display()
    )]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
        /// The first name in it.
        first: String,
    },
    /// The system has no randomness to give.
    #[error("the system gave no random bytes; a node cannot be told from others without them")]
    Randomness,
    /// A thread could not be made.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The starting thread panicked.
    #[error(
        "the node's thread ended while it started; nothing was granted. This is a defect: please \
         report it with the lines above"
    )]
    Panicked,
    /// The node failed while it started.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<PastError> for StartError {
    fn from(error: PastError) -> Self {
        match error {
            PastError::Disk(error) => Self::Disk(error),
            PastError::Log(error) => Self::Log(error.into()),
            PastError::BadIdentity { file, reason } => Self::BadIdentity { file, reason },
            PastError::Interrupted { directory } => Self::Interrupted { directory },
            PastError::Released { directory } => Self::Released { directory },
            PastError::NotUnderstood {
                position, error, ..
            } => Self::NotUnderstood { position, error },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn what_the_system_said_is_the_source() {
        let said = || io::Error::from(io::ErrorKind::AddrInUse);
        let address = SocketAddr::from(([127, 0, 0, 1], 7001));
        for error in [
            StartError::Bind {
                address,
                source: said(),
            },
            StartError::BindMetrics {
                address,
                source: said(),
            },
            StartError::Directory {
                directory: PathBuf::from("data"),
                source: said(),
            },
            StartError::Disk(said()),
            StartError::Thread(said()),
        ] {
            let source = error.source().and_then(|source| source.downcast_ref());
            let kind = source.map(io::Error::kind);
            assert_eq!(kind, Some(io::ErrorKind::AddrInUse), "{error}");
            assert!(error.to_string().contains("in use"), "{error}");
        }
    }
}
