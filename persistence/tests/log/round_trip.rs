//! What is appended is read back: any payloads, batches, syncs and restarts, on both disks.

use crate::small_log::*;
use proptest::prelude::*;
use quorlock_persistence::{FrameBatch, FrameKind, MemoryDisk, Position, RealDisk, Recovery};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_in_any_batches_are_read_back(
        runs in prop::collection::vec(
            prop::collection::vec(
                (1_u8..=63, any::<u64>(), prop::collection::vec(any::<u8>(), 0..2000), any::<bool>(), any::<bool>()),
                0..30,
            ),
            1..4,
        ),
    ) {
        let disk = MemoryDisk::new();
        let mut expected = Vec::new();
        for (incarnation, run) in runs.iter().enumerate() {
            let mut log = read(&disk).into_log(identity(incarnation as u64)).unwrap();
            let mut spare = FrameBatch::default();
            for (kind, time_ns, payload, is_written, is_prepared) in run {
                let position = log.appender.append(FrameKind::new(*kind), *time_ns, payload);
                expected.push((position.get(), *kind, *time_ns, payload.clone()));
                if *is_written {
                    let mut batch = log.appender.take(spare);
                    prop_assert_eq!(log.writer.write(&mut batch).unwrap(), position);
                    spare = batch;
                }
                if *is_prepared {
                    prop_assert!(log.preparer.prepare().unwrap());
                }
            }
            let mut batch = log.appender.take(spare);
            log.writer.write(&mut batch).unwrap();
            prop_assert_eq!(log.writer.sync().unwrap().get(), expected.len() as u64);
        }
        let recovery = read(&disk);
        let found: Vec<_> = recovery
            .frames()
            .collect()
            .unwrap()
            .into_iter()
            .map(|frame| (frame.position.get(), frame.kind, frame.node_time_ns, frame.payload))
            .collect();
        prop_assert_eq!(&found, &expected);
        let newest = expected.iter().map(|frame| frame.2).max().unwrap_or(0);
        prop_assert_eq!(recovery.summary().newest_node_time_ns, newest);
        prop_assert!(recovery.summary().only_zeros_follow);
        prop_assert_eq!(recovery.summary().newest_identity.unwrap().incarnation, runs.len() as u64 - 1);
    }
}

#[test]
fn an_empty_directory_is_an_empty_log() {
    let disk = MemoryDisk::new();
    let recovery = read(&disk);
    let summary = recovery.summary();
    assert!(summary.is_empty && summary.only_zeros_follow);
    assert_eq!(
        (summary.last, summary.frames, summary.node_id),
        (Position::ZERO, 0, None)
    );
    assert_eq!(recovery.frames().collect().unwrap(), []);
    assert!(names(&disk).is_empty(), "reading writes nothing");
    let mut log = recovery.into_log(identity(1)).unwrap();
    assert_eq!(log.appender.next_position().get(), 1);
    assert_eq!(log.writer.sync().unwrap(), Position::ZERO);
}

#[test]
fn empty_and_largest_payloads_fit() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    for length in [0, 1, 7, 8, 1999, 2000] {
        commit(&mut log, &payload(1, length));
    }
    let lengths: Vec<_> = payloads(&read(&disk)).iter().map(Vec::len).collect();
    assert_eq!(lengths, [0, 1, 7, 8, 1999, 2000]);
}

#[test]
#[should_panic(expected = "a frame of 2001 bytes")]
fn a_payload_beyond_the_bound_is_a_mistake_of_the_caller() {
    append(&mut open(&MemoryDisk::new()), &[0; 2001]);
}

#[test]
fn a_log_on_a_real_disk_is_read_back_after_many_rotations() {
    let directory = tempfile::tempdir().unwrap();
    let open = || RealDisk::open(directory.path()).unwrap();
    let mut count = 0;
    for incarnation in 0..3 {
        let recovery = Recovery::read(open(), &options()).unwrap();
        assert_eq!(recovery.summary().last.get(), count);
        for (index, frame) in recovery.frames().collect().unwrap().iter().enumerate() {
            assert_eq!(frame.payload, payload(index, 900));
        }
        let mut log = recovery.into_log(identity(incarnation)).unwrap();
        for _ in 0..40 {
            let number = usize::try_from(count).unwrap();
            append(&mut log, &payload(number, 900));
            count += 1;
            if count.is_multiple_of(3) {
                write(&mut log);
            }
            if count.is_multiple_of(7) {
                assert!(log.preparer.prepare().unwrap());
            }
        }
        write(&mut log);
        assert_eq!(log.writer.sync().unwrap().get(), count);
        assert!(log.writer.total_bytes() >= log.writer.bytes_since_checkpoint());
    }
    let recovery = Recovery::read(open(), &options()).unwrap();
    assert_eq!(
        (recovery.summary().last.get(), payloads(&recovery).len()),
        (120, 120)
    );
    assert!(recovery.summary().only_zeros_follow);
}

#[test]
fn a_sync_by_ticket_covers_what_was_written_before_it() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    append(&mut log, b"before");
    write(&mut log);
    let ticket = log.writer.begin_sync();
    for number in 0..20 {
        append(&mut log, &payload(number, 1000));
    }
    write(&mut log);
    let second = log.writer.begin_sync();
    let position = ticket.run().unwrap();
    assert_eq!(position.get(), 1);
    let all = second.run().unwrap();
    log.writer.finish_sync(all);
    log.writer.finish_sync(position);
    assert_eq!(
        (log.writer.durable().get(), log.writer.written().get()),
        (21, 21)
    );
    let recovery = read(&disk.after_power_loss(false, |_, _| false));
    assert_eq!(recovery.summary().last.get(), 21);
}

#[test]
fn a_segment_left_during_a_sync_is_synced_by_the_next_one() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    append(&mut log, b"before");
    write(&mut log);
    let ticket = log.writer.begin_sync();
    let position = ticket.run().unwrap();
    for number in 0..20 {
        append(&mut log, &payload(number, 1000));
    }
    write(&mut log);
    log.writer.finish_sync(position);
    assert_eq!(log.writer.sync().unwrap().get(), 21);
    assert_eq!(
        read(&disk.after_power_loss(false, |_, _| false))
            .summary()
            .last
            .get(),
        21
    );
}
