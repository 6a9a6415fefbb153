//! Making a node: its identity, and a log that says it has never run.

use quorlock_engine::control::{Boot, Record, kind};
use quorlock_persistence::{Batch, Disk, FrameKind, LogIdentity, Recovery};

use crate::past::Identity;
use crate::start::StartError;

/// Writes identity and INIT record into an empty directory.
///
/// # Errors
/// When the disk fails.
pub fn create(disk: &dyn Disk, identity: &Identity, recovery: Recovery) -> Result<(), StartError> {
    let log_identity = LogIdentity {
        node_id: identity.id.bytes(),
        boot_id: Boot::default().0,
        incarnation: 0,
    };
    let mut log = recovery.into_log(log_identity).map_err(StartError::Write)?;
    let mut payload = Vec::new();
    Record::Init.encode(&mut payload);
    log.appender.append(FrameKind::new(kind::INIT), 0, &payload);
    let mut batch = log.appender.take(Batch::default());
    log.writer.write(&mut batch).map_err(StartError::Write)?;
    log.writer.sync().map_err(StartError::Sync)?;
    // The identity comes last: without it, a half-made directory is an unknown past.
    identity.write(disk).map_err(StartError::Disk)
}
