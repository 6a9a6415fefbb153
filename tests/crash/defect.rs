//! Defects planted on purpose: orders of steps that lose locks, and disks that leave out a sync.
//!
//! Those of the disk are a wrapper around it; those of the node are in `quorlock_server::simulation::defect`.
//! The exploration has to notice every one of them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use quorlock_persistence::{Disk, Entry, File, Mapping, MemoryDisk};

/// One planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Defect {
    /// The directory is not synced after a rename.
    DirectoryNotSynced,
    /// A segment made ahead gets its name before its content is synced.
    SegmentNotSynced,
    /// `always` replies before the sync.
    ReplyBeforeSync,
    /// Requests are executed after SHUTDOWN.
    ShutdownNotLast,
    /// PROMISE goes on record after the grant that needs it.
    PromiseAfterGrant,
    /// A reply does not wait until its PROMISE is synced.
    PromiseNotDurable,
    /// The node grants before SERVING is synced.
    ServingUnsynced,
    /// A clean stop inside the restart delay ends it.
    DelayClearedByStop,
    /// P falls on record while grants are made under the higher one.
    PromiseLoweredEarly,
    /// A start lowers P before what it has read is durable.
    StartDoesNotSync,
    /// A checkpoint's END comes before its parts.
    EndBeforeParts,
    /// Old segments are removed before END is durable.
    RemovalBeforeEnd,
    /// Frames are synced before the header of their segment is written.
    HeaderAfterFrames,
    /// Frames claim that something is durable that is not.
    DurableClaimTooEarly,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 14] = [
        Defect::DirectoryNotSynced,
        Defect::SegmentNotSynced,
        Defect::ReplyBeforeSync,
        Defect::ShutdownNotLast,
        Defect::PromiseAfterGrant,
        Defect::PromiseNotDurable,
        Defect::ServingUnsynced,
        Defect::DelayClearedByStop,
        Defect::PromiseLoweredEarly,
        Defect::StartDoesNotSync,
        Defect::EndBeforeParts,
        Defect::RemovalBeforeEnd,
        Defect::HeaderAfterFrames,
        Defect::DurableClaimTooEarly,
    ];

    fn is_of_disk(self) -> bool {
        matches!(
            self,
            Defect::DirectoryNotSynced
                | Defect::SegmentNotSynced
                | Defect::StartDoesNotSync
                | Defect::HeaderAfterFrames
        )
    }
}

/// A disk that leaves something out.
#[derive(Debug)]
pub(crate) struct DefectiveDisk {
    disk: MemoryDisk,
    defect: Defect,
}

impl DefectiveDisk {
    /// The disk as the node sees it.
    pub(crate) fn around(disk: &MemoryDisk, defect: Option<Defect>) -> Arc<dyn Disk> {
        match defect.filter(|defect| defect.is_of_disk()) {
            Some(defect) => Arc::new(DefectiveDisk {
                disk: disk.clone(),
                defect,
            }),
            None => Arc::new(disk.clone()),
        }
    }

    fn wrap(&self, file: Arc<dyn File>, is_new: bool) -> Arc<dyn File> {
        let skips_sync = match self.defect {
            Defect::SegmentNotSynced => is_new,
            Defect::StartDoesNotSync => !is_new,
            _ => false,
        };
        Arc::new(DefectiveFile {
            file,
            skips_first_sync: Mutex::new(skips_sync),
            holds_header_back: self.defect == Defect::HeaderAfterFrames,
            is_synced: AtomicBool::new(false),
            header: Mutex::default(),
        })
    }
}

impl Disk for DefectiveDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.disk.create(name)?, true))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.disk.open(name)?, false))
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        match self.defect {
            Defect::DirectoryNotSynced => Ok(()),
            _ => self.disk.sync_dir(),
        }
    }

    fn random(&self) -> io::Result<u64> {
        self.disk.random()
    }

    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }
}

#[derive(Debug)]
struct DefectiveFile {
    file: Arc<dyn File>,
    skips_first_sync: Mutex<bool>,
    holds_header_back: bool,
    is_synced: AtomicBool,
    /// A header that is written behind the next sync.
    header: Mutex<Option<Vec<u8>>>,
}

impl File for DefectiveFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let is_header = offset == 0 && bytes.first() == Some(&b'Q') && bytes.len() < 4096;
        // The first segment of a start has its header before it is synced; the later ones are made ahead.
        if self.holds_header_back && is_header && self.is_synced.load(Ordering::Relaxed) {
            *self.header.lock().map_err(poisoned)? = Some(bytes.to_vec());
            return Ok(());
        }
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        if std::mem::take(&mut *self.skips_first_sync.lock().map_err(poisoned)?) {
            return Ok(());
        }
        self.file.sync()?;
        self.is_synced.store(true, Ordering::Relaxed);
        match self.header.lock().map_err(poisoned)?.take() {
            Some(header) => self.file.write_at(0, &header),
            None => Ok(()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn map(&self) -> io::Result<Mapping> {
        self.file.map()
    }
}

fn poisoned<T>(_: std::sync::PoisonError<T>) -> io::Error {
    io::Error::other("a thread panicked")
}
