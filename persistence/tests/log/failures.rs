//! Disks that fail: the first failure is the last thing the log does, whatever a second try would say.

use crate::small_log::*;
use quorlock_persistence::{Batch, MemoryDisk, Recovery, WriteError};
use rustix::io::Errno;
use std::sync::Arc;

const EIO: i32 = Errno::IO.raw_os_error();
const ENOSPC: i32 = Errno::NOSPC.raw_os_error();

fn try_write(log: &mut quorlock_persistence::Log) -> Result<(), WriteError> {
    let mut batch = log.appender.take(Batch::default());
    let result = log.writer.write(&mut batch).map(|_| ());
    assert!(batch.is_empty());
    result
}

/// Every call of a log that has failed says the same, though the disk is fine again.
fn assert_ended(log: &mut quorlock_persistence::Log, first: &WriteError) {
    for _ in 0..3 {
        append(log, b"after the failure");
        let errors = [
            try_write(log).unwrap_err(),
            log.writer.sync().unwrap_err(),
            log.writer.begin_sync().run().unwrap_err(),
            log.preparer.prepare().unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.to_string(), first.to_string());
        }
    }
}

#[test]
fn a_failed_write_ends_the_log() {
    for error_number in [EIO, ENOSPC] {
        let disk = MemoryDisk::new();
        let mut log = open(&disk);
        commit(&mut log, b"before");
        append(&mut log, b"lost");
        disk.fail_write_after(0, error_number);
        let error = try_write(&mut log).unwrap_err();
        assert!(matches!(error, WriteError::Write(_)), "{error}");
        assert!(error.to_string().contains(FIRST), "{error}");
        assert_ended(&mut log, &error);
        assert_eq!(log.writer.durable().get(), 1);
        assert_eq!(payloads(&read(&disk)), [b"before"]);
    }
}

#[test]
fn a_failed_sync_ends_the_log_and_is_not_tried_again() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    commit(&mut log, b"durable");
    append(&mut log, b"dropped by the system");
    write(&mut log);
    disk.fail_sync_after(0, EIO);
    let error = log.writer.sync().unwrap_err();
    assert!(matches!(error, WriteError::Sync(_)), "{error}");
    assert_ended(&mut log, &error);
    assert_eq!(log.writer.durable().get(), 1);
    assert_eq!(
        payloads(&read(&disk.after_power_loss(false, |_, _| false))),
        [b"durable"]
    );
}

#[test]
fn a_failed_ticket_ends_the_log_for_the_writer_too() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    append(&mut log, b"x");
    write(&mut log);
    let (first, second) = (log.writer.begin_sync(), log.writer.begin_sync());
    disk.fail_sync_after(0, EIO);
    let error = first.run().unwrap_err();
    assert!(
        second.run().is_err(),
        "the other ticket must not call the same data durable"
    );
    assert_ended(&mut log, &error);
}

#[test]
fn a_failed_write_of_the_next_segments_header_ends_the_log() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    assert!(log.preparer.prepare().unwrap());
    for number in 0..10 {
        append(&mut log, &payload(number, 1000));
    }
    // The first write is the rest of the first segment, the second one is the header.
    disk.fail_write_after(1, EIO);
    let error = try_write(&mut log).unwrap_err();
    assert!(error.to_string().contains(SECOND), "{error}");
    assert_ended(&mut log, &error);
}

#[test]
fn a_segment_that_cannot_be_made_for_another_reason_than_space_ends_the_log() {
    for (fail, errno) in [(true, EIO), (false, EIO)] {
        let disk = MemoryDisk::new();
        let mut log = open(&disk);
        if fail {
            disk.fail_write_after(0, errno);
        } else {
            disk.fail_sync_after(1, errno);
        }
        let error = log.preparer.prepare().unwrap_err();
        assert!(matches!(error, WriteError::Segment(_)), "{error}");
        assert_ended(&mut log, &error);
    }
}

#[test]
fn a_start_on_a_failing_disk_says_so_and_leaves_the_log_as_it_was() {
    let disk = MemoryDisk::new();
    commit(&mut open(&disk), b"kept");
    for failing in 0..4 {
        let copy = disk.after_process_end();
        copy.fail_sync_after(failing, EIO);
        let result = Recovery::read(Arc::new(copy.clone()), &options())
            .unwrap()
            .into_log(identity(2));
        assert_eq!(result.is_err(), failing < 3, "sync {failing}");
        assert_eq!(payloads(&read(&copy)), [b"kept"]);
    }
    let copy = disk.after_process_end();
    copy.set_capacity(Some(13 << 10));
    let error = read(&copy).into_log(identity(2)).unwrap_err();
    assert!(matches!(error, WriteError::NoSpace(_)), "{error}");
    assert_eq!(names(&copy), [FIRST], "the half-made segment is gone again");
}
