//! What is in the directory: the segments with their headers, and everything else by name.
//!
//! Invariant: the header of each segment is of a known version and belongs to the file it was read from; `read`
//! adds that all are of one node. Contents beyond the headers are not looked at.

use super::window::Window;
use crate::disk::{Disk, File};
use crate::error::{DiskError, RecoveryError, hexadecimal};
use crate::header::{self, FirstBlock, SegmentHeader};
use crate::options::{LogOptions, SEGMENT_BYTES_LIMIT};
use crate::segment_name::{self, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// The files of a log.
#[derive(Debug, Default)]
pub(super) struct LogDirectory {
    /// The segments that can be used, by number.
    pub(super) segments: BTreeMap<u64, Segment>,
    /// Files with the name of a segment that cannot be used as one, by number.
    pub(super) unusable: Vec<Unusable>,
    /// Segments that were being made when the process ended, by number.
    pub(super) unfinished: Vec<u64>,
    pub(super) foreign: Vec<String>,
    pub(super) remarks: Vec<String>,
}

/// A segment's file.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    pub(super) length: u64,
    pub(super) state: SegmentState,
}

/// What a segment's first block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// It was in use.
    Used(SegmentHeader),
    /// No header: made ahead and not used, or used and the header never reached the disk.
    Blank,
    /// Part of a header: used, but the write of the header was cut off.
    Interrupted,
}

/// A file with the name of a segment that cannot be used as one.
#[derive(Debug)]
pub(super) struct Unusable {
    pub(super) number: u64,
    pub(super) name: String,
    /// Its length, as far as it is known.
    pub(super) length: u64,
    pub(super) error: RecoveryError,
}

impl LogDirectory {
    /// Lists the files and reads the headers. What is wrong with a file is kept in `unusable`.
    pub(super) fn list(disk: &dyn Disk) -> Result<LogDirectory, DiskError> {
        let mut directory = LogDirectory::default();
        let entries = disk.list().map_err(DiskError::at(disk, "list", ""))?;
        let all: BTreeSet<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        for entry in entries {
            match segment_name::parse(&entry.name) {
                Name::Segment(number) => {
                    let names = [segment_name::segment(number), segment_name::earlier(number)];
                    let meaning = if !entry.is_file {
                        "it is not a regular file".to_owned()
                    } else if names.iter().all(|name| all.contains(name)) {
                        // No start leaves both, and which of them the log needs cannot be known.
                        let [name, earlier] = names;
                        format!(
                            "{name} and {earlier} are both there, and only one of them can be this segment: move the other one away"
                        )
                    } else {
                        directory.add(disk, number, entry.name);
                        continue;
                    };
                    let error = damaged(disk, &entry.name, 0, meaning);
                    directory.set_unusable(number, entry.name, 0, error);
                }
                Name::Unfinished(number) => directory.unfinished.push(number),
                Name::Lock => {}
                Name::Foreign => directory.foreign.push(entry.name),
            }
        }
        directory.unusable.sort_by_key(|file| file.number);
        directory.unfinished.sort_unstable();
        directory.foreign.sort();
        Ok(directory)
    }

    /// For a start: every file with the name of a segment must be one of this node.
    pub(super) fn read(
        disk: &dyn Disk,
        options: &LogOptions,
    ) -> Result<LogDirectory, RecoveryError> {
        let mut directory = LogDirectory::list(disk)?;
        if !directory.unusable.is_empty() {
            return Err(directory.unusable.swap_remove(0).error);
        }
        directory.check_nodes(disk, options.expected_node)?;
        directory.check_unused_numbers(disk)?;
        Ok(directory)
    }

