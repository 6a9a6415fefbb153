//! Crashes at any moment, with any of the unsynced sectors on the disk: what comes back is a prefix
//! of what was appended, holds everything that a sync confirmed, and is never refused.

use crate::small_log::*;
use proptest::prelude::*;
use quorlock_persistence::{DiskOperation, MemoryDisk};

#[test]
fn every_subset_of_unsynced_sectors_leaves_a_prefix() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    let mut all = Vec::new();
    for number in 0..20 {
        all.push(payload(number, 200));
        append(&mut log, &all[number]);
        write(&mut log);
        if number == 3 {
            log.writer.sync().unwrap();
        }
    }
    let mut unsynced = Vec::new();
    disk.after_power_loss(true, |name, sector| {
        unsynced.push((name.to_owned(), sector));
        false
    });
    assert!(
        (8..=12).contains(&unsynced.len()),
        "{} unsynced sectors",
        unsynced.len()
    );
    for subset in 0_u32..1 << unsynced.len() {
        let lost = disk.after_power_loss(true, |name, sector| {
            let index = unsynced
                .iter()
                .position(|known| *known == (name.to_owned(), sector));
            subset & (1 << index.unwrap()) != 0
        });
        let recovery = read(&lost);
        let found = payloads(&recovery);
        assert!(found.len() >= 4, "subset {subset:b}");
        assert_eq!(found, all[..found.len()], "subset {subset:b}");
    }
}

/// What happens between two power losses.
#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Write,
    Sync,
    Prepare,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0_usize..2000).prop_map(Step::Append),
        3 => Just(Step::Write),
        1 => Just(Step::Sync),
        1 => Just(Step::Prepare),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_life_of_crashes_forgets_nothing_that_was_synced(
        lives in prop::collection::vec((prop::collection::vec(step(), 0..40), any::<u64>(), 0_u8..3), 1..6),
    ) {
        let mut disk = MemoryDisk::with_power_loss();
        let mut all: Vec<Vec<u8>> = Vec::new();
        for (steps, mut random, end) in lives {
            let mut log = open(&disk);
            prop_assert_eq!(log.writer.durable().get(), all.len() as u64);
            for step in steps {
                match step {
                    Step::Append(length) => {
                        all.push(payload(all.len(), length));
                        append(&mut log, all.last().unwrap());
                    }
                    Step::Write => { write(&mut log); }
                    Step::Sync => { log.writer.sync().unwrap(); }
                    Step::Prepare => prop_assert!(log.preparer.prepare().unwrap()),
                }
            }
            let durable = log.writer.durable().get();
            // A killed process leaves everything, but what it had not synced is still at risk in the next life.
            disk = match end {
                0 => disk.after_process_end(),
                _ => disk.after_power_loss(end == 1, |_, _| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    random >> 62 != 0
                }),
            };
            let recovery = read(&disk);
            let found = payloads(&recovery);
            prop_assert!(found.len() as u64 >= durable);
            all.truncate(found.len());
            prop_assert_eq!(found, all.clone());
        }
    }
}

/// Found by the exploration of crash states: a process is killed between a rename and the sync of the
/// directory, the next one goes on after the segment that it sees, and then the power fails.
#[test]
fn a_name_that_a_killed_process_did_not_sync_is_synced_before_anything_builds_on_it() {
    let disk = MemoryDisk::with_power_loss();
    commit(&mut open(&disk), b"first");
    disk.record_points();
    drop(open(&disk));
    let points = disk.take_points();
    let killed = points
        .iter()
        .find(|point| point.operation == DiskOperation::Rename)
        .unwrap();
    let next = killed.disk.after_process_end();
    next.record_points();
    drop(open(&next));
    for point in next.take_points() {
        let names = point.disk.unsynced().names.len();
        for subset in 0_u32..1 << names {
            let survive: Vec<bool> = (0..names).map(|name| subset >> name & 1 == 1).collect();
            let left = point.disk.after_loss_of_names(&survive);
            let recovery = read(&left.after_power_loss(true, |_, _| false));
            assert_eq!(payloads(&recovery), [b"first"], "{survive:?}");
        }
    }
}
