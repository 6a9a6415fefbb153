//! Starts on a full disk: what is there is gone on with in the last segment, and no crash on the way hides a break or brings
//! back what was left out.

use crate::small_log::*;
use proptest::prelude::*;
use quorlock_persistence::{
    Disk, DiskFault, DiskOperation, FrameKind, Log, MemoryDisk, StartSpace, WriteError,
};
use std::sync::Arc;

/// A start as a node makes it.
fn start(disk: &MemoryDisk, incarnation: u64) -> Result<Log, WriteError> {
    match read(disk).into_log(identity(incarnation)) {
        Err(refused) => {
            let disk = Arc::new(disk.clone());
            Log::resume(disk, &options(), identity(incarnation), refused)
        }
        opened => opened,
    }
}

#[test]
fn a_full_disk_is_started_on_again_and_again() {
    let disk = MemoryDisk::with_power_loss();
    let mut all = commit_many(&mut open(&disk), 6, 700);
    disk.leave_room(0);
    for life in 2..12 {
        assert_eq!(names(&disk), [FIRST]);
        let seen: Arc<dyn Disk> = Arc::new(disk.clone());
        let space = Log::start_space(&seen, &options()).unwrap();
        assert_eq!(space, StartSpace::LastSegment);
        let mut log = start(&disk, life).unwrap();
        assert!(log.appender.is_full() && log.appender.needs_preparing());
        assert!(!log.appender.has_spare());
        assert!(!log.preparer.prepare().unwrap(), "it is full");
        all.push(payload(all.len(), 24));
        assert_eq!(
            commit(&mut log, &all[all.len() - 1]).get(),
            all.len() as u64
        );
        drop(log);
        let lost = disk.after_power_loss(false, |_, _| false);
        assert_eq!(payloads(&read(&lost)), all, "what was synced is durable");
    }
    // With space again the log goes on in a new segment, also while it runs.
    let mut log = start(&disk, 12).unwrap();
    disk.set_capacity(None);
    let seen: Arc<dyn Disk> = Arc::new(disk.clone());
    let space = Log::start_space(&seen, &options()).unwrap();
    assert_eq!(space, StartSpace::Segment);
    assert!(log.preparer.prepare().unwrap() && !log.appender.is_full());
    all.extend((0..9).map(|number| payload(number, 700)));
    for payload in &all[all.len() - 9..] {
        commit(&mut log, payload);
    }
    assert_eq!(log.writer.segment(), 2);
    assert_eq!(payloads(&read(&disk)), all);
    drop(start(&disk, 13).unwrap());
    assert_eq!(names(&disk).len(), 3, "the usual start");
}

#[test]
fn a_start_ends_where_not_even_its_records_fit() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    // All but the 256 bytes of the reserve.
    while log.appender.room() >= 100 {
        commit(&mut log, &payload(1, 100));
    }
    disk.leave_room(0);
    let before = content(&disk, FIRST);
    let error = start(&disk, 2).unwrap_err();
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(content(&disk, FIRST), before);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let space = Log::start_space(&disk, &options()).unwrap();
    assert_eq!(space, StartSpace::None(12 << 10), "a first segment");
}

#[test]
fn what_was_read_and_could_not_be_written_again_is_not_built_on() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    append(&mut log, b"not synced");
    write(&mut log);
    drop(log);
    // On a file system that copies on write, a full disk refuses this as well.
    disk.plan_fault(&[DiskOperation::Write], 0, DiskFault::Error(28));
    let error = start(&disk, 2).unwrap_err();
    assert!(matches!(error, WriteError::NoSpace(_)), "{error}");
    assert!(error.to_string().contains("write again"), "{error}");
}

/// A new segment that has its name already says where the one before it ends, and the last one is not gone on with.
#[test]
fn a_new_segment_whose_name_could_not_be_synced_is_not_gone_on_beside() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    commit_many(&mut log, 8, 1500);
    log.appender.append(FrameKind::checkpoint_begin(2), 0, b"");
    log.appender.append(FrameKind::checkpoint_end(4), 0, b"");
    write(&mut log);
    log.writer.sync().unwrap();
    drop(log);
    // What the checkpoint has made superfluous is not removed yet, and makes room for a segment.
    assert_eq!(names(&disk).len(), 3);
    let mut started = 0;
    for syncs in 0..8 {
        let disk = disk.after_process_end();
        disk.leave_room(0);
        let full = DiskFault::Error(28);
        disk.plan_fault(&[DiskOperation::SyncDirectory], syncs, full);
        let Ok(mut log) = start(&disk, 2) else {
            continue;
        };
        started += 1;
        commit(&mut log, b"acknowledged");
        drop(log);
        let found = payloads(&read(&disk));
        let last = found.last().map(Vec::as_slice);
        assert_eq!(last, Some(&b"acknowledged"[..]), "{syncs}");
    }
    assert!(started > 0, "without a fault at least");
}

