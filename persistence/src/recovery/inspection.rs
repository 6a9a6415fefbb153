//! Looking at a log without changing anything and without having it to oneself.
//!
//! Invariant: nothing is written, and at most one segment is in memory. What a start would make of the log is
//! judged by the code of a start. While a node writes, a segment may grow or vanish between two looks: an
//! unfavourable finding counts only if a second look finds the same.

use super::assembly;
use super::directory::{LogDirectory, SegmentState};
use super::scan::Scan;
use super::summary::LogSummary;
use super::window::Window;
use crate::disk::Disk;
use crate::error::{DiskError, RecoveryError};
use crate::frame::Frame;
use crate::header::{self, FirstBlock, LogIdentity, SegmentHeader};
use crate::options::LogOptions;
use crate::position::Position;
use crate::segment_name;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The files of a log, and what their headers say.
#[derive(Debug)]
pub struct Inspection {
    disk: Arc<dyn Disk>,
    /// The names of the segments that are used, by number. The files are not kept open: a node may remove them.
    names: BTreeMap<u64, String>,
    segments: Vec<SegmentFile>,
}

/// A file with the name of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// The number in its name.
    pub number: u64,
    /// The file, for people.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// What its first block says, or why the file cannot be a segment.
    pub state: Result<SegmentState, String>,
}

/// A stretch of one segment that belongs to the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPart {
    /// The segment's number.
    pub number: u64,
    /// The position of the segment's first frame.
    pub first: Position,
    /// The offset of the first frame.
    pub begin: u64,
    /// The offset behind the last one; `None`: up to the first thing that is not the next frame.
    pub end: Option<u64>,
}

/// What a start would make of a log.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What it would read.
    pub summary: LogSummary,
    /// Where it would read it, in order.
    pub parts: Vec<SegmentPart>,
}

/// The frames of one segment.
#[derive(Debug)]
pub struct SegmentContent {
    scan: Scan,
    bytes: Vec<u8>,
    begin: usize,
}

/// A frame, and what the log itself keeps with it.
#[derive(Clone, Copy, Debug)]
pub struct InspectedFrame<'a> {
    /// What the caller stored, and where in the stream.
    pub frame: Frame<'a>,
    /// Everything up to here was durable when it was written.
    pub durable: Position,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length in the file.
    pub bytes: u64,
}

