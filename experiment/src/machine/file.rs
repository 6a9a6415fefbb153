//! A file whose bytes reach the disk of this machine when they are synced, and not before.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorlock_persistence::File;

use super::MachineControls;

/// One file.
#[derive(Debug)]
pub(super) struct VolatileFile {
    machine: Arc<MachineControls>,
    content: Mutex<CachedFile>,
}

/// Invariant: the real file holds exactly what is neither in `unsynced` nor in `unnamed`.
#[derive(Debug, Default)]
struct CachedFile {
    /// What a reader sees.
    bytes: Vec<u8>,
    /// Written and not synced.
    unsynced: Vec<Range<usize>>,
    /// Synced while the file had no durable name: without one a power cut takes it all the same.
    unnamed: Vec<Range<usize>>,
    /// The file on the disk of this machine, once its name is durable.
    real: Option<Arc<dyn File>>,
    is_removed: bool,
}

impl VolatileFile {
    /// A new file, without a name that is durable.
    pub(super) fn new(machine: Arc<MachineControls>) -> VolatileFile {
        VolatileFile {
            machine,
            content: Mutex::default(),
        }
    }

    /// A file that is there.
    pub(super) fn existing(
        machine: Arc<MachineControls>,
        real: Arc<dyn File>,
    ) -> io::Result<VolatileFile> {
        let length = usize::try_from(real.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        let read = real.read_at(0, &mut bytes)?;
        bytes.truncate(read);
        let content = CachedFile {
            bytes,
            real: Some(real),
            ..CachedFile::default()
        };
        Ok(VolatileFile {
            machine,
            content: Mutex::new(content),
        })
    }

    fn content(&self) -> MutexGuard<'_, CachedFile> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name has become durable, and with it everything that was synced before.
    pub(super) fn name(&self, real: Arc<dyn File>) -> io::Result<()> {
        let content = &mut *self.content();
        let unnamed = std::mem::take(&mut content.unnamed);
        write_through(&content.bytes, &unnamed, &*real)?;
        content.real = Some(real);
        Ok(())
    }

    /// It has no name any more.
    pub(super) fn remove(&self) {
        self.content().is_removed = true;
    }
}

fn write_through(bytes: &[u8], ranges: &[Range<usize>], real: &dyn File) -> io::Result<()> {
    for range in ranges {
        if let Some(part) = bytes.get(range.clone()) {
            real.write_at(range.start as u64, part)?;
        }
    }
    real.sync()
}

impl File for VolatileFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start
            .checked_add(bytes.len())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        let content = &mut *self.content();
        if content.bytes.len() < end {
            // What a file has already is its own: a full disk takes overwrites.
            self.machine.check_space()?;
            content.bytes.resize(end, 0);
        }
        content.bytes[start..end].copy_from_slice(bytes);
        match content.unsynced.last_mut() {
            // Most writes follow each other.
            Some(last) if last.end == start => last.end = end,
            _ => content.unsynced.push(start..end),
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let content = self.content();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let rest = content.bytes.get(start..).unwrap_or_default();
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "a disk that takes long blocks who syncs, and that is what is tried"
    )]
    fn sync(&self) -> io::Result<()> {
        let delay_ms = self.machine.sync_delay_ms.load(Ordering::Relaxed);
        if delay_ms > 0 {
            std::thread::sleep(Duration::from_millis(delay_ms));
        }
        let content = &mut *self.content();
        let unsynced = std::mem::take(&mut content.unsynced);
        match &content.real {
            Some(real) => write_through(&content.bytes, &unsynced, &**real),
            None => {
                content.unnamed.extend(unsynced);
                Ok(())
            }
        }
    }

    fn is_named(&self) -> io::Result<bool> {
        Ok(!self.content().is_removed)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content().bytes.len() as u64)
    }
}
