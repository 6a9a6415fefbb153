//! Writes past the page cache: on disks with blocks of every size, torn at every sector, refused at any time,
//! begun and ended while the log runs.

use crate::small_log::*;
use quorlock_persistence::{
    Disk, DiskFault, DiskOperation, FrameBatch, Log, LogOptions, MemoryDisk, RealDisk, Recovery,
    WriteError,
};
use std::sync::Arc;

const INVALID: i32 = 22;
const INPUT_OUTPUT: i32 = 5;
const NO_SPACE: i32 = 28;

/// Segments that hold whole blocks of up to 64 KiB.
fn direct() -> LogOptions {
    LogOptions {
        first_segment_bytes: 128 << 10,
        segment_bytes: 192 << 10,
        frame_bytes_max: 100_000,
        writes_direct: true,
        ..options()
    }
}

fn disk_of_blocks(bytes: usize) -> MemoryDisk {
    let disk = MemoryDisk::with_power_loss();
    disk.set_direct_blocks(Some(bytes));
    disk
}

fn open_with(disk: &MemoryDisk, options: &LogOptions) -> Log {
    let recovery = Recovery::read(Arc::new(disk.clone()), options).unwrap();
    recovery.into_log(identity(1)).unwrap()
}

fn found(disk: &MemoryDisk) -> Vec<Vec<u8>> {
    payloads(&Recovery::read(Arc::new(disk.clone()), &direct()).unwrap())
}

fn try_commit(log: &mut Log, payload: &[u8]) -> Result<(), WriteError> {
    append(log, payload);
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).map(|_| ())
}

/// Whether the log writes past the page cache now: then a disk that has no such writes any more refuses.
fn is_direct(log: &mut Log, disk: &MemoryDisk) -> bool {
    disk.set_direct_blocks(None);
    try_commit(log, b"last").is_err()
}

#[test]
fn frames_of_every_size_are_read_back_from_blocks_of_every_size() {
    for block in [512, 4 << 10, 16 << 10, 64 << 10] {
        let disk = disk_of_blocks(block);
        let mut log = open_with(&disk, &direct());
        let mut all = Vec::new();
        for round in 0..3 {
            for length in [0, 1, 80, 4000, 4056, 4096, 16_300, 70_000, 100_000] {
                all.push(payload(all.len() + round, length));
                append(&mut log, all.last().unwrap());
                if length % 3 != 0 {
                    write(&mut log);
                    log.writer.sync().unwrap();
                    assert!(log.preparer.prepare().unwrap());
                }
            }
        }
        write(&mut log);
        log.writer.sync().unwrap();
        assert!(log.appender.rotations() > 2);
        assert!(is_direct(&mut log, &disk), "blocks of {block} bytes");
        assert_eq!(found(&disk), all, "blocks of {block} bytes");
        let lost = disk.after_power_loss(false, |_, _| false);
        assert_eq!(found(&lost), all, "blocks of {block} bytes");
    }
}

#[test]
fn one_batch_longer_than_the_buffer_is_written_in_parts() {
    let options = LogOptions {
        first_segment_bytes: 4 << 20,
        ..direct()
    };
    let disk = disk_of_blocks(4096);
    let mut log = open_with(&disk, &options);
    let all: Vec<_> = (0..30).map(|number| payload(number, 50_000)).collect();
    all.iter().for_each(|payload| {
        append(&mut log, payload);
    });
    disk.record_points();
    write(&mut log);
    assert_eq!(disk.take_points().len(), 6, "1.5 MB by 256 KiB");
    log.writer.sync().unwrap();
    assert_eq!(found(&disk.after_power_loss(true, |_, _| false)), all);
}

#[test]
fn a_block_that_is_written_again_and_torn_at_any_sector_keeps_what_was_synced() {
    for block in [4 << 10, 16 << 10] {
        let disk = disk_of_blocks(block);
        let mut log = open_with(&disk, &direct());
        let mut all = commit_many(&mut log, 9, 200);
        for number in 9..14 {
            all.push(payload(number, 500));
            append(&mut log, &all[number]);
            write(&mut log);
        }
        let sectors = disk.unsynced().sectors;
        assert!((4..=9).contains(&sectors.len()), "{}", sectors.len());
        for subset in 0_u32..1 << sectors.len() {
            let lost = disk.after_power_loss(true, |name, number| {
                let is_it = |sector: &quorlock_persistence::Sector| {
                    sector.file == name && sector.number == number
                };
                subset >> sectors.iter().position(is_it).unwrap() & 1 == 1
            });
            let found = found(&lost);
            assert!(found.len() >= 9, "subset {subset:b}");
            assert_eq!(found, all[..found.len()], "subset {subset:b}");
        }
    }
}

