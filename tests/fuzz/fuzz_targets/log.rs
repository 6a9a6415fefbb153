//! The files of a log: those that the writer has made, damaged in one place, and those of nobody, with checksums that match.
//!
//! What is read back is a part of what was appended, up to the end or beyond the damage, or reading is refused. Whatever the files
//! hold, what was read is read again, and the log goes on behind it.

#![no_main]

#[path = "log/made_up.rs"]
mod made_up;
#[path = "log/written.rs"]
mod written;

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use quorlock_fuzz::Choices;
use quorlock_persistence::{
    FrameBatch, FrameKind, Inspection, LogIdentity, LogOptions, MemoryDisk, OwnedFrame, Recovery,
    RecoveryError,
};

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices::new(input);
    match choices.byte() % 2 {
        0 => written::check(choices),
        _ => made_up::check(choices),
    }
});

/// Reads the log, twice: a tool that looks at it finds the same.
fn read(disk: &MemoryDisk) -> Result<(Recovery, Vec<OwnedFrame>), RecoveryError> {
    let recovery = Recovery::read(Arc::new(disk.clone()), &OPTIONS);
    let inspection = Inspection::open(Arc::new(disk.clone())).expect("the directory can be listed");
    let judged = inspection.judge(&OPTIONS);
    match (&recovery, judged) {
        (Ok(recovery), Ok(judged)) => assert_eq!(&judged.summary, recovery.summary()),
        (Err(error), Err(other)) => assert_eq!(other.to_string(), error.to_string()),
        (recovery, judged) => panic!("{recovery:?} to a start, {judged:?} to a tool"),
    }
    let recovery = recovery?;
    let frames = recovery.frames().collect();
    let frames = frames.expect("nobody has changed the files");
    let summary = recovery.summary();
    assert_eq!(frames.len() as u64, summary.frames);
    if let Some(last) = frames.last() {
        assert_eq!(last.position, summary.last);
    }
    Ok((recovery, frames))
}

/// Goes on with a log, and reads it once more.
fn go_on(recovery: Recovery, frames: &[OwnedFrame], disk: &MemoryDisk, identity: LogIdentity) {
    let last = recovery.summary().last;
    let Ok(mut log) = recovery.into_log(identity) else {
        return;
    };
    let position = log.appender.append(KIND, 7, b"behind it");
    assert_eq!(position, last.next());
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).expect("memory takes it");
    log.writer.sync().expect("memory takes it");
    drop(log);
    let (_, again) = read(disk).expect("what was just written is read");
    let (added, before) = again.split_last().expect("a frame was added");
    assert!(before == frames, "other frames than before");
    assert_eq!(
        (added.position, &*added.payload),
        (position, &b"behind it"[..])
    );
}

const fn identity(incarnation: u64) -> LogIdentity {
    LogIdentity {
        node_id: [1; 20],
        boot_id: [2; 16],
        incarnation,
    }
}

fn segment(number: u64) -> String {
    format!("segment-{number:010}.segment")
}

const KIND: FrameKind = FrameKind::new(1);
/// Small, so that an input fills several segments.
const OPTIONS: LogOptions = LogOptions {
    first_segment_bytes: 12 << 10,
    segment_bytes: 8 << 10,
    frame_bytes_max: 2000,
    reserve_bytes: 256,
    allows_direct: false,
    writes_direct: false,
    expected_node: None,
};
