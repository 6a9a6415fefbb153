//! Where one connection's replies leave.
//!
//! The connection's task fills it, the worker's gate empties it once the log has come as far as
//! the replies need. So a request costs one turn of the connection's task, and the replies of a
//! turn leave together behind one commit.
//!
//! Invariant: a connection executes nothing while replies of its earlier turn are still here, so
//! that replies keep their order and a client that does not read costs one turn's replies.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use tokio::net::tcp::OwnedWriteHalf;

/// The sending half of one connection.
#[derive(Debug)]
pub(crate) struct Outlet {
    half: OwnedWriteHalf,
    state: Mutex<State>,
    meter: Arc<Meter>,
}

/// What all outlets of a node count together.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Outlets that hold replies.
    pub(crate) filled: AtomicUsize,
    /// Bytes sent.
    pub(crate) bytes: AtomicU64,
    /// Bytes that left while more of the same turn had to wait: shows whether slow clients read.
    pub(crate) partial: AtomicU64,
}

impl Meter {
    /// A number that changes whenever a client takes any of its replies.
    pub(crate) fn progress(&self) -> u64 {
        let partial = self.partial.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed).wrapping_add(partial)
    }
}

#[derive(Debug, Default)]
struct State {
    replies: Vec<u8>,
    sent: usize,
    is_filled: bool,
    /// The replies were withheld, or the client is gone.
    is_broken: bool,
    /// The connection's task, where it waits for the replies to leave.
    waiting: Option<Waker>,
}

impl Outlet {
    pub(crate) fn new(half: OwnedWriteHalf, meter: Arc<Meter>) -> Self {
        Self {
            half,
            state: Mutex::default(),
            meter,
        }
    }

    /// Takes a turn's replies over; `replies` is empty afterwards.
    pub(crate) fn fill(&self, replies: &mut Vec<u8>) {
        let mut state = self.lock();
        if state.replies.is_empty() {
            std::mem::swap(&mut state.replies, replies);
        } else {
            state.replies.append(replies);
        }
        if !std::mem::replace(&mut state.is_filled, true) {
            self.meter.filled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Resolves when everything has left.
    ///
    /// # Errors
    /// When the replies were withheld or could not be sent: the connection is finished.
    pub(crate) async fn emptied(&self) -> io::Result<()> {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.is_broken {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if !state.is_filled {
                return Poll::Ready(Ok(()));
            }
            state.waiting = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Sends what it holds. What the socket does not take now follows when it does.
    pub(crate) fn send(self: &Arc<Self>) {
        if !self.try_send() {
            let outlet = Arc::clone(self);
            // Rare: a client that reads slowly. Its connection stays where it is until this ends.
            tokio::spawn(async move {
                while !outlet.try_send() {
                    if outlet.half.writable().await.is_err() {
                        outlet.lock().is_broken = true;
                    }
                }
            });
        }
    }

    /// Sends `error` instead of the replies, and ends the connection.
    pub(crate) fn withhold(self: &Arc<Self>, error: &[u8]) {
        {
            let mut state = self.lock();
            state.replies.clear();
            state.replies.extend_from_slice(error);
            state.sent = 0;
        }
        self.send();
        let mut state = self.lock();
        state.is_broken = true;
        if let Some(waiting) = state.waiting.take() {
            waiting.wake();
        }
    }

    /// Whether nothing is left to send.
    fn try_send(&self) -> bool {
        let mut state = self.lock();
        let before = state.sent;
        while state.sent < state.replies.len() && !state.is_broken {
            match self.half.try_write(&state.replies[state.sent..]) {
                Ok(count) => state.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let taken = (state.sent - before) as u64;
                    self.meter.partial.fetch_add(taken, Ordering::Relaxed);
                    return false;
                }
                // The reading side learns of it by itself.
                Err(_) => state.is_broken = true,
            }
        }
        self.meter
            .bytes
            .fetch_add(state.sent as u64, Ordering::Relaxed);
        state.replies.clear();
        state.replies.shrink_to(IDLE_BYTES_MAX);
        state.sent = 0;
        if std::mem::take(&mut state.is_filled) {
            self.meter.filled.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(waiting) = state.waiting.take() {
            waiting.wake();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of an outlet can panic")
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if self.lock().is_filled {
            self.meter.filled.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What a connection may keep between turns.
pub(crate) const IDLE_BYTES_MAX: usize = 1024;
