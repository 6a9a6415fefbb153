//! A lock in hand: knows until when it is valid, renews itself, tells when it is lost.
//!
//! Invariant: `is_valid()` is never true after the validity has ended or after a loss was told,
//! whatever the client's thread is doing: the deadline is checked against the clock here as well.
//! The guard does no I/O; the rules on the client's thread alone renew and release.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quorlock_client_rules::call::Call;
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::outcome::{Cause, ExtendError, Loss, Release};
use quorlock_client_rules::token::Token;
use quorlock_client_rules::unasked;
use quorlock_clock::{ClientInstant, Clock};
use tokio::sync::oneshot;

use crate::lease::Lease;
use crate::lease_watch::LeaseWatch;
use crate::lock_event::{EndNote, OnEvent};
use crate::runtime::handle::{Acquired, Handle, Pending, ReplyTo};

/// A lock that is held and renewed until the guard is released, dropped, or the lock is lost.
///
/// It is the [`LeaseWatch`] of its lock as well: that tells whether the lock is valid, until when, and when it is lost.
/// Dropping the guard releases the lock in the background, on the client's thread.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// let guard = redlock.lock("backup").ttl(Duration::from_secs(10)).acquire().await?;
/// assert!(guard.is_valid() && guard.remaining() > Duration::from_secs(9));
/// assert_eq!(guard.name(), b"backup");
/// assert!(!guard.release().await.was_lost());
/// # Ok(())
/// # }
/// ```
#[must_use = "a dropped guard releases its lock"]
pub struct Guard {
    /// Where a program is told of the end: dropped before everything else.
    end_note: Option<EndNote>,
    name: LockName,
    token: Token,
    fence: Option<u64>,
    permit: Option<u32>,
    nodes: Arc<[Arc<str>]>,
    /// The length of its lease.
    ttl: Duration,
    /// Whether the lock stays on the nodes for a while when it is lost.
    has_lock_delay: bool,
    /// The call that acquired the lock: dropping it releases.
    pending: Pending,
    watch: LeaseWatch,
}

impl Guard {
    pub(crate) fn new(
        name: LockName,
        nodes: Arc<[Arc<str>]>,
        pending: Pending,
        acquired: Acquired,
        clock: Arc<dyn Clock>,
        ttl: Duration,
        has_lock_delay: bool,
    ) -> Self {
        let process = pending.handle().process();
        Self {
            end_note: None,
            name,
            token: acquired.token,
            fence: acquired.fence,
            permit: acquired.permit,
            nodes,
            ttl,
            has_lock_delay,
            pending,
            watch: LeaseWatch::new(acquired.lease, clock, process),
        }
    }

    /// The same, whose end is noted under the name that was asked for.
    pub(crate) fn noted(mut self, on_event: OnEvent, name: LockName, now: ClientInstant) -> Self {
        self.end_note = Some(EndNote {
            on_event,
            name,
            acquired: now,
            watch: self.watch.clone(),
        });
        self
    }

