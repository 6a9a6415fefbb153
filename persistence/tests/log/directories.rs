//! Directories that are somebody else's, in use, incomplete or full of other things.

use crate::small_log::*;
use quorlock_persistence::{
    DirectoryUse, Disk, FrameBatch, FrameKind, LogOptions, MemoryDisk, OpenError, RealDisk,
    Recovery, RecoveryError, WriteError,
};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Three segments with synced frames.
fn three_segments() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    commit_many(&mut log, 12, 1000);
    drop(log);
    assert_eq!(names(&disk).len(), 3);
    disk
}

#[test]
fn a_second_handle_is_refused_until_the_first_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(directory.path()).unwrap();
    let error = RealDisk::open(directory.path()).unwrap_err();
    assert!(
        matches!(error, OpenError::Locked { holder: Some(id), .. } if id == std::process::id())
    );
    assert!(
        error
            .to_string()
            .contains("in use by another node of this process"),
        "{error}"
    );
    drop(disk);
    RealDisk::open(directory.path()).unwrap();
}

/// Another user of the machine could have given any file this second name.
#[test]
fn a_lock_file_that_is_another_file_as_well_keeps_its_bytes_and_locks() {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("quorlock.lock");
    let precious = directory.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    fs::hard_link(&precious, &lock).unwrap();
    let _disk = RealDisk::open(directory.path()).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    let error = RealDisk::open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    let other = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&precious, other.path().join("quorlock.lock")).unwrap();
    RealDisk::open(other.path()).unwrap_err();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

/// Both served, both granted the same lock, and what either had acknowledged was gone after a restart.
#[test]
fn a_second_handle_is_refused_also_where_the_lock_file_was_removed_or_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("quorlock.lock");
    let _disk = RealDisk::open(directory.path()).unwrap();
    let deeds: [fn(&Path); 3] = [
        |_| {},
        |lock| fs::write(lock, "1\n").unwrap(),
        |lock| {
            fs::write(lock.with_extension("other"), "1\n").unwrap();
            fs::rename(lock.with_extension("other"), lock).unwrap();
        },
    ];
    for deed in deeds {
        fs::remove_file(&lock).unwrap();
        deed(&lock);
        let error = RealDisk::open(directory.path()).unwrap_err();
        assert!(matches!(error, OpenError::Locked { .. }), "{error}");
        let usage = RealDisk::view(directory.path()).unwrap().usage();
        assert!(matches!(usage.unwrap(), DirectoryUse::Taken(_)));
    }
}

/// Tools look beside a running node.
#[test]
fn a_view_reads_beside_the_holder_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(directory.path()).unwrap();
    disk.create("kept").unwrap().write_at(0, b"kept").unwrap();
    let view = RealDisk::view(directory.path()).unwrap();
    let before = names_in(directory.path());
    for (what, refused) in [
        ("create", view.create("made").map(drop)),
        ("direct", view.open_direct("kept").map(drop)),
        ("rename", view.rename("kept", "renamed")),
        ("remove", view.remove("kept")),
        ("sync", view.sync_dir()),
        ("folder", view.make_folder("made")),
        ("sync of a folder", view.sync_folder("kept")),
    ] {
        let error = refused.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{what}");
    }
    let file = view.open("kept").unwrap();
    file.write_at(0, b"lost").unwrap_err();
    let mut bytes = [0; 5];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 4);
    assert_eq!(&bytes, b"kept\0");
    assert_eq!(names_in(directory.path()), before);
    let holder = DirectoryUse::Taken(Some(std::process::id()));
    assert_eq!(view.usage().unwrap(), holder);
    drop(disk);
    assert_eq!(view.usage().unwrap(), DirectoryUse::Free);
    RealDisk::open(directory.path()).unwrap();
}

fn names_in(directory: &Path) -> BTreeSet<std::ffi::OsString> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

/// Run by the next test in a process of its own; on its own it has nothing to do.
#[test]
fn the_other_process() {
    if let Some(path) = std::env::var_os("LOG_TEST_LOCKED_DIRECTORY") {
        assert!(matches!(
            RealDisk::open(path),
            Err(OpenError::Locked { .. })
        ));
    }
}

#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let try_from_other_process = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "directories::the_other_process"])
            .env("LOG_TEST_LOCKED_DIRECTORY", directory.path())
            .output()
            .unwrap()
    };
    let disk = RealDisk::open(directory.path()).unwrap();
    assert!(try_from_other_process().status.success());
    drop(disk);
    assert!(
        !try_from_other_process().status.success(),
        "the other process must really have tried"
    );
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [directory.path().join("missing"), file, "/proc".into()] {
        let error = RealDisk::open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Directory { .. }), "{error}");
        assert!(
            error.to_string().contains("must exist and be writable"),
            "{error}"
        );
    }
}