    /// For a repair: files that cannot be segments are allowed. A newer version and another node's files are no
    /// damage, so they stay errors.
    pub(super) fn read_what_is_usable(
        disk: &dyn Disk,
        options: &LogOptions,
    ) -> Result<LogDirectory, RecoveryError> {
        let mut directory = LogDirectory::list(disk)?;
        let is_damage = |file: &Unusable| matches!(file.error, RecoveryError::Damaged { .. });
        if let Some(index) = directory.unusable.iter().position(|file| !is_damage(file)) {
            return Err(directory.unusable.swap_remove(index).error);
        }
        directory.check_nodes(disk, options.expected_node)?;
        Ok(directory)
    }

    /// What the file of segment `number` is called, or would be.
    pub(super) fn name_of(&self, number: u64) -> String {
        let segment = self.segments.get(&number);
        segment.map_or_else(
            || segment_name::segment(number),
            |segment| segment.name.clone(),
        )
    }

    /// The file with this name is not here any more.
    pub(super) fn forget(&mut self, name: &str) {
        if let Name::Segment(number) = segment_name::parse(name) {
            self.segments.remove(&number);
        }
    }

    pub(super) fn newest_header(&self) -> Option<&SegmentHeader> {
        self.segments.values().rev().find_map(Segment::header)
    }

    /// The number of the newest segment that was certainly in use.
    pub(super) fn newest_used(&self) -> Option<u64> {
        self.newest_header().map(|header| header.number)
    }

    /// The largest number of any segment: usable or not, finished or not.
    pub(super) fn newest_number(&self) -> u64 {
        let unusable = self.unusable.iter().map(|file| &file.number);
        let numbers = self.segments.keys().chain(&self.unfinished).chain(unusable);
        numbers.copied().max().unwrap_or(0)
    }

    /// The content of a segment that is in `segments`.
    pub(super) fn window(&self, number: u64) -> io::Result<Window<'_>> {
        let segment = &self.segments[&number];
        Window::of(&*segment.file, segment.length)
    }

    /// Whether a segment that is in `segments` holds nothing but zeros.
    pub(super) fn is_blank(&self, disk: &dyn Disk, number: u64) -> Result<bool, DiskError> {
        let blank = self.window(number).and_then(|mut window| {
            let length = window.length();
            window.is_zero(0, length)
        });
        blank.map_err(DiskError::at(disk, "read", &self.name_of(number)))
    }

    fn add(&mut self, disk: &dyn Disk, number: u64, name: String) {
        let opened = match OpenedFile::open(disk, &name) {
            Ok(opened) => opened,
            Err(error) => return self.set_unusable(number, name, 0, error.into()),
        };
        let length = opened.length;
        match opened.first_block(disk, number, &name, &mut self.remarks) {
            Ok(state) => {
                let file = opened.file;
                let segment = Segment {
                    name,
                    file,
                    length,
                    state,
                };
                self.segments.insert(number, segment);
            }
            Err(error) => self.set_unusable(number, name, length, error),
        }
    }

    fn set_unusable(&mut self, number: u64, name: String, length: u64, error: RecoveryError) {
        self.unusable.push(Unusable {
            number,
            name,
            length,
            error,
        });
    }

    fn check_nodes(
        &self,
        disk: &dyn Disk,
        expected: Option<[u8; 20]>,
    ) -> Result<(), RecoveryError> {
        let Some(newest) = self.newest_header() else {
            return Ok(());
        };
        let expected = expected.unwrap_or(newest.identity.node_id);
        for header in self.segments.values().filter_map(Segment::header) {
            if header.identity.node_id != expected {
                return Err(RecoveryError::ForeignNode {
                    file: disk.describe(&self.name_of(header.number)),
                    found: hexadecimal(&header.identity.node_id),
                    expected: hexadecimal(&expected),
                });
            }
        }
        Ok(())
    }

    /// Segments are made ahead in order, so one that was never used shows that those before it existed.
    fn check_unused_numbers(&self, disk: &dyn Disk) -> Result<(), RecoveryError> {
        let newest_used = self.newest_used();
        let mut previous = newest_used.unwrap_or(0);
        for (&number, _) in self.segments.range(previous.saturating_add(1)..) {
            let expected = previous.saturating_add(1);
            if number != expected {
                let file = disk.describe(&segment_name::segment(expected));
                return Err(RecoveryError::MissingSegment { file });
            }
            previous = number;
        }
        match self.segments.keys().next() {
            // The first segment of a start gets its header before its name, so one of them is never blank.
            Some(&number) if newest_used.is_none() => {
                let meaning = "its header is gone".to_owned();
                Err(damaged(disk, &self.name_of(number), 0, meaning))
            }
            _ => Ok(()),
        }
    }
}

