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
//! Invariant: the marker of the last START on record stays until the next START is durable, so
//! that a crash while starting never looks like a move. What is not detected is listed once, in
//! docs/book/guarantees.md.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
#[cfg(feature = "simulation")]
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use quorlock_persistence::Disk;

use crate::fnv::fnv;
use crate::past::identity;

/// Takes the fingerprint of a node's directory; a disk in memory has a name instead.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprint {
    directory: Option<PathBuf>,
    machine_file: PathBuf,
    /// The fingerprint of a disk in memory.
    name: u64,
    /// Tells the files of a disk in memory from copies of them, where it can.
    #[cfg(feature = "simulation")]
    files: Option<FileNumbers>,
}

/// The number of a file of a disk in memory by its name, as inode numbers are; `None` where there is no such file.
#[cfg(feature = "simulation")]
#[derive(Clone)]
pub struct FileNumbers(pub Arc<NumberOf>);

/// What [`FileNumbers`] asks.
#[cfg(feature = "simulation")]
pub type NumberOf = dyn Fn(&str) -> Option<u64> + Send + Sync;

#[cfg(feature = "simulation")]
impl std::fmt::Debug for FileNumbers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("FileNumbers")
    }
}

impl Fingerprint {
    /// That of a disk in memory: the same as long as its name is.
    pub(crate) fn named(name: u64) -> Self {
        Self {
            directory: None,
            machine_file: PathBuf::new(),
            name,
            #[cfg(feature = "simulation")]
            files: None,
        }
    }

    /// That of a disk in memory whose files can be told from copies: it has markers, as a directory has.
    #[cfg(feature = "simulation")]
    pub(crate) fn simulated(name: u64, files: Option<FileNumbers>) -> Self {
        Self {
            files,
            ..Self::named(name)
        }
    }

    /// A directory of this machine.
    pub(crate) fn of(directory: &Path) -> Self {
        Self {
            directory: Some(directory.to_owned()),
            machine_file: PathBuf::from(MACHINE_FILE),
            name: 0,
            #[cfg(feature = "simulation")]
            files: None,
        }
    }

    /// Whether there are files that a copy can be told from.
    fn has_files(&self) -> bool {
        #[cfg(feature = "simulation")]
        if self.files.is_some() {
            return true;
        }
        self.directory.is_some()
    }

    /// What no copy has in common with a file here, or with the directory itself.
    fn origin(&self, name: Option<&str>) -> [u128; 2] {
        #[cfg(feature = "simulation")]
        if let Some(FileNumbers(number)) = &self.files {
            let number = name.map_or(Some(self.name), |name| number(name));
            return [number.map_or(0, |number| u128::from(number) + 1), 0];
        }
        let Some(directory) = &self.directory else {
            return [0, 0];
        };
        match name {
            Some(name) => origin(&directory.join(name)),
            None => origin(directory),
        }
    }

    /// The running name counts, where both are there: whatever brought it back is not the marker. The
    /// other name is given after SHUTDOWN is durable: beside a log without one it belongs to a later
    /// state than that log.
    fn marker_origin(&self, incarnation: u64, is_shut_down: bool) -> [u128; 2] {
        let name = marker(incarnation);
        match self.origin(Some(&name)) {
            [0, 0] if is_shut_down => self.origin(Some(&format!("{name}{STOPPED}"))),
            running => running,
        }
    }

