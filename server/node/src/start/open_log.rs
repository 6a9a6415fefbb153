//! Opens the log of a start for writing, and says what an operator should know of it.
//!
//! Invariant: nothing that was read is served before it is durable. On a full disk the log goes on in its last segment: what
//! is there is served, can be released as far as the segment has room, and grants are refused as on any full disk.

use std::sync::Arc;

use quorlock_engine::control::ControlRecord;
use quorlock_persistence::{
    Disk, FrameBatch, FrameKind, Log, LogIdentity, LogOptions, Recovery, WriteError,
};

use crate::core::executor::room::CHECKPOINT_BYTES;
use crate::past::fingerprint::is_own;
use crate::start::StartError;

/// Goes on with the log that was read.
pub(super) fn open_log(
    recovery: Recovery,
    disk: &Arc<dyn Disk>,
    options: &LogOptions,
    identity: LogIdentity,
) -> Result<Log, StartError> {
    let opened = match recovery.into_log(identity) {
        Err(refused @ WriteError::NoSpace(_)) => {
            Log::resume(Arc::clone(disk), options, identity, refused)
        }
        opened => opened,
    };
    let log = opened.map_err(StartError::Write)?;
    if log.appender.is_full() {
        let releases = match log.appender.room() > CHECKPOINT_BYTES {
            true => "and can be released",
            false => "but nothing can be released or extended until there is space",
        };
        tracing::warn!(
            "the disk of {} has no space for another segment of the log, so it goes on in its last one. What is there is served \
             {releases}; free some space there, or make the volume larger",
            disk.describe("")
        );
    }
    Ok(log)
}

/// Puts one record on a log that no node runs on, durably.
pub(super) fn put_on_record(
    mut log: Log,
    record: &ControlRecord,
    time_ns: u64,
) -> Result<(), StartError> {
    let mut payload = Vec::new();
    record.encode(&mut payload);
    let kind = FrameKind::new(record.kind());
    log.appender.append(kind, time_ns, &payload);
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).map_err(StartError::Write)?;
    log.writer.sync().map_err(StartError::Sync)?;
    Ok(())
}

/// What was strange about it.
pub(super) fn tell_of_log(recovery: &Recovery) {
    let summary = recovery.summary();
    for remark in &summary.remarks {
        tracing::warn!("{remark}");
    }
    for name in summary.foreign_files.iter().filter(|name| !is_own(name)) {
        tracing::info!(
            "{} in the data directory is no file of the log; it is left alone",
            name.escape_debug()
        );
    }
    if let Some(cut) = &summary.break_at {
        tracing::warn!(
            "the log breaks off in {} at offset {}: {}. What follows was never synced, or was \
             written by nobody; it is not used",
            cut.file,
            cut.offset,
            cut.reason
        );
    }
}