impl Segment {
    pub(super) fn header(&self) -> Option<&SegmentHeader> {
        self.state.header()
    }
}

impl SegmentState {
    pub(super) fn header(&self) -> Option<&SegmentHeader> {
        match self {
            SegmentState::Used(header) => Some(header),
            SegmentState::Blank | SegmentState::Interrupted => None,
        }
    }
}

impl Unusable {
    /// Why it cannot be used, without the name of the file.
    pub(super) fn meaning(&self) -> String {
        match &self.error {
            RecoveryError::Damaged { meaning, .. } => meaning.clone(),
            RecoveryError::UnknownVersion { version, .. } => {
                format!("version {version} of the format is not known")
            }
            RecoveryError::Disk(error) => error.cause.to_string(),
            error => error.to_string(),
        }
    }
}

/// A file of which only the first block was read.
struct OpenedFile {
    file: Arc<dyn File>,
    length: u64,
    /// `None` if the file is shorter.
    block: Option<[u8; header::BLOCK]>,
}

impl OpenedFile {
    fn open(disk: &dyn Disk, name: &str) -> Result<OpenedFile, DiskError> {
        let failed = |operation| DiskError::at(disk, operation, name);
        let file = disk.open(name).map_err(failed("open"))?;
        let length = file.len().map_err(failed("measure"))?;
        let mut block = [0; header::BLOCK];
        let read = file.read_at(0, &mut block).map_err(failed("read"))?;
        let block = (read == block.len()).then_some(block);
        Ok(OpenedFile {
            file,
            length,
            block,
        })
    }

    fn first_block(
        &self,
        disk: &dyn Disk,
        number: u64,
        name: &str,
        remarks: &mut Vec<String>,
    ) -> Result<SegmentState, RecoveryError> {
        let length = self.length;
        if length > SEGMENT_BYTES_LIMIT {
            let meaning =
                format!("the file has {length} bytes, which is more than any segment has");
            return Err(damaged(disk, name, SEGMENT_BYTES_LIMIT, meaning));
        }
        let Some(block) = &self.block else {
            let meaning = format!(
                "the file ends after {length} bytes, but a segment gets its name only when it is complete"
            );
            return Err(damaged(disk, name, length, meaning));
        };
        let file = || disk.describe(name);
        match header::examine(block) {
            FirstBlock::Header { header, is_whole } => {
                if let Some(meaning) = header.mismatch(number, length) {
                    let offset = if header.number == number {
                        length.min(header.segment_bytes)
                    } else {
                        64
                    };
                    return Err(damaged(disk, name, offset, meaning));
                }
                if !is_whole {
                    remarks.push(format!(
                        "the header of {} is damaged in part; one copy is good",
                        file()
                    ));
                }
                Ok(SegmentState::Used(header))
            }
            FirstBlock::Nothing => Ok(SegmentState::Blank),
            FirstBlock::Interrupted => Ok(SegmentState::Interrupted),
            FirstBlock::Damaged => {
                let meaning = "both copies of its header are unreadable".to_owned();
                Err(damaged(disk, name, 0, meaning))
            }
            FirstBlock::UnknownVersion(version) => Err(RecoveryError::UnknownVersion {
                file: file(),
                version,
                known: header::NEWEST,
            }),
        }
    }
}

pub(super) fn damaged(disk: &dyn Disk, name: &str, offset: u64, meaning: String) -> RecoveryError {
    RecoveryError::Damaged {
        file: disk.describe(name),
        offset,
        meaning,
    }
}
