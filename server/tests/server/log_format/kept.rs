//! The logs that are kept: written by the version that was current then, read by this one.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorlock_engine::control::{ControlRecord, kind};
use quorlock_engine::{Engine, EngineOptions, LogPosition};
use quorlock_persistence::{
    Disk, FrameBatch, FrameKind, Inspection, Log, LogIdentity, MemoryDisk, Recovery, SegmentFile,
};

use quorlock_server::Node;
use quorlock_server::clock::SettableClock;
use quorlock_testkit::Wire;

use super::workload::{self, UPWARDS, logs};
use crate::machine::run;

/// The version this program writes.
const NEWEST: u32 = 2;

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
    let of = |version| logs(version).iter().map(move |name| (version, *name));
    (1..=NEWEST).flat_map(of).collect()
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
    for name in logs(NEWEST).iter().filter(|name| !name.ends_with(UPWARDS)) {
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
            .filter(|name| name.starts_with("segment-"))
            .collect();
        let mut kept_names: Vec<String> = fs::read_dir(&kept)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("segment-"))
            .collect();
        kept_names.sort();
        // Those of before have the suffix of before, and the same bytes.
        let renamed = |kept: &String| kept.replace(".log", ".segment");
        let expected: Vec<String> = kept_names.iter().map(renamed).collect();
        assert_eq!(names, expected, "{name}");
        for (file, kept_name) in names.iter().zip(&kept_names) {
            assert!(
                content(&written, file) == fs::read(kept.join(kept_name)).unwrap(),
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
        for frame in recovery.frames().collect().unwrap() {
            match frame.kind {
                kind::GROUP | kind::SNAPSHOT => {
                    engine
                        .apply(LogPosition::from_raw(frame.position.get()), &frame.payload)
                        .unwrap();
                }
                kind::END => {}
                code => {
                    ControlRecord::decode(code, &frame.payload).unwrap();
                }
            }
        }
        let keys: u64 = (0..16).map(|database| engine.count(database).keys).sum();
        let expected = match name.trim_end_matches(UPWARDS) {
            "plain" | "unlogged" => 3,
            "compacted" => 8,
            "databases" => 12,
            "shared" => 6,
            "collections" | "pieces" => 10,
            _ => 4,
        };
        assert_eq!(keys, expected, "{place}");
    }
}

/// A start waits for what each kept log speaks of, whichever version wrote it: the longest lock that a
/// repair may have lost, or what a run without a log has recovered.
#[test]
fn a_start_on_a_log_of_any_version_waits_for_what_it_owes() {
    for (version, name) in all() {
        let disk = disk(&folder(version, name));
        let newest_ns = read(&disk).summary().newest_node_time_ns;
        let due_ns = match (version, name) {
            (_, "unlogged") => workload::OWED_UNTIL_NS - newest_ns,
            // A repair could not be told of: the cap.
            (1, _) => 60_000_000_000 / 100 * 102 + 10_000_000,
            _ => 61_000_000_000 / 100 * 102 + 10_000_000,
        };
        run(async {
            let clock = Arc::new(SettableClock::new());
            let node = Node::builder()
                .ephemeral()
                .disk(Arc::new(disk))
                .clock(clock);
            let node = node.start().await.unwrap();
            let info = Wire::connect(node.address()).info("restart_delay_length_ms");
            let due_ms = due_ns.div_ceil(1_000_000).to_string();
            assert_eq!(info, due_ms, "v{version}/{name}");
        });
    }
}

/// Position, kind, node time and payload of each frame to replay, a line each.
fn frames(recovery: &Recovery) -> String {
    let mut text = String::new();
    for frame in recovery.frames().collect().unwrap() {
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
    let entries = written.list().unwrap();
    for entry in entries
        .iter()
        .filter(|entry| entry.name.starts_with("segment-"))
    {
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

/// An old log goes on in the newest version, in one stream; a checkpoint drops the old segments.
#[test]
fn a_log_of_the_oldest_version_goes_on_in_the_newest() {
    for name in logs(1) {
        let disk = disk(&folder(1, name));
        let before = frames(&read(&disk));
        assert_eq!(versions(&disk).iter().max(), Some(&1), "{name}");

        let mut log = read(&disk).into_log(identity()).unwrap();
        append(&mut log, FrameKind::new(kind::TICK), &[1]);
        assert_eq!(versions(&disk).iter().max(), Some(&NEWEST), "{name}");
        let after = frames(&read(&disk));
        assert!(after.starts_with(&before), "{name}");
        assert_eq!(after.lines().count(), before.lines().count() + 1, "{name}");

        append(&mut log, FrameKind::checkpoint_begin(kind::CONTROL), &[]);
        append(&mut log, FrameKind::checkpoint_end(kind::END), &[]);
        log.preparer.prepare().unwrap();
        assert_eq!(versions(&disk), [NEWEST], "{name}");
        assert_eq!(frames(&read(&disk)).lines().count(), 2, "{name}");
    }
}

/// What an older program says when it meets a log that has gone on in a newer version.
#[test]
fn a_newer_version_is_refused_with_what_to_do() {
    let disk = disk(&folder(NEWEST, "plain"));
    let newest = disk.list().unwrap().pop().unwrap().name;
    disk.edit(&newest, |bytes| {
        for copy in [0, 512] {
            bytes[copy + 8..copy + 12].copy_from_slice(&(NEWEST + 1).to_le_bytes());
            let sum = crc32c::crc32c(&bytes[copy..copy + 124]);
            bytes[copy + 124..copy + 128].copy_from_slice(&sum.to_le_bytes());
        }
    });
    let text = Recovery::read(Arc::new(disk), &workload::options())
        .unwrap_err()
        .to_string();
    for part in [
        newest.as_str(),
        "has version 3 ",
        "versions up to 2",
        "start that one",
        "cannot be taken back",
    ] {
        assert!(text.contains(part), "'{part}' in: {text}");
    }
}

fn read(disk: &MemoryDisk) -> Recovery {
    Recovery::read(Arc::new(disk.clone()), &workload::options()).unwrap()
}

/// The versions of the segments that are in use, oldest segment first.
fn versions(disk: &MemoryDisk) -> Vec<u32> {
    let inspection = Inspection::open(Arc::new(disk.clone())).unwrap();
    let headers = inspection.segments().iter().filter_map(SegmentFile::header);
    headers.map(|header| header.version).collect()
}

fn identity() -> LogIdentity {
    LogIdentity {
        node_id: *b"a node for fixtures.",
        boot_id: [0xb0; 16],
        incarnation: 3,
    }
}

fn append(log: &mut Log, kind: FrameKind, payload: &[u8]) {
    log.appender.append(kind, 0, payload);
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).unwrap();
    log.writer.sync().unwrap();
}
