//! A read-only view of a whole file. The only unsafe code of this crate.
//!
//! Invariant: every page is brought in by `madvise` before the view is handed out, so that a page that
//! cannot be read is an error here and not a signal later. Never used for writing.

#![allow(
    unsafe_code,
    reason = "mapping a file is unsafe by nature; the reasons are given below"
)]

use memmap2::{Advice, Mmap};
use std::fs;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileExt;

/// The bytes of a file: mapped where the system can, copied otherwise.
#[derive(Debug)]
pub struct Mapping(Storage);

#[derive(Debug)]
enum Storage {
    Mapped(Mmap),
    Copied(Vec<u8>),
}

impl Mapping {
    /// A view that owns a copy.
    pub fn copied(bytes: Vec<u8>) -> Mapping {
        Mapping(Storage::Copied(bytes))
    }

    /// Maps `file` and reads all of it in, a chunk at a time.
    pub(crate) fn of(file: &fs::File) -> io::Result<Mapping> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if length == 0 {
            return Ok(Mapping::copied(Vec::new()));
        }
        // SAFETY: the file is one of a directory whose lock this process holds. The log never cuts a file
        // and never writes to one while it has a view of it, so neither length nor content changes under it.
        let mapped = unsafe { Mmap::map(file)? };
        for offset in (0..mapped.len()).step_by(CHUNK_BYTES) {
            let chunk = CHUNK_BYTES.min(mapped.len().saturating_sub(offset));
            match mapped.advise_range(Advice::PopulateRead, offset, chunk) {
                Ok(()) => {}
                // Linux before 5.14 does not know the advice; reading the file says the same.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return copy(file),
                Err(error) => return Err(error),
            }
        }
        Ok(Mapping(Storage::Mapped(mapped)))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Mapped(mapped) => mapped,
            Storage::Copied(bytes) => bytes,
        }
    }
}

fn copy(file: &fs::File) -> io::Result<Mapping> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Mapping::copied(bytes))
}

const CHUNK_BYTES: usize = 1 << 20;
