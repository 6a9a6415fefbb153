//! What is in the directory: the segments with their headers, and everything else by name.
//!
//! Invariant: every header in here is of a known version, of one node, and belongs to the file it was read
//! from. Contents beyond the headers are not looked at.

use super::inspection::mismatch;
use crate::disk::{Disk, File};
use crate::error::{DiskError, RecoveryError, hexadecimal};
use crate::header::{self, Found, Header};
use crate::options::{Options, SEGMENT_BYTES_LIMIT};
use crate::segment_name::{self, Name};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The files of a log.
#[derive(Debug)]
pub(super) struct Directory {
    /// The segments by number.
    pub(super) segments: BTreeMap<u64, Segment>,
    /// Segments that were being made when the process ended.
    pub(super) unfinished: Vec<u64>,
    pub(super) foreign: Vec<String>,
    pub(super) remarks: Vec<String>,
}

/// A segment's file.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: Arc<dyn File>,
    pub(super) length: u64,
    pub(super) state: State,
}

/// What a segment's first block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was in use.
    Used(Header),
    /// No header: made ahead and not used, or used and the header never reached the disk.
    Blank,
    /// Part of a header: used, but the write of the header was cut off.
    Interrupted,
}

impl Directory {
    pub(super) fn read(disk: &dyn Disk, options: &Options) -> Result<Directory, RecoveryError> {
        let mut directory = Directory {
            segments: BTreeMap::new(),
            unfinished: Vec::new(),
            foreign: Vec::new(),
            remarks: Vec::new(),
        };
        let failed = |cause| DiskError::new("list", disk.describe(""), cause);
        for entry in disk.list().map_err(failed)? {
            match segment_name::parse(&entry.name) {
                Name::Segment(_) if !entry.is_file => {
                    let meaning = "it is not a regular file".to_owned();
                    return Err(damaged(disk, &entry.name, 0, meaning));
                }
                Name::Segment(number) => directory.add(disk, number, &entry.name)?,
                Name::Unfinished(number) => directory.unfinished.push(number),
                Name::Lock => {}
                Name::Foreign => directory.foreign.push(entry.name),
            }
        }
        directory.foreign.sort();
        directory.check_nodes(disk, options.expected_node)?;
        directory.check_unused_numbers(disk)?;
        Ok(directory)
    }

    /// For a repair: leaves out the files that cannot be segments, and names them. A newer version and another
    /// node's files are no damage, so they stay errors.
    pub(super) fn read_what_is_usable(
        disk: &dyn Disk,
        options: &Options,
    ) -> Result<(Directory, Vec<String>), RecoveryError> {
        let mut directory = Directory {
            segments: BTreeMap::new(),
            unfinished: Vec::new(),
            foreign: Vec::new(),
            remarks: Vec::new(),
        };
        let mut unusable = Vec::new();
        let failed = |cause| DiskError::new("list", disk.describe(""), cause);
        for entry in disk.list().map_err(failed)? {
            match segment_name::parse(&entry.name) {
                Name::Segment(_) if !entry.is_file => unusable.push(entry.name),
                Name::Segment(number) => match directory.add(disk, number, &entry.name) {
                    Ok(()) => {}
                    Err(RecoveryError::Damaged { .. }) => unusable.push(entry.name),
                    Err(error) => return Err(error),
                },
                Name::Unfinished(number) => directory.unfinished.push(number),
                Name::Lock | Name::Foreign => {}
            }
        }
        directory.check_nodes(disk, options.expected_node)?;
        Ok((directory, unusable))
    }

    /// The file with this name is not here any more.
    pub(super) fn forget(&mut self, name: &str) {
        if let Name::Segment(number) = segment_name::parse(name) {
            self.segments.remove(&number);
        }
    }

    pub(super) fn newest_header(&self) -> Option<&Header> {
        self.segments.values().rev().find_map(Segment::header)
    }

    /// The number of the newest segment that was certainly in use.
    pub(super) fn newest_used(&self) -> Option<u64> {
        self.newest_header().map(|header| header.number)
    }

    fn add(&mut self, disk: &dyn Disk, number: u64, name: &str) -> Result<(), RecoveryError> {
        let failed = |operation| move |cause| DiskError::new(operation, disk.describe(name), cause);
        let file = disk.open(name).map_err(failed("open"))?;
        let length = file.len().map_err(failed("measure"))?;
        if length > SEGMENT_BYTES_LIMIT {
            let meaning =
                format!("the file has {length} bytes, which is more than any segment has");
            return Err(damaged(disk, name, SEGMENT_BYTES_LIMIT, meaning));
        }
        let mut block = [0; header::BLOCK];
        let read = file.read_at(0, &mut block).map_err(failed("read"))?;
        if read < block.len() {
            let meaning = format!(
                "the file ends after {length} bytes, but a segment gets its name only when it is complete"
            );
            return Err(damaged(disk, name, length, meaning));
        }
        let state = match header::examine(&block) {
            Found::Header { header, is_whole } => {
                if let Some(meaning) = mismatch(&header, number, length) {
                    let offset = if header.number == number {
                        length.min(header.segment_bytes)
                    } else {
                        64
                    };
                    return Err(damaged(disk, name, offset, meaning));
                }
                if !is_whole {
                    let file = disk.describe(name);
                    self.remarks.push(format!(
                        "the header of {file} is damaged in part; one copy is good"
                    ));
                }
                State::Used(header)
            }
            Found::Nothing => State::Blank,
            Found::Interrupted => State::Interrupted,
            Found::Damaged => {
                let meaning = "both copies of its header are unreadable".to_owned();
                return Err(damaged(disk, name, 0, meaning));
            }
            Found::UnknownVersion(version) => {
                let file = disk.describe(name);
                return Err(RecoveryError::UnknownVersion {
                    file,
                    version,
                    known: header::NEWEST,
                });
            }
        };
        self.segments.insert(
            number,
            Segment {
                file,
                length,
                state,
            },
        );
        Ok(())
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
                    file: disk.describe(&segment_name::segment(header.number)),
                    found: hexadecimal(&header.identity.node_id),
                    expected: hexadecimal(&expected),
                });
            }
        }
        Ok(())
    }

    /// Segments are made ahead in order, so one that was never used shows that those before it existed.
    fn check_unused_numbers(&self, disk: &dyn Disk) -> Result<(), RecoveryError> {
        let mut previous = self.newest_used().unwrap_or(0);
        for &number in self
            .segments
            .keys()
            .filter(|number| **number > previous)
            .collect::<Vec<_>>()
        {
            let expected = previous.saturating_add(1);
            if number != expected {
                let file = disk.describe(&segment_name::segment(expected));
                return Err(RecoveryError::MissingSegment { file });
            }
            previous = number;
        }
        match self.segments.keys().next() {
            // The first segment of a start gets its header before its name, so one of them is never blank.
            Some(&number) if self.newest_used().is_none() => {
                let meaning = "its header is gone".to_owned();
                Err(damaged(disk, &segment_name::segment(number), 0, meaning))
            }
            _ => Ok(()),
        }
    }
}

impl Segment {
    pub(super) fn header(&self) -> Option<&Header> {
        match &self.state {
            State::Used(header) => Some(header),
            State::Blank | State::Interrupted => None,
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
