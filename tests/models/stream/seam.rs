//! The disk under the log, and what it would see if the log's code left a step out.
//!
//! The log is the production code. A mutant of it is made here, at its seam to the world: a sync
//! that never arrives is a sync the code forgot. With [`Mutant::None`] everything passes unchanged.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorlock_persistence::{DirectoryEntry, Disk, File, MemoryDisk};

use super::Mutant;

/// The disk as the log sees it.
#[derive(Debug)]
pub(crate) struct Seam {
    inner: MemoryDisk,
    mutant: Mutant,
    /// The newest segment that has its name.
    newest: Arc<Mutex<String>>,
    has_begun: AtomicBool,
}

impl Seam {
    pub(crate) fn new(inner: MemoryDisk, mutant: Mutant) -> Seam {
        Seam {
            inner,
            mutant,
            newest: Arc::default(),
            has_begun: AtomicBool::new(false),
        }
    }

    fn wrap(&self, name: &str, inner: Arc<dyn File>, is_own: bool) -> Arc<dyn File> {
        Arc::new(SeamFile {
            inner,
            mutant: self.mutant,
            is_own,
            name: Mutex::new(name.to_owned()),
            newest: Arc::clone(&self.newest),
            late_header: Mutex::default(),
        })
    }

    /// The frames of the newest segment, for a mutant whose start goes on where they are.
    fn remains(&self) -> io::Result<Vec<u8>> {
        let segments = self.inner.list()?.into_iter();
        let names = segments.map(|entry| entry.name);
        let Some(newest) = names.filter(|name| is_segment(name)).max() else {
            return Ok(Vec::new());
        };
        let file = self.inner.open(&newest)?;
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
        file.read_at(0, &mut bytes)?;
        bytes
            .iter_mut()
            .take(HEADER_BYTES)
            .for_each(|byte| *byte = 0);
        Ok(bytes)
    }
}

impl Disk for Seam {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let remains = match self.mutant {
            Mutant::TailReused if !self.has_begun.swap(true, Ordering::Relaxed) => {
                self.remains()?
            }
            _ => Vec::new(),
        };
        let file = self.inner.create(name)?;
        if !remains.is_empty() {
            file.write_at(0, &remains)?;
        }
        Ok(self.wrap(name, file, true))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(name, self.inner.open(name)?, false))
    }

    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        to.clone_into(&mut lock(&self.newest));
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        if self.mutant == Mutant::DirectoryNotSynced {
            return Ok(());
        }
        self.inner.sync_dir()
    }

    fn random(&self) -> io::Result<u64> {
        if self.mutant == Mutant::TailReused {
            return Ok(OLD_SALT);
        }
        self.inner.random()
    }

    fn describe(&self, name: &str) -> String {
        self.inner.describe(name)
    }
}

#[derive(Debug)]
struct SeamFile {
    inner: Arc<dyn File>,
    mutant: Mutant,
    /// Made by this process, not found.
    is_own: bool,
    /// The name it was created or opened under.
    name: Mutex<String>,
    newest: Arc<Mutex<String>>,
    /// A header that a mutant writes only after the frames.
    late_header: Mutex<Option<Vec<u8>>>,
}

impl SeamFile {
    fn stem(name: &str) -> &str {
        name.split('.').next().unwrap_or(name)
    }

    /// Whether it is, or is about to be, the newest segment.
    fn is_newest(&self) -> bool {
        let newest = lock(&self.newest);
        Self::stem(&lock(&self.name)) >= Self::stem(&newest)
    }

    fn is_named(&self) -> bool {
        Self::stem(&lock(&self.name)) <= Self::stem(&lock(&self.newest))
    }
}

impl File for SeamFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        if self.mutant == Mutant::TailReused && is_zero && self.inner.len()? > offset {
            return Ok(());
        }
        let is_header = offset == 0 && !is_zero && self.is_own && self.is_named();
        if self.mutant == Mutant::HeaderAfterFrames && is_header {
            *lock(&self.late_header) = Some(bytes.to_vec());
            return Ok(());
        }
        self.inner.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        let is_forgotten = match self.mutant {
            Mutant::NamedBeforeSynced => self.is_own && !self.is_named(),
            Mutant::LeftNotSynced => self.is_own && !self.is_newest(),
            Mutant::ReadNotSynced => !self.is_own,
            _ => false,
        };
        if is_forgotten {
            return Ok(());
        }
        self.inner.sync()?;
        match lock(&self.late_header).take() {
            Some(header) => self.inner.write_at(0, &header),
            None => Ok(()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

pub(crate) fn is_segment(name: &str) -> bool {
    name.starts_with("segment-") && name.ends_with(".segment")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const HEADER_BYTES: usize = 4_096;
const OLD_SALT: u64 = 0x5eed_0000_0000_5a17;
