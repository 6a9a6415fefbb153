//! Looking at a log says what reading it would say, with one segment in memory, and changes nothing.

use crate::small_log::*;
use proptest::prelude::*;
use quorlock_persistence::{
    Disk, FrameKind, Inspection, MemoryDisk, RealDisk, SegmentFile, SegmentPart,
};
use std::sync::Arc;

/// Frames in four segments, several of them in the last one.
fn log_of_four() -> (MemoryDisk, Vec<Vec<u8>>) {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    let length = |number| if number < 9 { 1500 } else { 300 };
    let all: Vec<_> = (0..14)
        .map(|number| payload(number, length(number)))
        .collect();
    for payload in &all {
        commit(&mut log, payload);
    }
    (disk, all)
}

fn inspect(disk: &MemoryDisk) -> Inspection {
    Inspection::open(Arc::new(disk.clone())).unwrap()
}

fn payloads_of(inspection: &Inspection, parts: &[SegmentPart]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for part in parts {
        let content = inspection.read(part).unwrap();
        found.extend(content.frames().map(|frame| frame.frame.payload.to_vec()));
    }
    found
}

#[test]
fn the_stream_is_found_through_the_names_in_the_headers() {
    let (disk, all) = log_of_four();
    let inspection = inspect(&disk);
    assert_eq!(payloads_of(&inspection, &inspection.stream()), all);
    let headers = inspection.segments().iter();
    assert_eq!(headers.filter_map(SegmentFile::header).count(), 4);
    assert_eq!(inspection.newest_identity(), Some(identity(1)));

    // What comes before a gap is not reached any more; what comes after it still is.
    disk.remove(SECOND).unwrap();
    let inspection = inspect(&disk);
    assert_eq!(payloads_of(&inspection, &inspection.stream()), all[7..]);
    assert!(inspection.judge(&options()).is_err());
}

#[test]
fn what_a_start_has_left_out_is_not_in_the_stream() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    for number in 0..6 {
        append(&mut log, &payload(number, 100));
        write(&mut log);
    }
    drop(log);
    let (begin, end) = frame_ranges(&disk, FIRST)[3];
    let hole = content(&disk, FIRST)[begin..end].to_vec();
    disk.edit(FIRST, |bytes| bytes[begin..end].fill(0));
    commit(&mut open(&disk), b"after the cut");
    // Even if what was missing comes back, the cut counts.
    disk.edit(FIRST, |bytes| bytes[begin..end].copy_from_slice(&hole));
    let inspection = inspect(&disk);
    let found = payloads_of(&inspection, &inspection.stream());
    assert_eq!(found.len(), 4);
    assert_eq!(found.last().unwrap(), b"after the cut");
}

#[test]
fn each_file_is_listed_with_what_it_is() {
    let (disk, _) = log_of_four();
    open(&disk).preparer.prepare().unwrap();
    disk.create("notes.txt").unwrap();
    disk.create("segment-0000000099.new").unwrap();
    disk.edit(FIRST, |bytes| bytes.truncate(100));
    disk.edit(SECOND, |bytes| bytes[64] ^= 1);
    disk.edit("segment-0000000003.segment", |bytes| {
        bytes[8] = 9;
        bytes[520] = 9;
    });
    disk.rename("segment-0000000004.segment", "segment-0000000044.segment")
        .unwrap();
    let inspection = inspect(&disk);
    let said: Vec<String> = inspection
        .segments()
        .iter()
        .map(|segment| format!("{} {:?}", segment.number, segment.state))
        .collect();
    let expected = [
        (0, "1 Err(\"the file ends after 100 bytes"),
        (1, "2 Ok(Used("),
        (2, "3 Err(\"version 9 "),
        (3, "5 Ok(Used("),
        (4, "6 Ok(Blank)"),
        (5, "44 Err(\"it says that it is segment 4"),
    ];
    for (index, start) in expected {
        assert!(said[index].starts_with(start), "{}", said[index]);
    }
    assert_eq!(inspection.segments().len(), expected.len());
}

#[test]
fn a_folder_with_the_name_of_a_segment_is_listed_as_none() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(FIRST)).unwrap();
    let disk = RealDisk::open(directory.path()).unwrap();
    let inspection = Inspection::open(disk).unwrap();
    let states: Vec<_> = inspection.segments().iter().map(|it| &it.state).collect();
    assert_eq!(states, [&Err("it is not a regular file".to_owned())]);
}

#[test]
fn what_ends_the_frames_of_a_segment_is_said() {
    let (disk, _) = log_of_four();
    let flaw = |disk: &MemoryDisk| {
        let inspection = inspect(disk);
        let newest = *inspection.stream().last().unwrap();
        inspection.read(&newest).unwrap().flaw()
    };
    assert_eq!(flaw(&disk), None);
    let newest = names(&disk).into_iter().max().unwrap();
    let (begin, end) = frame_ranges(&disk, &newest)[0];
    disk.edit(&newest, |bytes| bytes[end - 1] ^= 1);
    let checksum = Some("a frame whose checksum does not match");
    assert_eq!(flaw(&disk), checksum);
    disk.edit(&newest, |bytes| bytes[begin..begin + 40].fill(0));
    assert_eq!(flaw(&disk), Some("zeros where a frame should be"));
    disk.edit(&newest, |bytes| bytes[begin] = 1);
    let other = Some("bytes that are not a frame of this segment");
    assert_eq!(flaw(&disk), other);
}

#[test]
fn a_segment_is_named_for_people_also_where_it_is_not_there() {
    let (disk, _) = log_of_four();
    let inspection = inspect(&disk);
    assert_eq!(inspection.file_of(2), inspection.segments()[1].file);
    assert!(
        inspection
            .file_of(99)
            .ends_with("segment-0000000099.segment")
    );
}

#[test]
fn a_judgement_names_the_parts_that_a_start_replays() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    commit_many(&mut log, 7, 1500);
    log.appender
        .append(FrameKind::checkpoint_begin(9), 8, b"begin");
    log.appender
        .append(FrameKind::checkpoint_end(11), 9, b"end");
    commit(&mut log, &payload(7, 1500));
    let inspection = inspect(&disk);
    let judgement = inspection.judge(&options()).unwrap();
    assert_eq!(judgement.summary, *read(&disk).summary());
    let found = payloads_of(&inspection, &judgement.parts);
    assert_eq!(found, payloads(&read(&disk)));
    assert_eq!(found.len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_look_says_what_a_start_would_say(
        damages in prop::collection::vec(Damage::in_one_of(4), 0..4),
        removed in prop::option::of(0_usize..4),
    ) {
        let (disk, _) = log_of_four();
        let all_names = names(&disk);
        for damage in damages {
            damage.strike(&disk, &all_names);
        }
        if let Some(segment) = removed {
            disk.remove(&all_names[segment]).unwrap();
        }
        disk.end_after(0);
        let inspection = inspect(&disk);
        match (inspection.judge(&options()), try_read(&disk)) {
            (Ok(judgement), Ok(recovery)) => {
                prop_assert_eq!(&judgement.summary, recovery.summary());
                prop_assert_eq!(payloads_of(&inspection, &judgement.parts), payloads(&recovery));
            }
            (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
            (one, other) => prop_assert!(false, "{one:?} {other:?}"),
        }
        // Whatever is damaged, everything that can be listed can be read without a panic.
        for part in inspection.stream() {
            if let Ok(content) = inspection.read(&part) {
                prop_assert!(content.frames().count() as u64 <= content.end());
            }
        }
    }
}
