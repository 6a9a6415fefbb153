//! Making a node: its identity, and a log that says it has never run.

use quorlock_engine::control::{Boot, ControlRecord};
use quorlock_persistence::{Disk, LogIdentity, Recovery};

use crate::past::NodeIdentity;
use crate::start::StartError;
use crate::start::open_log::put_on_record;

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
    let log = recovery.into_log(log_identity).map_err(StartError::Write)?;
    put_on_record(log, &ControlRecord::Init, 0)?;
    // The identity comes last: without it, a half-made directory is an unknown past.
    identity.write(disk).map_err(StartError::Disk)
}
