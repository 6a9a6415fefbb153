//! What a log holds, as a start or a look at it has found.

use super::chain::{Break, Chain};
use super::directory::LogDirectory;
use crate::header::LogIdentity;
use crate::position::Position;

/// What a log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSummary {
    /// The position of the last frame; `ZERO` if there is none.
    pub last: Position,
    /// The opening frame of the checkpoint that the replay starts with, if it starts with one.
    pub checkpoint: Option<Position>,
    /// The largest node time of the frames that were read, in nanoseconds.
    pub newest_node_time_ns: u64,
    /// Where the log breaks off, if it does not simply end. What followed is not in the log any more.
    pub break_at: Option<Break>,
    /// Nothing but zeros after the last frame: no write was cut off, as far as can be seen.
    pub only_zeros_follow: bool,
    /// There are no frames at all.
    pub is_empty: bool,
    /// The frames to replay.
    pub frames: u64,
    /// The bytes of the frames to replay.
    pub bytes: u64,
    /// The segments to replay.
    pub segments: usize,
    /// The node named in the headers; `None` if there is no segment.
    pub node_id: Option<[u8; 20]>,
    /// The newest header's identity.
    pub newest_identity: Option<LogIdentity>,
    /// Files in the directory that are not the log's. They are left alone.
    pub foreign_files: Vec<String>,
    /// Damage that did no harm, in words: a header of which one copy was good.
    pub remarks: Vec<String>,
}

impl LogSummary {
    pub(super) fn of(directory: &LogDirectory, chain: &Chain) -> LogSummary {
        let last = chain.last();
        let newest_identity = directory.newest_header().map(|header| header.identity);
        let times = chain.run.iter().map(|scan| scan.newest_time_ns);
        LogSummary {
            last,
            checkpoint: chain.checkpoint.map(|mark| mark.position),
            newest_node_time_ns: times.max().unwrap_or(0),
            only_zeros_follow: chain.break_at.is_none(),
            break_at: chain.break_at.clone(),
            is_empty: last == Position::ZERO,
            frames: chain.frame_count(),
            bytes: chain.frame_bytes(),
            segments: chain.run.len(),
            node_id: newest_identity.map(|identity| identity.node_id),
            newest_identity,
            foreign_files: directory.foreign.clone(),
            remarks: directory.remarks.clone(),
        }
    }
}
