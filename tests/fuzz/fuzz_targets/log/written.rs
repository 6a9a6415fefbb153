//! A log that the writer has made, damaged in one place.
//!
//! The damage is one that checksums notice for certain, or but for one time in four billion: an input cannot choose bytes with
//! the right checksum.

use std::sync::Arc;

use quorlock_fuzz::{Choices, Numbers};
use quorlock_persistence::{
    Disk, FrameBatch, FrameKind, Inspection, Log, MemoryDisk, OwnedFrame, Recovery,
};

use crate::{KIND, OPTIONS, go_on, identity, read, segment};

/// Where a frame is: the number of its segment, and where in the file it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    segment: u64,
    offset: u64,
}

pub(crate) fn check(mut choices: Choices<'_>) {
    let disk = MemoryDisk::new();
    disk.seed(1);
    let (appended, incarnation) = write(&disk, &mut choices);
    let ends = ends(&disk);
    let damage = damage(&disk, &mut choices);
    let (recovery, frames) = match read(&disk) {
        Ok(read) => read,
        Err(error) => {
            assert!(damage.is_some(), "a whole log is refused: {error}");
            assert!(error.to_string().contains("segment-"), "{error}");
            return;
        }
    };
    let last = recovery.summary().last.get();
    if let Some(first) = frames.first() {
        let first = usize::try_from(first.position.get()).expect("few were appended") - 1;
        let same = appended.get(first..first + frames.len());
        assert!(same == Some(&frames[..]), "other frames than were appended");
        let begins = first == 0 || frames[0].kind == BEGIN.code();
        assert!(begins, "it begins within the log");
    }
    let before = |place: &Place| damage.is_none_or(|damage| *place <= damage);
    let whole = ends.iter().filter(|(place, _)| before(place));
    let expected = whole.map(|(_, position)| *position).max().unwrap_or(0);
    assert!(
        last >= expected,
        "the frames from {last} to {expected} are lost, before {damage:?}"
    );
    go_on(recovery, &frames, &disk, identity(incarnation + 1));
}

/// Appends, writes, syncs and starts anew as the input says; gives all frames that were written, and the last start.
fn write(disk: &MemoryDisk, choices: &mut Choices<'_>) -> (Vec<OwnedFrame>, u64) {
    let start = |incarnation| {
        let recovery = Recovery::read(Arc::new(disk.clone()), &OPTIONS);
        let recovery = recovery.expect("nothing is wrong with it");
        let log = recovery.into_log(identity(incarnation));
        log.expect("memory takes it")
    };
    let (mut incarnation, mut is_open) = (1, false);
    let mut log = start(incarnation);
    let mut appended = Vec::new();
    for _ in 0..choices.below(32) {
        match choices.byte() % 8 {
            0 => {
                write_pending(&mut log);
                log.writer.sync().expect("memory takes it");
            }
            1 => write_pending(&mut log),
            2 => {
                write_pending(&mut log);
                drop(log);
                (incarnation, is_open) = (incarnation + 1, false);
                log = start(incarnation);
            }
            3 => {
                is_open = !is_open;
                let kind = if is_open { BEGIN } else { END };
                append(&mut log, kind, choices, &mut appended);
            }
            _ => append(&mut log, KIND, choices, &mut appended),
        }
    }
    write_pending(&mut log);
    (appended, incarnation)
}

fn append(
    log: &mut Log,
    kind: FrameKind,
    choices: &mut Choices<'_>,
    appended: &mut Vec<OwnedFrame>,
) {
    let length = choices.below(2001);
    let mut numbers = Numbers::of(u64::from(choices.byte()));
    let payload: Vec<u8> = (0..length)
        .map(|_| numbers.draw().to_le_bytes()[0])
        .collect();
    if log.appender.room() < payload.len() as u64 {
        write_pending(log);
        log.preparer.prepare().expect("memory takes it");
    }
    let node_time_ns = log.appender.next_position().get();
    let position = log.appender.append(kind, node_time_ns, &payload);
    appended.push(OwnedFrame {
        position,
        kind: kind.code(),
        node_time_ns,
        payload,
    });
}

fn write_pending(log: &mut Log) {
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).expect("memory takes it");
}

/// Where every frame of the stream ends.
fn ends(disk: &MemoryDisk) -> Vec<(Place, u64)> {
    let inspection = Inspection::open(Arc::new(disk.clone())).expect("it can be listed");
    let mut ends = Vec::new();
    for part in inspection.stream() {
        let content = inspection.read(&part).expect("it can be read");
        ends.extend(content.frames().map(|frame| {
            let place = Place {
                segment: part.number,
                offset: frame.offset + frame.bytes,
            };
            (place, frame.frame.position.get())
        }));
    }
    ends
}

/// Damages one segment, or none: where its first byte is that may be another one.
fn damage(disk: &MemoryDisk, choices: &mut Choices<'_>) -> Option<Place> {
    let inspection = Inspection::open(Arc::new(disk.clone())).expect("it can be listed");
    let segments = inspection.segments();
    let damaged = &segments[choices.below(segments.len())];
    let name = segment(damaged.number);
    let length = usize::try_from(damaged.bytes).expect("it is in memory");
    let at = choices.below(length);
    let kind = choices.byte();
    let count = choices.below(4096);
    let noise = u64::from(choices.byte());
    let end = length.min(at + count);
    match kind % 7 {
        0 => return None,
        1 => disk.edit(&name, |bytes| bytes[at] ^= 1 << (noise % 8)),
        2 => disk.edit(&name, |bytes| bytes[at..end].fill(0)),
        3 => disk.edit(&name, |bytes| {
            let mut numbers = Numbers::of(noise);
            bytes[at..end].fill_with(|| numbers.draw().to_le_bytes()[0]);
        }),
        4 => disk.edit(&name, |bytes| bytes.truncate(at)),
        5 => disk.edit(&name, |bytes| bytes.resize(length + count, 0)),
        _ => {
            disk.remove(&name).expect("it is there");
            return Some(Place {
                segment: damaged.number,
                offset: 0,
            });
        }
    }
    Some(Place {
        segment: damaged.number,
        offset: at as u64,
    })
}

const BEGIN: FrameKind = FrameKind::checkpoint_begin(2);
const END: FrameKind = FrameKind::checkpoint_end(3);
