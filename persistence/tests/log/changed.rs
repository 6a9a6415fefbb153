//! Files that change behind a log that was read: errors, and neither signals nor other bytes than were verified.

use crate::small_log::*;
use quorlock_persistence::{FrameKind, LogOptions, MemoryDisk, RealDisk, Recovery, RecoveryError};
use std::fs;

/// Longer than what is read at once, shorter, and around it.
#[test]
fn frames_of_any_length_are_read_back_whole_and_a_hole_among_them_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let read = || {
        Recovery::read(
            RealDisk::open(directory.path()).unwrap(),
            &LogOptions::default(),
        )
    };
    let mut log = read().unwrap().into_log(identity(1)).unwrap();
    let piece = 256 << 10;
    let lengths = [1, piece - 48, piece - 40, piece, 5, 3 * piece + 3, 100_000];
    let all: Vec<_> = (0..21)
        .map(|number| payload(number, lengths[number % lengths.len()]))
        .collect();
    for payload in &all {
        if log.appender.room() < payload.len() as u64 {
            write(&mut log);
            log.preparer.prepare().unwrap();
        }
        log.appender.append(FrameKind::new(1), 0, payload);
        write(&mut log);
        log.writer.sync().unwrap();
    }
    drop(log);
    let recovery = read().unwrap();
    assert!(recovery.summary().only_zeros_follow);
    assert!(payloads(&recovery) == all, "other payloads");
    drop(recovery);

    let path = directory.path().join(SECOND);
    let mut bytes = fs::read(&path).unwrap();
    let middle = (1 << 20) + 5;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = read().unwrap_err();
    assert!(
        matches!(error, RecoveryError::DurableDataLost { .. }),
        "{error}"
    );
}

#[test]
fn a_frame_that_is_not_what_was_verified_is_not_replayed() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    commit_many(&mut log, 3, 1000);
    drop(log);
    let (begin, end) = frame_ranges(&disk, FIRST)[1];
    let whole = content(&disk, FIRST);
    for (from, what) in [(begin, "its mark"), (end - 1, "its last byte")] {
        let recovery = read(&disk);
        disk.edit(FIRST, |bytes| bytes[from] ^= 1);
        let mut frames = recovery.frames();
        assert!(frames.next_frame().unwrap().is_some());
        let error = frames.next_frame().unwrap_err().to_string();
        assert!(error.contains(FIRST), "{what}: {error}");
        disk.edit(FIRST, |bytes| bytes.clone_from(&whole));
    }
    // A whole frame, and not the one that is due.
    let recovery = read(&disk);
    disk.edit(FIRST, |bytes| bytes.copy_within(BLOCK..begin, begin));
    assert!(recovery.frames().collect().is_err());
}

/// It was a mapping once, and this a SIGBUS.
#[test]
fn a_file_that_is_cut_behind_its_reader_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = open_real(directory.path());
    commit_many(&mut log, 3, 1000);
    drop(log);
    for length in [0, 4096, 5000] {
        let recovery = Recovery::read(RealDisk::open(directory.path()).unwrap(), &options());
        let recovery = recovery.unwrap();
        let path = directory.path().join(FIRST);
        let whole = fs::read(&path).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
        let error = recovery.frames().collect().unwrap_err().to_string();
        assert!(error.contains(FIRST), "{length}: {error}");
        assert!(recovery.into_log(identity(2)).is_err(), "{length}");
        fs::write(&path, whole).unwrap();
    }
}
