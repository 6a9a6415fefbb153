//! Going on after the last frame that was read.
//!
//! Invariant: at every point of this a crash leaves a directory that reads the same. The new segment gets its
//! name last, with a header that says where the one before it ends; what held frames is at most written
//! again as it was.

use super::Recovery;
use super::directory::Directory;
use super::rewrite;
use super::scan::is_zero;
use crate::appender::Appender;
use crate::disk::Disk;
use crate::error::{DiskError, WriteError, hexadecimal};
use crate::frame::Salt;
use crate::header::{self, Header};
use crate::log::Log;
use crate::options::Identity;
use crate::position::Position;
use crate::preparer::Preparer;
use crate::segment_name;
use crate::space::{self, Space};
use crate::writer::{Active, Writer};
use std::sync::Arc;

pub(super) fn reopen(recovery: Recovery, identity: Identity) -> Result<Log, WriteError> {
    let Recovery {
        disk,
        options,
        mut directory,
        run,
        summary,
        ..
    } = recovery;
    check_node(&*disk, summary.node_id, &identity)?;
    let uncovered = rewrite::uncovered(&run);
    let end = run
        .last()
        .map_or((0, 0), |scan| (scan.header.number, scan.end() as u64));
    let start_segment = run.first().map_or(0, |scan| scan.header.number);
    let numbers: Vec<u64> = run.iter().map(|scan| scan.header.number).collect();
    drop(run);
    rewrite::rewrite(&*disk, &directory, &uncovered)?;
    sync_what_was_read(&*disk, &directory, &numbers)?;
    clear_unused(&*disk, &mut directory)?;

    let number = directory
        .segments
        .keys()
        .next_back()
        .map_or(1, |newest| newest.saturating_add(1));
    let length = options.first_segment_bytes;
    let active = begin_segment(&*disk, identity, number, length, end, summary.last)?;

    let space = Arc::new(Space::new(
        disk,
        options.segment_bytes,
        number.saturating_add(1),
    ));
    let is_obsolete = |number: &u64| summary.checkpoint.is_some() && *number < start_segment;
    let (obsolete, older): (Vec<_>, Vec<_>) = directory
        .segments
        .iter()
        .map(|(number, segment)| (*number, segment.length))
        .partition(|(number, _)| is_obsolete(number));
    space.add_obsolete(obsolete.into_iter().map(|(number, _)| number));
    let next = summary.last.next();
    let (frame_bytes_max, reserve_bytes) = (options.frame_bytes_max, options.reserve_bytes);
    let shared = || Arc::clone(&space);
    Ok(Log {
        appender: Appender::new(shared(), next, length, frame_bytes_max, reserve_bytes),
        writer: Writer::new(
            shared(),
            identity,
            active,
            summary.last,
            older,
            summary.bytes,
        ),
        preparer: Preparer::new(space),
    })
}

/// What was read may still be in the page cache only, and so may the names it was found under: a process
/// that was killed may not have come to sync them. It must be durable before anything builds on it.
pub(super) fn sync_what_was_read(
    disk: &dyn Disk,
    directory: &Directory,
    numbers: &[u64],
) -> Result<(), WriteError> {
    for &number in numbers {
        directory.segments[&number].file.sync().map_err(|cause| {
            let file = disk.describe(&segment_name::segment(number));
            WriteError::Sync(DiskError::new("sync", file, cause))
        })?;
    }
    disk.sync_dir().map_err(|cause| {
        WriteError::Sync(DiskError::new(
            "sync the directory",
            disk.describe(""),
            cause,
        ))
    })
}

/// Makes the segment in which the stream goes on after `end`, which is a segment and an offset in it.
fn begin_segment(
    disk: &dyn Disk,
    identity: Identity,
    number: u64,
    length: u64,
    end: (u64, u64),
    last: Position,
) -> Result<Active, WriteError> {
    let salt = disk.random().map_err(|cause| {
        let file = disk.describe(&segment_name::segment(number));
        WriteError::Segment(DiskError::new("choose a salt for", file, cause))
    })?;
    let header = Header {
        version: header::NEWEST,
        is_repaired: false,
        identity,
        number,
        segment_bytes: length,
        salt,
        previous_number: end.0,
        previous_cut: end.1,
        first_position: last.next(),
        durable: last,
    };
    match space::make_segment(disk, number, length, &header.encode()) {
        Ok(file) => {
            let salt = Salt::new(salt);
            Ok(Active {
                file,
                number,
                salt,
                offset: header::BLOCK_BYTES,
                length,
            })
        }
        Err(error) if error.is_no_space() => Err(WriteError::NoSpace(error)),
        Err(error) => Err(WriteError::Segment(error)),
    }
}

fn check_node(
    disk: &dyn Disk,
    found: Option<[u8; 20]>,
    identity: &Identity,
) -> Result<(), WriteError> {
    match found {
        Some(found) if found != identity.node_id => Err(WriteError::ForeignNode {
            directory: disk.describe(""),
            found: hexadecimal(&found),
            expected: hexadecimal(&identity.node_id),
        }),
        _ => Ok(()),
    }
}

/// Removes what was made ahead and never used. Newest first, so that a crash in between leaves no gap.
pub(super) fn clear_unused(disk: &dyn Disk, directory: &mut Directory) -> Result<(), WriteError> {
    let failed = |operation, name: &str, cause| {
        WriteError::Segment(DiskError::new(operation, disk.describe(name), cause))
    };
    for number in directory.unfinished.drain(..) {
        let name = segment_name::unfinished(number);
        disk.remove(&name)
            .map_err(|cause| failed("remove", &name, cause))?;
    }
    while let Some(newest) = directory.segments.last_entry() {
        let (number, segment) = (*newest.key(), newest.get());
        let name = segment_name::segment(number);
        let content = segment
            .file
            .map()
            .map_err(|cause| failed("read", &name, cause))?;
        if !is_zero(&content) {
            break;
        }
        disk.remove(&name)
            .map_err(|cause| failed("remove", &name, cause))?;
        newest.remove();
        disk.sync_dir().map_err(|cause| failed("sync", "", cause))?;
    }
    Ok(())
}
