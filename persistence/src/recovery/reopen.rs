//! Going on after the last frame that was read.
//!
//! Invariant: at every point of this a crash leaves a directory that reads the same. The new segment gets its
//! name last, with a header that says where the one before it ends; nothing that held frames is changed.

use super::Recovery;
use super::directory::{Directory, State};
use super::scan::is_zero;
use crate::appender::Appender;
use crate::disk::Disk;
use crate::error::{DiskError, WriteError, hexadecimal};
use crate::frame::Salt;
use crate::header::{self, Header};
use crate::log::Log;
use crate::options::Identity;
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
    // What was read may still be in the page cache only. It must be durable before anything says so.
    for scan in &run {
        let number = scan.header.number;
        directory.segments[&number].file.sync().map_err(|cause| {
            let file = disk.describe(&segment_name::segment(number));
            WriteError::Sync(DiskError::new("sync", file, cause))
        })?;
    }
    let previous = run
        .last()
        .map(|scan| (scan.header.number, scan.end() as u64));
    let start_segment = run.first().map_or(0, |scan| scan.header.number);
    drop(run);
    clear_unused(&*disk, &mut directory)?;

    let number = directory
        .segments
        .keys()
        .next_back()
        .map_or(1, |newest| newest + 1);
    let failed = |cause| {
        let file = disk.describe(&segment_name::segment(number));
        WriteError::Segment(DiskError::new("choose a salt for", file, cause))
    };
    let salt = disk.random().map_err(failed)?;
    let header = Header {
        identity,
        number,
        segment_bytes: options.first_segment_bytes,
        salt,
        previous_number: previous.map_or(0, |(number, _)| number),
        previous_cut: previous.map_or(0, |(_, cut)| cut),
        first_position: summary.last.next(),
        durable: summary.last,
    };
    let length = options.first_segment_bytes;
    let file = space::make_segment(&*disk, number, length, &header.encode()).map_err(|error| {
        if error.is_no_space() {
            WriteError::NoSpace(error)
        } else {
            WriteError::Segment(error)
        }
    })?;

    let space = Arc::new(Space::new(disk, options.segment_bytes, number + 1));
    let is_obsolete = |number: &u64| summary.checkpoint.is_some() && *number < start_segment;
    let numbers = || {
        directory
            .segments
            .iter()
            .map(|(number, segment)| (*number, segment.length))
    };
    space.add_obsolete(numbers().map(|(number, _)| number).filter(is_obsolete));
    let older = numbers()
        .filter(|(number, _)| !is_obsolete(number))
        .collect();
    let active = Active {
        file,
        number,
        salt: Salt::new(salt),
        offset: header::BLOCK_BYTES,
        length,
    };
    Ok(Log {
        appender: Appender::new(
            Arc::clone(&space),
            summary.last.next(),
            length,
            options.frame_bytes_max,
            options.reserve_bytes,
        ),
        writer: Writer::new(
            Arc::clone(&space),
            identity,
            active,
            summary.last,
            older,
            summary.bytes,
        ),
        preparer: Preparer::new(space),
    })
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
fn clear_unused(disk: &dyn Disk, directory: &mut Directory) -> Result<(), WriteError> {
    let failed = |operation, name: &str, cause| {
        WriteError::Segment(DiskError::new(operation, disk.describe(name), cause))
    };
    let newest_used = directory.newest_used().unwrap_or(0);
    for number in directory.unfinished.drain(..) {
        let name = segment_name::unfinished(number);
        disk.remove(&name)
            .map_err(|cause| failed("remove", &name, cause))?;
    }
    while let Some(newest) = directory.segments.last_entry() {
        let (number, segment) = (*newest.key(), newest.get());
        let name = segment_name::segment(number);
        if number <= newest_used || segment.state != State::Blank {
            break;
        }
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