    /// The lock's name; of a [semaphore](crate::Redlock::semaphore) the name of the permit, under which it is extended and
    /// released by its token; of [several locks](crate::Redlock::locks) the first of [`names`](Self::names).
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.first()
    }

    /// All names of the lock, in ascending order: of [several locks](crate::Redlock::locks) each of them, otherwise one.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.name.parts().iter().map(|name| &name[..])
    }

    pub(crate) fn lock_name(&self) -> &LockName {
        &self.name
    }

    /// Which permit this is of a [semaphore](crate::Redlock::semaphore), from 0; none for a lock. No two holders have the same,
    /// so it chooses one of as many ports, directories or accounts.
    #[must_use]
    pub fn permit(&self) -> Option<u32> {
        self.permit
    }

    /// The token under which the nodes hold the lock: for log lines, and for another process that is to release it.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The fence of this acquisition, from 1 to 2^63 - 1: larger than that of each earlier one of the name, and as long as the
    /// lock is held. None if [`LockRequest::fenced`](crate::LockRequest::fenced) did not ask for one. It is worth what the
    /// resource makes of it: it has to refuse what comes with a smaller one than the largest it has seen.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// The same to be handed to other tasks and threads: validity, renewals and loss. Work that cannot be dropped looks at it.
    #[must_use]
    pub fn watch(&self) -> LeaseWatch {
        self.watch.clone()
    }

    /// Renews the lock now, without waiting for the next regular renewal. Returns until when it
    /// is valid. If the future is dropped, the renewal goes on.
    ///
    /// # Errors
    /// When the lock is lost, or no majority renewed it this time: then the old validity holds, and the client tries
    /// again by itself.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let guard = redlock.lock("backup").acquire().await?;
    /// let valid_until = guard.extend().await?;
    /// assert_eq!(guard.valid_until(), valid_until);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self) -> Result<ClientInstant, ExtendError> {
        let invalid = |reason| ExtendError::Invalid { reason };
        self.pending.handle().process().check().map_err(invalid)?;
        if let Some(loss) = self.loss() {
            return Err(ExtendError::Lost(loss));
        }
        let held = self.pending.operation();
        let handle = self.pending.handle();
        match handle.ask(Call::Renew { held }, ReplyTo::Extend).await {
            Some(Err(ExtendError::Lost(loss))) => {
                Err(ExtendError::Lost(self.loss().unwrap_or(loss)))
            }
            Some(result) => result.map(|extended| extended.valid_until),
            None => Err(ExtendError::Lost(Loss::ClientStopped)),
        }
    }

    /// Releases the lock and waits until a majority of the nodes has freed it, all nodes have
    /// answered, or their time is up. The rest is released in the background, and so is everything
    /// if the future is dropped. A lock that was lost before and has a
    /// [lock delay](crate::LockRequest::lock_delay) stays on the nodes until that is over.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let guard = redlock.lock("backup").acquire().await?;
    /// let release = guard.release().await;
    /// if release.was_lost() {
    ///     println!("somebody else may have worked at the same time");
    /// }
    /// assert!(release.released());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Release {
        self.end(false).await
    }

    /// Releases the lock and waits until every node has answered or has had its time (up to the node
    /// deadline; three times that where a connection has to be made first): for a program that ends, and
    /// says what it has left behind.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let guard = redlock.lock("backup").acquire().await?;
    /// for (node, answer) in guard.release_everywhere().await.nodes {
    ///     println!("{node}: {answer:?}"); // redis://127.0.0.1:7001: Freed
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release_everywhere(self) -> Release {
        self.end(true).await
    }

    async fn end(mut self, waits_for_all: bool) -> Release {
        drop(self.end_note.take());
        let nodes = Arc::clone(&self.nodes);
        if let Err(reason) = self.pending.handle().process().check() {
            return unasked::release(&nodes, &Cause::Invalid(reason));
        }
        let keeps_lost = self.has_lock_delay;
        let (handle, call) = self.into_release(waits_for_all, keeps_lost);
        let released = handle.ask(call, ReplyTo::Release).await;
        released.unwrap_or_else(|| unasked::stopped_release(&nodes))
    }

    /// What releases its lock, and through what. The release says that nobody wants the lock any more.
    fn into_release(self, waits_for_all: bool, keeps_lost: bool) -> (Handle, Call) {
        let call = Call::Release {
            held: Some(self.pending.operation()),
            name: self.name,
            token: self.token,
            waits_for_all,
            keeps_lost,
            lasts: None,
        };
        let handle = self.pending.handle().clone();
        self.pending.done();
        (handle, call)
    }

    /// Nobody has worked under this lock: others need not wait for its lock delay.
    pub(crate) fn free_unused(self) {
        if !self.has_lock_delay {
            return;
        }
        let (handle, call) = self.into_release(false, false);
        let (reply, _not_awaited) = oneshot::channel();
        handle.call(call, ReplyTo::Release(reply)).done();
    }

    /// Runs `work` while the lock is held. If the lock is lost first, the work is dropped and the
    /// loss returned. The guard stays with the caller, to be released.
    ///
    /// # Errors
    /// When the lock is lost before the work is done.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let guard = redlock.lock("backup").acquire().await?;
    /// let copied = guard.run(async { 42 /* the work */ }).await?;
    /// assert_eq!(copied, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Loss> {
        let mut lost = pin!(self.lost());
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            // The loss is looked at first, and on the clock too: the thread that tells it may be
            // late, as after a suspend.
            if let Poll::Ready(loss) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(loss));
            }
            if let Some(loss) = self.loss() {
                return Poll::Ready(Err(loss));
            }
            let done = work.as_mut().poll(context);
            // Work that ended after the deadline was not protected until its end.
            done.map(|output| self.loss().map_or(Ok(output), Err))
        })
        .await
    }

    /// Ends the guard without a release: nothing renews the lock any more, and the nodes hold it until its lease is over, or
    /// as long as [`Redlock::extend`](crate::Redlock::extend) asks them for. For work that is handed to another program with
    /// the lock's token, and for a job that is not to be done again for a while although it is over. Of a lock that was lost
    /// nothing is left: its lease is over.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::{Redlock, Wait};
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let guard = redlock.lock("nightly").acquire().await?;
    /// // The job is over. No machine whose clock is late does it again.
    /// let lease = guard.into_lease();
    /// redlock.extend("nightly", lease.token(), Duration::from_secs(300)).await?;
    /// assert!(redlock.lock("nightly").wait(Wait::None).acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "its token alone extends and releases the lock"]
    pub fn into_lease(mut self) -> Lease {
        drop(self.end_note.take());
        let clock = Arc::clone(self.watch.clock());
        let mut valid_until = self.valid_until();
        if self.loss().is_some() {
            valid_until = valid_until.earlier(clock.now());
        }
        let held = self.pending.operation();
        let detaching = self.pending.handle();
        detaching
            .call(Call::Detach { held }, ReplyTo::Nobody)
            .done();
        self.pending.done();
        Lease::new(self.name, self.token, self.ttl, valid_until, clock).fenced(self.fence)
    }
}

impl Deref for Guard {
    type Target = LeaseWatch;

    fn deref(&self) -> &LeaseWatch {
        &self.watch
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Guard")
            .field("name", &self.name.shown())
            .field("token", &self.token)
            .field("lease", &self.watch)
            .finish_non_exhaustive()
    }
}
