//! What the writing half of the log says of itself, before, during and after a sync.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_engine::control::Record;
use quorlock_engine::{Caller, Command};
use quorlock_persistence::{MemoryDisk, Preparer};

use crate::clock::{Clock, SettableClock};
use crate::config::Config;
use crate::node::core::Wait;
use crate::node::for_tests;
use crate::node::shared::Shared;

fn node(disk: &MemoryDisk, clock: &Arc<SettableClock>) -> (Arc<Shared>, Preparer) {
    let disk = Arc::new(disk.clone());
    let (shared, preparer, _) = for_tests::started(Config::default(), disk, clock.clone());
    (shared, preparer)
}

/// Appends a frame and writes it; returns its position.
fn write(shared: &Shared) -> u64 {
    let position = {
        let mut core = shared.lock().unwrap();
        let now = core.time.node_now(&*shared.clock);
        core.append(now, &Record::Tick)
    };
    shared.log_writer.write(&shared.core).unwrap();
    position
}

#[test]
fn a_wait_is_met_when_both_of_its_parts_are_and_lacks_a_sync_only_where_that_is_missing() {
    let (shared, _preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let commit = &shared.commit;
    let position = write(&shared);
    let synced = position - 1;
    assert_eq!((commit.written(), commit.synced()), (position, synced));
    let wait = |written, synced| Wait { written, synced };
    assert!(commit.is_met(wait(position, synced)));
    assert!(!commit.is_met(wait(position + 1, synced)));
    assert!(!commit.is_met(wait(position, position)));
    assert!(!commit.lacks_sync(wait(position + 1, synced)));
    assert!(commit.lacks_sync(wait(0, position)));
    shared.log_writer.write_and_sync(&shared.core).unwrap();
    assert_eq!((commit.written(), commit.synced()), (position, position));
    assert!(!commit.lacks_sync(wait(0, position)));
    assert!(
        shared.log_writer.begin_sync().unwrap().is_none(),
        "all is synced"
    );
}

#[test]
fn a_sync_is_seen_while_it_runs_and_its_duration_is_smoothed() {
    let (disk, clock) = (MemoryDisk::new(), Arc::new(SettableClock::new()));
    let (shared, _preparer) = node(&disk, &clock);
    // The start has synced in no time.
    assert_eq!(shared.commit.sync_ns(), 0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (watched, moved, notes) = (shared.clone(), clock.clone(), seen.clone());
    disk.on_sync(Arc::new(move || {
        moved.advance(Duration::from_nanos(1600));
        notes.lock().unwrap().push(watched.commit.is_syncing());
    }));
    for smoothed in [1600, 1600] {
        write(&shared);
        shared.log_writer.write_and_sync(&shared.core).unwrap();
        assert_eq!(shared.commit.sync_ns(), smoothed);
        assert_eq!(shared.commit.last_sync_raw_ns(), clock.raw_ns());
        assert!(!shared.commit.is_syncing());
    }
    let moved = clock.clone();
    disk.on_sync(Arc::new(move || moved.advance(Duration::from_nanos(800))));
    write(&shared);
    shared.log_writer.write_and_sync(&shared.core).unwrap();
    assert_eq!(shared.commit.sync_ns(), 1600 - 200 + 100);
    assert_eq!(*seen.lock().unwrap(), [true, true]);
}

#[test]
fn the_log_s_size_is_known_beside_the_writer_and_a_new_segment_is_asked_for_once() {
    let (shared, mut preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let commit = &shared.commit;
    let (total, since) = (
        commit.size().total_bytes,
        commit.size().since_checkpoint_bytes,
    );
    assert_eq!(total, 1 << 20, "the first segment");
    write(&shared);
    assert!(commit.take_segment_wish(), "none is ahead");
    assert!(!commit.take_segment_wish());
    preparer.prepare().unwrap();
    write(&shared);
    assert!(!commit.take_segment_wish(), "one is ahead");
    assert!(commit.size().since_checkpoint_bytes > since);
}

#[test]
fn the_first_failure_stays_and_ends_all_writing() {
    let (shared, _preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let commit = &shared.commit;
    assert!(commit.failure().is_none());
    assert_eq!(commit.fail(&"first").0, "first");
    assert_eq!(commit.fail(&"second").0, "first");
    assert_eq!(commit.failure().unwrap().0, "first");
    assert_eq!(
        shared.log_writer.write(&shared.core).unwrap_err().0,
        "first"
    );
    assert_eq!(
        shared
            .log_writer
            .write_and_sync(&shared.core)
            .unwrap_err()
            .0,
        "first"
    );
    assert_eq!(shared.log_writer.begin_sync().unwrap_err().0, "first");
}

/// INFO never shows a key before its own OK may leave.
#[test]
fn a_key_is_counted_once_it_may_be_revealed_or_by_a_reply_that_waits_for_it_anyway() {
    let (shared, _preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let mut wait = Wait::default();
    {
        let mut core = shared.lock().unwrap();
        let now = core.now(&*shared.clock);
        let set = Command::parse(&[b"SET", b"key", b"token", b"PX", b"30000"]).unwrap();
        core.execute(now, &Caller::default(), &set, &mut wait);
    }
    let keys = |owed| {
        let core = shared.lock().unwrap();
        shared.commit.counts_shown(&core, owed)[0].keys
    };
    assert_eq!((keys(Wait::default()), keys(wait)), (0, 1));
    shared.log_writer.write(&shared.core).unwrap();
    assert_eq!(keys(Wait::default()), 0, "the bound on TTLs is not synced");
    shared.log_writer.write_and_sync(&shared.core).unwrap();
    assert_eq!(keys(Wait::default()), 1);
}
