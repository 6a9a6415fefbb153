//! Segments with the names of earlier versions: read as they are, and renamed by a start.

use crate::small_log::*;
use quorlock_persistence::{
    Disk, Inspection, MemoryDisk, PowerLoss, RealDisk, Recovery, RecoveryError, Repair,
};
use std::fs;
use std::sync::Arc;

/// Four segments with synced frames, one of them made ahead, with the names of earlier versions; and the payloads.
fn earlier_log() -> (MemoryDisk, Vec<Vec<u8>>) {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    let payloads = commit_many(&mut log, 12, 1000);
    log.preparer.prepare().unwrap();
    drop(log);
    for name in names(&disk) {
        disk.rename(&name, &earlier(&name)).unwrap();
    }
    disk.sync_dir().unwrap();
    assert_eq!(names(&disk).len(), 4);
    (disk, payloads)
}

fn earlier(name: &str) -> String {
    name.replace(".segment", ".log")
}

fn assert_holds(disk: &MemoryDisk, expected: &[Vec<u8>], place: &str) {
    let recovery = try_read(disk).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert!(payloads(&recovery) == expected, "{place}: other payloads");
    assert!(recovery.summary().foreign_files.is_empty(), "{place}");
}

/// A crash after each single change, and a power loss that takes any of the names that were not synced then.
#[test]
fn a_start_renames_them_and_a_crash_at_any_moment_loses_nothing() {
    let (disk, expected) = earlier_log();
    disk.record_points();
    drop(open(&disk));
    let points = disk.take_points();
    let mut mixed = 0;
    for (index, point) in points.iter().enumerate() {
        let place = format!("{index}: {:?} {}", point.operation, point.file);
        assert_holds(&point.disk, &expected, &place);
        let unsynced = point.disk.unsynced().names.len();
        for choice in 0..1_u32 << unsynced {
            let survive: Vec<bool> = (0..unsynced).map(|bit| choice >> bit & 1 == 1).collect();
            let left = point.disk.after_loss_of_names(&survive);
            let left = left.after_loss(&PowerLoss::default());
            assert_holds(&left, &expected, &format!("{place}, names {choice:b}"));
            let earlier = names(&left)
                .iter()
                .filter(|name| name.ends_with(".log"))
                .count();
            mixed += usize::from(earlier > 0 && earlier < names(&left).len());
            // The start after the crash finishes what was begun.
            drop(open(&left));
            assert!(
                names(&left).iter().all(|name| name.ends_with(".segment")),
                "{place}"
            );
            assert_holds(&left, &expected, &place);
        }
    }
    assert!(mixed > 4, "{mixed} states with names of both kinds");
    assert!(names(&disk).iter().all(|name| name.ends_with(".segment")));
}

/// On a real disk as well, where renaming is the system's.
#[test]
fn a_log_on_a_real_disk_is_renamed() {
    let directory = tempfile::tempdir().unwrap();
    let expected = commit_many(&mut open_real(directory.path()), 12, 1000);
    let path = |name: &str| directory.path().join(name);
    for name in [FIRST, SECOND] {
        fs::rename(path(name), path(&earlier(name))).unwrap();
    }
    drop(open_real(directory.path()));
    assert!(path(FIRST).exists() && !path(&earlier(FIRST)).exists());
    let recovery = Recovery::read(RealDisk::open(directory.path()).unwrap(), &options());
    assert!(payloads(&recovery.unwrap()) == expected);
}

/// Nothing tells which of the two is the log's, so neither is passed over in silence.
#[test]
fn a_number_with_both_names_is_refused() {
    for number in 0..4 {
        let (disk, _) = earlier_log();
        let earlier_name = names(&disk)[number].clone();
        let name = earlier_name.replace(".log", ".segment");
        disk.create(&name).unwrap();
        let copy = content(&disk, &earlier_name);
        disk.edit(&name, |bytes| *bytes = copy);
        let before = names(&disk);
        let error = try_read(&disk).unwrap_err();
        assert!(matches!(error, RecoveryError::Damaged { .. }), "{error}");
        let said = error.to_string();
        assert!(
            said.contains(&name) && said.contains(&earlier_name),
            "{said}"
        );
        assert_eq!(names(&disk), before, "nothing was changed");
        let plan = Repair::plan(Arc::new(disk.clone()), &options()).unwrap();
        let set_aside = plan.set_aside();
        assert!(set_aside.contains(&name) && set_aside.contains(&earlier_name));
    }
}

#[test]
fn tools_read_them_under_the_names_they_have() {
    let (disk, expected) = earlier_log();
    let inspection = Inspection::open(Arc::new(disk.clone())).unwrap();
    let mut found = Vec::new();
    let judgement = inspection.judge(&options()).unwrap();
    for part in &judgement.parts {
        assert!(inspection.file_of(part.number).ends_with(".log"));
        // A node that starts meanwhile gives them their new names.
        if found.len() > 3 {
            drop(open(&disk));
        }
        let content = inspection.read(part).unwrap();
        found.extend(content.frames().map(|frame| frame.frame.payload.to_vec()));
    }
    assert!(found == expected);
}

#[test]
fn an_error_says_the_name_that_the_file_has() {
    let (disk, _) = earlier_log();
    let first = earlier(FIRST);
    let (begin, _) = frame_ranges(&disk, &first)[1];
    disk.edit(&first, |bytes| bytes[begin] ^= 1);
    let error = try_read(&disk).unwrap_err().to_string();
    assert!(error.contains(&first) && !error.contains(FIRST), "{error}");
}
