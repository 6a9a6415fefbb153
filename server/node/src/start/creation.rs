//! Making a node: its identity, and a log that says it has never run.

use quorlock_engine::control::{Boot, ControlRecord, kind};
use quorlock_persistence::{Disk, FrameBatch, FrameKind, LogIdentity, Recovery};

use crate::past::NodeIdentity;
use crate::start::StartError;

/// Writes identity and INIT record into an empty directory.
///
/// # Errors
/// When the disk fails.
pub fn create(
    disk: &dyn Disk,
    identity: &NodeIdentity,
    recovery: Recovery,
) -> Result<(), StartError> {
    let log_identity = LogIdentity {
        node_id: identity.id.bytes(),
        boot_id: Boot::default().0,
        incarnation: 0,
    };
    let mut log = recovery.into_log(log_identity).map_err(StartError::Write)?;
    let mut payload = Vec::new();
    ControlRecord::Init.encode(&mut payload);
    log.appender.append(FrameKind::new(kind::INIT), 0, &payload);
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).map_err(StartError::Write)?;
    log.writer.sync().map_err(StartError::Sync)?;
    // The identity comes last: without it, a half-made directory is an unknown past.
    identity.write(disk).map_err(StartError::Disk)
}
