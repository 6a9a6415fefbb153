//! The fingerprint of a node's directory: what tells it from a copy, a restored backup, or another
//! machine's.
//!
//! A backup brings back the bytes of files, never the files themselves. So each start makes a new,
//! nearly empty file, its *marker*, and START records a fingerprint of the machine, of the
//! directory, and of the inode and birth of `node.id` and of that marker. Whatever puts an older
//! log back, in place or elsewhere, cannot put back the marker that its last START saw. A clean stop
//! renames the marker: so a copy taken before the stop brings back a name that has gone, and with it
//! a file that is new.
//!
//! What a file is apart from its bytes, the disk says ([`Disk::origin_of`]). From a disk that cannot tell files from copies
//! no fingerprint is taken: it is 0, and there are no markers.
//!
//! Invariant: the marker of the last START on record stays until the next START is durable, so
//! that a crash while starting never looks like a move. What is not detected is listed once, in
//! docs/book/guarantees.md.

use std::io;

use quorlock_clock::fnv;
use quorlock_persistence::{Disk, FileOrigin};

use crate::past::identity;

/// The highest incarnation that left a marker here. A log that knows less was put back.
///
/// # Errors
/// When the directory cannot be read.
pub fn newest_incarnation(disk: &dyn Disk) -> io::Result<u64> {
    if !tells_copies(disk) {
        return Ok(0);
    }
    let names = disk.list()?;
    let markers = names.iter().filter_map(|entry| incarnation(&entry.name));
    Ok(markers.max().unwrap_or(0))
}

/// The fingerprint that START of this incarnation has if it was written here, and if its run
/// ended as its log says: with a complete SHUTDOWN, or without.
pub(crate) fn value(disk: &dyn Disk, incarnation: u64, is_shut_down: bool) -> u64 {
    if !tells_copies(disk) {
        return 0;
    }
    let origin = |name: &str| disk.origin_of(name).unwrap_or_default();
    let origins = [
        origin(""),
        origin(identity::FILE),
        marker_origin(disk, incarnation, is_shut_down),
    ];
    hash(disk.machine(), &origins)
}

/// Makes this incarnation's marker, durable before START can name it; gives the fingerprint.
///
/// # Errors
/// When the directory cannot be written.
pub fn mark(disk: &dyn Disk, incarnation: u64) -> io::Result<u64> {
    if tells_copies(disk) {
        let file = disk.create(&marker(incarnation))?;
        match file.write_at(0, MARKER_TEXT) {
            // The file counts, not what it says: a full disk must not keep a node from starting because of that.
            Err(error) if is_no_space(&error) => {}
            written => written?,
        }
        disk.sync_dir()?;
    }
    Ok(value(disk, incarnation, false))
}

/// Gives the marker its other name, once SHUTDOWN is durable. A marker that keeps its name only
/// does not show that an older log was put back.
pub(crate) fn mark_stopped(disk: &dyn Disk, incarnation: u64) {
    if !tells_copies(disk) {
        return;
    }
    let name = marker(incarnation);
    let _ = disk
        .rename(&name, &format!("{name}{STOPPED}"))
        .and_then(|()| disk.sync_dir());
}

/// Removes the markers of other incarnations, once START of this one is durable. That is durable itself before
/// anybody is answered: a marker that a power loss brings back would make an older log look like this one.
///
/// # Errors
/// When the directory cannot be read or written.
pub(crate) fn remove_older(disk: &dyn Disk, incarnation_now: u64) -> io::Result<()> {
    if !tells_copies(disk) {
        return Ok(());
    }
    for entry in disk.list()? {
        let number = incarnation(&entry.name);
        if number.is_some_and(|number| number != incarnation_now) {
            disk.remove(&entry.name)?;
        }
    }
    disk.sync_dir()
}

/// Whether a node gives this name to something in its data directory.
pub fn is_node_file(name: &str) -> bool {
    is_own(name) || quorlock_persistence::is_log_file(name)
}

/// Whether a name in a data directory that is not the log's is the node's own, or a folder of a repair.
pub fn is_own(name: &str) -> bool {
    let is_repair = name
        .strip_prefix("repair-")
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    is_repair || name == identity::FILE || name == identity::FILE_NEW || incarnation(name).is_some()
}

