//! Where the connections of one worker wait until their replies may leave.
//!
//! The committer task runs behind every connection that was ready before it, because the
//! worker's run queue is first in, first out. So one write and one sync serve all of them:
//! commits are grouped by what the machine has ready, without a timer.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use crate::node::commit::Failure;
use crate::node::core::Wait;
use crate::node::log_thread::Job;
use crate::node::shared::Shared;

/// One worker's waiting replies.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Waker>,
    wanted: Wait,
    committer: Option<Waker>,
}

impl Gate {
    /// Resolves when the log has come as far as `wait` says.
    ///
    /// # Errors
    /// When the log failed: the replies must not leave.
    pub(crate) async fn wait(&self, shared: &Shared, wait: Wait) -> Result<(), Failure> {
        poll_fn(|context| {
            if let Some(failure) = shared.commit.failure() {
                return Poll::Ready(Err(failure.clone()));
            }
            if shared.commit.is_met(wait) {
                return Poll::Ready(Ok(()));
            }
            let mut state = self.state.lock().expect("no holder of the gate can panic");
            state.wanted.raise(wait);
            state.waiting.push(context.waker().clone());
            if let Some(committer) = state.committer.take() {
                committer.wake();
            }
            Poll::Pending
        })
        .await
    }

    /// Wakes everybody who waits: the node has stopped, everything is as durable as it gets.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock().expect("no holder of the gate can panic");
        for waker in state.waiting.drain(..) {
            waker.wake();
        }
    }

    /// The committer task of a worker: never ends.
    pub(crate) async fn commit_for_ever(&self, shared: &Shared) {
        let mut waiting = Vec::new();
        loop {
            let wanted = self.next_wish(&mut waiting).await;
            // A failure is kept in `shared.commit`; the waiters find it there.
            let outcome = commit_once(shared, wanted).await;
            if let Err(failure) = outcome {
                shared.fail(&failure);
            }
            for waker in waiting.drain(..) {
                waker.wake();
            }
        }
    }

    async fn next_wish(&self, waiting: &mut Vec<Waker>) -> Wait {
        poll_fn(|context| {
            let mut state = self.state.lock().expect("no holder of the gate can panic");
            if state.waiting.is_empty() {
                state.committer = Some(context.waker().clone());
                return Poll::Pending;
            }
            std::mem::swap(&mut state.waiting, waiting);
            Poll::Ready(std::mem::take(&mut state.wanted))
        })
        .await
    }
}

/// One write, and a sync where a reply needs one: on this thread while syncs are short, on the
/// log thread when they are long, so that reading and executing go on beside it.
async fn commit_once(shared: &Shared, wanted: Wait) -> Result<(), Failure> {
    if shared.commit.is_met(wanted) {
        return Ok(());
    }
    if !shared.commit.lacks_sync(wanted) {
        shared.commit.write(&shared.core)?;
        shared.log_thread.after_write(shared);
        return Ok(());
    }
    if shared.commit.sync_ns() <= INLINE_SYNC_NS_MAX {
        shared.commit.write_and_sync(&shared.core)?;
    } else {
        shared.commit.write(&shared.core)?;
        let (done, finished) = tokio::sync::oneshot::channel();
        shared.log_thread.send(Job::SyncNow(done));
        // The log thread answers or is gone; either way the failure is on record.
        finished
            .await
            .map_err(|_| shared.commit.fail(&"the log thread ended"))?;
    }
    shared.log_thread.after_write(shared);
    match shared.commit.failure() {
        Some(failure) => Err(failure.clone()),
        None => Ok(()),
    }
}

/// Up to this duration a worker syncs itself: handing over costs two wake-ups of 10 to 50 us
/// and splits closed-loop clients into two halves.
const INLINE_SYNC_NS_MAX: u64 = 600_000;