#[test]
fn files_that_are_not_ours_are_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("node.json"), "{}").unwrap();
    fs::create_dir(directory.path().join("segment-1.log")).unwrap();
    fs::write(directory.path().join("segment-0000000009.new"), "half made").unwrap();
    let recovery = Recovery::read(RealDisk::open(directory.path()).unwrap(), &options()).unwrap();
    assert_eq!(
        recovery.summary().foreign_files,
        ["node.json", "segment-1.log"]
    );
    assert!(recovery.summary().is_empty);
    commit(&mut recovery.into_log(identity(1)).unwrap(), b"x");
    let mut names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["node.json", "quorlock.lock", FIRST, "segment-1.log"]
    );
}

#[test]
fn what_has_the_name_of_a_segment_must_be_one() {
    for make in [
        |path: &Path| fs::write(path, "").unwrap(),
        |path: &Path| fs::write(path, "QUORLOCK").unwrap(),
        |path: &Path| fs::write(path, [b'x'; 12288]).unwrap(),
        |path: &Path| fs::write(path, [0; 12288]).unwrap(),
        // Longer than any segment, and not one byte on the disk.
        |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        |path: &Path| fs::create_dir(path).unwrap(),
        |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
    ] {
        let directory = tempfile::tempdir().unwrap();
        make(&directory.path().join(FIRST));
        let disk = RealDisk::open(directory.path()).unwrap();
        let error = Recovery::read(disk, &options()).unwrap_err();
        assert!(matches!(error, RecoveryError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(FIRST), "{error}");
    }
}

/// Sparse: not one byte of it is on the disk.
#[test]
fn a_file_is_too_long_from_the_first_byte_beyond_the_longest_segment() {
    for (bytes, is_too_long) in [(64 << 20, false), ((64 << 20) + 1, true), (1 << 34, true)] {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::create(directory.path().join(FIRST)).unwrap();
        file.set_len(bytes).unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let error = Recovery::read(disk, &options()).unwrap_err().to_string();
        let said = error.contains("more than any segment has");
        assert_eq!(said, is_too_long, "{bytes}: {error}");
    }
}

#[test]
fn a_missing_segment_is_named() {
    for missing in [FIRST, SECOND] {
        let disk = three_segments();
        disk.remove(missing).unwrap();
        let error = try_read(&disk).unwrap_err();
        let is_named =
            matches!(&error, RecoveryError::MissingSegment { file } if file.ends_with(missing));
        assert!(is_named, "{missing}: {error}");
    }
    // The newest one is missed because of the one made ahead of it.
    let disk = three_segments();
    open(&disk).preparer.prepare().unwrap();
    disk.remove("segment-0000000004.segment").unwrap();
    let error = try_read(&disk).unwrap_err();
    assert!(
        matches!(error, RecoveryError::MissingSegment { .. }),
        "{error}"
    );
}

/// Both segments are whole, and the older one ends where the newer one says; but it counts otherwise.
#[test]
fn a_first_segment_of_another_log_is_refused_also_where_it_is_as_long() {
    let two_starts = |first: &[usize]| {
        let disk = MemoryDisk::new();
        let mut log = open(&disk);
        for (number, length) in first.iter().enumerate() {
            commit(&mut log, &payload(number, *length));
        }
        drop(log);
        commit(&mut open(&disk), b"second start");
        disk
    };
    // Frames of 144 bytes, and of 288.
    let logs = [two_starts(&[104, 104]), two_starts(&[248])];
    let firsts = logs.each_ref().map(|disk| content(disk, FIRST));
    for (disk, first) in logs.iter().zip(firsts.into_iter().rev()) {
        assert!(payloads(&read(disk)).len() > 1);
        disk.edit(FIRST, |bytes| *bytes = first);
        let error = try_read(disk).unwrap_err();
        assert!(
            matches!(&error, RecoveryError::Damaged { file, offset: 104, .. } if file.ends_with(SECOND)),
            "{error}"
        );
    }
}

#[test]
fn a_segment_under_another_name_is_refused() {
    let disk = three_segments();
    disk.rename(SECOND, "segment-0000000004.segment").unwrap();
    let error = try_read(&disk).unwrap_err();
    assert!(
        error.to_string().contains("it says that it is segment 2"),
        "{error}"
    );
    assert!(
        matches!(error, RecoveryError::Damaged { offset: 64, .. }),
        "{error}"
    );
}

#[test]
fn the_log_of_another_node_is_refused() {
    let disk = three_segments();
    let expected = LogOptions {
        expected_node: Some([9; 20]),
        ..options()
    };
    let error = Recovery::read(Arc::new(disk.clone()), &expected).unwrap_err();
    assert!(
        matches!(error, RecoveryError::ForeignNode { .. }),
        "{error}"
    );
    assert!(error.to_string().contains(&"01".repeat(20)), "{error}");
    let other = quorlock_persistence::LogIdentity {
        node_id: [9; 20],
        ..identity(1)
    };
    let error = read(&disk).into_log(other).unwrap_err();
    assert!(matches!(error, WriteError::ForeignNode { .. }), "{error}");

    // A single segment of another node among ours.
    let other_disk = MemoryDisk::new();
    drop(read(&other_disk).into_log(other).unwrap());
    let foreign = content(&other_disk, FIRST);
    disk.edit(FIRST, |bytes| bytes.copy_from_slice(&foreign));
    let error = try_read(&disk).unwrap_err();
    assert!(
        matches!(&error, RecoveryError::ForeignNode { file, .. } if file.ends_with(FIRST)),
        "{error}"
    );
}

#[test]
fn an_unknown_version_is_refused_and_named() {
    let disk = three_segments();
    disk.edit(SECOND, |bytes| {
        bytes[8] = 7;
        bytes[512 + 8] = 7;
    });
    let error = try_read(&disk).unwrap_err();
    assert!(
        matches!(
            error,
            RecoveryError::UnknownVersion {
                version: 7,
                known: 2,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("newer program"), "{error}");
}

#[test]
fn every_start_opens_a_fresh_segment_and_clears_what_was_made_ahead() {
    let disk = MemoryDisk::new();
    for start in 1..=4_u64 {
        let mut log = open(&disk);
        assert!(log.preparer.prepare().unwrap());
        commit(&mut log, b"one per start");
        let numbers: Vec<_> = (1..=start + 1)
            .map(|number| format!("segment-{number:010}.segment"))
            .collect();
        assert_eq!(names(&disk), numbers);
    }
    assert_eq!(payloads(&read(&disk)).len(), 4);
}

/// A file without a name is synced without an error, and is gone with the process.
#[test]
fn a_segment_removed_under_a_running_log_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = open_real(directory.path());
    commit(&mut log, b"named");
    fs::remove_file(directory.path().join(FIRST)).unwrap();
    append(&mut log, b"nameless");
    write(&mut log);
    for _ in 0..2 {
        let error = log.writer.sync().unwrap_err();
        assert!(matches!(error, WriteError::Removed { .. }), "{error}");
        assert!(error.to_string().contains(FIRST), "{error}");
    }
    assert_eq!(log.writer.durable().get(), 1);
}

/// A ticket may still hold a segment that a checkpoint has made superfluous meanwhile.
#[test]
fn a_segment_that_the_log_itself_has_removed_is_no_loss() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = open_real(directory.path());
    for number in 0..6 {
        append(&mut log, &payload(number, 1500));
    }
    write(&mut log);
    let ticket = log.writer.begin_sync();
    log.appender.append(FrameKind::checkpoint_begin(9), 7, b"");
    log.appender.append(FrameKind::checkpoint_end(11), 8, b"");
    write(&mut log);
    log.writer.sync().unwrap();
    log.preparer.prepare().unwrap();
    assert!(!directory.path().join(FIRST).exists());
    let position = ticket.run().unwrap();
    log.writer.finish_sync(position);
    append(&mut log, b"goes on");
    write(&mut log);
    log.writer.sync().unwrap();
}

/// Writes answered OK, a clean stop returned 0, and the next start found nothing of the log that could be kept.
#[test]
fn a_sync_fails_where_the_segment_has_lost_its_name_or_its_length() {
    let gone: [fn(&Path); 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::rename(path, path.with_extension("moved")).unwrap(),
        // What a restored backup does.
        |path| {
            fs::copy(path, path.with_extension("copy")).unwrap();
            fs::rename(path.with_extension("copy"), path).unwrap();
        },
    ];
    let resized: [fn(&Path); 3] = [
        |path| resize(path, 0),
        |path| resize(path, 100),
        |path| resize(path, 1 << 20),
    ];
    for deed in gone {
        let error = sync_after(deed);
        assert!(matches!(error, WriteError::Removed { .. }), "{error}");
    }
    for deed in resized {
        let error = sync_after(deed);
        assert!(matches!(error, WriteError::Resized { .. }), "{error}");
    }
}

/// What a sync says once this was done to the segment.
fn sync_after(deed: fn(&Path)) -> WriteError {
    let directory = tempfile::tempdir().unwrap();
    let mut log = open_real(directory.path());
    commit(&mut log, b"before");
    deed(&directory.path().join(FIRST));
    append(&mut log, b"after");
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).unwrap();
    let error = log.writer.sync().unwrap_err();
    assert!(error.to_string().contains(FIRST), "{error}");
    assert!(log.writer.sync().is_err(), "it has ended");
    error
}

fn resize(path: &Path, bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
}
