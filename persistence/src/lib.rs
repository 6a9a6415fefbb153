//! A durable, ordered log of opaque checksummed frames. It knows nothing of locks.
//!
//! Invariant: what `Recovery` returns is a prefix of what was appended, and it never lacks a frame
//! that a sync had reported durable: such a loss is refused, not repaired.
//!
//! The order of reading: `position` and `frame` (what is stored), `header` and `segment_name` (where),
//! `recovery` (reading it back), `appender`, `writer`, `preparer` (the three parts of a running log), and
//! `disk` (the only contact with the world). Locks, threads and what a frame means are the caller's.
//!
//! ```
//! use quorlock_persistence::{Batch, Identity, Kind, MemoryDisk, Options, Recovery};
//! use std::sync::Arc;
//!
//! let disk = MemoryDisk::new();
//! let identity = Identity { node_id: [1; 20], boot_id: [2; 16], incarnation: 1 };
//! let mut log = Recovery::read(Arc::new(disk.clone()), &Options::default())?.into_log(identity)?;
//! let position = log.appender.append(Kind::new(1), 0, b"payload");
//! let mut batch = log.appender.take(Batch::default());
//! log.writer.write(&mut batch)?;
//! assert_eq!(log.writer.sync()?, position);
//!
//! let recovery = Recovery::read(Arc::new(disk), &Options::default())?;
//! assert_eq!(recovery.frames().next().map(|frame| frame.payload), Some(&b"payload"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod appender;
mod batch;
mod disk;
mod error;
mod frame;
mod header;
mod log;
mod options;
mod position;
mod preparer;
mod recovery;
mod segment_name;
mod space;
mod writer;

pub use appender::Appender;
pub use batch::Batch;
pub use disk::{
    DirectoryView, Disk, Entry, Fate, Fault, File, Loss, Mapping, MemoryDisk, OpenError, Operation,
    Point, RealDisk, Unsynced, Use,
};
pub use error::{DiskError, RecoveryError, SyncError, WriteError, hexadecimal};
pub use frame::Frame;
pub use log::Log;
pub use options::{Identity, Options};
pub use position::{Kind, Position};
pub use preparer::Preparer;
pub use recovery::{
    Break, Content, Frames, InspectedFrame, Inspection, Judgement, Part, Recovery, Repair,
    Repaired, SegmentFile, SegmentHeader, SegmentState, Summary,
};
pub use writer::{SyncTicket, Writer};