/// Whether this disk can tell its files from copies of them.
fn tells_copies(disk: &dyn Disk) -> bool {
    disk.origin_of("").is_some()
}

/// The running name counts, where both are there: whatever brought it back is not the marker. The
/// other name is given after SHUTDOWN is durable: beside a log without one it belongs to a later
/// state than that log.
fn marker_origin(disk: &dyn Disk, incarnation: u64, is_shut_down: bool) -> FileOrigin {
    let name = marker(incarnation);
    let running = disk.origin_of(&name).unwrap_or_default();
    if is_shut_down && running == FileOrigin::default() {
        let stopped = disk.origin_of(&format!("{name}{STOPPED}"));
        return stopped.unwrap_or_default();
    }
    running
}

/// It is on disk: another hash would take every directory for a copy.
fn hash(machine: Vec<u8>, origins: &[FileOrigin; 3]) -> u64 {
    let numbers = origins
        .iter()
        .flat_map(|origin| [origin.inode, origin.born_ns]);
    fnv(machine
        .into_iter()
        .chain(numbers.flat_map(u128::to_le_bytes)))
}

fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    [StorageFull, QuotaExceeded].contains(&error.kind())
}

pub(super) fn marker(incarnation: u64) -> String {
    format!("{PREFIX}{incarnation:010}")
}

fn incarnation(name: &str) -> Option<u64> {
    let name = name.strip_suffix(STOPPED).unwrap_or(name);
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    // Only names that are exactly ours: others belong to somebody else. The bound keeps a made-up
    // name from exhausting the count.
    (marker(number) == name && number <= INCARNATION_MAX).then_some(number)
}

