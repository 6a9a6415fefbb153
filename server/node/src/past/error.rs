//! Why a data directory's past cannot be read.

use std::io;

use quorlock_engine::PayloadError;
use quorlock_engine::control::RecordError;
use quorlock_persistence::{DiskError, Position};

/// Why a data directory's past cannot be read.
#[derive(Debug)]
pub enum PastError {
    /// The directory cannot be listed.
    Disk(io::Error),
    /// A part of the log cannot be read.
    Log(DiskError),
    /// `node.id` is not an identity.
    BadIdentity {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It was to be filled with what another server has kept, and holds a part of it.
    Interrupted {
        /// The directory.
        directory: String,
    },
    /// It was released to be moved, and not adopted since.
    Released {
        /// The directory.
        directory: String,
    },
    /// A whole frame is not understood.
    NotUnderstood {
        /// The frame's position.
        position: Position,
        /// The file and where in it, where they are known.
        location: Option<Location>,
        /// What is wrong with it.
        error: FrameError,
    },
}

/// Somewhere in a file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
}

/// What is not understood about a frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    #[error("{0}")]
    /// A control record does not decode.
    Record(#[from] RecordError),
    #[error("{0}")]
    /// A group of mutations does not decode.
    Payload(#[from] PayloadError),
}
