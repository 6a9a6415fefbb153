//! A lock in hand: knows until when it is valid, renews itself, tells when it is lost.
//!
//! Invariant: `is_valid()` is never true after the validity has ended or after a loss was told,
//! whatever the client's thread is doing: the deadline is checked against the clock here as well.
//! The guard does no I/O; one task on the client's thread owns renewal and release.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::{ClientInstant, Clock};
use crate::lock::{Lease, shown};
use crate::orders::Wish;
use crate::outcome::{ExtendError, Loss, Release};
use crate::token::Token;

/// What the keeping task tells about the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) valid_until: ClientInstant,
    pub(crate) loss: Option<Loss>,
}

/// A lock that is held and renewed until the guard is released, dropped, or the lock is lost.
///
/// Dropping the guard releases the lock in the background, on the client's own thread.
#[must_use = "a dropped guard releases its lock"]
pub struct Guard {
    name: Bytes,
    token: Token,
    nodes: Arc<[Arc<str>]>,
    wishes: mpsc::UnboundedSender<Wish>,
    lost: Lost,
}

/// A way to wait for the loss of a lock, apart from its guard. Cloned freely.
#[derive(Clone)]
pub struct Lost {
    standing: watch::Receiver<Standing>,
    clock: Arc<dyn Clock>,
}

impl Guard {
    pub(crate) fn new(
        name: Bytes,
        token: Token,
        nodes: Arc<[Arc<str>]>,
        wishes: mpsc::UnboundedSender<Wish>,
        standing: watch::Receiver<Standing>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            name,
            token,
            nodes,
            wishes,
            lost: Lost { standing, clock },
        }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The token under which the nodes hold the lock.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The end of the present validity on the client's clock. Renewals move it on.
    #[must_use]
    pub fn valid_until(&self) -> ClientInstant {
        self.lost.standing.borrow().valid_until
    }

    /// Validity left, after drift; zero once the lock is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lost.remaining()
    }

    /// Whether the lock is held now. Ask again after every pause: only the moment counts.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Waits until the lock is lost. Fires a little before the validity ends, even if all nodes
    /// hang, so that there is time to stop the work. Any number of tasks may wait, and a wait may
    /// be dropped and begun again.
    pub async fn lost(&self) -> Loss {
        self.lost.wait().await
    }

    /// The same event, to be handed to other tasks.
    #[must_use]
    pub fn lost_signal(&self) -> Lost {
        self.lost.clone()
    }

    /// Renews the lock now, without waiting for the next regular renewal. Returns until when it
    /// is valid.
    ///
    /// # Errors
    /// When the lock is lost, or no majority renewed it this time.
    pub async fn extend(&self) -> Result<ClientInstant, ExtendError> {
        let (reply, answer) = oneshot::channel();
        let asked = self.wishes.send(Wish::Extend(reply)).is_ok();
        match answer.await {
            Ok(result) if asked => result,
            _ => {
                let loss = self.lost.standing.borrow().loss.clone();
                Err(ExtendError::Lost(loss.unwrap_or(Loss::ClientStopped)))
            }
        }
    }

    /// Releases the lock and waits until a majority of the nodes has freed it, all nodes have
    /// answered, or their time is up. The rest is released in the background, and so is everything
    /// if the future is dropped.
    pub async fn release(self) -> Release {
        let (reply, answer) = oneshot::channel();
        if self.wishes.send(Wish::Release(reply)).is_ok()
            && let Ok(release) = answer.await
        {
            return release;
        }
        Release::client_stopped(&self.nodes)
    }

    /// Runs `work` while the lock is held. If the lock is lost first, the work is dropped and the
    /// loss returned. The guard stays with the caller, to be released.
    ///
    /// # Errors
    /// When the lock is lost before the work is done.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Loss> {
        let mut lost = pin!(self.lost());
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            // The loss is looked at first, and on the clock too: the thread that tells it may be
            // late, as after a suspend.
            if let Poll::Ready(loss) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(loss));
            }
            if let Some(loss) = self.lost.now() {
                return Poll::Ready(Err(loss));
            }
            let done = work.as_mut().poll(context);
            // Work that ended after the deadline was not protected until its end.
            done.map(|output| self.lost.now().map_or(Ok(output), Err))
        })
        .await
    }

    pub(crate) fn into_lease(self, ttl: Duration) -> Lease {
        let valid_until = self.valid_until();
        // Should the thread have ended, there is nobody who could release what is handed over.
        let _stopped = self.wishes.send(Wish::Detach);
        let clock = Arc::clone(&self.lost.clock);
        Lease::new(self.name, self.token, ttl, valid_until, clock)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Guard")
            .field("name", &shown(&self.name))
            .field("token", &self.token)
            .field("standing", &*self.lost.standing.borrow())
            .finish_non_exhaustive()
    }
}

impl Lost {
    /// Waits until the lock is lost.
    pub async fn wait(&self) -> Loss {
        let mut standing = self.standing.clone();
        match standing.wait_for(|standing| standing.loss.is_some()).await {
            Ok(standing) => standing.loss.clone().unwrap_or(Loss::Expired),
            Err(_) => Loss::ClientStopped,
        }
    }

    /// The loss, if it has happened.
    #[must_use]
    pub fn now(&self) -> Option<Loss> {
        let standing = self.standing.borrow();
        if standing.loss.is_none() && self.clock.now().has_reached(standing.valid_until) {
            return Some(Loss::Expired);
        }
        standing.loss.clone()
    }

    fn remaining(&self) -> Duration {
        let standing = self.standing.borrow();
        match standing.loss {
            Some(_) => Duration::ZERO,
            None => self.clock.now().until(standing.valid_until),
        }
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Lost")
            .field(&*self.standing.borrow())
            .finish()
    }
}
