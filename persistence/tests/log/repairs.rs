//! Logs that a start refuses, and what is left of them after a repair: a prefix that can be proven, the frame that
//! tells of the loss, and everything that was cut off, in a folder.

use crate::small_log::*;
use proptest::prelude::*;
use quorlock_persistence::{
    Disk, FrameKind, LogOptions, MemoryDisk, RealDisk, RecoveryError, Repair, RepairCut, Repaired,
    WriteError,
};
use std::sync::Arc;

const THIRD: &str = "segment-0000000003.segment";
const LOST: FrameKind = FrameKind::new(13);

/// Ten frames in four segments, each synced on its own.
fn synced_log() -> (MemoryDisk, Vec<Vec<u8>>) {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    let all = commit_many(&mut log, 10, 1500);
    assert_eq!(names(&disk).len(), 4);
    (disk, all)
}

fn plan(disk: &MemoryDisk) -> Result<Repair, RecoveryError> {
    Repair::plan(Arc::new(disk.clone()), &options())
}

fn try_repair(disk: &MemoryDisk) -> Result<Repaired, WriteError> {
    let repair = plan(disk).unwrap();
    let time = repair.newest_node_time_ns();
    repair.commit(identity(7), LOST, time, b"lost")
}

/// Repairs, and checks what must hold of every repair. Returns how many of the frames are kept.
fn repaired(disk: &MemoryDisk, all: &[Vec<u8>]) -> usize {
    let before: Vec<(String, Vec<u8>)> = names(disk)
        .into_iter()
        .map(|name| (name.clone(), content(disk, &name)))
        .collect();
    let cut = plan(disk).unwrap().cut();
    let done = try_repair(disk).unwrap();
    let recovery = read(disk);
    let mut found = payloads(&recovery);
    assert_eq!(found.pop().as_deref(), Some(&b"lost"[..]));
    assert_eq!(found, all[..found.len()], "what is kept is a prefix");
    assert_eq!(done.kept.get(), found.len() as u64);
    let summary = recovery.summary();
    assert!(
        summary.only_zeros_follow,
        "the repair is not a break itself"
    );
    assert_eq!(summary.last, done.position);
    assert_eq!(summary.frames, found.len() as u64 + 1);
    assert!(done.position.get() >= 1 << 32, "no position is used twice");
    assert!(summary.newest_node_time_ns >= found.len() as u64);
    // Whatever is not in the log any more, or was cut, lies in the folder as it was.
    let folder = done.folder.trim_start_matches("memory:").to_owned();
    let now = names(disk);
    if let Some(RepairCut { file, .. }) = cut {
        let name = file.trim_start_matches("memory:");
        let (_, bytes) = before.iter().find(|(it, _)| it == name).unwrap();
        assert_eq!(content(disk, &format!("{folder}/{name}")), *bytes, "{name}");
    }
    let cut = payloads(&recovery).len();
    for (name, bytes) in before {
        let copy = format!("{folder}/{name}");
        let is_blank = bytes.iter().all(|&byte| byte == 0);
        if now.contains(&copy) {
            assert_eq!(content(disk, &copy), bytes, "{name}");
        } else if now.contains(&name) {
            assert_eq!(content(disk, &name), bytes, "{name}");
        } else {
            assert!(is_blank, "{name} is gone ({cut} frames are left)");
        }
    }
    found.len()
}

/// The log goes on after a repair, and is read with what was appended.
fn assert_goes_on(disk: &MemoryDisk, kept: usize) {
    for round in 1..=3 {
        let mut log = open(disk);
        let position = commit(&mut log, b"after the repair");
        assert_eq!(position.get(), (1 << 32) + round);
        assert_eq!(payloads(&read(disk)).len() as u64, kept as u64 + 1 + round);
    }
}