#[test]
fn a_disk_that_refuses_direct_writes_is_written_through_the_page_cache() {
    // Blocks that are larger than any that is tried, or than the segments.
    for block in [Some(128 << 10), Some(64 << 10), None] {
        let disk = MemoryDisk::with_power_loss();
        disk.set_direct_blocks(block);
        let options = LogOptions {
            first_segment_bytes: 64 << 10,
            segment_bytes: 64 << 10,
            frame_bytes_max: 2000,
            ..direct()
        };
        let mut log = open_with(&disk, &options);
        let all = commit_many(&mut log, 100, 1500);
        assert!(!is_direct(&mut log, &disk), "{block:?}");
        assert_eq!(found(&disk)[..100], all);
    }
}

/// A device that does not like it: nothing is tried either.
#[test]
fn a_log_that_must_not_write_direct_does_not_try() {
    let disk = disk_of_blocks(4096);
    disk.on_direct_write(Arc::new(|| panic!("a direct write")));
    let buffered = LogOptions {
        allows_direct: false,
        ..direct()
    };
    let mut log = open_with(&disk, &buffered);
    let all = commit_many(&mut log, 200, 1500);
    assert!(log.appender.rotations() > 0);
    assert_eq!(found(&disk), all);
}

#[test]
fn a_segment_whose_probe_is_refused_is_written_through_the_page_cache_and_the_next_is_not() {
    let disk = disk_of_blocks(4096);
    // The zeros of the first segment and its header, then the blocks that are tried.
    for skipped in [2, 3, 4] {
        disk.plan_fault(&[DiskOperation::Write], skipped, DiskFault::Error(INVALID));
    }
    let mut log = open_with(&disk, &direct());
    assert_eq!(disk.take_faults().len(), 3);
    let all = commit_many(&mut log, 100, 1500);
    assert!(log.appender.rotations() > 0);
    assert!(is_direct(&mut log, &disk));
    assert_eq!(found(&disk), all);
}

/// It ended the log, or the start. Only a disk that fails does not take the block through the page cache either.
#[test]
fn a_segment_whose_probe_fails_is_written_through_the_page_cache_unless_that_fails_as_well() {
    // The zeros of the first segment and its header, then the block that is tried.
    for (operation, skipped) in [(DiskOperation::Open, 0), (DiskOperation::Write, 2)] {
        let disk = disk_of_blocks(4096);
        disk.plan_fault(&[operation], skipped, DiskFault::Error(INPUT_OUTPUT));
        let mut log = open_with(&disk, &direct());
        assert_eq!(disk.take_faults().len(), 1);
        let failure = log.preparer.take_direct_failure().unwrap().to_string();
        assert!(failure.contains("os error 5"), "{failure}");
        assert!(log.preparer.take_direct_failure().is_none(), "told once");
        let all = commit_many(&mut log, 100, 1500);
        assert!(log.appender.rotations() > 0);
        assert!(log.preparer.take_direct_failure().is_none());
        assert!(is_direct(&mut log, &disk), "the next segment is");
        assert_eq!(found(&disk), all);
    }
    for (operation, skipped) in [(DiskOperation::Write, 3), (DiskOperation::Sync, 1)] {
        let disk = disk_of_blocks(4096);
        disk.plan_fault(&[DiskOperation::Write], 2, DiskFault::Error(INPUT_OUTPUT));
        disk.plan_fault(&[operation], skipped, DiskFault::Error(INPUT_OUTPUT));
        let recovery = Recovery::read(Arc::new(disk.clone()), &direct()).unwrap();
        let opened = recovery.into_log(identity(1));
        assert!(opened.is_err(), "{operation:?}");
    }
}

