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
use super::scan::{Scan, changed};
use super::window::Window;
use crate::disk::{Disk, File};
use crate::error::{DiskError, WriteError};
use crate::header::{self, FirstBlock};
use crate::position::Position;
use std::io;

/// Writes again what of the stream no claim of durability covers. A claim is made by what was written after a sync
/// had succeeded, so it is true whatever has become of the disk's cache since. Nothing is durable before the sync
/// that follows.
pub(super) fn rewrite(
    disk: &dyn Disk,
    directory: &LogDirectory,
    run: &[Scan],
) -> Result<(), WriteError> {
    let claims = run.iter().map(|scan| scan.claim.durable);
    let durable = claims.max().unwrap_or(Position::ZERO);
    for scan in run.iter().filter(|scan| !is_covered(scan, durable)) {
        let number = scan.header.number;
        let segment = &directory.segments[&number];
        let operation = "write again what was read of";
        let rewritten = rewrite_uncovered(&*segment.file, segment.length, scan, durable);
        let rewritten = rewritten.map_err(DiskError::at(disk, operation, &segment.name));
        rewritten.map_err(|error| WriteError::full_or(error, WriteError::Write))?;
    }
    Ok(())
}

fn is_covered(scan: &Scan, durable: Position) -> bool {
    scan.last() <= durable && !has_uncovered_header(scan, durable)
}

/// Whether the header itself may not be on the disk. A sync covers the whole file: one that made a frame durable
/// made the header durable.
fn has_uncovered_header(scan: &Scan, durable: Position) -> bool {
    scan.header.first_position > durable
}

/// Writes the header and the frames behind `durable`, in pieces of whole frames that were verified in memory.
fn rewrite_uncovered(
    file: &dyn File,
    length: u64,
    scan: &Scan,
    durable: Position,
) -> io::Result<()> {
    let mut window = Window::of(file, length)?;
    if has_uncovered_header(scan, durable) {
        let block = window.bytes(0, header::BLOCK)?.first_chunk();
        let block = block.ok_or_else(changed)?;
        match header::examine(block) {
            FirstBlock::Header { header, .. } if header == scan.header => {
                file.write_at(0, block)?
            }
            _ => return Err(changed()),
        }
    }
    let (mut offset, mut next) = (scan.begin(), scan.header.first_position);
    let mut frames: Vec<u8> = Vec::new();
    while let Some(parsed) = scan.frame_at(&mut window, offset)? {
        let (position, bytes) = (parsed.frame.position, parsed.bytes);
        if position != next {
            return Err(changed());
        }
        next = next.next();
        let end = offset.saturating_add(bytes);
        if position > durable {
            frames.extend_from_slice(&window.bytes(offset, end)?[..bytes]);
        }
        offset = end;
        if frames.len() >= WRITTEN_BYTES || offset == scan.end() {
            let from = offset.saturating_sub(frames.len());
            file.write_at(from as u64, &frames)?;
            frames.clear();
        }
    }
    Ok(())
}

/// Few writes, and little memory.
const WRITTEN_BYTES: usize = 1 << 18;

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
