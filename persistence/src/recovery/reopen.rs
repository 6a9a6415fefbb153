//! Going on after the last frame that was read.
//!
//! Invariant: wherever a crash interrupts this, the directory reads the same. The new segment gets its
//! name last, with a header that says where the one before it ends; what held frames is at most written
//! again as it was.

use super::chain::Chain;
use super::directory::LogDirectory;
use super::rewrite;
use crate::appender::Appender;
use crate::block_writer::BlockWriter;
use crate::disk::Disk;
use crate::error::{DiskError, WriteError, hexadecimal};
use crate::frame::Salt;
use crate::header::{self, Cut, LogIdentity, SegmentHeader};
use crate::look::OlderSegment;
use crate::options::LogOptions;
use crate::position::Position;
use crate::segment_name;
use crate::space::{self, Preparer, Space};
use crate::writer::{ActiveSegment, Log, Writer};
use std::sync::Arc;

pub(super) fn reopen(
    disk: Arc<dyn Disk>,
    options: &LogOptions,
    mut directory: LogDirectory,
    chain: Chain,
    identity: LogIdentity,
) -> Result<Log, WriteError> {
    check_node(&*disk, &directory, &identity)?;
    let (end, last, bytes) = (chain.end(), chain.last(), chain.frame_bytes());
    let needed_from = match (chain.checkpoint, chain.run.first()) {
        (Some(_), Some(first)) => first.header.number,
        _ => 0,
    };
    make_durable(&*disk, &directory, &chain)?;
    clear_unused(&*disk, &mut directory)?;
    give_new_names(&*disk, &mut directory)?;

    let newest = directory.segments.keys().next_back();
    let number = newest.map_or(1, |newest| newest.saturating_add(1));
    let length = options.first_segment_bytes;
    let (active, direct_failure) = begin_segment(&*disk, identity, number, options, end, last)?;

    let space = Arc::new(Space::new(disk, options, number.saturating_add(1)));
    space.note_direct_failure(direct_failure);
    let segments = directory.segments.iter();
    let (obsolete, older): (Vec<_>, Vec<_>) = segments
        .map(|(&number, segment)| OlderSegment {
            number,
            id: segment.file.id(),
            length: segment.length,
        })
        .partition(|segment| segment.number < needed_from);
    space.add_obsolete(obsolete.into_iter().map(|segment| segment.number));
    Ok(Log {
        appender: Appender::new(Arc::clone(&space), last.next(), length, options),
        writer: Writer::new(Arc::clone(&space), identity, active, last, older, bytes),
        preparer: Preparer::new(space),
    })
}

/// What was read may still be in the page cache only, and so may the names it was found under: a process
/// that was killed may not have come to sync them. It must be durable before anything builds on it.
pub(super) fn make_durable(
    disk: &dyn Disk,
    directory: &LogDirectory,
    chain: &Chain,
) -> Result<(), WriteError> {
    rewrite::rewrite(disk, directory, &chain.run)?;
    for scan in &chain.run {
        let number = scan.header.number;
        let synced = directory.segments[&number].file.sync();
        let synced = synced.map_err(DiskError::at(disk, "sync", &directory.name_of(number)));
        synced.map_err(WriteError::Sync)?;
    }
    let synced = disk.sync_dir();
    let synced = synced.map_err(DiskError::at(disk, "sync the directory", ""));
    synced.map_err(WriteError::Sync)
}

/// Makes the segment in which the stream goes on after `end`; says why it is not written past the page cache, where the
/// disk did not simply refuse that.
fn begin_segment(
    disk: &dyn Disk,
    identity: LogIdentity,
    number: u64,
    options: &LogOptions,
    end: Cut,
    last: Position,
) -> Result<(ActiveSegment, Option<DiskError>), WriteError> {
    let length = options.first_segment_bytes;
    let salt = disk
        .random()
        .map_err(DiskError::at_segment(disk, "choose a salt for", number))
        .map_err(WriteError::Segment)?;
    let header = SegmentHeader {
        version: header::NEWEST,
        is_repaired: false,
        identity,
        number,
        segment_bytes: length,
        salt,
        previous: end,
        first_position: last.next(),
        durable: last,
    };
    let start = header.encode();
    let made = space::make_segment(disk, number, length, &start, options.allows_direct);
    let made = made.map_err(|error| WriteError::full_or(error, WriteError::Segment))?;
    let direct = made.direct.filter(|_| options.writes_direct);
    let active = ActiveSegment {
        file: made.file,
        blocks: direct.map(|direct| BlockWriter::new(direct, &start)),
        number,
        salt: Salt::new(salt),
        offset: header::BLOCK_BYTES,
        length,
    };
    Ok((active, made.direct_failure))
}

fn check_node(
    disk: &dyn Disk,
    directory: &LogDirectory,
    identity: &LogIdentity,
) -> Result<(), WriteError> {
    match directory.newest_header() {
        Some(header) if header.identity.node_id != identity.node_id => {
            Err(WriteError::ForeignNode {
                directory: disk.describe(""),
                found: hexadecimal(&header.identity.node_id),
                expected: hexadecimal(&identity.node_id),
            })
        }
        _ => Ok(()),
    }
}

/// Removes what was made ahead and never used. Newest first, so that a crash in between leaves no gap.
pub(super) fn clear_unused(
    disk: &dyn Disk,
    directory: &mut LogDirectory,
) -> Result<(), WriteError> {
    let remove = |name: &str| {
        let removed = disk
            .remove(name)
            .map_err(DiskError::at(disk, "remove", name));
        removed.map_err(WriteError::Segment)
    };
    for number in directory.unfinished.drain(..) {
        remove(&segment_name::unfinished(number))?;
    }
    while let Some((&number, _)) = directory.segments.last_key_value() {
        let is_blank = directory.is_blank(disk, number);
        if !is_blank.map_err(WriteError::Segment)? {
            break;
        }
        remove(&directory.name_of(number))?;
        directory.segments.remove(&number);
        let synced = disk.sync_dir().map_err(DiskError::at(disk, "sync", ""));
        synced.map_err(WriteError::Segment)?;
    }
    Ok(())
}

/// Renames the segments that have a name of earlier versions. Both names are read, so a crash may come between any two
/// renames; a file has never both.
fn give_new_names(disk: &dyn Disk, directory: &mut LogDirectory) -> Result<(), WriteError> {
    let mut is_any_renamed = false;
    for (&number, segment) in &mut directory.segments {
        let name = segment_name::segment(number);
        if segment.name != name {
            let renamed = disk.rename(&segment.name, &name);
            let renamed = renamed.map_err(DiskError::at(disk, "rename", &segment.name));
            renamed.map_err(WriteError::Segment)?;
            segment.name = name;
            is_any_renamed = true;
        }
    }
    if is_any_renamed {
        let synced = disk.sync_dir().map_err(DiskError::at(disk, "sync", ""));
        synced.map_err(WriteError::Segment)?;
    }
    Ok(())
}
