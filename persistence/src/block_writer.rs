//! Writes past the page cache: frames in whole blocks, the last of which is written again until it is full.
//!
//! A commit is then the transfer of one block and the flush of the device's cache, without the page cache's part
//! in it (docs/adr/0009-direct-writes.md). Invariant: a block that is written again holds the same bytes as before up to where
//! the new ones begin; the new ones lie where zeros were. So a block that is torn by a power loss, sector by
//! sector, has lost nothing but what was new, as long as a sector that is rewritten with the same bytes keeps
//! them. SQLite calls that powersafe overwrite and rests on it by default; so does every write through the page
//! cache, which writes whole pages. One write is under way at a time, and the buffer does not change meanwhile.

use crate::disk::{Disk, File, is_refusal};
use crate::error::DiskError;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A way into a segment that takes whole blocks only.
#[derive(Clone, Debug)]
pub(crate) struct DirectFile {
    file: Arc<dyn File>,
    block_bytes: usize,
}

impl DirectFile {
    /// Opens a new segment of this name and length, of which so many bytes are used and the others are zero, and
    /// finds out by writing which blocks it takes: at the first commit a refusal would be final. `None` where it
    /// takes none: then the page cache is the way.
    pub(crate) fn probe(
        disk: &dyn Disk,
        name: &str,
        length: u64,
        used: u64,
    ) -> Result<Option<DirectFile>, DiskError> {
        let opened = disk.open_direct(name);
        let Some(file) = opened.map_err(DiskError::at(disk, "open", name))? else {
            return Ok(None);
        };
        let zeros = AlignedBuffer::new(LARGEST_BLOCK);
        for block_bytes in BLOCK_BYTES {
            let block = block_bytes as u64;
            let last = length.saturating_sub(block);
            if last < used.max(1) {
                continue;
            }
            match file.write_at(last, &zeros.bytes()[..block_bytes]) {
                Ok(()) => return Ok(Some(DirectFile { file, block_bytes })),
                Err(error) if Errno::from_io_error(&error).is_some_and(is_refusal) => {}
                Err(error) => return Err(DiskError::at(disk, "write", name)(error)),
            }
        }
        Ok(None)
    }
}

/// Appends to a segment in whole blocks.
pub(crate) struct BlockWriter {
    direct: DirectFile,
    buffer: AlignedBuffer,
    /// Where the buffer begins in the file.
    begins: u64,
    /// The bytes of the buffer that are in use. What follows is zero.
    used: usize,
}

impl BlockWriter {
    /// For a segment that begins with `start`, which is written already, and goes on with zeros.
    pub(crate) fn new(direct: DirectFile, start: &[u8]) -> BlockWriter {
        let mut writer = BlockWriter {
            direct,
            buffer: AlignedBuffer::new(BUFFER_BYTES),
            begins: 0,
            used: 0,
        };
        writer.take(start);
        writer.keep_last_block();
        writer
    }

    /// Writes these bytes behind those before.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.take(bytes);
            bytes = &bytes[taken..];
            let blocks = self.used.next_multiple_of(self.direct.block_bytes);
            let written = &self.buffer.bytes()[..blocks];
            self.direct.file.write_at(self.begins, written)?;
            self.keep_last_block();
        }
        Ok(())
    }

    /// Takes into the buffer what has room there; returns how much that is.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let room = &mut self.buffer.bytes_mut()[self.used..];
        let taken = bytes.len().min(room.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        self.used = self.used.saturating_add(taken);
        taken
    }

    /// Full blocks are done with; the one that is not begins the next write.
    fn keep_last_block(&mut self) {
        let partial = self.used.checked_rem(self.direct.block_bytes);
        let partial = partial.expect("no block has no bytes");
        let full = self.used.saturating_sub(partial);
        if full > 0 {
            let buffer = self.buffer.bytes_mut();
            buffer.copy_within(full..self.used, 0);
            buffer[partial..self.used].fill(0);
            self.begins = self.begins.saturating_add(full as u64);
            self.used = partial;
        }
    }
}

impl fmt::Debug for BlockWriter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block_bytes = self.direct.block_bytes;
        write!(formatter, "BlockWriter(blocks of {block_bytes} bytes)")
    }
}

/// Zeroed memory at an address that every block size divides.
struct AlignedBuffer {
    memory: Vec<u8>,
    begins: usize,
    length: usize,
}

impl AlignedBuffer {
    fn new(length: usize) -> AlignedBuffer {
        // It never grows, and so stays where it is.
        let memory = vec![0; length.saturating_add(LARGEST_BLOCK)];
        let beyond = memory.as_ptr().addr() % LARGEST_BLOCK;
        AlignedBuffer {
            begins: LARGEST_BLOCK.saturating_sub(beyond),
            memory,
            length,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.begins..][..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begins..][..self.length]
    }
}

/// What is tried, smallest first: the page of most devices, and those of some with larger ones. Smaller blocks
/// would make a device with pages of 4 KiB read before it writes.
const BLOCK_BYTES: [usize; 3] = [4 << 10, 16 << 10, LARGEST_BLOCK];
pub(crate) const LARGEST_BLOCK: usize = 64 << 10;

/// Longer batches are written in parts.
const BUFFER_BYTES: usize = 256 << 10;
