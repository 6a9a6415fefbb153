//! A durable, ordered log of opaque checksummed frames.
//!
//! Invariant: what `Recovery` returns is a prefix of what was appended, and it never lacks a frame
//! that a sync had reported durable: such a loss is refused, not repaired.
//!
//! The order of reading: `position` and `frame` (what is stored), `header` and `segment_name` (where),
//! `recovery` (reading it back), `resume` (going on where the disk is full), `appender`, `writer` and `space` with the preparer (the three parts of a running
//! log), and `disk` (the only contact with the world). Locks, threads and what a frame means are the caller's.
//!
//! ```
//! use quorlock_persistence::{FrameBatch, FrameKind, LogIdentity, LogOptions, MemoryDisk, Recovery};
//! use std::sync::Arc;
//!
//! let disk = MemoryDisk::new();
//! let identity = LogIdentity { node_id: [1; 20], boot_id: [2; 16], incarnation: 1 };
//! let mut log = Recovery::read(Arc::new(disk.clone()), &LogOptions::default())?.into_log(identity)?;
//! let position = log.appender.append(FrameKind::new(1), 0, b"payload");
//! let mut batch = log.appender.take(FrameBatch::default());
//! log.writer.write(&mut batch)?;
//! assert_eq!(log.writer.sync()?, position);
//!
//! let recovery = Recovery::read(Arc::new(disk), &LogOptions::default())?;
//! let mut frames = recovery.frames();
//! assert_eq!(frames.next_frame()?.map(|frame| frame.payload), Some(&b"payload"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod appender;
mod block_writer;
mod disk;
mod error;
mod frame;
mod header;
mod look;
mod options;
mod position;
mod recovery;
mod resume;
mod segment_name;
mod space;
mod sync;
mod writer;

pub use appender::{Appender, FrameBatch};
pub use disk::{
    DirectoryEntry, DirectoryUse, Disk, DiskFault, DiskLock, DiskOperation, Fate, File, FileId,
    FileOrigin, MemoryDisk, OpenError, Point, PowerLoss, Presence, RealDisk, Sector, Unsynced,
    Volume, remedy,
};
pub use error::{DiskError, RecoveryError, SyncError, WriteError, hexadecimal};
pub use frame::{Frame, OwnedFrame};
pub use header::{Cut, LogIdentity, SegmentHeader};
pub use look::Look;
pub use options::LogOptions;
pub use position::{FrameKind, Position};
pub use recovery::{
    Break, Frames, InspectedFrame, Inspection, Judgement, LogSummary, Recovery, Repair, RepairCut,
    Repaired, SegmentContent, SegmentFile, SegmentPart, SegmentState,
};
pub use resume::StartSpace;
pub use segment_name::{LOCK as LOCK_FILE, is_log_file};
pub use space::Preparer;
pub use writer::{Log, SyncTicket, Writer};
