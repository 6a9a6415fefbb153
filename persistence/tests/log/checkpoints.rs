//! Checkpoints: replay from the last complete one gives the same state as replay of everything, at every
//! moment of its making, and the segments before it go away, oldest first.

use crate::small_log::*;
use quorlock_persistence::{
    Disk, FrameBatch, FrameKind, Log, MemoryDisk, Recovery, RecoveryError, WriteError,
};
use std::collections::BTreeSet;
use std::sync::Arc;

const BEGIN: FrameKind = FrameKind::checkpoint_begin(2);
const PART: FrameKind = FrameKind::new(3);
const END: FrameKind = FrameKind::checkpoint_end(4);

/// A state that is a set of numbers: a group adds one, a checkpoint's parts say all of it anew. The parts of an
/// unfinished checkpoint say what is known already.
fn replay(recovery: &Recovery) -> BTreeSet<u8> {
    let mut state = BTreeSet::new();
    for frame in recovery.frames().collect().unwrap() {
        match frame.kind {
            1 => drop(state.insert(frame.payload[0])),
            3 => state.extend(frame.payload.iter().copied().filter(|number| *number != 0)),
            _ => {}
        }
    }
    state
}

/// A node's life, up to the point where the disk stops: what it knew to be durable.
#[derive(Default)]
struct Life {
    added: u8,
    durable: u8,
}

impl Life {
    fn add(&mut self, log: &mut Log, count: u8) -> Result<(), WriteError> {
        for _ in 0..count {
            self.added += 1;
            let mut payload = [self.added; 300];
            payload[1..].fill(0xff);
            log.appender.append(GROUP, u64::from(self.added), &payload);
            flush(log)?;
            log.preparer.prepare()?;
        }
        log.writer.sync()?;
        self.durable = self.added;
        Ok(())
    }

    /// The state goes out in parts, with groups in between, as in a node that goes on serving.
    fn checkpoint(&mut self, log: &mut Log) -> Result<(), WriteError> {
        log.appender.append(BEGIN, 0, b"control");
        let state: Vec<u8> = (1..=self.added).collect();
        for part in state.chunks(10) {
            let mut payload = vec![0; 400];
            payload[..part.len()].copy_from_slice(part);
            log.appender.append(PART, 0, &payload);
            self.add(log, 1)?;
        }
        log.appender.append(END, 0, b"");
        flush(log)?;
        log.writer.sync()?;
        self.durable = self.added;
        log.preparer.prepare().map(|_| ())
    }

    fn live(&mut self, disk: &MemoryDisk) -> Result<(), WriteError> {
        let mut log = read(disk).into_log(identity(1))?;
        self.add(&mut log, 30)?;
        self.checkpoint(&mut log)?;
        self.add(&mut log, 15)?;
        self.checkpoint(&mut log)?;
        self.add(&mut log, 3)
    }
}

fn flush(log: &mut Log) -> Result<(), WriteError> {
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).map(|_| ())
}

fn assert_state(disk: &MemoryDisk, life: &Life, what: &str) -> u8 {
    let recovery = read(disk);
    let state = replay(&recovery);
    let newest = state.last().copied().unwrap_or(0);
    assert_eq!(state, (1..=newest).collect(), "{what}");
    assert!(
        (life.durable..=life.added).contains(&newest),
        "{what}: {newest} of {}",
        life.durable
    );
    newest
}

#[test]
fn a_crash_at_every_change_leaves_a_whole_state() {
    let mut changes = 0;
    loop {
        let disk = MemoryDisk::with_power_loss();
        disk.end_after(changes);
        let mut life = Life::default();
        let result = life.live(&disk);
        assert!(result.is_ok() || disk.has_ended());
        let images = [
            disk.after_process_end(),
            disk.after_power_loss(false, |_, _| false),
            disk.after_power_loss(true, |_, _| false),
            disk.after_power_loss(false, |_, _| true),
            disk.after_power_loss(true, |_, sector| sector.is_multiple_of(2)),
        ];
        for (index, image) in images.iter().enumerate() {
            let what = format!("ended after {changes} changes, image {index}");
            let newest = assert_state(image, &life, &what);
            // The next start goes on and makes a checkpoint of its own.
            let mut next = Life {
                added: newest,
                durable: newest,
            };
            let mut log = open(image);
            next.add(&mut log, 2).unwrap();
            next.checkpoint(&mut log).unwrap();
            assert_state(image, &next, &what);
        }
        if result.is_ok() {
            break;
        }
        changes += 1;
    }
    assert!(changes > 100, "only {changes} changes");
}

