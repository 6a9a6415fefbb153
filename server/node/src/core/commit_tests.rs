//! What the writing half of the log says of itself, before, during and after a sync.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_engine::control::ControlRecord;
use quorlock_engine::{Caller, Command, RawTime};
use quorlock_persistence::{FrameKind, MemoryDisk, Position, Preparer};
use rustix::io::Errno;

use crate::clock::{Clock, SettableClock};
use crate::config::Config;
use crate::core::commit::{Failure, PollError};
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::start::for_tests;

fn node(disk: &MemoryDisk, clock: &Arc<SettableClock>) -> (Arc<NodeState>, Preparer) {
    let disk = Arc::new(disk.clone());
    let (node, preparer, _) = for_tests::started(Config::default(), disk, clock.clone());
    (node, preparer)
}

/// Appends a frame and writes it; returns its position.
fn write(node: &NodeState) -> Position {
    let position = append(node, &ControlRecord::Tick);
    node.log_writer.write(&node.executor).unwrap();
    position
}

fn append(node: &NodeState, record: &ControlRecord) -> Position {
    let mut executor = node.lock().unwrap();
    let now = executor.time.read(&*node.clock).node;
    executor.append(now, record)
}

#[test]
fn of_syncs_that_overlap_the_one_that_has_begun_first_says_how_long_the_device_takes() {
    let (node, _preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let commit = &node.commit;
    let at = RawTime::from_nanos;
    let long = commit.begin(at(10));
    let short = commit.begin(at(40));
    assert_eq!(commit.device_wait_ns(at(50)), 40);
    drop(short);
    assert_eq!(commit.device_wait_ns(at(60)), 50);
    let last = commit.begin(at(70));
    drop(long);
    assert_eq!(commit.device_wait_ns(at(80)), 10);
    drop(last);
    assert_eq!(commit.device_wait_ns(at(90)), 0);
}

#[test]
fn a_wait_is_met_when_both_of_its_parts_are_and_lacks_a_sync_only_where_that_is_missing() {
    let (node, _preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let commit = &node.commit;
    let position = write(&node);
    let synced = Position::from_raw(position.get() - 1);
    assert_eq!((commit.written(), commit.synced()), (position, synced));
    let wait = |written, synced| DurabilityWait {
        written,
        ..DurabilityWait::until_synced(synced)
    };
    assert!(commit.is_met(wait(position, synced)));
    assert!(!commit.is_met(wait(position.next(), synced)));
    assert!(!commit.is_met(wait(position, position)));
    assert!(!commit.lacks_sync(wait(position.next(), synced)));
    assert!(commit.lacks_sync(wait(Position::ZERO, position)));
    node.log_writer.write_and_sync(&node.executor).unwrap();
    assert_eq!((commit.written(), commit.synced()), (position, position));
    assert!(!commit.lacks_sync(wait(Position::ZERO, position)));
    assert!(
        node.log_writer.begin_sync().unwrap().is_none(),
        "all is synced"
    );
}

#[test]
fn a_sync_is_seen_while_it_runs_and_its_duration_is_smoothed() {
    let (disk, clock) = (MemoryDisk::new(), Arc::new(SettableClock::new()));
    let (node, _preparer) = node(&disk, &clock);
    // The start has synced in no time.
    assert_eq!(node.commit.sync_ns(), 0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (watched, moved, notes) = (node.clone(), clock.clone(), seen.clone());
    disk.on_sync(Arc::new(move || {
        moved.advance(Duration::from_nanos(1600));
        notes.lock().unwrap().push(watched.commit.is_syncing());
    }));
    for smoothed in [1600, 1600] {
        write(&node);
        node.log_writer.write_and_sync(&node.executor).unwrap();
        assert_eq!(node.commit.sync_ns(), smoothed);
        assert_eq!(node.commit.last_sync_raw(), clock.raw());
        assert!(!node.commit.is_syncing());
    }
    let moved = clock.clone();
    disk.on_sync(Arc::new(move || moved.advance(Duration::from_nanos(800))));
    write(&node);
    node.log_writer.write_and_sync(&node.executor).unwrap();
    assert_eq!(node.commit.sync_ns(), 1600 - 200 + 100);
    assert_eq!(*seen.lock().unwrap(), [true, true]);
}

/// A disk whose writes are slow and whose syncs have nothing left to do: it must not hold up a worker either.
#[test]
fn a_direct_write_counts_with_the_sync_behind_it() {
    let (node, _preparer, _) = for_tests::with_slow_direct_writes(Duration::from_nanos(4000));
    append(&node, &ControlRecord::Tick);
    node.log_writer.write_and_sync(&node.executor).unwrap();
    assert_eq!(node.commit.sync_ns(), 4000);
    assert_eq!(node.commit.syncs.read().sum_ns, 4000, "of the metrics");
}

/// Parts of a checkpoint, and a segment that was not made ahead in time, made the log thread do what workers could.
#[test]
fn only_a_write_for_a_commit_counts_and_none_that_begins_a_segment() {
    let (node, _preparer, _) = for_tests::with_slow_direct_writes(Duration::from_nanos(4000));
    write(&node);
    node.log_writer.write_and_sync(&node.executor).unwrap();
    assert_eq!(node.commit.sync_ns(), 0, "nobody waits for it");
    // The first segment has 1 MiB, and none is ahead.
    {
        let mut executor = node.lock().unwrap();
        let kind = FrameKind::new(9);
        for _ in 0..3 {
            executor.appender.append(kind, 0, &[0; 500 << 10]);
        }
    }
    node.log_writer.write_and_sync(&node.executor).unwrap();
    assert_eq!(node.commit.sync_ns(), 0, "a segment was made");
}

#[test]
fn the_log_s_size_is_known_beside_the_writer_and_a_new_segment_is_asked_for_once() {
    let (node, mut preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let commit = &node.commit;
    let (total, since) = (
        commit.size().total_bytes,
        commit.size().since_checkpoint_bytes,
    );
    assert_eq!(total, 1 << 20, "the first segment");
    write(&node);
    assert!(!commit.take_segment_request(), "little is written");
    let kind = FrameKind::new(9);
    let quarter = [0; 256 << 10];
    node.lock().unwrap().appender.append(kind, 0, &quarter);
    write(&node);
    assert!(commit.take_segment_request(), "none is ahead");
    assert!(!commit.take_segment_request());
    preparer.prepare().unwrap();
    write(&node);
    assert!(!commit.take_segment_request(), "one is ahead");
    assert!(commit.size().since_checkpoint_bytes > since);
}

#[test]
fn the_first_failure_stays_and_ends_all_writing() {
    let (node, _preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let commit = &node.commit;
    assert!(commit.failure().is_none());
    let cause = |failure: &Failure| failure.source().unwrap().to_string();
    assert_eq!(cause(&commit.fail("first")), "first");
    assert_eq!(cause(&commit.fail("second")), "first");
    let writer = &node.log_writer;
    for failure in [
        commit.failure().unwrap().clone(),
        writer.write(&node.executor).unwrap_err(),
        writer.write_and_sync(&node.executor).unwrap_err(),
        writer.begin_sync().unwrap_err(),
    ] {
        assert_eq!(cause(&failure), "first");
        assert!(failure.io_error().is_none());
    }
}

/// What to do about them differs: a full disk needs space, a broken one a repair.
#[test]
fn a_failure_keeps_what_the_system_answered() {
    for number in [Errno::IO, Errno::NOSPC].map(Errno::raw_os_error) {
        let disk = MemoryDisk::new();
        let (node, _preparer) = node(&disk, &Arc::new(SettableClock::new()));
        disk.fail_sync_after(0, number);
        append(&node, &ControlRecord::Tick);
        let failure = node.log_writer.write_and_sync(&node.executor).unwrap_err();
        let found = failure.io_error().and_then(io::Error::raw_os_error);
        assert_eq!(found, Some(number), "{failure}");
    }
    let error = io::Error::from(Errno::NFILE);
    let failure = Failure::new(PollError(error));
    let found = failure.io_error().and_then(io::Error::raw_os_error);
    assert_eq!(found, Some(Errno::NFILE.raw_os_error()), "{failure}");
}

/// INFO never shows a key before its own OK may leave.
#[test]
fn a_key_is_counted_once_it_may_be_revealed_or_by_a_reply_that_waits_for_it_anyway() {
    let (node, _preparer) = node(&MemoryDisk::new(), &Arc::new(SettableClock::new()));
    let mut wait = DurabilityWait::default();
    {
        let mut executor = node.lock().unwrap();
        let now = executor.time.read(&*node.clock);
        let set = Command::parse(&[b"SET", b"key", b"token", b"PX", b"30000"]).unwrap();
        executor.execute(now, &Caller::default(), &set, &mut wait);
    }
    let keys = |owed| {
        let executor = node.lock().unwrap();
        node.commit.counts_shown(&executor, owed)[0].keys
    };
    assert_eq!((keys(DurabilityWait::default()), keys(wait)), (0, 1));
    node.log_writer.write(&node.executor).unwrap();
    assert_eq!(
        keys(DurabilityWait::default()),
        0,
        "the bound on TTLs is not synced"
    );
    node.log_writer.write_and_sync(&node.executor).unwrap();
    assert_eq!(keys(DurabilityWait::default()), 1);
}
