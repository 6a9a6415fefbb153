//! A lock in hand: knows until when it is valid, renews itself, tells when it is lost.
//!
//! Invariant: `is_valid()` is never true after the validity has ended or after a loss was told,
//! whatever the client's thread is doing: the deadline is checked against the clock here as well.
//! The guard does no I/O; the rules on the client's thread alone renew and release.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use crate::clock::{ClientInstant, Clock};
use crate::lease::Lease;
use crate::name::shown;
use crate::outcome::{ExtendError, Loss, Release};
use crate::rules::call::Call;
use crate::runtime::handle::{Acquired, LeaseState, Pending, ReplyTo};
use crate::token::Token;

/// A lock that is held and renewed until the guard is released, dropped, or the lock is lost.
///
/// Dropping the guard releases the lock in the background, on the client's own thread.
#[must_use = "a dropped guard releases its lock"]
pub struct Guard {
    name: Bytes,
    token: Token,
    nodes: Arc<[Arc<str>]>,
    /// The call that acquired the lock: dropping it releases.
    pending: Pending,
    lost: Lost,
}

/// A way to wait for the loss of a lock, apart from its guard. Cloned freely.
#[derive(Clone)]
pub struct Lost {
    lease: watch::Receiver<LeaseState>,
    clock: Arc<dyn Clock>,
}

impl Guard {
    pub(crate) fn new(
        name: Bytes,
        nodes: Arc<[Arc<str>]>,
        pending: Pending,
        acquired: Acquired,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let lease = acquired.lease;
        Self {
            name,
            token: acquired.token,
            nodes,
            pending,
            lost: Lost { lease, clock },
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
        self.lost.lease.borrow().valid_until
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
        if let Some(loss) = self.lost.now() {
            return Err(ExtendError::Lost(loss));
        }
        let (reply, answer) = oneshot::channel();
        let held = self.pending.operation();
        let handle = self.pending.handle();
        let renewing = handle.call(Call::Renew { held }, ReplyTo::Extend(reply));
        let result = answer.await;
        renewing.done();
        match result {
            Ok(Err(ExtendError::Lost(loss))) => {
                Err(ExtendError::Lost(self.lost.now().unwrap_or(loss)))
            }
            Ok(result) => result,
            Err(_) => Err(ExtendError::Lost(Loss::ClientStopped)),
        }
    }

    /// Releases the lock and waits until a majority of the nodes has freed it, all nodes have
    /// answered, or their time is up. The rest is released in the background, and so is everything
    /// if the future is dropped.
    pub async fn release(self) -> Release {
        let (reply, answer) = oneshot::channel();
        let call = Call::Release {
            held: Some(self.pending.operation()),
            name: self.name.clone(),
            token: self.token.clone(),
        };
        let releasing = self.pending.handle().call(call, ReplyTo::Release(reply));
        self.pending.done();
        let released = answer.await;
        releasing.done();
        released.unwrap_or_else(|_| Release::client_stopped(&self.nodes))
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
        let held = self.pending.operation();
        let detaching = self.pending.handle();
        detaching
            .call(Call::Detach { held }, ReplyTo::Nobody)
            .done();
        self.pending.done();
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
            .field("lease", &*self.lost.lease.borrow())
            .finish_non_exhaustive()
    }
}

impl Lost {
    /// Waits until the lock is lost.
    pub async fn wait(&self) -> Loss {
        let mut lease = self.lease.clone();
        match lease.wait_for(|lease| lease.loss.is_some()).await {
            Ok(lease) => lease.loss.clone().unwrap_or(Loss::Expired),
            Err(_) => Loss::ClientStopped,
        }
    }

    /// The loss, if it has happened.
    #[must_use]
    pub fn now(&self) -> Option<Loss> {
        let lease = self.lease.borrow();
        if lease.loss.is_none() && self.clock.now().has_reached(lease.valid_until) {
            return Some(Loss::Expired);
        }
        lease.loss.clone()
    }

    fn remaining(&self) -> Duration {
        let lease = self.lease.borrow();
        match lease.loss {
            Some(_) => Duration::ZERO,
            None => self.clock.now().until(lease.valid_until),
        }
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Lost")
            .field(&*self.lease.borrow())
            .finish()
    }
}
