//! What a command of a cluster writes to standard output: a thread of its own writes it, since a terminal or a pipe that is not
//! read takes nothing.
//!
//! Invariant: who waits for the reader does so for a bounded time. What is pending is
//! bounded by its writers: a frame is drawn only once all is written, and lines are left out where
//! too much is pending.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

/// Standard output: a terminal, a pipe or a file.
#[derive(Clone, Debug)]
pub(super) struct QueuedOutput(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    changed: Condvar,
    written: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    /// Whether the thread is writing.
    is_writing: bool,
    /// Why nothing more can be written.
    failure: Option<io::Error>,
}

impl QueuedOutput {
    pub(super) fn open() -> io::Result<Self> {
        // Not behind the lock of standard output: the thread would hold it for as long as nothing is read.
        let target = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let shared = Arc::new(Shared::default());
        let output = Self(Arc::clone(&shared));
        thread::Builder::new().spawn(move || shared.write_to(target))?;
        Ok(output)
    }

    /// Has these bytes written behind all that is pending.
    ///
    /// # Errors
    /// When the terminal is lost, or the pipe is closed.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut pending = self.0.pending();
        if let Some(error) = &pending.failure {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        pending.bytes.extend_from_slice(bytes);
        self.0.changed.notify_all();
        Ok(())
    }

    /// Whether text can wait until it is taken.
    pub(super) fn has_room(&self) -> bool {
        self.0.pending().bytes.len() < PENDING_BYTES_MAX
    }

    /// Whether all is written, or nothing more can be.
    pub(super) fn is_idle(&self) -> bool {
        self.0.pending().is_idle()
    }

    /// Whether nothing more can be written.
    pub(super) fn has_failed(&self) -> bool {
        self.0.pending().failure.is_some()
    }

    /// Waits until the thread has written something. It may end early: ask whether the output is idle.
    pub(super) async fn written(&self) {
        self.0.written.notified().await;
    }

    /// Waits until all is written, or until a reader that reads nothing had its time for it.
    pub(super) fn finish(&self) {
        self.wait(FINISH_TIME);
    }

    /// Waits until all is written, and no longer than this.
    pub(super) fn wait(&self, time: Duration) {
        let is_busy = |pending: &mut Pending| !pending.is_idle();
        let pending = self.0.pending();
        let _as_far_as_possible = self.0.changed.wait_timeout_while(pending, time, is_busy);
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is sent, until that fails.
    fn write_to(&self, mut target: File) {
        let mut pending = self.pending();
        while pending.failure.is_none() {
            if pending.bytes.is_empty() {
                let waited = self.changed.wait(pending);
                pending = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let bytes = std::mem::take(&mut pending.bytes);
            pending.is_writing = true;
            drop(pending);
            let written = target.write_all(&bytes);
            pending = self.pending();
            pending.is_writing = false;
            pending.failure = written.err();
            self.changed.notify_all();
            self.written.notify_one();
        }
    }
}

impl Pending {
    fn is_idle(&self) -> bool {
        self.failure.is_some() || (self.bytes.is_empty() && !self.is_writing)
    }
}

const PENDING_BYTES_MAX: usize = 1 << 16;
const FINISH_TIME: Duration = Duration::from_secs(1);
