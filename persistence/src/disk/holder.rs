//! Who has a disk inside this process.
//!
//! Invariant: at most one hold of a disk lives. The lock of a directory keeps out other processes and other openings; this one
//! keeps out a second node that was given the same opened disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A disk's own note of its holder. Clones are the same note.
#[derive(Clone, Debug, Default)]
pub(super) struct HolderNote(Arc<AtomicBool>);

/// A disk that is taken; it is free again when this is dropped.
#[derive(Debug, Default)]
#[must_use = "the disk is free again when this is dropped"]
pub struct DiskLock(Option<HolderNote>);

impl HolderNote {
    /// Takes the disk, unless its last holder has it for longer than a directory's lock is waited for.
    pub(super) fn take(&self) -> Option<DiskLock> {
        let taken = || (!self.0.swap(true, Ordering::AcqRel)).then_some(());
        tried_again(taken).map(|()| DiskLock(Some(self.clone())))
    }
}

impl Drop for DiskLock {
    fn drop(&mut self) {
        if let Some(HolderNote(is_held)) = &self.0 {
            is_held.store(false, Ordering::Release);
        }
    }
}

/// A tool that only wants to know whether a directory is in use holds the lock for an instant, and a node that stops gives it
/// back soon; that must not keep a node from starting, so a lock that is held is tried a few times more.
#[allow(
    clippy::disallowed_methods,
    reason = "only before an error, while nothing runs yet"
)]
pub(super) fn tried_again<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        if let Some(taken) = attempt() {
            return Some(taken);
        }
        std::thread::sleep(PAUSE);
    }
    attempt()
}

const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);
