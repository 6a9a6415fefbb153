//! Writing again, byte for byte, what was read and what no sync is known to have covered.
//!
//! After a sync has failed the system may call pages clean that never reached the disk; they can be read for
//! as long as they stay in memory, and a later sync does not report them. So a start that only synced what it
//! has read could call durable what a power loss takes away. Written again the pages are dirty again, and the
//! sync that follows tells the truth.
//!
//! Invariant: only bytes that were verified just now are written, to the place they were read from. Wherever
//! a crash cuts this off, each sector holds what it held before or what it should hold.

use super::directory::LogDirectory;
use super::scan::Scan;
use crate::disk::{Disk, File};
use crate::error::{DiskError, WriteError};
use crate::frame::{self, Salt};
use crate::header::{self, Found, SegmentHeader};
use crate::position::Position;

/// What of one segment no claim of durability covers.
#[derive(Debug)]
pub(super) struct Uncovered {
    header: SegmentHeader,
    /// The header itself may not be on the disk.
    with_header: bool,
    stretches: Vec<Stretch>,
}

/// Whole frames, one after the other.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: usize,
    to: usize,
    first: Position,
}

/// What of the stream no claim of durability covers. A claim is made by what was written after a sync had
/// succeeded, so it is true whatever has become of the disk's cache since.
pub(super) fn uncovered(run: &[Scan]) -> Vec<Uncovered> {
    let claims = run.iter().map(|scan| scan.claim.durable);
    let durable = claims.max().unwrap_or(Position::ZERO);
    let of = |scan: &Scan| Uncovered {
        header: scan.header,
        // A sync covers the whole file: one that made a frame durable made the header durable.
        with_header: scan.header.first_position > durable,
        stretches: stretches(scan, durable),
    };
    let all = run
        .iter()
        .filter(|scan| scan.next() > durable.next() || scan.header.first_position > durable);
    all.map(of).collect()
}

/// Writes it again. Nothing is durable before the sync that follows.
pub(super) fn rewrite(
    disk: &dyn Disk,
    directory: &LogDirectory,
    all: &[Uncovered],
) -> Result<(), WriteError> {
    let mut buffer = Vec::new();
    for uncovered in all {
        let number = uncovered.header.number;
        let failed = |cause| {
            let operation = "write again what was read of";
            let error = DiskError::at_segment(disk, operation, number)(cause);
            WriteError::full_or(error, WriteError::Write)
        };
        let file = &*directory.segments[&number].file;
        if uncovered.with_header {
            rewrite_header(file, &uncovered.header).map_err(failed)?;
        }
        for stretch in &uncovered.stretches {
            let salt = Salt::new(uncovered.header.salt);
            rewrite_frames(file, salt, *stretch, &mut buffer).map_err(failed)?;
        }
    }
    Ok(())
}

fn rewrite_header(file: &dyn File, expected: &SegmentHeader) -> std::io::Result<()> {
    let mut block = [0; header::BLOCK];
    let read = file.read_at(0, &mut block)?;
    match header::examine(&block) {
        Found::Header { header, .. } if read == block.len() && header == *expected => {
            file.write_at(0, &block)
        }
        _ => Err(changed()),
    }
}

fn rewrite_frames(
    file: &dyn File,
    salt: Salt,
    stretch: Stretch,
    buffer: &mut Vec<u8>,
) -> std::io::Result<()> {
    buffer.resize(stretch.to.saturating_sub(stretch.from), 0);
    if file.read_at(stretch.from as u64, buffer)? != buffer.len() {
        return Err(changed());
    }
    // A page that was called clean may have left memory since it was verified, and come back from the disk
    // as it was before the write that failed.
    let mut rest = &buffer[..];
    let mut next = stretch.first;
    while !rest.is_empty() {
        match frame::parse(rest, salt) {
            Ok(parsed) if parsed.frame.position == next => {
                next = next.next();
                rest = &rest[parsed.bytes..];
            }
            _ => return Err(changed()),
        }
    }
    file.write_at(stretch.from as u64, buffer)
}

/// The frames behind `durable`, cut into pieces that fit a buffer.
fn stretches(scan: &Scan, durable: Position) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    let mut offset = scan.begin();
    while let Some(parsed) = scan.frame_at(offset) {
        let (from, to) = (offset, offset.saturating_add(parsed.bytes));
        offset = to;
        if parsed.frame.position <= durable {
            continue;
        }
        match all.last_mut() {
            Some(last) if to.saturating_sub(last.from) <= STRETCH_BYTES => last.to = to,
            _ => all.push(Stretch {
                from,
                to,
                first: parsed.frame.position,
            }),
        }
    }
    all
}

fn changed() -> std::io::Error {
    std::io::Error::other("it is not what it was a moment ago")
}

const STRETCH_BYTES: usize = 1 << 18;

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
