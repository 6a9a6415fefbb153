//! A full disk: what `room` admitted is always written, the rest is refused in time, and the log goes on
//! when there is space again.

use crate::small_log::*;
use proptest::prelude::*;
use quorlock_persistence::{DiskFault, DiskOperation, FrameBatch, Log, MemoryDisk, WriteError};

/// Appends while `room` admits it, then returns how many frames that were.
fn append_what_is_admitted(log: &mut Log, length: usize) -> u64 {
    let mut admitted = 0;
    while log.appender.room() >= length as u64 {
        append(log, &payload(length, length));
        admitted += 1;
        assert!(
            admitted < 10_000,
            "the disk is full, but room does not shrink"
        );
    }
    admitted
}

#[test]
fn a_full_disk_refuses_in_time_and_resumes() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    disk.leave_room(0);
    assert!(!log.appender.is_full() && !log.appender.needs_preparing());
    assert!(!log.preparer.prepare().unwrap());
    assert!(log.appender.is_full() && log.appender.needs_preparing());
    assert_eq!(
        names(&disk),
        [FIRST],
        "what could not be finished takes no space"
    );

    let before = append_what_is_admitted(&mut log, 1000);
    assert!(before > 0 && log.appender.room() < 1000);
    write(&mut log);
    assert_eq!(log.writer.sync().unwrap().get(), before);
    assert!(!log.preparer.prepare().unwrap());

    disk.set_capacity(None);
    assert!(log.preparer.prepare().unwrap());
    assert!(!log.appender.is_full() && log.appender.room() >= 1000);
    assert!(!log.appender.needs_preparing());
    assert_eq!(
        log.appender.room(),
        2000,
        "with a spare segment the largest frame always fits"
    );
    let after = append_what_is_admitted(&mut log, 1000);
    write(&mut log);
    assert_eq!(log.writer.sync().unwrap().get(), before + after);
    assert_eq!(read(&disk).summary().last.get(), before + after);
}

/// Five nodes in one process took all descriptors, and the disk was called full with gigabytes free.
#[test]
fn too_few_descriptors_are_no_full_disk() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    disk.plan_fault(&[DiskOperation::Create], 0, DiskFault::Error(EMFILE));
    assert!(!log.preparer.prepare().unwrap());
    assert!(log.appender.is_full() && log.appender.is_out_of_files());
    assert!(log.preparer.prepare().unwrap());
    assert!(!log.appender.is_full() && !log.preparer.is_out_of_files());
    disk.leave_room(0);
    append_what_is_admitted(&mut log, 1000);
    write(&mut log);
    assert!(!log.preparer.prepare().unwrap());
    assert!(log.appender.is_full() && !log.appender.is_out_of_files());

    let disk = MemoryDisk::new();
    disk.plan_fault(&[DiskOperation::Create], 0, DiskFault::Error(EMFILE));
    let error = read(&disk).into_log(identity(1)).unwrap_err();
    assert!(matches!(error, WriteError::NoFiles(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("ulimit -n"), "{text}");
    assert!(!text.contains("check the disk"), "{text}");
}

const EMFILE: i32 = 24;

#[test]
fn the_reserve_is_left_for_control_records() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    log.preparer.prepare().unwrap();
    disk.leave_room(0);
    for length in [1000, 100, 1] {
        append_what_is_admitted(&mut log, length);
    }
    assert_eq!(log.appender.room(), 0);
    // 256 bytes of reserve are four records of 64 bytes.
    for _ in 0..4 {
        append(&mut log, &[7; 24]);
    }
    write(&mut log);
    let last = log.writer.sync().unwrap();
    assert_eq!(read(&disk).summary().last, last);
}

#[test]
fn more_than_was_admitted_ends_the_log_with_a_clear_error() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    disk.leave_room(0);
    for _ in 0..20 {
        append(&mut log, &[7; 1000]);
    }
    let mut batch = log.appender.take(FrameBatch::default());
    let error = log.writer.write(&mut batch).unwrap_err();
    assert!(matches!(error, WriteError::NoSpace(_)), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    // What was written before is whole, and the next start finds it.
    disk.set_capacity(None);
    assert!(read(&disk).summary().only_zeros_follow);
}

#[test]
fn a_preparer_that_is_behind_is_not_a_full_disk() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    append_what_is_admitted(&mut log, 500);
    assert!(!log.appender.is_full());
    // Control records and a command that was admitted by a slow caller still go through.
    for number in 0..20 {
        append(&mut log, &payload(number, 2000));
    }
    assert!(log.appender.rotations() > 1);
    write(&mut log);
    assert!(log.preparer.prepare().unwrap());
    assert!(log.appender.room() >= 2000);
    let last = log.writer.sync().unwrap();
    assert_eq!(read(&disk).summary().last, last);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_room_admits_is_always_written(
        spares in 0_usize..3,
        frames in prop::collection::vec((1_usize..=2000, any::<bool>()), 1..60),
    ) {
        let disk = MemoryDisk::new();
        let mut log = open(&disk);
        for spare in 0..spares {
            prop_assert!(log.preparer.prepare().unwrap());
            if spare + 1 < spares {
                // Entering a segment lets the preparer make another one.
                while log.appender.rotations() == spare as u64 {
                    append(&mut log, &payload(spare, 2000));
                }
                prop_assert!(log.preparer.prepare().unwrap());
            }
        }
        disk.leave_room(0);
        for (length, is_written) in frames {
            if log.appender.room() >= length as u64 {
                append(&mut log, &payload(length, length));
            }
            if is_written {
                let mut batch = log.appender.take(FrameBatch::default());
                prop_assert!(log.writer.write(&mut batch).is_ok());
            }
        }
        for _ in 0..4 {
            append(&mut log, &[7; 24]);
        }
        let expected = log.appender.next_position().get() - 1;
        let mut batch = log.appender.take(FrameBatch::default());
        prop_assert!(log.writer.write(&mut batch).is_ok());
        prop_assert_eq!(log.writer.sync().unwrap().get(), expected);
        prop_assert_eq!(read(&disk).summary().last.get(), expected);
    }
}
