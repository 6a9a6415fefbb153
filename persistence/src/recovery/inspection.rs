//! Looking at a log without changing anything and without having it to oneself.
//!
//! Invariant: nothing is written, and at most one segment is in memory. What a start would make of the log is
//! judged by the code of a start. While a node writes, a segment may grow or vanish between two looks: an
//! unfavourable finding counts only if a second look finds the same.

use super::Summary;
use super::chain::{self, Keep};
use super::directory::Directory;
use super::scan::Scan;
use crate::disk::Disk;
use crate::error::{DiskError, RecoveryError};
use crate::frame::Frame;
use crate::header::{self, Found, Header};
use crate::options::{Identity, Options};
use crate::position::{Kind, Position};
use crate::segment_name::{self, Name};
use std::sync::Arc;

/// The files of a log, and what their headers say.
#[derive(Debug)]
pub struct Inspection {
    disk: Arc<dyn Disk>,
    segments: Vec<SegmentFile>,
    unfinished: Vec<String>,
    foreign: Vec<String>,
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
    /// What its first block says.
    pub state: SegmentState,
}

/// What a segment's first block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// It was in use.
    Used(SegmentHeader),
    /// No header: it was made ahead, or its header never reached the disk.
    Blank,
    /// Half a header: the write of the first block was cut off.
    Interrupted,
    /// It cannot be a segment, for this reason.
    Unusable(String),
}

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The version of the format.
    pub version: u32,
    /// Whether a repair cut the stream before it.
    pub is_repaired: bool,
    /// Whose it is.
    pub identity: Identity,
    /// The segment whose frames come before, 0 where there is none.
    pub previous_number: u64,
    /// The offset in that segment at which it ends.
    pub previous_cut: u64,
    /// The position of the first frame here.
    pub first_position: Position,
    /// Everything up to here was durable when the header was written.
    pub durable: Position,
}

/// A stretch of one segment that belongs to the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The segment's number.
    pub number: u64,
    /// The offset of the first frame.
    pub begin: u64,
    /// The offset behind the last one; `None`: up to the first thing that is not the next frame.
    pub end: Option<u64>,
}

/// What a start would make of a log.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What it would read.
    pub summary: Summary,
    /// Where it would read it, in order.
    pub parts: Vec<Part>,
}

/// The frames of one segment.
#[derive(Debug)]
pub struct Content {
    scan: Scan,
    begin: usize,
}

/// A frame, and what the log itself keeps with it.
#[derive(Clone, Copy, Debug)]
pub struct InspectedFrame<'a> {
    /// What the caller stored, and where in the stream.
    pub frame: Frame<'a>,
    /// Whether it opens or completes a checkpoint.
    pub kind: Kind,
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
        let failed = |cause| DiskError::new("list", disk.describe(""), cause);
        let mut entries = disk.list().map_err(failed)?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let mut segments = Vec::new();
        let mut unfinished = Vec::new();
        let mut foreign = Vec::new();
        for entry in entries {
            match segment_name::parse(&entry.name) {
                Name::Segment(number) if entry.is_file => {
                    segments.push(look_at(&*disk, number, &entry.name));
                }
                Name::Segment(number) => segments.push(SegmentFile {
                    number,
                    file: disk.describe(&entry.name),
                    bytes: 0,
                    state: SegmentState::Unusable("it is not a regular file".to_owned()),
                }),
                Name::Unfinished(_) => unfinished.push(entry.name),
                Name::Lock => {}
                Name::Foreign => foreign.push(entry.name),
            }
        }
        segments.sort_by_key(|segment| segment.number);
        Ok(Inspection {
            disk,
            segments,
            unfinished,
            foreign,
        })
    }

    /// The segments by number.
    pub fn segments(&self) -> &[SegmentFile] {
        &self.segments
    }

    /// Segments that are being made, or were when the process ended.
    pub fn unfinished(&self) -> &[String] {
        &self.unfinished
    }

    /// Names that are not the log's.
    pub fn foreign(&self) -> &[String] {
        &self.foreign
    }

    /// The file of the segment with this number, for people.
    pub fn file_of(&self, number: u64) -> String {
        let at = |segment: &SegmentFile| segment.number.cmp(&number);
        match self.segments.binary_search_by(at) {
            Ok(index) => self.segments[index].file.clone(),
            Err(_) => self.disk.describe(&segment_name::segment(number)),
        }
    }

    /// What the newest header that can be read says of whose log it is.
    pub fn newest_identity(&self) -> Option<Identity> {
        let newest = self.segments.iter().rev().find_map(SegmentFile::header);
        newest.map(|(_, header)| header.identity)
    }

    /// Lists and reads the log again, all of it, as a start would.
    ///
    /// # Errors
    /// For the reason for which a start would refuse.
    pub fn judge(&self, options: &Options) -> Result<Judgement, RecoveryError> {
        let options = options.in_blocks();
        let directory = Directory::read(&*self.disk, &options)?;
        let chain = chain::assemble(&*self.disk, &directory, Keep::Nothing)?;
        let mut begin = chain.start_offset;
        let parts = chain.run.iter().map(|scan| Part {
            number: scan.header.number,
            begin: std::mem::replace(&mut begin, header::BLOCK) as u64,
            end: Some(scan.end() as u64),
        });
        let parts = parts.collect();
        Ok(Judgement {
            summary: Summary::of(&directory, &chain),
            parts,
        })
    }

    /// The stream as the headers tell it, oldest segment first: from the newest header back along the names
    /// of the segments before, as far as these are there. It may reach back behind the last checkpoint.
    pub fn stream(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let newest = self.segments.iter().rev().find_map(SegmentFile::header);
        let mut next = newest.map(|(number, _)| (number, None));
        while let Some((number, end)) = next {
            let Some(header) = self.header(number) else {
                break;
            };
            parts.push(Part {
                number,
                begin: header::BLOCK_BYTES,
                end,
            });
            // Names lead back only, since no other header is used; so this ends at one that is not there.
            next = Some((header.previous_number, Some(header.previous_cut)));
        }
        parts.reverse();
        parts
    }

    /// Reads the frames of one part, as far as they are whole.
    ///
    /// # Errors
    /// If the file cannot be read, or is none of this log's segments any more.
    pub fn read(&self, part: &Part) -> Result<Content, DiskError> {
        let name = segment_name::segment(part.number);
        let failed = |cause| DiskError::new("read", self.disk.describe(&name), cause);
        let file = self.disk.open(&name).map_err(failed)?;
        let bytes = file.map().map_err(failed)?;
        let block = bytes.first_chunk().map(header::examine);
        let Some(Found::Header { header, .. }) = block else {
            let changed = std::io::Error::other("it has no header any more");
            return Err(failed(changed));
        };
        let begin = usize::try_from(part.begin)
            .map_err(|_| failed(std::io::Error::other("it begins beyond what can be mapped")))?;
        Ok(Content {
            scan: Scan::read(header, bytes, part.end),
            begin,
        })
    }

    fn header(&self, number: u64) -> Option<SegmentHeader> {
        let at = |segment: &SegmentFile| segment.number.cmp(&number);
        let index = self.segments.binary_search_by(at).ok()?;
        self.segments[index].header().map(|(_, header)| header)
    }
}