#[test]
fn a_log_is_cut_before_the_first_frame_that_is_lost() {
    let (whole, all) = synced_log();
    let mut before = 0;
    for name in names(&whole) {
        for (index, (begin, end)) in frame_ranges(&whole, &name).into_iter().enumerate() {
            let disk = whole.after_process_end();
            disk.edit(&name, |bytes| bytes[begin..end].fill(0));
            if before + index + 1 == all.len() {
                assert!(try_read(&disk).is_ok(), "nobody vouches for the last frame");
                continue;
            }
            assert!(matches!(
                try_read(&disk),
                Err(RecoveryError::DurableDataLost { .. })
            ));
            assert_eq!(repaired(&disk, &all), before + index, "{name} {index}");
            assert_goes_on(&disk, before + index);
        }
        before += frame_ranges(&whole, &name).len();
    }
}

/// The cut of the first repair lies behind the second damage, and says nothing of what is whole before it.
#[test]
fn a_repaired_log_that_is_damaged_again_is_cut_before_the_second_damage() {
    let (disk, all) = synced_log();
    let (begin, end) = frame_ranges(&disk, THIRD)[1];
    disk.edit(THIRD, |bytes| bytes[begin..end].fill(0));
    let kept = repaired(&disk, &all);
    let mut log = open(&disk);
    commit(&mut log, b"after the repair");
    drop(log);
    let mut before = 0;
    let segments = names(&disk)
        .into_iter()
        .filter(|name| name.starts_with("segment-"));
    for name in segments {
        for (begin, end) in frame_ranges(&disk, &name) {
            if before == kept {
                return;
            }
            let again = disk.after_process_end();
            again.edit(&name, |bytes| bytes[begin..end].fill(0));
            assert!(try_read(&again).is_err(), "{name} {begin}");
            try_repair(&again).unwrap();
            let mut found = payloads(&read(&again));
            assert_eq!(found.pop().as_deref(), Some(&b"lost"[..]));
            assert_eq!(found, all[..before], "{name} {begin}");
            before += 1;
        }
    }
    panic!("{kept} frames were kept, and {before} are in the log");
}

/// What a segment can suffer as a whole.
const BLOWS: [fn(&MemoryDisk, &str); 6] = [
    |disk, name| disk.remove(name).unwrap(),
    |disk, name| disk.edit(name, Vec::clear),
    |disk, name| disk.edit(name, |bytes| bytes.truncate(5000)),
    |disk, name| disk.edit(name, |bytes| bytes.push(0)),
    |disk, name| {
        disk.edit(name, |bytes| {
            bytes[20] ^= 1;
            bytes[532] ^= 1;
        });
    },
    |disk, name| disk.rename(name, "segment-0000000009.segment").unwrap(),
];

#[test]
fn a_segment_that_is_gone_takes_what_comes_after_it() {
    let (whole, all) = synced_log();
    let mut before = 0;
    for name in names(&whole) {
        for (index, blow) in BLOWS.iter().enumerate() {
            let disk = whole.after_process_end();
            blow(&disk, &name);
            let is_last = name == "segment-0000000004.segment";
            if is_last && index == 0 {
                assert!(
                    try_read(&disk).is_ok(),
                    "nothing says that there was another"
                );
                continue;
            }
            assert!(try_read(&disk).is_err(), "{name} blow {index}");
            let kept = repaired(&disk, &all);
            // Of the segment before it, the last frame is not known to have been durable.
            let provable = usize::max(before, 1) - 1;
            assert_eq!(kept, provable, "{name} blow {index}");
            assert_goes_on(&disk, kept);
        }
        before += frame_ranges(&whole, &name).len();
    }
}

#[test]
fn without_its_checkpoint_nothing_of_a_log_is_kept() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    commit_many(&mut log, 6, 1500);
    log.appender.append(FrameKind::checkpoint_begin(9), 7, b"");
    log.appender
        .append(FrameKind::new(10), 8, &payload(9, 1900));
    log.appender.append(FrameKind::checkpoint_end(11), 9, b"");
    commit_many(&mut log, 4, 1500);
    log.preparer.prepare().unwrap();
    drop(log);
    let oldest = names(&disk)[0].clone();
    assert_ne!(
        oldest, FIRST,
        "the checkpoint has replaced the first segment"
    );
    let (begin, end) = frame_ranges(&disk, &oldest)[1];
    disk.edit(&oldest, |bytes| bytes[begin..end].fill(1));
    assert!(try_read(&disk).is_err());
    let plan = plan(&disk).unwrap();
    assert_eq!(
        (plan.cut(), plan.frames().collect().unwrap()),
        (None, Vec::new())
    );
    assert_eq!(repaired(&disk, &[]), 0);
    assert_goes_on(&disk, 0);
}

