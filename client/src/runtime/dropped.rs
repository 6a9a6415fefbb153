//! What was dropped and is to be released: how far the client's thread has got with it.
//!
//! Invariant: nobody waits here longer than [`WAIT_MAX`], and no thread of a runtime waits while it
//! runs tasks. A thread that has dropped guards waits when it ends, which for the main thread is
//! the end of the program.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock as _, SystemClock};

/// Counts what was dropped while somebody cared for it, and what of that has been released on the
/// nodes that can be reached.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    count: AtomicU64,
    released: Mutex<u64>,
    changed: Condvar,
}

impl Dropped {
    /// Something is about to be released because it was dropped on this thread.
    pub(super) fn add(self: &Arc<Self>) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        // A thread that is at its end already does not wait any more.
        let _ended = AT_THREAD_END.try_with(|end| end.note(self, count));
    }

    /// The first so many have been released, as far as the nodes can be reached.
    pub(super) fn released(&self, count: u64) {
        *self.released.lock().unwrap_or_else(PoisonError::into_inner) = count;
        self.changed.notify_all();
    }

    /// Waits until everything that was dropped so far has been released, if this is no thread of a
    /// runtime.
    pub(super) fn wait_outside_runtime(&self) {
        if tokio::runtime::Handle::try_current().is_err() {
            self.wait(self.count.load(Ordering::Relaxed), WAIT_MAX);
        }
    }

    fn wait(&self, count: u64, time: Duration) {
        let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        // What has not been released by then ends with its lease.
        let _released = self
            .changed
            .wait_timeout_while(released, time, |released| *released < count);
    }
}

/// What a thread has dropped, of each client.
struct AtThreadEnd(RefCell<Vec<(Arc<Dropped>, u64)>>);

impl AtThreadEnd {
    fn note(&self, dropped: &Arc<Dropped>, count: u64) {
        let mut noted = self.0.borrow_mut();
        match noted.iter_mut().find(|(one, _)| Arc::ptr_eq(one, dropped)) {
            Some((_, last)) => *last = count,
            None => {
                // Clients that have ended are released.
                noted.retain(|(one, _)| Arc::strong_count(one) > 1);
                noted.push((Arc::clone(dropped), count));
            }
        }
    }
}

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        let until = SystemClock.now().after(WAIT_MAX);
        for (dropped, count) in self.0.get_mut() {
            dropped.wait(*count, SystemClock.now().until(until));
        }
    }
}

thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd(RefCell::new(Vec::new())) };
}

const WAIT_MAX: Duration = Duration::from_millis(200);