impl SegmentFile {
    fn header(&self) -> Option<(u64, SegmentHeader)> {
        match self.state {
            SegmentState::Used(header) => Some((self.number, header)),
            _ => None,
        }
    }
}

impl Content {
    /// The frames, in order.
    pub fn frames(&self) -> impl Iterator<Item = InspectedFrame<'_>> {
        let mut offset = self.begin;
        std::iter::from_fn(move || {
            if offset >= self.scan.end() {
                return None;
            }
            let parsed = self.scan.frame_at(offset)?;
            let begin = offset;
            offset = offset.saturating_add(parsed.bytes);
            Some(InspectedFrame {
                frame: parsed.frame,
                kind: parsed.kind,
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

fn look_at(disk: &dyn Disk, number: u64, name: &str) -> SegmentFile {
    let mut bytes = 0;
    let mut look = || {
        let file = disk.open(name)?;
        bytes = file.len()?;
        let mut block = [0; header::BLOCK];
        let read = file.read_at(0, &mut block)?;
        Ok::<_, std::io::Error>((read == block.len()).then(|| header::examine(&block)))
    };
    let unusable = |meaning: &str| SegmentState::Unusable(meaning.to_owned());
    let state = match look() {
        Err(error) => SegmentState::Unusable(error.to_string()),
        Ok(None) => unusable("it is shorter than a segment's first block"),
        Ok(Some(Found::Header { header, .. })) => match mismatch(&header, number, bytes) {
            Some(meaning) => SegmentState::Unusable(meaning),
            None => SegmentState::Used(SegmentHeader::of(&header)),
        },
        Ok(Some(Found::Nothing)) => SegmentState::Blank,
        Ok(Some(Found::Interrupted)) => SegmentState::Interrupted,
        Ok(Some(Found::Damaged)) => unusable("both copies of its header are unreadable"),
        Ok(Some(Found::UnknownVersion(version))) => {
            SegmentState::Unusable(format!("version {version} of the format is not known"))
        }
    };
    SegmentFile {
        number,
        file: disk.describe(name),
        bytes,
        state,
    }
}

/// Why this header cannot belong to the file with this number and length.
pub(super) fn mismatch(header: &Header, number: u64, length: u64) -> Option<String> {
    if header.number != number {
        return Some(format!("it says that it is segment {}", header.number));
    }
    if header.previous_number >= number || header.segment_bytes != length {
        return Some(format!(
            "its header speaks of {} bytes after segment {}, the file has {length} bytes",
            header.segment_bytes, header.previous_number
        ));
    }
    None
}

impl SegmentHeader {
    fn of(header: &Header) -> SegmentHeader {
        SegmentHeader {
            version: header.version,
            is_repaired: header.is_repaired,
            identity: header.identity,
            previous_number: header.previous_number,
            previous_cut: header.previous_cut,
            first_position: header.first_position,
            durable: header.durable,
        }
    }
}
