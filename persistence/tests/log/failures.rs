//! Disks that fail: the first failure is the last thing the log does, whatever a second try would say.

use crate::small_log::*;
use quorlock_persistence::{
    DiskFault, DiskOperation, FrameBatch, Log, MemoryDisk, Recovery, WriteError,
};
use rustix::io::Errno;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const EIO: i32 = Errno::IO.raw_os_error();
const ENOSPC: i32 = Errno::NOSPC.raw_os_error();

fn fail_write_after(disk: &MemoryDisk, writes: u64, error_number: i32) {
    disk.plan_fault(
        &[DiskOperation::Write],
        writes,
        DiskFault::Error(error_number),
    );
}

fn try_write(log: &mut Log) -> Result<(), WriteError> {
    let mut batch = log.appender.take(FrameBatch::default());
    let result = log.writer.write(&mut batch).map(|_| ());
    assert!(batch.is_empty());
    result
}

/// Every call of a log that has failed says the same, though the disk is fine again.
fn assert_ended(log: &mut Log, first: &WriteError) {
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
        fail_write_after(&disk, 0, error_number);
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

/// The sync of an older ticket may still fail: what a newer one has synced beside it would count although a
/// hole is before it.
#[test]
fn two_syncs_never_run_at_once() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    append(&mut log, b"x");
    write(&mut log);
    let (first, second) = (log.writer.begin_sync(), log.writer.begin_sync());
    let running = Arc::new((Mutex::new((0_u32, 0_u32)), Condvar::new()));
    let seen = Arc::clone(&running);
    let hook = move || {
        let (running, entered) = &*seen;
        let mut counts = running.lock().unwrap();
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
        entered.notify_all();
        // Long enough for the other thread to come here as well, if nothing keeps it out.
        let alone = |counts: &mut (u32, u32)| counts.1 < 2;
        let (mut counts, _) = entered
            .wait_timeout_while(counts, Duration::from_millis(200), alone)
            .unwrap();
        counts.0 -= 1;
    };
    disk.on_sync(Arc::new(hook));
    std::thread::scope(|scope| {
        scope.spawn(|| first.run().unwrap());
        scope.spawn(|| second.run().unwrap());
    });
    assert_eq!(running.0.lock().unwrap().1, 1, "syncs at the same time");
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
    fail_write_after(&disk, 1, EIO);
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
            fail_write_after(&disk, 0, errno);
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
    for failing in 0..5 {
        let copy = disk.after_process_end();
        copy.fail_sync_after(failing, EIO);
        let result = Recovery::read(Arc::new(copy.clone()), &options())
            .unwrap()
            .into_log(identity(2));
        assert_eq!(result.is_err(), failing < 4, "sync {failing}");
        assert_eq!(payloads(&read(&copy)), [b"kept"]);
    }
    let copy = disk.after_process_end();
    copy.set_capacity(Some(13 << 10));
    let error = read(&copy).into_log(identity(2)).unwrap_err();
    assert!(matches!(error, WriteError::NoSpace(_)), "{error}");
    assert_eq!(names(&copy), [FIRST], "the half-made segment is gone again");
}

/// Frames of several segments; of the syncs of what lies behind `covered` this one fails, and the process ends.
fn failed_sync(covered: usize, failing: u64, all: &[Vec<u8>]) -> MemoryDisk {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    assert!(log.preparer.prepare().unwrap());
    for payload in &all[..covered] {
        commit(&mut log, payload);
    }
    for payload in &all[covered..] {
        append(&mut log, payload);
    }
    write(&mut log);
    disk.fail_sync_after(failing, EIO);
    let _ended_or_not = log.writer.sync();
    disk.after_process_end()
}

/// The failed sync may have left pages that read as written and are on no disk. What the next start calls
/// durable must survive a power loss all the same.
#[test]
fn a_start_after_a_failed_sync_makes_durable_what_it_reads() {
    let all: Vec<_> = (0..10).map(|number| payload(number, 1400)).collect();
    for (covered, failing) in
        (0..all.len()).flat_map(|covered| [0, 1, 2].map(|failing| (covered, failing)))
    {
        let disk = failed_sync(covered, failing, &all);
        let found = payloads(&read(&disk));
        assert_eq!(found, all, "the pages still read as written");
        let log = open(&disk);
        assert_eq!(log.writer.durable().get(), all.len() as u64);
        drop(log);
        let lost = disk.after_power_loss(false, |_, _| false);
        assert_eq!(payloads(&read(&lost)), all, "{covered}, sync {failing}");
    }
}

/// The start that writes it again ends anywhere, with any of its sectors on the disk: nothing that was durable
/// goes, and what is left is still a prefix.
#[test]
fn a_crash_while_it_is_written_again_leaves_a_prefix() {
    let all: Vec<_> = (0..10).map(|number| payload(number, 1400)).collect();
    let covered = 3;
    let mut changes = 0;
    loop {
        let disk = failed_sync(covered, 1, &all);
        disk.end_after(changes);
        let ended = read(&disk).into_log(identity(2)).is_err();
        for pattern in 0..16_u64 {
            let survives = |_: &str, sector: u64| (sector * 7 + pattern * 5) % 16 < pattern;
            let lost = disk.after_power_loss(pattern % 2 == 0, survives);
            let found = payloads(&read(&lost));
            assert!(
                found.len() >= covered,
                "{changes} {pattern}: {}",
                found.len()
            );
            assert_eq!(found, all[..found.len()], "{changes} {pattern}");
        }
        if !ended {
            break;
        }
        changes += 1;
    }
    assert!(changes > 5, "the start has changes to be cut off at");
}

/// After a clean stop hardly anything is written again: a start must not take longer for it.
#[test]
fn what_is_known_to_be_durable_is_not_written_again() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    // The last frame is not the first one of its segment, so the header is vouched for.
    commit_many(&mut log, 11, 1400);
    drop(log);
    // One write for the last frame, which nothing vouches for. Then the new segment: zeros and its header.
    let copy = disk.after_process_end();
    fail_write_after(&copy, 0, EIO);
    let error = read(&copy).into_log(identity(2)).unwrap_err();
    assert!(
        error.to_string().contains("write again what was read"),
        "{error}"
    );
    let copy = disk.after_process_end();
    fail_write_after(&copy, 1, EIO);
    let error = read(&copy).into_log(identity(2)).unwrap_err();
    assert!(matches!(error, WriteError::Segment(_)), "{error}");
}
