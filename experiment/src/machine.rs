//! The machine that a node under experiment believes to run on: a disk that loses power, a boot that the experiment
//! chooses, a wall clock that jumps.
//!
//! It is for experiments only. No directive of a node offers it; the command takes it up only when the harness has
//! started the process, which changes it by lines on the node's standard input.

mod clock;
mod disk;
mod file;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use quorlock_persistence::{OpenError, RealDisk};

use clock::ExperimentClock;
pub use disk::VolatileDisk;

/// What the harness may change while the node runs.
#[derive(Debug, Default)]
pub struct MachineControls {
    sync_delay_ms: AtomicU64,
    is_full: AtomicBool,
    wall_step_ms: AtomicI64,
}

impl MachineControls {
    /// The disk in this directory, which is made if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be made or taken.
    pub fn disk(
        self: &Arc<MachineControls>,
        directory: &Path,
    ) -> Result<Arc<VolatileDisk>, MachineError> {
        std::fs::create_dir_all(directory).map_err(MachineError::Directory)?;
        let real = RealDisk::open(directory).map_err(MachineError::Open)?;
        Ok(Arc::new(VolatileDisk::new(real, Arc::clone(self))))
    }

    /// The clock of this boot.
    pub fn clock(self: &Arc<MachineControls>, boot: u64) -> Arc<dyn quorlock_server::clock::Clock> {
        Arc::new(ExperimentClock::new(Arc::clone(self), boot))
    }

    /// Carries out a line of the harness: `sync-delay MS`, `disk-full yes|no`, `wall-step MS`.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn obey(&self, line: &str) -> Result<(), String> {
        let unknown = || format!("'{line}' is no order of an experiment");
        let (order, value) = line.trim().split_once(' ').ok_or_else(unknown)?;
        let number = value.parse::<i64>().map_err(|_| unknown());
        match (order, value) {
            ("disk-full", "yes") => self.is_full.store(true, Ordering::Relaxed),
            ("disk-full", "no") => self.is_full.store(false, Ordering::Relaxed),
            ("sync-delay", _) => {
                let ms = u64::try_from(number?).map_err(|_| unknown())?;
                self.sync_delay_ms.store(ms, Ordering::Relaxed);
            }
            ("wall-step", _) => self.wall_step_ms.store(number?, Ordering::Relaxed),
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn check_space(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(
                rustix::io::Errno::NOSPC.raw_os_error(),
            )),
            false => Ok(()),
        }
    }
}

/// Why there is no such machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The directory cannot be made.
    #[error("the directory of the node cannot be made: {0}")]
    Directory(io::Error),
    /// The directory cannot be taken.
    #[error(transparent)]
    Open(OpenError),
}