/// A start left out what was never durable. A repair that can no longer see that start's verdict must not bring
/// it back.
#[test]
fn frames_that_a_start_has_left_out_do_not_come_back() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    commit(&mut log, b"durable");
    commit(&mut log, b"vouched for");
    for number in 0..3 {
        append(&mut log, &payload(number, 100));
        write(&mut log);
    }
    drop(log);
    let (begin, end) = frame_ranges(&disk, FIRST)[2];
    disk.edit(FIRST, |bytes| bytes[begin..end].fill(0));
    let mut log = open(&disk);
    commit(&mut log, b"after the cut");
    commit(&mut log, b"and one more");
    drop(log);
    // The frames behind the hole are whole and carry the segment's mark.
    disk.remove(SECOND).unwrap();
    let mut log = open(&disk.after_process_end());
    assert_eq!(
        commit(&mut log, b"x").get(),
        3,
        "a start sees nothing wrong here"
    );
    disk.create("segment-0000000003.segment").unwrap();
    assert!(try_read(&disk).is_err());
    assert_eq!(repaired(&disk, &[b"durable".to_vec()]), 1);
}

#[test]
fn what_is_no_damage_is_not_repaired() {
    let (disk, _) = synced_log();
    disk.edit(SECOND, |bytes| {
        bytes[8] = 9;
        bytes[520] = 9;
    });
    assert!(matches!(
        plan(&disk),
        Err(RecoveryError::UnknownVersion { .. })
    ));
    let (disk, _) = synced_log();
    let expected = LogOptions {
        expected_node: Some([9; 20]),
        ..options()
    };
    let error = Repair::plan(Arc::new(disk), &expected).unwrap_err();
    assert!(
        matches!(error, RecoveryError::ForeignNode { .. }),
        "{error}"
    );
}

/// A start cuts the segment before its own: what nobody vouches for counts only in the newest one.
#[test]
fn the_last_frame_is_kept_only_where_nothing_can_have_cut_it_off() {
    let whole = MemoryDisk::new();
    commit(&mut open(&whole), b"first start");
    let mut log = open(&whole);
    log.appender
        .append(FrameKind::checkpoint_begin(9), 2, b"begin");
    log.appender
        .append(FrameKind::checkpoint_end(11), 3, b"end");
    commit(&mut log, b"durable");
    commit(&mut log, b"last");
    let older = whole.after_process_end();
    assert!(log.preparer.prepare().unwrap());
    drop(log);
    let keeps_last_of = |disk: MemoryDisk, change: fn(&MemoryDisk)| {
        change(&disk);
        try_repair(&disk).unwrap();
        let found = payloads(&read(&disk));
        assert!(found.contains(&b"durable".to_vec()));
        found.contains(&b"last".to_vec())
    };
    let older_is_damaged = |disk: &MemoryDisk| disk.edit(FIRST, |bytes| bytes.truncate(100));
    assert!(keeps_last_of(older, older_is_damaged));
    let keeps_last = |change| keeps_last_of(whole.after_process_end(), change);
    assert!(keeps_last(|_| {}), "zeros were made ahead");
    assert!(keeps_last(|disk| disk.remove(THIRD).unwrap()));
    let used = |disk: &MemoryDisk| disk.edit(THIRD, |bytes| bytes[BLOCK] = 1);
    assert!(!keeps_last(used));
    let cut_short = |disk: &MemoryDisk| disk.edit(THIRD, |bytes| bytes.truncate(100));
    assert!(!keeps_last(cut_short), "it may have been used");
    let missing = |disk: &MemoryDisk| disk.rename(THIRD, "segment-0000000004.segment").unwrap();
    assert!(!keeps_last(missing), "the one before it is missing");
}

/// A process that was killed left frames in the page cache; the repair vouches for them.
#[test]
fn what_is_kept_is_durable_also_where_no_sync_had_covered_it() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    commit(&mut log, b"synced");
    append(&mut log, b"only written");
    write(&mut log);
    drop(log);
    let disk = disk.after_process_end();
    try_repair(&disk).unwrap();
    let lost = disk.after_power_loss(false, |_, _| false);
    let kept = [&b"synced"[..], b"only written", b"lost"];
    assert_eq!(payloads(&read(&lost)), kept);
}

