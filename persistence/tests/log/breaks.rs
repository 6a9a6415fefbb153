//! Damage of every kind at every place: it is cut where it may be an unsynced tail, and refused where
//! durable data is provably gone. What comes back is always a prefix of what was appended.

use crate::small_log::*;
use proptest::prelude::*;
use quorlock_persistence::{MemoryDisk, Recovery, RecoveryError};

/// Eight frames in two segments, each synced on its own, so that each one vouches for those before it.
fn synced_log() -> (MemoryDisk, Vec<Vec<u8>>) {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    let all: Vec<_> = (0..8).map(|number| payload(number, 1500)).collect();
    for payload in &all {
        log.preparer.prepare().unwrap();
        commit(&mut log, payload);
    }
    assert_eq!(frame_ranges(&disk, FIRST).len(), 5);
    assert_eq!(frame_ranges(&disk, SECOND).len(), 2);
    (disk, all)
}

/// One frame after the other without any sync.
fn unsynced_log(count: usize, length: usize) -> (MemoryDisk, Vec<Vec<u8>>) {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    let all: Vec<_> = (0..count).map(|number| payload(number, length)).collect();
    for payload in &all {
        append(&mut log, payload);
        write(&mut log);
    }
    (disk, all)
}

fn assert_prefix(recovery: &Recovery, all: &[Vec<u8>]) {
    let found = payloads(recovery);
    assert_eq!(found.len() as u64, recovery.summary().last.get());
    assert_eq!(found, all[..found.len()]);
    if found.len() < all.len() {
        assert!(
            recovery.summary().break_at.is_some(),
            "frames are gone and nobody says so"
        );
    }
    assert_eq!(
        recovery.summary().only_zeros_follow,
        recovery.summary().break_at.is_none()
    );
}