    /// The highest incarnation that left a marker here. A log that knows less was put back.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(crate) fn newest_incarnation(&self, disk: &dyn Disk) -> io::Result<u64> {
        if !self.has_files() {
            return Ok(0);
        }
        let names = disk.list()?;
        let markers = names.iter().filter_map(|entry| incarnation(&entry.name));
        Ok(markers.max().unwrap_or(0))
    }

    /// The fingerprint that START of this incarnation has if it was written here, and if its run
    /// ended as its log says: with a complete SHUTDOWN, or without.
    pub(crate) fn value(&self, incarnation: u64, is_shut_down: bool) -> u64 {
        if !self.has_files() {
            return self.name;
        }
        let machine = std::fs::read(&self.machine_file).unwrap_or_default();
        let parts = [
            self.origin(None),
            self.origin(Some(identity::FILE)),
            self.marker_origin(incarnation, is_shut_down),
        ];
        let bytes = machine
            .into_iter()
            .chain(parts.iter().flatten().flat_map(|part| part.to_le_bytes()));
        fnv(bytes)
    }

    /// Makes this incarnation's marker, durable before START can name it; gives the fingerprint.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub(crate) fn mark(&self, disk: &dyn Disk, incarnation: u64) -> io::Result<u64> {
        if self.has_files() {
            let file = disk.create(&marker(incarnation))?;
            match file.write_at(0, MARKER_TEXT) {
                // The file counts, not what it says: a full disk must not keep a node from starting because of that.
                Err(error) if is_no_space(&error) => {}
                written => written?,
            }
            disk.sync_dir()?;
        }
        Ok(self.value(incarnation, false))
    }

    /// Gives the marker its other name, once SHUTDOWN is durable. A marker that keeps its name only
    /// does not show that an older log was put back.
    pub(crate) fn mark_stopped(&self, disk: &dyn Disk, incarnation: u64) {
        if !self.has_files() {
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
    pub(crate) fn remove_older(&self, disk: &dyn Disk, incarnation_now: u64) -> io::Result<()> {
        if !self.has_files() {
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
}

/// Whether a node gives this name to something in its data directory.
pub fn is_node_file(name: &str) -> bool {
    is_own(name) || quorlock_persistence::is_log_file(name)
}

/// Whether a name in a data directory that is not the log's is the node's own, or a folder of a repair.
pub(crate) fn is_own(name: &str) -> bool {
    let is_repair = name
        .strip_prefix("repair-")
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    is_repair || name == identity::FILE || name == identity::FILE_NEW || incarnation(name).is_some()
}

/// What no copy has in common with its original: inode and time of birth, or 0 where the file or
/// the knowledge is missing.
fn origin(path: &Path) -> [u128; 2] {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return [0, 0];
    };
    let born = metadata
        .created()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    [
        u128::from(metadata.ino()),
        born.map_or(0, |time| time.as_nanos()),
    ]
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
const MACHINE_FILE: &str = "/etc/machine-id";
const MARKER_TEXT: &[u8] =
    b"This file ties the log to this directory. A copy of it is not the same.\n";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::fs;
    use std::sync::Arc;

    use quorlock_persistence::RealDisk;

    use super::*;

    struct Home {
        directory: tempfile::TempDir,
        disk: Arc<RealDisk>,
        fingerprint: Fingerprint,
    }

    fn home() -> Home {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(identity::FILE), "id").unwrap();
        fs::write(directory.path().join("machine"), "one").unwrap();
        let mut fingerprint = Fingerprint::of(directory.path());
        fingerprint.machine_file = directory.path().join("machine");
        Home {
            disk: RealDisk::open(directory.path()).unwrap(),
            directory,
            fingerprint,
        }
    }

    #[test]
    fn the_fingerprint_stays_until_something_is_replaced() {
        let home = home();
        let path = home.directory.path();
        let here = home.fingerprint.mark(&*home.disk, 7).unwrap();
        assert_eq!(home.fingerprint.value(7, true), here);
        assert_eq!(home.fingerprint.value(7, false), here);
        assert_eq!(home.fingerprint.newest_incarnation(&*home.disk).unwrap(), 7);
        home.fingerprint.mark_stopped(&*home.disk, 7);
        assert_eq!(home.fingerprint.value(7, true), here, "it is the same file");
        assert_ne!(
            home.fingerprint.value(7, false),
            here,
            "the log says that it still ran"
        );
        assert_eq!(home.fingerprint.newest_incarnation(&*home.disk).unwrap(), 7);
        fs::write(path.join("incarnation-0000000007"), MARKER_TEXT).unwrap();
        assert_ne!(
            home.fingerprint.value(7, true),
            here,
            "a name from before the stop"
        );
        fs::remove_file(path.join("incarnation-0000000007")).unwrap();
        fs::write(path.join("other"), "x").unwrap();
        assert_eq!(
            home.fingerprint.value(7, true),
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
            let before = home.fingerprint.value(7, true);
            replace(name);
            assert_ne!(home.fingerprint.value(7, true), before, "{name}");
        }
        let before = home.fingerprint.value(7, true);
        fs::write(path.join("machine"), "two").unwrap();
        assert_ne!(home.fingerprint.value(7, true), before, "another machine");
        assert_eq!(Fingerprint::named(5).value(7, true), 5);
    }

    #[test]
    #[ignore = "needs a file system that gives inode numbers again, as ext4 does"]
    fn a_reused_inode_is_told_by_its_birth() {
        let home = home();
        let path = home.directory.path().join("incarnation-0000000001");
        let born = fs::metadata(home.directory.path()).unwrap().created();
        born.expect("a file system that says when a file was made");
        home.fingerprint.mark(&*home.disk, 1).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let before = home.fingerprint.value(1, true);
        for _ in 0..100 {
            fs::remove_file(&path).unwrap();
            fs::write(&path, MARKER_TEXT).unwrap();
            if fs::metadata(&path).unwrap().ino() == inode {
                assert_ne!(home.fingerprint.value(1, true), before);
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
            home.fingerprint.mark(&*home.disk, number).unwrap();
        }
        home.fingerprint.mark_stopped(&*home.disk, 4);
        assert_eq!(home.fingerprint.newest_incarnation(&*home.disk).unwrap(), 5);
        home.fingerprint.remove_older(&*home.disk, 5).unwrap();
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

    /// It is on disk: another hash would take every directory for a copy.
    #[cfg(feature = "simulation")]
    #[test]
    fn the_fingerprint_of_the_same_files_never_changes() {
        let number = |name: &str| (name == identity::FILE).then_some(41);
        let fingerprint = Fingerprint::simulated(6, Some(FileNumbers(Arc::new(number))));
        let bytes = [7_u128, 0, 42, 0, 0, 0].map(u128::to_le_bytes);
        let expected = bytes
            .iter()
            .flatten()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        assert_eq!(fingerprint.value(1, true), expected);
        assert_eq!(format!("{:?}", fingerprint.files.unwrap()), "FileNumbers");
    }
}
