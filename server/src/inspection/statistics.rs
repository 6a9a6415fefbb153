//! How large a log is, and of what.
//!
//! Invariant: everything counted was read and verified. What is damaged is left to `check`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use quorlock_engine::NodeTime;
use quorlock_persistence::{
    InspectedFrame, Inspection, LogIdentity, Position, SegmentFile, SegmentPart,
};

use super::check::{NextStart, read_past};
use super::{DataDirectory, Unreadable, options};

/// Frames of one kind: how many there are, and how much they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCount {
    /// How many.
    pub frames: u64,
    /// Their bytes in the files.
    pub bytes: u64,
    /// The bytes of their payloads.
    pub payload_bytes: u64,
}

/// What a log consists of, by [`statistics`]: why it has its size, and whether a rewrite would make it smaller.
#[derive(Clone, Debug)]
pub struct LogStatistics {
    /// The directory.
    pub directory: String,
    /// The process that has it: `None` if it is free, `Some(None)` if its id is not known.
    pub holder: Option<Option<u32>>,
    /// The node and the incarnation that the newest header names.
    pub newest: Option<LogIdentity>,
    /// The segments by number.
    pub segments: Vec<SegmentFile>,
    /// The bytes of all segments' files.
    pub file_bytes: u64,
    /// The frames in the whole stream, by the code of their kind.
    pub kinds: BTreeMap<u8, KindCount>,
    /// The frames a start would replay.
    pub replayed: KindCount,
    /// The first and the last position of the stream.
    pub positions: Option<RangeInclusive<Position>>,
    /// The opening position of the last complete checkpoint, if a start would begin with one.
    pub checkpoint: Option<Position>,
    /// The newest node time.
    pub newest_node_time: NodeTime,
    /// The TTL bound in force, in nanoseconds.
    pub ttl_bound_ns: Option<u64>,
    /// What the next start would do; `None` while the node runs, or if it would refuse.
    pub next_start: Option<NextStart>,
}

/// Counts what a directory's log consists of.
///
/// # Errors
/// When the directory cannot be looked at, or holds no log.
pub fn statistics(directory: &Path) -> Result<LogStatistics, Unreadable> {
    let data_directory = DataDirectory::open(directory)?;
    let holder = data_directory.holder()?;
    let inspection = data_directory.log()?;
    let segments = inspection.segments().to_vec();
    let mut statistics = LogStatistics {
        directory: data_directory.name(),
        holder,
        newest: inspection.newest_identity(),
        file_bytes: segments.iter().map(|segment| segment.bytes).sum(),
        segments,
        kinds: BTreeMap::new(),
        replayed: KindCount::default(),
        positions: None,
        checkpoint: None,
        newest_node_time: NodeTime::ZERO,
        ttl_bound_ns: None,
        next_start: None,
    };
    for_each_frame(&inspection, &inspection.stream(), |inspected| {
        statistics.add(inspected);
    });
    let known = data_directory.identity().unwrap_or(None);
    // A log that a start refuses is counted as far as it can be read, and no more is said of it.
    if let Ok(judgement) = inspection.judge(&options(known.as_ref())) {
        statistics.checkpoint = judgement.summary.checkpoint;
        for_each_frame(&inspection, &judgement.parts, |inspected| {
            statistics.replayed.add(inspected);
        });
        if let Ok(past) = read_past(&data_directory, known.as_ref(), &inspection, &judgement) {
            statistics.ttl_bound_ns = Some(past.history.ttl_bound_ns);
            let space = data_directory.start_space(known.as_ref());
            statistics.next_start = holder.is_none().then(|| NextStart::of(&past, space));
        }
    }
    Ok(statistics)
}

fn for_each_frame(
    inspection: &Inspection,
    parts: &[SegmentPart],
    mut take: impl FnMut(&InspectedFrame<'_>),
) {
    for part in parts {
        // A running node may just have removed it.
        if let Ok(content) = inspection.read(part) {
            content.frames().for_each(|inspected| take(&inspected));
        }
    }
}

impl LogStatistics {
    fn add(&mut self, inspected: &InspectedFrame<'_>) {
        let frame = &inspected.frame;
        let first = self.positions.as_ref().map(|all| *all.start());
        self.positions = Some(first.unwrap_or(frame.position)..=frame.position);
        let time = NodeTime::from_nanos(frame.node_time_ns);
        self.newest_node_time = self.newest_node_time.max(time);
        self.kinds.entry(frame.kind).or_default().add(inspected);
    }

    /// The payloads of changes that a start would read, against everything the files take.
    pub fn overhead_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(self.replayed.payload_bytes)
    }
}

impl KindCount {
    fn add(&mut self, inspected: &InspectedFrame<'_>) {
        self.frames += 1;
        self.bytes += inspected.bytes;
        self.payload_bytes += inspected.frame.payload.len() as u64;
    }
}
