//! Redis's append-only files: made into the log of a node, and made of one. For programs that move from redis-server or back; `quorlock
//! log import` and `export` are made of this.
//!
//! Invariants: an import makes a whole data directory or none that a node starts from, and an export a whole append-only
//! directory or none that a redis-server reads. What the other side has no form for is refused, or left out where the caller
//! says so; nothing is left out in silence. Commands are executed by the engine, the log is read and judged as a start does
//! it: there is no second set of rules here. Snapshots (RDB) are not read.

mod commands;
mod export;
mod import;
mod log;
mod manifest;
mod reader;
mod replay;
mod survey;
mod target;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use quorlock_node::start::StartError;
use rustix::fs::OFlags;

pub use export::{ExportError, ExportOptions, ExportReport, export};
pub use import::{ImportReport, import};
pub use survey::CutTail;

/// How an append-only directory is imported. The default refuses what a node has no command for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Leaves out the commands that a node does not have, instead of refusing the files.
    pub skips_unsupported: bool,
}

/// Why append-only files were not imported; as text with what to do. Nothing is left of the node that was to be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file or directory cannot be read.
    #[error("{} cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// There is nothing to import.
    #[error(
        "{} holds no append-only files: no manifest (appendonly.aof.manifest), and no appendonly.aof",
        path.display()
    )]
    NoSource {
        /// The directory.
        path: PathBuf,
    },
    /// There is more than one.
    #[error(
        "{} holds several sets of append-only files; name the directory or the file that is meant",
        path.display()
    )]
    SeveralSources {
        /// The directory.
        path: PathBuf,
    },
    /// A manifest is not one.
    #[error("{}, line {line}: {what}", file.display())]
    Manifest {
        /// The manifest.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A file begins with a snapshot.
    #[error(
        "{} begins with a snapshot (RDB), which is not read here",
        file.display()
    )]
    Snapshot {
        /// The file.
        file: PathBuf,
    },
    /// A file is not what Redis has written.
    #[error("{} is damaged at offset {offset}: {what}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A node does not have a command.
    #[error("{}, offset {offset}: a node cannot take {command}: {why}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// The name of the command.
        command: String,
        /// Why not.
        why: String,
    },
    /// A node has a command, and does not execute it.
    #[error("{}, offset {offset}: a node does not execute this {command}: {why}", file.display())]
    Refused {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// The name of the command.
        command: String,
        /// Why not.
        why: String,
    },
    /// The directory of the node cannot be made.
    #[error(transparent)]
    Target(#[from] StartError),
}

/// Opens a file to read it. What is no file, such as a FIFO that no program writes to, is refused and not waited for.
fn open(path: &Path) -> Result<File, ImportError> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let checked = opened.and_then(|file| match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    });
    checked.map_err(|cause| ImportError::Unreadable {
        path: path.to_owned(),
        cause,
    })
}