#[test]
fn a_failed_write_of_a_block_ends_the_log_and_what_was_synced_stays() {
    let faults = [
        DiskFault::Error(INVALID),
        DiskFault::Error(INPUT_OUTPUT),
        DiskFault::Error(NO_SPACE),
        DiskFault::Short(700, INPUT_OUTPUT),
        DiskFault::Short(3, NO_SPACE),
    ];
    for fault in faults {
        let disk = disk_of_blocks(4096);
        let mut log = open_with(&disk, &direct());
        let all = commit_many(&mut log, 3, 200);
        disk.plan_fault(&[DiskOperation::Write], 0, fault);
        let error = try_commit(&mut log, &payload(3, 300)).unwrap_err();
        assert!(error.to_string().contains(FIRST), "{error}");
        assert!(try_commit(&mut log, &payload(4, 300)).is_err(), "final");
        for sectors_survive in [false, true] {
            let lost = disk.after_power_loss(true, |_, _| sectors_survive);
            assert_eq!(found(&lost), all, "{fault:?}");
        }
    }
}

/// A remount, say: what the file system took when the segment was made it takes no more.
#[test]
fn a_file_system_that_changes_its_mind_ends_the_log_and_the_next_start_goes_on_without() {
    let disk = disk_of_blocks(4096);
    let mut log = open_with(&disk, &direct());
    let mut all = commit_many(&mut log, 3, 200);
    disk.set_direct_blocks(None);
    let error = try_commit(&mut log, b"refused").unwrap_err();
    assert!(error.to_string().contains("write"), "{error}");
    drop(log);
    let mut log = open_with(&disk, &direct());
    all.push(payload(3, 200));
    try_commit(&mut log, &all[3]).unwrap();
    log.writer.sync().unwrap();
    assert_eq!(found(&disk.after_power_loss(true, |_, _| false)), all);
}

#[test]
fn a_live_change_begins_a_segment_that_is_written_in_the_other_way() {
    let disk = disk_of_blocks(4096);
    let buffered = LogOptions {
        writes_direct: false,
        ..direct()
    };
    let mut log = open_with(&disk, &buffered);
    let mut all = Vec::new();
    for (number, to) in [true, true, false, true].into_iter().enumerate() {
        assert!(log.preparer.prepare().unwrap());
        all.extend([payload(2 * number, 200), payload(2 * number + 1, 300)]);
        append(&mut log, &all[2 * number]);
        log.appender.write_direct(to);
        append(&mut log, &all[2 * number + 1]);
        write(&mut log);
        log.writer.sync().unwrap();
        assert_eq!(log.appender.rotations(), [1, 1, 2, 3][number]);
    }
    assert_eq!(found(&disk.after_power_loss(true, |_, _| false)), all);
    assert!(is_direct(&mut log, &disk));
}

#[test]
fn a_live_change_waits_for_the_segment_it_needs() {
    let disk = disk_of_blocks(4096);
    let buffered = LogOptions {
        writes_direct: false,
        ..direct()
    };
    let mut log = open_with(&disk, &buffered);
    log.appender.write_direct(true);
    let mut all = commit_many(&mut log, 2, 200);
    assert_eq!(log.appender.rotations(), 0, "no segment is made yet");
    assert!(log.preparer.prepare().unwrap());
    all.push(payload(2, 200));
    commit(&mut log, &all[2]);
    assert_eq!(log.appender.rotations(), 1);
    assert!(log.preparer.prepare().unwrap());
    all.push(payload(3, 200));
    commit(&mut log, &all[3]);
    assert_eq!(log.appender.rotations(), 1, "once");
    assert!(is_direct(&mut log, &disk));
    assert_eq!(found(&disk), all);
}

/// The machine's own file systems: one that takes direct writes, or not, and one in memory.
#[test]
fn a_log_in_a_directory_is_read_back_whatever_its_file_system_offers() {
    for directory in [std::env::temp_dir(), "/dev/shm".into()] {
        let Ok(directory) = tempfile::tempdir_in(directory) else {
            continue;
        };
        let all = {
            let disk = RealDisk::open(directory.path()).unwrap();
            let recovery = Recovery::read(disk, &direct()).unwrap();
            let mut log = recovery.into_log(identity(1)).unwrap();
            let all = commit_many(&mut log, 300, 1500);
            assert!(log.appender.rotations() > 1);
            all
        };
        let disk = RealDisk::open(directory.path()).unwrap();
        let recovery = Recovery::read(disk as Arc<dyn Disk>, &direct()).unwrap();
        assert_eq!(payloads(&recovery), all);
    }
}
