//! A log with small segments, so that a test can touch every byte of it.

use proptest::prelude::*;
use quorlock_persistence::{
    Disk, FrameBatch, FrameKind, Log, LogIdentity, LogOptions, MemoryDisk, Position, RealDisk,
    Recovery, RecoveryError,
};
use std::path::Path;
use std::sync::Arc;

pub(crate) const GROUP: FrameKind = FrameKind::new(1);
pub(crate) const FIRST: &str = "segment-0000000001.segment";
pub(crate) const SECOND: &str = "segment-0000000002.segment";
pub(crate) const BLOCK: usize = 4096;

pub(crate) fn options() -> LogOptions {
    LogOptions {
        first_segment_bytes: 12 << 10,
        segment_bytes: 8 << 10,
        frame_bytes_max: 2000,
        reserve_bytes: 256,
        allows_direct: true,
        writes_direct: false,
        expected_node: None,
    }
}

pub(crate) fn identity(incarnation: u64) -> LogIdentity {
    LogIdentity {
        node_id: [1; 20],
        boot_id: [2; 16],
        incarnation,
    }
}

pub(crate) fn try_read(disk: &MemoryDisk) -> Result<Recovery, RecoveryError> {
    Recovery::read(Arc::new(disk.clone()), &options())
}

pub(crate) fn read(disk: &MemoryDisk) -> Recovery {
    try_read(disk).unwrap()
}

pub(crate) fn open(disk: &MemoryDisk) -> Log {
    read(disk).into_log(identity(1)).unwrap()
}

/// A log in a directory of the machine.
pub(crate) fn open_real(directory: &Path) -> Log {
    let disk = RealDisk::open(directory).unwrap();
    let recovery = Recovery::read(disk, &options()).unwrap();
    recovery.into_log(identity(1)).unwrap()
}

/// Commits frames with payloads of this length, each synced on its own, and returns the payloads.
pub(crate) fn commit_many(log: &mut Log, count: usize, length: usize) -> Vec<Vec<u8>> {
    let all: Vec<_> = (0..count).map(|number| payload(number, length)).collect();
    for payload in &all {
        commit(log, payload);
    }
    all
}

/// The payloads to replay.
pub(crate) fn payloads(recovery: &Recovery) -> Vec<Vec<u8>> {
    let frames = recovery.frames().collect().unwrap().into_iter();
    frames.map(|frame| frame.payload).collect()
}

pub(crate) fn write(log: &mut Log) -> Position {
    let mut batch = log.appender.take(FrameBatch::default());
    log.writer.write(&mut batch).unwrap()
}

/// Appends, writes and syncs one frame; its node time is its position.
pub(crate) fn commit(log: &mut Log, payload: &[u8]) -> Position {
    append(log, payload);
    write(log);
    log.writer.sync().unwrap()
}

pub(crate) fn append(log: &mut Log, payload: &[u8]) -> Position {
    let time_ns = log.appender.next_position().get();
    log.appender.append(GROUP, time_ns, payload)
}

/// A payload without zero bytes, so that a cut through it always shows.
pub(crate) fn payload(number: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| u8::try_from((number * 7 + index) % 255 + 1).unwrap())
        .collect()
}

/// Where the frames of a segment lie: (begin, end), counted without looking at what they say.
pub(crate) fn frame_ranges(disk: &MemoryDisk, name: &str) -> Vec<(usize, usize)> {
    let bytes = content(disk, name);
    let mut ranges = Vec::new();
    let mut begin = BLOCK;
    while begin + 40 <= bytes.len() && bytes[begin..begin + 4] != [0; 4] {
        let length = u32::from_le_bytes(bytes[begin + 8..begin + 12].try_into().unwrap());
        let end = (begin + 40 + length as usize).next_multiple_of(8);
        ranges.push((begin, end));
        begin = end;
    }
    ranges
}

pub(crate) fn content(disk: &MemoryDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

pub(crate) fn names(disk: &MemoryDisk) -> Vec<String> {
    disk.list()
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect()
}

/// Bytes written over a segment.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    segment: usize,
    begin: prop::sample::Index,
    bytes: Vec<u8>,
}

impl Damage {
    pub(crate) fn in_one_of(segments: usize) -> impl Strategy<Value = Damage> {
        let bytes = prop::collection::vec(any::<u8>(), 1..600);
        let parts = (0..segments, any::<prop::sample::Index>(), bytes);
        parts.prop_map(|(segment, begin, bytes)| Damage {
            segment,
            begin,
            bytes,
        })
    }

    /// Writes it over the segment with this index among the names.
    pub(crate) fn strike(&self, disk: &MemoryDisk, names: &[String]) {
        disk.edit(&names[self.segment], |bytes| {
            let begin = self.begin.index(bytes.len());
            let end = bytes.len().min(begin + self.bytes.len());
            bytes[begin..end].copy_from_slice(&self.bytes[..end - begin]);
        });
    }
}