impl Inspection {
    /// Lists the directory and reads the headers. A file that is not the segment its name says is listed with
    /// what is wrong with it; only a directory that cannot be listed is an error.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Inspection, DiskError> {
        let directory = LogDirectory::list(&*disk)?;
        let usable = directory.segments.iter();
        let usable =
            usable.map(|(&number, file)| (number, &file.name, file.length, Ok(file.state)));
        let unusable = directory.unusable.iter();
        let unusable =
            unusable.map(|file| (file.number, &file.name, file.length, Err(file.meaning())));
        let files = usable.chain(unusable);
        let files = files.map(|(number, name, bytes, state)| SegmentFile {
            number,
            file: disk.describe(name),
            bytes,
            state,
        });
        let mut segments: Vec<_> = files.collect();
        segments.sort_by_key(|segment| segment.number);
        let named = directory.segments.into_iter();
        let names = named.map(|(number, segment)| (number, segment.name));
        Ok(Inspection {
            disk,
            names: names.collect(),
            segments,
        })
    }

    /// The segments by number.
    pub fn segments(&self) -> &[SegmentFile] {
        &self.segments
    }

    /// The file of the segment with this number, for people.
    pub fn file_of(&self, number: u64) -> String {
        self.disk.describe(&self.name_of(number))
    }

    fn name_of(&self, number: u64) -> String {
        let name = self.names.get(&number).cloned();
        name.unwrap_or_else(|| segment_name::segment(number))
    }

    /// What the newest header that can be read says of whose log it is.
    pub fn newest_identity(&self) -> Option<LogIdentity> {
        let newest = self.segments.iter().rev().find_map(SegmentFile::header);
        newest.map(|header| header.identity)
    }

    /// Lists and reads the log again, all of it, as a start would.
    ///
    /// # Errors
    /// For the reason for which a start would refuse.
    pub fn judge(&self, options: &LogOptions) -> Result<Judgement, RecoveryError> {
        let options = options.in_blocks();
        let directory = LogDirectory::read(&*self.disk, &options)?;
        let chain = assembly::assemble(&*self.disk, &directory)?;
        let mut begin = chain.start_offset();
        let parts = chain.run.iter().map(|scan| SegmentPart {
            number: scan.header.number,
            first: scan.header.first_position,
            begin: std::mem::replace(&mut begin, header::BLOCK) as u64,
            end: Some(scan.end() as u64),
        });
        let parts = parts.collect();
        Ok(Judgement {
            summary: LogSummary::of(&directory, &chain),
            parts,
        })
    }

    /// The stream as the headers tell it, oldest segment first: from the newest header back along the names
    /// of the segments before, as far as these are there. It may reach back behind the last checkpoint.
    pub fn stream(&self) -> Vec<SegmentPart> {
        let headers = self.segments.iter().filter_map(SegmentFile::header);
        let headers: BTreeMap<u64, &SegmentHeader> =
            headers.map(|header| (header.number, header)).collect();
        let mut parts = Vec::new();
        let mut next = headers.keys().next_back().map(|newest| (*newest, None));
        while let Some((number, end)) = next
            && let Some(header) = headers.get(&number)
        {
            parts.push(SegmentPart {
                number,
                first: header.first_position,
                begin: header::BLOCK_BYTES,
                end,
            });
            // A header that names no earlier segment is not used, so this ends at one that is not there.
            next = Some((header.previous.segment, Some(header.previous.offset)));
        }
        parts.reverse();
        parts
    }

    /// Reads the frames of one part, as far as they are whole.
    ///
    /// # Errors
    /// If the file cannot be read, or is none of this log's segments any more.
    pub fn read(&self, part: &SegmentPart) -> Result<SegmentContent, DiskError> {
        let name = self.name_of(part.number);
        let failed = |cause| DiskError::at(&*self.disk, "read", &name)(cause);
        // By name: a node that runs removes segments, and one that starts gives them new names.
        let opened = self.disk.open(&name);
        let opened = opened.or_else(|_| self.disk.open(&segment_name::segment(part.number)));
        let file = opened.map_err(failed)?;
        let length = file.len().map_err(failed)?;
        // The file may be another one than the one that was listed.
        if length > VIEWED_BYTES_MAX {
            let text = format!("{length} bytes are more than a tool reads of one segment");
            return Err(failed(io::Error::other(text)));
        }
        let mut window = Window::of(&*file, length).map_err(failed)?;
        let whole = window.length();
        window.bytes(0, whole).map_err(failed)?;
        let bytes = window.into_piece();
        let block = bytes.first_chunk().map(header::examine);
        let Some(FirstBlock::Header { header, .. }) = block else {
            let changed = io::Error::other("it has no header any more");
            return Err(failed(changed));
        };
        let begin = usize::try_from(part.begin)
            .map_err(|_| failed(io::Error::other("it begins beyond what memory holds")))?;
        let mut window = Window::holding(bytes);
        Ok(SegmentContent {
            scan: Scan::read(header, &mut window, part.end).map_err(failed)?,
            bytes: window.into_piece(),
            begin,
        })
    }
}

impl SegmentFile {
    /// Its header, if it was in use.
    pub fn header(&self) -> Option<&SegmentHeader> {
        self.state.as_ref().ok()?.header()
    }
}

impl SegmentContent {
    /// The frames, in order.
    pub fn frames(&self) -> impl Iterator<Item = InspectedFrame<'_>> {
        let mut offset = self.begin;
        std::iter::from_fn(move || {
            if offset >= self.scan.end() {
                return None;
            }
            let parsed = self.scan.frame_in(&self.bytes, offset)?;
            let begin = offset;
            offset = offset.saturating_add(parsed.bytes);
            Some(InspectedFrame {
                frame: parsed.frame,
                durable: parsed.durable,
                offset: begin as u64,
                bytes: parsed.bytes as u64,
            })
        })
    }

    /// The offset behind the last whole frame.
    pub fn end(&self) -> u64 {
        self.scan.end() as u64
    }

    /// Why there is no frame at `end`; `None` if the part ends there.
    pub fn flaw(&self) -> Option<&'static str> {
        self.scan.flaw
    }
}

/// Far above the segments of a node. A file made long on purpose must not take all memory.
const VIEWED_BYTES_MAX: u64 = 1 << 30;