#[test]
fn a_segment_of_zeros_goes_away_with_what_came_after_it() {
    let (disk, all) = synced_log();
    disk.edit(SECOND, |bytes| bytes.fill(0));
    assert!(try_read(&disk).is_err());
    let kept = repaired(&disk, &all);
    assert!(kept > 0 && !names(&disk).contains(&SECOND.to_owned()));
    assert_goes_on(&disk, kept);
}

#[test]
fn what_only_has_the_name_of_a_segment_is_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(SECOND)).unwrap();
    let disk = RealDisk::open(directory.path()).unwrap();
    let plan = Repair::plan(disk, &options()).unwrap();
    assert_eq!(plan.set_aside(), [SECOND]);
    assert_eq!(plan.newest_number(), 2);
}

#[test]
fn a_plan_changes_nothing() {
    let (disk, _) = synced_log();
    disk.remove(SECOND).unwrap();
    disk.end_after(0);
    let plan = plan(&disk).unwrap();
    assert!(plan.cut().is_some() && !plan.set_aside().is_empty());
    assert_eq!(plan.newest_node_time_ns(), 10, "also behind the gap");
    assert_eq!(plan.newest_identity(), Some(identity(1)));
    assert_eq!(plan.describe(), disk.describe(""));
    let mut seen = 0;
    plan.visit(|_| seen += 1).unwrap();
    assert_eq!(seen, 8, "also what lies behind the gap is looked at");
}

/// Wherever a repair is cut off, and whatever of it has reached the disk: the log is refused as before, or is
/// repaired. It is never read without the word of the loss.
#[test]
fn a_crash_during_a_repair_hides_no_loss() {
    let (whole, all) = synced_log();
    for blow in [0, 4] {
        whole.sync_dir().unwrap();
        let damaged = whole.after_process_end();
        BLOWS[blow](&damaged, SECOND);
        damaged.sync_dir().unwrap();
        let mut changes = 0;
        loop {
            let disk = damaged.after_process_end();
            disk.end_after(changes);
            let is_done = try_repair(&disk).is_ok();
            for pattern in 0..12_u64 {
                let survives = |_: &str, sector: u64| (sector * 7 + pattern * 5) % 12 < pattern;
                let found = disk.after_power_loss(pattern % 2 == 0, survives);
                match try_read(&found) {
                    Ok(recovery) => {
                        let last = payloads(&recovery).pop();
                        assert_eq!(last.as_deref(), Some(&b"lost"[..]), "{changes} {pattern}");
                    }
                    Err(_) => {
                        assert!(!is_done, "{changes} {pattern}");
                        repaired_after_crash(&found, &all);
                    }
                }
            }
            if is_done {
                break;
            }
            changes += 1;
        }
        assert!(changes > 8, "the repair has changes to be cut off at");
    }
}

/// A second repair finishes what the first one began; the first one's word of the loss may be kept.
fn repaired_after_crash(disk: &MemoryDisk, all: &[Vec<u8>]) {
    try_repair(disk).unwrap();
    let mut found = payloads(&read(disk));
    assert_eq!(found.pop().as_deref(), Some(&b"lost"[..]));
    found.retain(|payload| payload != b"lost");
    assert_eq!(found, all[..found.len()]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_damaged_a_prefix_is_left(
        damages in prop::collection::vec(Damage::in_one_of(4), 1..4),
        gone in prop::option::of((0_usize..4, 0..BLOWS.len() - 1)),
    ) {
        let (disk, all) = synced_log();
        let all_names = names(&disk);
        for damage in damages {
            damage.strike(&disk, &all_names);
        }
        if let Some((segment, blow)) = gone {
            BLOWS[blow](&disk, &all_names[segment]);
        }
        if try_read(&disk).is_err() && plan(&disk).is_ok() {
            let kept = repaired(&disk, &all);
            prop_assert!(kept < all.len());
            assert_goes_on(&disk, kept);
        }
    }
}
