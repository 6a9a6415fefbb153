//! What was dropped and is to be undone on the nodes: how far the client's thread has got with it.
//!
//! Invariant: nobody waits here longer than [`WAIT_MAX`], and no thread of a tokio runtime waits
//! while it runs tasks. A thread that has dropped guards waits for those when it ends, which for
//! the main thread is the end of the program; what other threads have dropped is their concern.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorlock_client_rules::OperationId;
use quorlock_clock::Clock as _;

use quorlock_system_clock::SystemClock;

/// The calls and guards of a client that were dropped while somebody cared for them, until they
/// are undone on the nodes that can be reached.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    open: Mutex<Open>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    calls: HashSet<OperationId>,
    /// Nobody is left who undoes anything.
    is_over: bool,
}

impl Dropped {
    /// Something is about to be undone because it was dropped on this thread.
    pub(super) fn add(self: &Arc<Self>, operation: OperationId) {
        let mut open = self.open();
        if open.is_over {
            return;
        }
        open.calls.insert(operation);
        drop(open);
        // A thread that is at its end already does not wait any more.
        let _ended = AT_THREAD_END.try_with(|end| end.note(self, operation));
    }

    /// This has been undone, as far as the nodes can be reached.
    pub(super) fn undone(&self, operation: OperationId) {
        self.open().calls.remove(&operation);
        self.changed.notify_all();
    }

    /// Nothing more will be undone.
    pub(super) fn all_undone(&self) {
        let mut open = self.open();
        open.is_over = true;
        open.calls.clear();
        self.changed.notify_all();
    }

    /// Waits until everything that was dropped has been undone, if this is no thread of a tokio
    /// runtime.
    pub(super) fn wait_outside_runtime(&self) {
        if tokio::runtime::Handle::try_current().is_err() {
            let dropped: Vec<_> = self.open().calls.iter().copied().collect();
            let _in_time = self.wait(dropped, WAIT_MAX);
        }
    }

    /// Waits until these have been undone. Says whether they were in time; what was not ends with
    /// its lease.
    fn wait(&self, mut dropped: Vec<OperationId>, time: Duration) -> bool {
        let is_open = |open: &mut Open| {
            while let Some(last) = dropped.last() {
                if open.calls.contains(last) {
                    return true;
                }
                dropped.pop();
            }
            false
        };
        let waited = self.changed.wait_timeout_while(self.open(), time, is_open);
        let (_open, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        !timeout.timed_out()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread has dropped of one client.
struct OfThread {
    client: Arc<Dropped>,
    dropped: Vec<OperationId>,
    /// So many make it worth while to forget those that are undone.
    forget_at: usize,
}

/// What a thread has dropped, of each client.
struct AtThreadEnd(RefCell<Vec<OfThread>>);

impl AtThreadEnd {
    fn note(&self, client: &Arc<Dropped>, operation: OperationId) {
        let mut noted = self.0.borrow_mut();
        let known = noted
            .iter()
            .position(|one| Arc::ptr_eq(&one.client, client));
        let at = known.unwrap_or_else(|| {
            // Of clients that have ended nothing is open.
            noted.retain(|one| Arc::strong_count(&one.client) > 1);
            noted.push(OfThread {
                client: Arc::clone(client),
                dropped: Vec::new(),
                forget_at: FORGET_LEAST,
            });
            noted.len() - 1
        });
        noted[at].add(operation);
    }
}

impl OfThread {
    fn add(&mut self, operation: OperationId) {
        if self.dropped.len() >= self.forget_at {
            let open = self.client.open();
            self.dropped.retain(|dropped| open.calls.contains(dropped));
            self.forget_at = FORGET_LEAST.max(2 * self.dropped.len());
        }
        self.dropped.push(operation);
    }
}

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        let until = SystemClock.now().after(WAIT_MAX);
        for of_client in self.0.get_mut().drain(..) {
            let left = SystemClock.now().until(until);
            let _in_time = of_client.client.wait(of_client.dropped, left);
        }
    }
}

thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd(RefCell::new(Vec::new())) };
}

const WAIT_MAX: Duration = Duration::from_millis(200);
const FORGET_LEAST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_for_what_it_has_dropped_itself_and_for_nothing_else() {
        let dropped = Arc::new(Dropped::default());
        let [own, others] = [1, 2].map(OperationId);
        dropped.add(own);
        dropped.add(others);
        assert!(!dropped.wait(vec![own], Duration::ZERO));
        dropped.undone(own);
        assert!(dropped.wait(vec![own], Duration::ZERO));
        assert!(!dropped.wait(vec![own, others], Duration::ZERO));
        dropped.all_undone();
        assert!(dropped.wait(vec![others], Duration::ZERO));
        // Nobody would undo it any more.
        dropped.add(OperationId(3));
        assert!(dropped.wait(vec![OperationId(3)], Duration::ZERO));
    }

    #[test]
    fn what_a_thread_remembers_stays_bounded() {
        let client = Arc::new(Dropped::default());
        let end = AtThreadEnd(RefCell::default());
        for number in 0..10_000 {
            end.note(&client, OperationId(number));
        }
        assert!(end.0.borrow()[0].dropped.len() <= FORGET_LEAST);
        let open = OperationId(10_000);
        client.add(open);
        for number in 10_001..20_000 {
            end.note(&client, open);
            client.undone(OperationId(number));
        }
        assert!(end.0.borrow()[0].dropped.contains(&open));
    }
}
