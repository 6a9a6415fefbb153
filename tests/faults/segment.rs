//! A segment's file, looked at from outside: where its frames are.
//!
//! Written from docs/book/log-format.md and not with the code that is under test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::check_directory::CheckDirectory;

/// Where a frame is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) kind: u8,
}

/// Whether a segment has been taken into use.
pub(crate) fn is_used(bytes: &[u8]) -> bool {
    bytes.starts_with(b"QUORLOCK")
}

/// The newest segment in use.
pub(crate) fn newest(directory: &CheckDirectory) -> io::Result<PathBuf> {
    for (path, _) in directory.segments()?.into_iter().rev() {
        if is_used(&fs::read(&path)?) {
            return Ok(path);
        }
    }
    Err(io::Error::other("there is no segment in use"))
}

/// The frames of a segment, up to the first zeros.
pub(crate) fn frames(path: &Path) -> io::Result<Vec<Frame>> {
    let bytes = fs::read(path)?;
    let mut frames = Vec::new();
    let mut begin = FRAMES_BEGIN;
    while let Some(header) = bytes.get(begin..begin + FRAME_HEADER)
        && header[..4] != [0; 4]
    {
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let end = begin + (FRAME_HEADER + length).next_multiple_of(8);
        frames.push(Frame {
            begin: begin as u64,
            end: end as u64,
            kind: header[12],
        });
        begin = end;
    }
    Ok(frames)
}

/// Where the next frame of a segment will begin.
pub(crate) fn end_of_frames(path: &Path) -> io::Result<u64> {
    let frames = frames(path)?;
    Ok(frames.last().map_or(FRAMES_BEGIN as u64, |last| last.end))
}

/// SERVING: from here on an incarnation grants.
pub(crate) const SERVING: u8 = 3;

/// What direct writes are whole multiples of, on most devices.
pub(crate) const BLOCK_BYTES: u64 = 4_096;

const FRAMES_BEGIN: usize = 4_096;
const FRAME_HEADER: usize = 40;