#[test]
fn older_segments_go_away_once_the_checkpoint_is_durable() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    let mut life = Life::default();
    life.add(&mut log, 60).unwrap();
    let (bytes, total) = (
        log.writer.bytes_since_checkpoint(),
        log.writer.total_bytes(),
    );
    assert!(names(&disk).len() > 4);
    log.appender.append(BEGIN, 0, b"");
    log.appender.append(END, 0, b"");
    flush(&mut log).unwrap();
    log.preparer.prepare().unwrap();
    assert!(
        names(&disk).contains(&FIRST.to_owned()),
        "the end is not durable yet"
    );
    log.writer.sync().unwrap();
    assert!(log.writer.needs_preparing());
    log.preparer.prepare().unwrap();
    assert_eq!(names(&disk).len(), 2, "{:?}", names(&disk));
    assert!(log.writer.bytes_since_checkpoint() < bytes && log.writer.total_bytes() < total);
    assert_eq!(log.writer.bytes_since_checkpoint(), 80);
    let recovery = read(&disk);
    assert_eq!(recovery.summary().checkpoint.unwrap().get(), 61);
    assert_eq!(
        (recovery.summary().frames, recovery.summary().segments),
        (2, 1)
    );
    assert_eq!(recovery.frames().collect().unwrap()[0].position.get(), 61);
}

#[test]
fn each_removal_is_durable_before_the_next_one() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    Life::default().add(&mut log, 60).unwrap();
    log.appender.append(BEGIN, 0, b"");
    log.appender.append(END, 0, b"");
    flush(&mut log).unwrap();
    log.writer.sync().unwrap();
    // The first removal, its sync, and the second removal.
    disk.end_after(3);
    log.preparer.prepare().unwrap_err();
    let left = names(&disk.after_power_loss(false, |_, _| false));
    assert_eq!(left[0], SECOND);
}

#[test]
fn a_sync_that_began_before_the_end_was_written_removes_nothing() {
    let disk = MemoryDisk::with_power_loss();
    let mut log = open(&disk);
    let mut life = Life::default();
    life.add(&mut log, 40).unwrap();
    log.appender.append(BEGIN, 0, b"");
    flush(&mut log).unwrap();
    let ticket = log.writer.begin_sync();
    log.appender.append(END, 0, b"");
    flush(&mut log).unwrap();
    let position = ticket.run().unwrap();
    log.writer.finish_sync(position);
    log.preparer.prepare().unwrap();
    assert!(
        names(&disk).contains(&FIRST.to_owned()),
        "the end is written, but not durable"
    );
    log.writer.sync().unwrap();
    log.preparer.prepare().unwrap();
    assert!(!names(&disk).contains(&FIRST.to_owned()));
}

#[test]
fn an_unfinished_checkpoint_does_not_count() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    let mut life = Life::default();
    life.add(&mut log, 5).unwrap();
    log.appender.append(BEGIN, 0, b"");
    log.appender.append(PART, 0, &[1, 2]);
    flush(&mut log).unwrap();
    assert_eq!(read(&disk).summary().checkpoint, None);
    // The next start makes a new one; the first opening frame is not taken for its beginning.
    let mut log = open(&disk);
    let mut life = Life {
        added: 5,
        durable: 5,
    };
    life.checkpoint(&mut log).unwrap();
    let recovery = read(&disk);
    assert_eq!(recovery.summary().checkpoint.unwrap().get(), 8);
    assert_state(&disk, &life, "after the second checkpoint");
}

#[test]
#[should_panic(expected = "a checkpoint is completed that was not opened")]
fn a_checkpoint_of_an_earlier_start_cannot_be_completed() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    log.appender.append(BEGIN, 0, b"");
    flush(&mut log).unwrap();
    open(&disk).appender.append(END, 0, b"");
}

#[test]
fn segments_left_behind_by_a_crash_are_removed_later() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    let mut life = Life::default();
    life.add(&mut log, 40).unwrap();
    log.appender.append(BEGIN, 0, b"");
    log.appender.append(END, 0, b"");
    flush(&mut log).unwrap();
    log.writer.sync().unwrap();
    // The process ends before the preparer removes anything.
    assert_eq!(names(&disk).len(), 4);
    let mut log = open(&disk);
    assert!(log.preparer.needs_preparing());
    log.preparer.prepare().unwrap();
    assert!(
        !names(&disk).contains(&SECOND.to_owned()),
        "{:?}",
        names(&disk)
    );
    assert_eq!(read(&disk).summary().checkpoint.unwrap().get(), 41);
}

#[test]
fn missing_first_segments_need_a_checkpoint_after_them() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    let mut life = Life::default();
    life.add(&mut log, 40).unwrap();
    let copy = disk.after_process_end();
    copy.remove(FIRST).unwrap();
    let error = Recovery::read(Arc::new(copy), &options()).unwrap_err();
    assert!(
        matches!(&error, RecoveryError::MissingSegment { file } if file.ends_with(FIRST)),
        "{error}"
    );
    life.checkpoint(&mut log).unwrap();
    assert!(!names(&disk).contains(&FIRST.to_owned()));
    assert_state(&disk, &life, "after the checkpoint");
}

#[test]
fn damage_before_a_complete_checkpoint_does_no_harm() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk);
    let mut life = Life::default();
    life.add(&mut log, 40).unwrap();
    log.appender.append(BEGIN, 0, b"");
    log.appender.append(PART, 0, &(1..=40).collect::<Vec<u8>>());
    log.appender.append(END, 0, b"");
    flush(&mut log).unwrap();
    log.writer.sync().unwrap();
    let (begin, end) = frame_ranges(&disk, SECOND)[2];
    disk.edit(SECOND, |bytes| bytes[begin..end].fill(0x77));
    assert_state(&disk, &life, "a segment that is only waiting to be removed");
}