const PREFIX: &str = "incarnation-";
const STOPPED: &str = ".stopped";
const INCARNATION_MAX: u64 = 1 << 53;
const MARKER_TEXT: &[u8] =
    b"This file ties the log to this directory. A copy of it is not the same.\n";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use quorlock_persistence::{MemoryDisk, RealDisk};

    use super::*;

    struct Home {
        directory: tempfile::TempDir,
        disk: Arc<RealDisk>,
    }

    fn home() -> Home {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(identity::FILE), "id").unwrap();
        Home {
            disk: RealDisk::open(directory.path()).unwrap(),
            directory,
        }
    }

    #[test]
    fn the_fingerprint_stays_until_something_is_replaced() {
        let home = home();
        let path = home.directory.path();
        let here = mark(&*home.disk, 7).unwrap();
        assert_eq!(value(&*home.disk, 7, true), here);
        assert_eq!(value(&*home.disk, 7, false), here);
        assert_eq!(newest_incarnation(&*home.disk).unwrap(), 7);
        mark_stopped(&*home.disk, 7);
        assert_eq!(value(&*home.disk, 7, true), here, "it is the same file");
        assert_ne!(
            value(&*home.disk, 7, false),
            here,
            "the log says that it still ran"
        );
        assert_eq!(newest_incarnation(&*home.disk).unwrap(), 7);
        fs::write(path.join("incarnation-0000000007"), MARKER_TEXT).unwrap();
        assert_ne!(
            value(&*home.disk, 7, true),
            here,
            "a name from before the stop"
        );
        fs::remove_file(path.join("incarnation-0000000007")).unwrap();
        fs::write(path.join("other"), "x").unwrap();
        assert_eq!(
            value(&*home.disk, 7, true),
            here,
            "other files do not matter"
        );

        // The bytes come back, the file does not.
        let replace = |name: &str| {
            let bytes = fs::read(path.join(name)).unwrap();
            // Held open, so that its inode cannot be used again at once.
            let old = fs::File::open(path.join(name)).unwrap();
            fs::remove_file(path.join(name)).unwrap();
            fs::write(path.join(name), bytes).unwrap();
            drop(old);
        };
        for name in ["incarnation-0000000007.stopped", identity::FILE] {
            let before = value(&*home.disk, 7, true);
            replace(name);
            assert_ne!(value(&*home.disk, 7, true), before, "{name}");
        }
    }

    #[test]
    #[ignore = "needs a file system that gives inode numbers again, as ext4 does"]
    fn a_reused_inode_is_told_by_its_birth() {
        let home = home();
        let path = home.directory.path().join("incarnation-0000000001");
        let born = fs::metadata(home.directory.path()).unwrap().created();
        born.expect("a file system that says when a file was made");
        mark(&*home.disk, 1).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let before = value(&*home.disk, 1, true);
        for _ in 0..100 {
            fs::remove_file(&path).unwrap();
            fs::write(&path, MARKER_TEXT).unwrap();
            if fs::metadata(&path).unwrap().ino() == inode {
                assert_ne!(value(&*home.disk, 1, true), before);
                return;
            }
        }
        panic!("no inode number came again in 100 files");
    }

    #[test]
    fn only_this_start_keeps_its_marker_and_foreign_names_are_left_alone() {
        let home = home();
        let path = home.directory.path();
        for name in [
            "incarnation-8",
            "incarnation-00000000008",
            "incarnation-99999999999999999",
            "incarnation-+000000008",
        ] {
            fs::write(path.join(name), "").unwrap();
        }
        for number in [3, 4, 5] {
            mark(&*home.disk, number).unwrap();
        }
        mark_stopped(&*home.disk, 4);
        assert_eq!(newest_incarnation(&*home.disk).unwrap(), 5);
        remove_older(&*home.disk, 5).unwrap();
        let mut left: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with(PREFIX))
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "incarnation-+000000008",
                "incarnation-00000000008",
                "incarnation-0000000005",
                "incarnation-8",
                "incarnation-99999999999999999",
            ]
        );
    }

    #[test]
    fn a_node_s_own_names_and_a_repair_s_folders_are_not_foreign() {
        for name in [
            "node.id",
            "node.id.new",
            "incarnation-0000000007",
            "repair-1",
        ] {
            assert!(is_own(name), "{name}");
        }
        for name in [
            "node.idx",
            "incarnation-7",
            "repair-",
            "repair-x",
            "repair-1x",
            "log",
        ] {
            assert_eq!(is_own(name), name == "repair-", "{name}");
        }
    }

    #[test]
    fn the_fingerprint_of_the_same_files_never_changes() {
        let origin = |inode| FileOrigin { inode, born_ns: 3 };
        let origins = [origin(7), origin(42), origin(0)];
        let bytes = [7_u128, 3, 42, 3, 0, 3].map(u128::to_le_bytes);
        let expected = b"one"
            .iter()
            .chain(bytes.iter().flatten())
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        assert_eq!(hash(b"one".to_vec(), &origins), expected);
        assert_ne!(hash(b"two".to_vec(), &origins), expected, "another machine");
    }

    #[test]
    fn the_fingerprint_of_a_directory_is_made_of_what_its_file_system_says() {
        let home = home();
        let made = mark(&*home.disk, 1).unwrap();
        let at = |path: &std::path::Path| {
            let metadata = fs::symlink_metadata(path).unwrap();
            let born = metadata.created().ok();
            let born = born.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            FileOrigin {
                inode: u128::from(metadata.ino()),
                born_ns: born.map_or(0, |time| time.as_nanos()),
            }
        };
        let path = home.directory.path();
        let files = [
            path.to_owned(),
            path.join(identity::FILE),
            path.join(marker(1)),
        ];
        let machine = fs::read("/etc/machine-id").unwrap_or_default();
        assert_eq!(made, hash(machine, &files.map(|file| at(&file))));
    }

    #[test]
    fn a_disk_in_memory_tells_copies_once_its_directory_has_a_number() {
        let disk = MemoryDisk::new();
        assert_eq!(mark(&disk, 1).unwrap(), 0);
        assert_eq!(value(&disk, 1, false), 0);
        assert!(disk.list().unwrap().is_empty());
        disk.set_directory_number(6);
        let marked = mark(&disk, 1).unwrap();
        assert_eq!(value(&disk, 1, false), marked);
        disk.set_directory_number(5);
        assert_ne!(value(&disk, 1, false), marked);
    }
}