fn broken(disk: &MemoryDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> MemoryDisk {
    let copy = disk.after_process_end();
    copy.edit(name, change);
    copy
}

#[test]
fn a_whole_log_is_read_back() {
    let (disk, all) = synced_log();
    let recovery = read(&disk);
    assert_prefix(&recovery, &all);
    let summary = recovery.summary();
    assert_eq!(
        (summary.last.get(), summary.frames, summary.segments),
        (8, 8, 3)
    );
    assert_eq!((summary.newest_node_time_ns, summary.bytes), (8, 8 * 1544));
    assert!(summary.only_zeros_follow && !summary.is_empty && summary.remarks.is_empty());
    assert_eq!(summary.node_id, Some([1; 20]));
}

#[test]
fn every_flipped_byte_is_noticed() {
    let (disk, all) = synced_log();
    for name in names(&disk) {
        let ranges = frame_ranges(&disk, &name);
        let is_last = name == "segment-0000000003.segment";
        for offset in 0..content(&disk, &name).len() {
            // Zeros all look alike; a sample of them is enough.
            let is_data = offset < 700
                || ranges
                    .iter()
                    .any(|(begin, end)| (*begin..*end).contains(&offset));
            if !is_data && !offset.is_multiple_of(61) {
                continue;
            }
            let copy = broken(&disk, &name, |bytes| bytes[offset] ^= 1 << (offset % 8));
            let place = format!("{name} at {offset}");
            match try_read(&copy) {
                Err(RecoveryError::DurableDataLost { lost, claimed, .. }) => {
                    assert!(lost <= claimed)
                }
                Err(error) => panic!("{place}: {error}"),
                Ok(recovery) => {
                    assert_prefix(&recovery, &all);
                    let summary = recovery.summary();
                    let behind_end = offset >= ranges.last().map_or(BLOCK, |range| range.1);
                    if offset < BLOCK {
                        assert_eq!(summary.remarks.len(), 1, "{place}");
                    } else if is_last && behind_end {
                        assert_eq!(summary.last.get(), 8, "{place}");
                        assert!(summary.break_at.is_some(), "{place}");
                    } else if is_last {
                        // Nothing vouches for the last frame: it may never have been synced.
                        assert_eq!(summary.last.get(), 7, "{place}");
                    } else {
                        assert!(behind_end, "{place} is lost without a word");
                    }
                }
            }
        }
    }
}

#[test]
fn a_file_of_any_other_length_is_refused() {
    let (disk, _) = synced_log();
    for name in [FIRST, SECOND] {
        let whole = content(&disk, name).len();
        for length in (0..whole).chain([whole + 1, whole + 4096]) {
            let copy = broken(&disk, name, |bytes| bytes.resize(length, 0));
            match try_read(&copy) {
                Err(RecoveryError::Damaged { file, offset, .. }) => {
                    assert!(file.ends_with(name));
                    assert_eq!(offset, length.min(whole) as u64);
                }
                other => panic!("{name} of length {length}: {other:?}"),
            }
        }
    }
}

#[test]
fn the_last_frame_cut_at_every_byte_is_left_out() {
    let (disk, all) = unsynced_log(3, 50);
    let ranges = frame_ranges(&disk, FIRST);
    for cut in ranges[0].0..=ranges[2].1 {
        for filler in [0, 0xa5] {
            let copy = broken(&disk, FIRST, |bytes| bytes[cut..].fill(filler));
            let recovery = read(&copy);
            // The last six bytes are padding, so zeros there change nothing.
            let whole = |end: usize| cut >= end || (filler == 0 && cut >= end - 6);
            let expected = ranges.iter().filter(|range| whole(range.1)).count();
            assert_eq!(payloads(&recovery), all[..expected], "cut at {cut}");
            let is_clean = filler == 0
                && (cut == BLOCK
                    || ranges
                        .iter()
                        .any(|range| cut == range.1 || (cut < range.1 && whole(range.1))));
            assert_eq!(
                recovery.summary().only_zeros_follow,
                is_clean,
                "cut at {cut}, {filler}"
            );
        }
    }
}

#[test]
fn remains_of_another_segment_are_not_taken_for_frames() {
    let (disk, all) = unsynced_log(3, 100);
    let end = frame_ranges(&disk, FIRST)[2].1;
    // The same frames with the same positions, and later ones, as another segment sealed them.
    let (other, _) = unsynced_log(3, 100);
    let other = other.after_process_end();
    open(&other);
    let mut log = open(&other);
    for number in 0..3 {
        commit(&mut log, &payload(number, 100));
    }
    let remains = content(&other, "segment-0000000003.segment")[BLOCK..BLOCK + 500].to_vec();
    let copy = broken(&disk, FIRST, |bytes| {
        bytes[end..end + 500].copy_from_slice(&remains)
    });
    let recovery = read(&copy);
    assert_prefix(&recovery, &all);
    assert_eq!(recovery.summary().last.get(), 3);
    let break_at = recovery.summary().break_at.clone().unwrap();
    assert_eq!(
        (break_at.offset, break_at.reason),
        (end as u64, "bytes that are not a frame of this segment")
    );
}

#[test]
fn a_hole_is_cut_when_nothing_behind_it_was_synced() {
    let (disk, all) = unsynced_log(30, 300);
    let ranges = frame_ranges(&disk, FIRST);
    assert!(ranges.len() < 30, "the log goes on in a second segment");
    for (index, &(begin, end)) in ranges.iter().enumerate() {
        let copy = broken(&disk, FIRST, |bytes| bytes[begin..end].fill(0));
        let recovery = read(&copy);
        assert_prefix(&recovery, &all);
        assert_eq!(recovery.summary().last.get(), index as u64);
        let break_at = recovery.summary().break_at.clone().unwrap();
        assert_eq!(
            (break_at.file, break_at.offset),
            (format!("memory:{FIRST}"), begin as u64)
        );
    }
}

#[test]
fn a_hole_is_refused_when_a_later_frame_says_it_was_synced() {
    let (disk, _) = synced_log();
    let later = [(FIRST, 0), (SECOND, 5), ("segment-0000000003.segment", 7)];
    for (name, before) in later {
        for (index, &(begin, end)) in frame_ranges(&disk, name).iter().enumerate() {
            let copy = broken(&disk, name, |bytes| bytes[begin..end].fill(0));
            let position = before + index as u64 + 1;
            match try_read(&copy) {
                Err(RecoveryError::DurableDataLost {
                    file,
                    offset,
                    lost,
                    claimed,
                    ..
                }) => {
                    assert_eq!((file, offset), (format!("memory:{name}"), begin as u64));
                    assert_eq!(lost.get(), position);
                    assert!(claimed >= lost);
                }
                Ok(recovery) => {
                    // Only the last frame has nobody behind it.
                    assert_eq!((position, recovery.summary().last.get()), (8, 7));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_hole_in_the_newest_segment_is_judged_by_the_frames_behind_it() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    commit_many(&mut log, 6, 100);
    let ranges = frame_ranges(&disk, FIRST);
    for (index, &(begin, end)) in ranges.iter().enumerate().take(5) {
        for filler in [0, 0xa5] {
            let copy = broken(&disk, FIRST, |bytes| bytes[begin..end].fill(filler));
            match try_read(&copy) {
                Err(RecoveryError::DurableDataLost {
                    lost,
                    claimed,
                    claimed_at,
                    ..
                }) => {
                    assert_eq!((lost.get(), claimed.get()), (index as u64 + 1, 5));
                    assert_eq!(claimed_at, ranges[5].0 as u64);
                }
                other => panic!("frame {index}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_frame_in_another_frames_place_is_not_accepted() {
    let (disk, all) = unsynced_log(4, 100);
    let ranges = frame_ranges(&disk, FIRST);
    let copy = broken(&disk, FIRST, |bytes| {
        bytes.copy_within(ranges[2].0..ranges[2].1, ranges[1].0)
    });
    let recovery = read(&copy);
    assert_prefix(&recovery, &all);
    assert_eq!(recovery.summary().last.get(), 1);
    assert_eq!(
        recovery.summary().break_at.as_ref().unwrap().reason,
        "a frame is out of order"
    );
}

#[test]
fn the_message_of_lost_data_says_where_what_and_what_to_do() {
    let (disk, _) = synced_log();
    let (begin, end) = frame_ranges(&disk, FIRST)[2];
    let text = try_read(&broken(&disk, FIRST, |bytes| bytes[begin..end].fill(0)))
        .unwrap_err()
        .to_string();
    for part in [
        FIRST,
        &begin.to_string(),
        "position 3",
        "does not start",
        "Restore",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_segment_that_lost_its_header_is_judged_by_what_follows() {
    let without_header = |disk: &MemoryDisk| broken(disk, SECOND, |bytes| bytes[..BLOCK].fill(0));
    let (unsynced, all) = unsynced_log(40, 300);
    assert_eq!(names(&unsynced).len(), 3);
    let recovery = read(&without_header(&unsynced));
    assert_prefix(&recovery, &all);
    assert_eq!(
        recovery.summary().last.get(),
        frame_ranges(&unsynced, FIRST).len() as u64
    );
    assert_eq!(
        recovery.summary().break_at.as_ref().unwrap().file,
        format!("memory:{SECOND}")
    );

    let (synced, _) = synced_log();
    let error = try_read(&without_header(&synced)).unwrap_err();
    assert!(
        matches!(error, RecoveryError::DurableDataLost { .. }),
        "{error}"
    );
}

/// Made ahead, the last segment would hold nothing but zeros.
#[test]
fn frames_behind_a_header_that_is_gone_are_a_break() {
    let (disk, all) = unsynced_log(8, 1500);
    let newest = names(&disk).pop().unwrap();
    let without_header = broken(&disk, &newest, |bytes| bytes[..BLOCK].fill(0));
    let recovery = read(&without_header);
    assert_prefix(&recovery, &all);
    assert!(!recovery.summary().only_zeros_follow);
    let cut = recovery.summary().break_at.as_ref().unwrap();
    assert!(cut.file.ends_with(&newest) && cut.offset == 0);
    let zeros = broken(&disk, &newest, |bytes| bytes.fill(0));
    assert!(read(&zeros).summary().only_zeros_follow);
}

#[test]
fn what_was_cut_never_comes_back() {
    let (disk, all) = unsynced_log(20, 300);
    let (begin, end) = frame_ranges(&disk, FIRST)[3];
    disk.edit(FIRST, |bytes| bytes[begin..end].fill(0));
    let mut expected = all[..3].to_vec();
    for round in 0..3 {
        let mut log = open(&disk);
        assert_eq!(log.writer.durable().get(), expected.len() as u64);
        expected.push(payload(round, 10));
        commit(&mut log, expected.last().unwrap());
        let recovery = read(&disk);
        assert_eq!(payloads(&recovery), expected);
        assert!(recovery.summary().only_zeros_follow);
    }
    // The frames that the second and third start wrote vouch for what was kept, not for what was cut.
    let (begin, end) = frame_ranges(&disk, FIRST)[1];
    disk.edit(FIRST, |bytes| bytes[begin..end].fill(0));
    let error = try_read(&disk).unwrap_err();
    assert!(
        matches!(error, RecoveryError::DurableDataLost { lost, .. } if lost.get() == 2),
        "{error}"
    );
}

/// A start that dies before its first record is durable must not make the tear it saw look clean.
#[test]
fn a_start_without_a_record_hides_no_break() {
    const THIRD: &str = "segment-0000000003.segment";
    let (disk, _) = unsynced_log(40, 300);
    let frames = frame_ranges(&disk, FIRST);
    let (among, last) = (frames[3], frames[frames.len() - 1]);
    // Where the last frame of a segment is lost, or the header of one, nothing but a segment that is left out tells of it.
    for (name, (begin, end)) in [(FIRST, among), (FIRST, last), (THIRD, (0, BLOCK))] {
        let disk = broken(&disk, name, |bytes| bytes[begin..end].fill(0));
        for start in 0..3 {
            let is_whole = read(&disk).summary().only_zeros_follow;
            assert!(!is_whole, "start {start}, {name} from {begin}");
            drop(open(&disk));
        }
        let mut log = open(&disk);
        commit(&mut log, b"judged");
        assert!(read(&disk).summary().only_zeros_follow);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_gives_a_prefix_or_an_error(
        is_synced in any::<bool>(),
        damages in prop::collection::vec(Damage::in_one_of(3), 1..4),
    ) {
        let (disk, all) = if is_synced { synced_log() } else { unsynced_log(40, 300) };
        for damage in damages {
            damage.strike(&disk, &names(&disk));
        }
        if let Ok(recovery) = try_read(&disk) {
            let found = payloads(&recovery);
            prop_assert_eq!(&found, &all[..found.len()]);
            prop_assert!(found.len() == all.len() || recovery.summary().break_at.is_some());
            // Only the last frame of the synced log has nobody to vouch for it.
            prop_assert!(!is_synced || found.len() + 1 >= all.len());
        }
    }
}
