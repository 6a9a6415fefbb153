//! What a crash leaves, fault by fault.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::super::RealDisk;
use super::{Disk, DiskFault, DiskOperation, Fate, MemoryDisk, PowerLoss, Sector};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk with one synced file of three sectors, of which one was written again.
fn disk() -> MemoryDisk {
    let disk = MemoryDisk::with_power_loss();
    let file = disk.create("a").unwrap();
    file.write_at(0, &[1; 1536]).unwrap();
    file.sync().unwrap();
    disk.sync_dir().unwrap();
    file.write_at(600, &[2; 100]).unwrap();
    disk
}

fn content(disk: &MemoryDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn names(disk: &MemoryDisk) -> Vec<String> {
    let entries = disk.list().unwrap().into_iter();
    entries.map(|entry| entry.name).collect()
}

#[test]
fn a_sector_is_lost_kept_torn_or_garbage_and_its_synced_bytes_stay() {
    let disk = disk();
    assert_eq!(
        disk.unsynced().sectors,
        [Sector {
            file: "a".to_owned(),
            number: 1
        }]
    );
    for (fate, first, last) in [
        (Fate::Lost, 1, 1),
        (Fate::Kept, 2, 2),
        (Fate::FirstHalf, 2, 2),
        (Fate::SecondHalf, 1, 1),
    ] {
        let left = disk.after_loss(&PowerLoss {
            sectors: vec![fate],
            ..PowerLoss::default()
        });
        let bytes = content(&left, "a");
        assert_eq!((bytes[600], bytes[699]), (first, last), "{fate:?}");
        assert!(left.unsynced().is_empty());
    }
    let garbage = disk.after_loss(&PowerLoss {
        sectors: vec![Fate::Garbage],
        ..PowerLoss::default()
    });
    let bytes = content(&garbage, "a");
    assert!(bytes[600] != 1 && bytes[600] != 2);
    assert!(
        bytes[512..600]
            .iter()
            .chain(&bytes[700..])
            .all(|byte| *byte == 1)
    );
}

#[test]
fn a_length_survives_without_data_and_data_brings_its_length() {
    let disk = MemoryDisk::with_power_loss();
    let file = disk.create("a").unwrap();
    disk.sync_dir().unwrap();
    file.write_at(0, &[7; 1100]).unwrap();
    assert_eq!(disk.unsynced().lengths, ["a"]);
    let loss = |lengths: &[bool], sectors: &[Fate]| {
        content(
            &disk.after_loss(&PowerLoss {
                names: Vec::new(),
                lengths: lengths.to_vec(),
                sectors: sectors.to_vec(),
            }),
            "a",
        )
    };
    assert!(loss(&[false], &[]).is_empty());
    assert_eq!(loss(&[true], &[]), [0; 1100]);
    let second = loss(&[false], &[Fate::Lost, Fate::Kept]);
    assert_eq!(second.len(), 1024);
    assert_eq!((second[511], second[512]), (0, 7));
}

#[test]
fn any_subset_of_unsynced_names_survives() {
    let disk = disk();
    disk.create("b").unwrap();
    disk.rename("b", "c").unwrap();
    disk.remove("a").unwrap();
    let changes = disk.unsynced().names;
    assert_eq!(changes, ["create b", "rename b to c", "remove a"]);
    let left = |survive: [bool; 3]| names(&disk.after_loss_of_names(&survive));
    assert_eq!(left([false, false, false]), ["a"]);
    assert_eq!(left([true, false, false]), ["a", "b"]);
    assert_eq!(left([false, true, false]), ["a", "c"]);
    assert_eq!(left([true, true, true]), ["c"]);
    assert!(left([false, false, true]).is_empty());
    disk.sync_dir().unwrap();
    assert!(disk.unsynced().names.is_empty());
}

#[test]
fn a_failed_sync_gives_its_data_up_and_the_next_one_says_nothing() {
    let disk = disk();
    let file = disk.open("a").unwrap();
    disk.fail_sync_after(0, 5);
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
    file.sync().unwrap();
    assert_eq!(content(&disk, "a")[600], 2, "the cache still has it");
    assert_eq!(
        content(&disk.after_loss(&PowerLoss::default()), "a")[600],
        1
    );
    assert_eq!(content(&disk.after_eviction(), "a")[600], 1);
    assert_eq!(content(&disk.after_process_end(), "a")[600], 2);
    // Written again, the page is dirty again, and a sync is a sync.
    file.write_at(600, &[2; 1]).unwrap();
    file.sync().unwrap();
    assert_eq!(
        content(&disk.after_loss(&PowerLoss::default()), "a")[600],
        2
    );
    assert_eq!(
        disk.take_faults(),
        [(DiskOperation::Sync, DiskFault::Error(5))]
    );
}

#[test]
fn a_lying_sync_makes_nothing_durable_until_a_true_one_does() {
    let disk = disk();
    disk.lie_about_syncs(true);
    disk.open("a").unwrap().sync().unwrap();
    disk.create("b").unwrap();
    disk.sync_dir().unwrap();
    let lost = disk.after_power_loss(false, |_, _| false);
    assert_eq!(
        (names(&lost), content(&lost, "a")[600]),
        (vec!["a".to_owned()], 1)
    );
    disk.lie_about_syncs(false);
    disk.open("a").unwrap().sync().unwrap();
    let kept = disk.after_power_loss(false, |_, _| false);
    assert_eq!(content(&kept, "a")[600], 2);
}

#[test]
fn operations_fail_where_they_were_asked_to_and_once() {
    let disk = disk();
    let file = disk.open("a").unwrap();
    disk.plan_fault(&[DiskOperation::Write], 1, DiskFault::Short(3, 28));
    disk.plan_fault(
        &[DiskOperation::Rename, DiskOperation::Remove],
        0,
        DiskFault::Error(5),
    );
    file.write_at(0, b"whole").unwrap();
    let error = file.write_at(10, b"abcdef").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(&content(&disk, "a")[10..16], b"abc\x01\x01\x01");
    assert!(disk.rename("a", "b").is_err());
    disk.rename("a", "b").unwrap();
    assert_eq!(names(&disk), ["b"]);
}

#[test]
fn a_slow_sync_calls_its_hook_which_may_use_the_disk() {
    let disk = disk();
    let calls = Arc::new(AtomicU64::new(0));
    let (counter, same) = (Arc::clone(&calls), disk.clone());
    disk.on_sync(Arc::new(move || {
        let files = same.list().map_or(0, |entries| entries.len() as u64);
        counter.fetch_add(files, Ordering::Relaxed);
    }));
    disk.open("a").unwrap().sync().unwrap();
    disk.sync_dir().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[test]
fn every_change_is_recorded_with_the_disk_after_it() {
    let disk = disk();
    disk.record_points();
    disk.open("a").unwrap().write_at(0, b"x").unwrap();
    disk.rename("a", "b").unwrap();
    let points = disk.take_points();
    let operations: Vec<DiskOperation> = points.iter().map(|point| point.operation).collect();
    assert_eq!(operations, [DiskOperation::Write, DiskOperation::Rename]);
    assert_eq!(content(&points[0].disk, "a")[0], b'x');
    assert_eq!(names(&points[1].disk), ["b"]);
    assert!(disk.take_points().is_empty());
}

#[test]
fn one_node_at_a_time_has_a_disk() {
    let home = tempfile::tempdir().unwrap();
    let (first, real) = (MemoryDisk::new(), RealDisk::open(home.path()).unwrap());
    let other = MemoryDisk::new();
    let disks: [(&dyn Disk, &dyn Disk); 2] = [(&first, &first.clone()), (&*real, &*real)];
    for (disk, same) in disks {
        let hold = disk.hold().unwrap();
        drop(other.hold().unwrap());
        let refused = same.hold().unwrap_err().to_string();
        for part in ["in use by another node of this process", "its `stop`"] {
            assert!(refused.contains(part), "{refused}");
        }
        drop(hold);
        drop(same.hold().unwrap());
    }
}

#[test]
fn a_copy_of_a_disk_has_no_holder_yet() {
    let disk = MemoryDisk::with_power_loss();
    let _hold = disk.hold().unwrap();
    for copy in [
        disk.after_process_end(),
        disk.after_loss(&PowerLoss::default()),
    ] {
        let _hold = copy.hold().unwrap();
    }
}
