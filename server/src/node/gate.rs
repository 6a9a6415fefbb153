//! Where the replies of one worker wait until they may leave.
//!
//! The committer task runs behind every connection that was ready before it, because the
//! worker's run queue is first in, first out. So one write and one sync serve all of them:
//! commits are grouped by what the machine has ready, without a timer. Replies that depend on
//! nothing leave with the same turn, and never wait for a sync that others need.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use tokio::sync::oneshot;

use crate::net::outlet::Outlet;
use crate::node::commit::Failure;
use crate::node::core::Wait;
use crate::node::log_thread::Job;
use crate::node::shared::Shared;

/// One worker's waiting replies.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    arrivals: Mutex<Arrivals>,
}

#[derive(Debug, Default)]
struct Arrivals {
    replies: Vec<Held>,
    /// The committer has to look again although nothing arrived.
    is_nudged: bool,
    committer: Option<Waker>,
}

/// Replies, and how far the log must have come before they leave.
#[derive(Debug)]
struct Held {
    outlet: Arc<Outlet>,
    wait: Wait,
}

/// A sync that runs on the log thread.
type Syncing = Option<oneshot::Receiver<()>>;

impl Gate {
    /// Takes a turn's replies; they leave in this turn of the worker, or when `wait` is met.
    pub(crate) fn submit(&self, outlet: &Arc<Outlet>, replies: &mut Vec<u8>, wait: Wait) {
        outlet.fill(replies);
        let mut arrivals = self.lock();
        arrivals.replies.push(Held {
            outlet: Arc::clone(outlet),
            wait,
        });
        arrivals.wake();
    }

    /// Lets the committer look again: the node has stopped, the log is as durable as it gets.
    pub(crate) fn nudge(&self) {
        let mut arrivals = self.lock();
        arrivals.is_nudged = true;
        arrivals.wake();
    }

    /// The committer task of a worker: never ends.
    pub(crate) async fn commit_for_ever(&self, shared: &Shared) {
        let mut held = Vec::new();
        let mut syncing = None;
        loop {
            self.news(&mut held, &mut syncing).await;
            // One more look at the sockets before anything leaves: what has arrived meanwhile
            // shares this turn's write, sync and wake-up.
            tokio::task::yield_now().await;
            held.append(&mut self.lock().replies);
            release(shared, &mut held);
            if held.is_empty() {
                continue;
            }
            match commit(shared, &held, syncing.is_some()) {
                Ok(started) => syncing = syncing.or(started),
                Err(failure) => shared.fail(&failure),
            }
            shared.log_thread.after_write(shared);
            release(shared, &mut held);
        }
    }

    /// Waits until replies arrive, the sync under way ends, or somebody nudges.
    async fn news(&self, held: &mut Vec<Held>, syncing: &mut Syncing) {
        poll_fn(|context| {
            let mut arrivals = self.lock();
            let has_synced = match syncing {
                Some(receiver) => Pin::new(receiver).poll(context).is_ready(),
                None => false,
            };
            if has_synced {
                *syncing = None;
            }
            let is_nudged = std::mem::take(&mut arrivals.is_nudged);
            if arrivals.replies.is_empty() && !has_synced && !is_nudged {
                arrivals.committer = Some(context.waker().clone());
                return Poll::Pending;
            }
            held.append(&mut arrivals.replies);
            Poll::Ready(())
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals
            .lock()
            .expect("no holder of the gate can panic")
    }
}

impl Arrivals {
    fn wake(&mut self) {
        if let Some(committer) = self.committer.take() {
            committer.wake();
        }
    }
}

/// Sends the replies whose wait is met; if the log has failed, refusals instead of the others.
fn release(shared: &Shared, held: &mut Vec<Held>) {
    let failure = shared.commit.failure();
    held.retain(|replies| {
        if shared.commit.is_met(replies.wait) {
            replies.outlet.send();
            return false;
        }
        let Some(failure) = failure else { return true };
        replies.outlet.withhold(&refusal(failure));
        false
    });
}

/// One write, and a sync where a reply needs one: on this thread while syncs are short, on the
/// log thread when they are long, so that reading and executing go on beside it.
fn commit(shared: &Shared, held: &[Held], is_syncing: bool) -> Result<Syncing, Failure> {
    let needs_sync = held
        .iter()
        .any(|replies| shared.commit.lacks_sync(replies.wait));
    let only_write = held
        .iter()
        .any(|replies| !shared.commit.lacks_sync(replies.wait));
    if needs_sync && !is_syncing && shared.commit.sync_ns() <= INLINE_SYNC_NS_MAX {
        shared.commit.write_and_sync(&shared.core)?;
        return Ok(None);
    }
    if only_write || !is_syncing {
        shared.commit.write(&shared.core)?;
    }
    if !needs_sync || is_syncing {
        return Ok(None);
    }
    let (done, finished) = oneshot::channel();
    shared.log_thread.send(Job::SyncNow(done));
    Ok(Some(finished))
}

/// What a client is told whose command may or may not be on disk.
fn refusal(failure: &Failure) -> Vec<u8> {
    let text = format!(
        "-MISCONF {failure}. Whether this command took effect is unknown: treat the lock as not \
         granted and not released. The node stops"
    );
    let mut line = text.replace(['\r', '\n'], " ").into_bytes();
    line.extend_from_slice(b"\r\n");
    line
}

/// Up to this duration a worker syncs itself: handing over costs two wake-ups of 10 to 50 us
/// and splits closed-loop clients into two halves.
const INLINE_SYNC_NS_MAX: u64 = 600_000;