/// A process that was killed while it made a segment leaves one that is not whole, and the next start removes it.
#[test]
fn what_a_start_would_free_counts_as_space() {
    let disk = MemoryDisk::new();
    drop(open(&disk));
    let unfinished = disk.create("segment-0000000002.new").unwrap();
    unfinished.write_at(0, &[0; 12 << 10]).unwrap();
    disk.leave_room(0);
    let seen: Arc<dyn Disk> = Arc::new(disk.clone());
    let space = Log::start_space(&seen, &options()).unwrap();
    assert_eq!(space, StartSpace::Segment);
    assert!(!start(&disk, 2).unwrap().appender.is_full());
    assert_eq!(names(&disk), [FIRST, SECOND]);
}

/// The segment behind the break is what tells of it, and no mark could take its place.
#[test]
fn what_a_start_has_to_leave_does_not_count_as_space() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    commit_many(&mut log, 4, 1960);
    commit(&mut log, &payload(4, 152));
    let end = frame_ranges(&disk, FIRST)[4].1;
    assert_eq!(end, content(&disk, FIRST).len(), "it is full");
    append(&mut log, b"in the next one");
    write(&mut log);
    let disk = disk.after_power_loss(true, |_, sector| sector >= 8);
    disk.leave_room(6 << 10);
    let seen: Arc<dyn Disk> = Arc::new(disk.clone());
    let space = Log::start_space(&seen, &options()).unwrap();
    assert_eq!(space, StartSpace::None(6 << 10));
    let error = start(&disk, 2).unwrap_err();
    assert!(matches!(error, WriteError::NoSpace(_)), "{error}");
    assert_eq!(names(&disk), [FIRST, SECOND]);
}

/// Behind a break lie whole frames, in this segment and in a later one.
fn broken(random: &mut u64) -> (MemoryDisk, Vec<Vec<u8>>) {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    log.preparer.prepare().unwrap();
    let mut all = commit_many(&mut log, 3, 300);
    for number in 0..16 {
        if chance(random, 12) {
            break;
        }
        all.push(payload(number, 600));
        append(&mut log, &all[all.len() - 1]);
        write(&mut log);
    }
    drop(log);
    let lost = disk.after_power_loss(true, |_, _| !chance(random, 4));
    (lost, all)
}

/// One in so many times.
fn chance(random: &mut u64, one_in: u64) -> bool {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*random >> 33).is_multiple_of(one_in)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_crash_of_a_start_hides_a_break_or_brings_back_what_was_left_out(
        mut random in any::<u64>(),
        more in 0_u64..20_000,
    ) {
        let (disk, mut all) = broken(&mut random);
        let first = read(&disk);
        all.truncate(payloads(&first).len());
        prop_assert_eq!(payloads(&first), all.clone());
        let is_whole = first.summary().only_zeros_follow;
        drop(first);

        disk.leave_room(more);
        disk.record_points();
        let Ok(mut log) = start(&disk, 2) else {
            return Err(TestCaseError::reject("not even the records of a start fit"));
        };
        commit(&mut log, b"the verdict");
        commit(&mut log, b"and more");
        for point in disk.take_points() {
            for _ in 0..6 {
                let names_survive = chance(&mut random, 2);
                let lost = point.disk.after_power_loss(names_survive, |_, _| chance(&mut random, 2));
                let recovery = read(&lost);
                let found = payloads(&recovery);
                prop_assert_eq!(&found[..all.len()], &all[..]);
                match found.get(all.len()) {
                    None => prop_assert!(is_whole || !recovery.summary().only_zeros_follow, "{:?}", point.file),
                    Some(frame) => prop_assert_eq!(&frame[..], b"the verdict"),
                }
            }
        }
        drop(log);
        let last = read(&disk);
        prop_assert_eq!(&payloads(&last)[all.len()..], [&b"the verdict"[..], b"and more"]);
        prop_assert!(last.summary().only_zeros_follow, "the break was judged");
    }
}
