//! The logs that are kept: written by the version that was current then, read by this one.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorlock_engine::control::{Record, kind};
use quorlock_engine::{Engine, EngineOptions};
use quorlock_persistence::{Disk, MemoryDisk, Recovery};

use crate::workload::{self, LOGS};

/// The version this program writes.
const NEWEST: u32 = 1;

/// Where the log with this name is kept, as version `version` of the format wrote it.
pub(crate) fn folder(version: u32, name: &str) -> PathBuf {
    fixtures().join(format!("v{version}")).join(name)
}

/// What the frames of a kept log are, in words of some kind: `frames`, say.
pub(crate) fn text(version: u32, name: &str, kind: &str) -> PathBuf {
    fixtures().join(format!("v{version}-{name}-{kind}.txt"))
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../persistence/tests/fixtures")
}

/// Every log that is kept, oldest version first.
pub(crate) fn all() -> Vec<(u32, &'static str)> {
    (1..=NEWEST)
        .flat_map(|version| LOGS.map(|name| (version, name)))
        .collect()
}

/// The kept files as a disk.
pub(crate) fn disk(folder: &Path) -> MemoryDisk {
    let disk = MemoryDisk::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("segment-") {
            let file = disk.create(&name).unwrap();
            file.write_at(0, &fs::read(entry.path()).unwrap()).unwrap();
        }
    }
    disk
}

/// A format that changes without a new version would make older programs misread it.
#[test]
fn what_is_written_is_what_is_kept_of_this_version() {
    for name in LOGS {
        let written = workload::write(name);
        let kept = folder(NEWEST, name);
        if std::env::var_os("QUORLOCK_KEEP_FIXTURES").is_some() && !kept.exists() {
            keep(&written, name, &kept);
        }
        let names: Vec<String> = written
            .list()
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        let mut kept_names: Vec<String> = fs::read_dir(&kept)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("segment-"))
            .collect();
        kept_names.sort();
        assert_eq!(names, kept_names, "{name}");
        for file in names {
            assert!(
                content(&written, &file) == fs::read(kept.join(&file)).unwrap(),
                "{name}/{file} is not what version {NEWEST} wrote: raise the version of the format"
            );
        }
    }
}

#[test]
fn logs_of_every_version_are_read_and_replayed() {
    for (version, name) in all() {
        let kept = folder(version, name);
        let recovery = Recovery::read(Arc::new(disk(&kept)), &workload::options()).unwrap();
        let place = format!("v{version}/{name}");
        let summary = recovery.summary();
        assert!(summary.only_zeros_follow, "{place}");
        assert!(summary.remarks.is_empty(), "{place}: {:?}", summary.remarks);
        assert_eq!(
            frames(&recovery),
            fs::read_to_string(text(version, name, "frames")).unwrap(),
            "{place}"
        );
        let mut engine = Engine::new(EngineOptions::default());
        for frame in recovery.frames() {
            match frame.kind {
                kind::GROUP | kind::SNAPSHOT => {
                    engine.apply(frame.position.get(), frame.payload).unwrap();
                }
                kind::END => {}
                code => {
                    Record::decode(code, frame.payload).unwrap();
                }
            }
        }
        let keys: u64 = (0..16).map(|database| engine.count(database).keys).sum();
        let expected = if name == "plain" { 3 } else { 8 };
        assert_eq!(keys, expected, "{place}");
    }
}

/// Position, kind, node time and payload of each frame to replay, a line each.
fn frames(recovery: &Recovery) -> String {
    let mut text = String::new();
    for frame in recovery.frames() {
        let (position, code, time) = (frame.position, frame.kind, frame.node_time_ns);
        let _ = write!(text, "{position} {code} {time} ");
        for byte in frame.payload {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

fn keep(written: &MemoryDisk, name: &str, kept: &Path) {
    fs::create_dir_all(kept).unwrap();
    for entry in written.list().unwrap() {
        fs::write(kept.join(&entry.name), content(written, &entry.name)).unwrap();
    }
    let recovery = Recovery::read(Arc::new(written.clone()), &workload::options()).unwrap();
    fs::write(text(NEWEST, name, "frames"), frames(&recovery)).unwrap();
}

fn content(disk: &MemoryDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}
