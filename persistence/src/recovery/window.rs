//! A segment's bytes, read a piece at a time.
//!
//! Invariant: what is looked at is a copy, so neither a write nor a cut by another program changes it under a
//! reader: a page that cannot be read, and a file that ends early, are errors. The memory is that of one piece, or of
//! one frame where that is longer; small pieces stay in the processor's cache, which makes a start faster than
//! whole segments do.

use crate::disk::File;
use crate::frame::{self, Flaw, ParsedFrame, Salt};
use crate::header;
use rustix::io::Errno;
use std::io;

/// A file of which one piece is in memory.
#[derive(Debug)]
pub(super) struct Window<'a> {
    /// `None`: all of it is in memory.
    file: Option<&'a dyn File>,
    length: usize,
    /// Where in the file the piece begins.
    begin: usize,
    piece: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Of a file that has this length.
    pub(super) fn of(file: &'a dyn File, length: u64) -> io::Result<Window<'a>> {
        Ok(Window {
            file: Some(file),
            length: usize::try_from(length).map_err(io::Error::other)?,
            begin: 0,
            piece: Vec::new(),
        })
    }

    /// Of bytes that are all there.
    pub(super) fn holding(bytes: Vec<u8>) -> Window<'a> {
        Window {
            file: None,
            length: bytes.len(),
            begin: 0,
            piece: bytes,
        }
    }

    /// The piece that is in memory.
    pub(super) fn into_piece(self) -> Vec<u8> {
        self.piece
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The bytes at `offset`: at least those up to `end`, or up to the end of the file.
    #[inline]
    pub(super) fn bytes(&mut self, offset: usize, end: usize) -> io::Result<&[u8]> {
        self.hold(offset, end)?;
        Ok(self.held(offset))
    }

    /// The frame at `offset`, which must end at `end` or before.
    #[inline]
    pub(super) fn frame_at(
        &mut self,
        offset: usize,
        end: usize,
        salt: Salt,
    ) -> io::Result<Result<ParsedFrame<'_>, Flaw>> {
        let head_end = offset.saturating_add(frame::HEADER_BYTES).min(end);
        self.hold(offset, head_end)?;
        let claimed = frame::claimed_bytes(self.held(offset), salt);
        self.hold(offset, offset.saturating_add(claimed).min(end))?;
        let held = self.held(offset);
        let limit = end.saturating_sub(offset).min(held.len());
        Ok(frame::parse(&held[..limit], salt))
    }

    /// Makes sure that the bytes from `offset` up to `end`, as far as they exist, are in memory.
    #[inline]
    fn hold(&mut self, offset: usize, end: usize) -> io::Result<()> {
        let piece_end = self.begin.saturating_add(self.piece.len());
        match offset >= self.begin && end.min(self.length) <= piece_end {
            true => Ok(()),
            false => self.load(offset, end.min(self.length)),
        }
    }

    /// What of the piece lies at `offset` and behind it.
    #[inline]
    fn held(&self, offset: usize) -> &[u8] {
        let from = offset.saturating_sub(self.begin);
        self.piece.get(from..).unwrap_or_default()
    }

    /// Whether there are only zeros from `offset` up to `end`.
    pub(super) fn is_zero(&mut self, mut offset: usize, end: usize) -> io::Result<bool> {
        let end = end.min(self.length);
        while offset < end {
            let bytes = self.bytes(offset, offset.saturating_add(1))?;
            let bytes = &bytes[..bytes.len().min(end.saturating_sub(offset))];
            if !is_zero(bytes) {
                return Ok(false);
            }
            offset = offset.saturating_add(bytes.len());
        }
        Ok(true)
    }

    /// Brings in a piece that begins at `offset` and reaches up to `end` at least.
    #[cold]
    fn load(&mut self, offset: usize, end: usize) -> io::Result<()> {
        let rest = self.length.saturating_sub(offset);
        let wanted = end.saturating_sub(offset).max(PIECE_BYTES).min(rest);
        // A length that another program wrote must not end the process.
        let missing = wanted.saturating_sub(self.piece.len());
        let reserved = self.piece.try_reserve_exact(missing);
        reserved.map_err(|_| io::Error::from(Errno::NOMEM))?;
        self.piece.resize(wanted, 0);
        self.begin = offset;
        let read = match self.file {
            Some(file) => file.read_at(offset as u64, &mut self.piece),
            None => Ok(0),
        };
        let failure = match read {
            Ok(read) if read == wanted => return Ok(()),
            Ok(_) => io::Error::other("its length changed while it was read"),
            Err(cause) => cause,
        };
        // What was not read must not pass for the file's bytes when it is looked at again.
        self.piece.clear();
        Err(failure)
    }
}

/// Compares block by block: a segment made ahead is looked at as a whole at every start.
fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .chunks(header::BLOCK)
        .all(|chunk| *chunk == ZEROS[..chunk.len()])
}

/// Fits the second-level cache, together with what is done with it.
const PIECE_BYTES: usize = 1 << 18;
static ZEROS: [u8; header::BLOCK] = [0; header::BLOCK];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;
    use crate::disk::{Disk, MemoryDisk};

    #[test]
    fn a_file_that_ends_early_is_an_error_and_holds_no_zeros() {
        let file = MemoryDisk::new().create("segment").unwrap();
        file.write_at(0, &[0; 100]).unwrap();
        let mut whole = Window::of(&*file, 100).unwrap();
        assert!(whole.is_zero(0, 100).unwrap());
        let mut cut = Window::of(&*file, 101).unwrap();
        assert!(cut.is_zero(0, 101).is_err() && cut.bytes(0, 101).is_err());
    }
}
