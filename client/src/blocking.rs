//! The client without `async`: for programs that have no runtime.
//!
//! The same client, thread and types of results. Each call waits on the caller's own thread; none
//! of them needs a runtime, and none may be made from a task of one, whose thread would stand
//! still meanwhile.
//!
//! ```
//! use std::time::Duration;
//! use quorlock_client::{Redlock, Wait, blocking};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let node = runtime.block_on(quorlock_server::Node::builder().ephemeral().start())?;
//! # let addresses = [node.url()];
//! let redlock = blocking::Redlock::from(Redlock::builder().nodes(addresses).build()?);
//! let guard = redlock
//!     .lock("backup")
//!     .ttl(Duration::from_secs(30))
//!     .wait(Wait::For(Duration::from_secs(5)))
//!     .acquire()?;
//! let copied = guard.run(|lease| {
//!     let mut copied = 0;
//!     while copied < 10 && lease.is_valid() {
//!         copied += 1; // a step of the work
//!     }
//!     copied
//! })?;
//! assert_eq!(copied, 10);
//! assert!(!guard.release().was_lost());
//! redlock.close();
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use quorlock_client_rules::outcome::{AcquireError, ExtendError, Loss, NodeFences, Release};
use quorlock_client_rules::probe::NodeStatus;
use quorlock_client_rules::statistics::Statistics;
use quorlock_client_rules::token::Token;
use quorlock_client_rules::wait::{Wait, Waiting};
use quorlock_clock::ClientInstant;
use tokio::task::unconstrained;

use crate::lease::Lease;
use crate::lease_watch::LeaseWatch;

mod election;

pub use election::{Election, Leadership, Observer};

/// A Redlock client whose calls block: [`Redlock`](crate::Redlock) for programs without a runtime.
/// Made of that with `from`.
#[derive(Clone, Debug)]
pub struct Redlock {
    redlock: crate::Redlock,
}

impl From<crate::Redlock> for Redlock {
    fn from(redlock: crate::Redlock) -> Self {
        Self { redlock }
    }
}

impl Redlock {
    /// A lock with this name, to be acquired; see [`Redlock::lock`](crate::Redlock::lock).
    pub fn lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        LockRequest {
            request: self.redlock.lock(name),
        }
    }

    /// Several locks, to be acquired together; see [`Redlock::locks`](crate::Redlock::locks).
    pub fn locks(&self, names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> LockRequest {
        LockRequest {
            request: self.redlock.locks(names),
        }
    }

    /// One of so many permits of this name, to be acquired; see [`Redlock::semaphore`](crate::Redlock::semaphore).
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> LockRequest {
        LockRequest {
            request: self.redlock.semaphore(name, permits),
        }
    }

    /// An election with this name; see [`Redlock::election`](crate::Redlock::election).
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election {
            election: self.redlock.election(name),
        }
    }

    /// Extends a lock that is held under `token`; see [`Redlock::extend`](crate::Redlock::extend).
    ///
    /// # Errors
    /// When no majority holds the lock for this token, or too few nodes answer.
    pub fn extend(
        &self,
        name: impl AsRef<[u8]>,
        token: &Token,
        ttl: Duration,
    ) -> Result<Lease, ExtendError> {
        block_on(self.redlock.extend(name, token, ttl))
    }

    /// Releases a lock that is held under `token`; see
    /// [`Redlock::release`](crate::Redlock::release).
    pub fn release(&self, name: impl AsRef<[u8]>, token: &Token) -> Release {
        block_on(self.redlock.release(name, token))
    }

    /// Asks every node who it is and how it does; see [`Redlock::probe`](crate::Redlock::probe).
    #[must_use]
    pub fn probe(&self) -> Vec<NodeStatus> {
        block_on(self.redlock.probe())
    }

    /// Tells nodes that may have lost fences what the others took; see
    /// [`Redlock::sync_fences`](crate::Redlock::sync_fences).
    #[must_use]
    pub fn sync_fences(&self) -> Vec<NodeFences> {
        block_on(self.redlock.sync_fences())
    }

    /// The same where too few nodes are certain; see
    /// [`Redlock::sync_fences_of_trusted_disks`](crate::Redlock::sync_fences_of_trusted_disks).
    #[must_use]
    pub fn sync_fences_of_trusted_disks(&self) -> Vec<NodeFences> {
        block_on(self.redlock.sync_fences_of_trusted_disks())
    }

    /// What was counted since the client was built; see [`Redlock::statistics`](crate::Redlock::statistics).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        block_on(self.redlock.statistics())
    }

    /// Waits for what is being released in the background; see
    /// [`Redlock::settle`](crate::Redlock::settle).
    pub fn settle(&self) {
        block_on(self.redlock.settle());
    }

    /// Ends this handle, once what is being released in the background has been released; see
    /// [`Redlock::close`](crate::Redlock::close).
    pub fn close(self) {
        block_on(self.redlock.close());
    }

    /// The nodes' addresses, without passwords, in the order they were listed: for log lines.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<str>] {
        self.redlock.nodes()
    }

    /// How many nodes must agree; see [`Redlock::quorum`](crate::Redlock::quorum).
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.redlock.quorum()
    }
}

/// A lock that can be acquired. Made by [`Redlock::lock`]; what is not said of it has the defaults of [the other one](crate::LockRequest).
#[derive(Clone, Debug)]
#[must_use = "call acquire()"]
pub struct LockRequest {
    request: crate::LockRequest,
}

/// The same request, whose calls block: of a [`ShardedRedlock`](crate::ShardedRedlock), which has no blocking twin.
impl From<crate::LockRequest> for LockRequest {
    fn from(request: crate::LockRequest) -> Self {
        Self { request }
    }
}

impl LockRequest {
    /// The length of the lease; see [`LockRequest::ttl`](crate::LockRequest::ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request = self.request.ttl(ttl);
        self
    }

    /// In whose name the lock is held; see [`LockRequest::owner`](crate::LockRequest::owner).
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Self {
        self.request = self.request.owner(owner);
        self
    }

    /// What the holder says about itself; see [`LockRequest::owner_text`](crate::LockRequest::owner_text).
    pub fn owner_text(mut self, text: impl AsRef<str>) -> Self {
        self.request = self.request.owner_text(text);
        self
    }

    /// How long others wait after an end of the lock that was not a release; see
    /// [`LockRequest::lock_delay`](crate::LockRequest::lock_delay).
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.request = self.request.lock_delay(delay);
        self
    }

    /// Has a fence taken with the lock; see [`LockRequest::fenced`](crate::LockRequest::fenced).
    pub fn fenced(mut self) -> Self {
        self.request = self.request.fenced();
        self
    }

    /// The lock is to be read, beside others who read; see [`LockRequest::shared`](crate::LockRequest::shared).
    pub fn shared(mut self) -> Self {
        self.request = self.request.shared();
        self
    }

    /// How long to try, 10 s by default; see [`LockRequest::wait`](crate::LockRequest::wait).
    pub fn wait(mut self, wait: Wait) -> Self {
        self.request = self.request.wait(wait);
        self
    }

    /// The least validity with which the lock is handed out; see [`LockRequest::min_validity`](crate::LockRequest::min_validity).
    pub fn min_validity(mut self, validity: Duration) -> Self {
        self.request = self.request.min_validity(validity);
        self
    }

    /// What must be left of the lease whenever a renewal comes back; see
    /// [`LockRequest::reserve`](crate::LockRequest::reserve).
    pub fn reserve(mut self, reserve: Duration) -> Self {
        self.request = self.request.reserve(reserve);
        self
    }

    /// The longest time the lock is held, renewals included; see [`LockRequest::max_lifetime`](crate::LockRequest::max_lifetime).
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.request = self.request.max_lifetime(lifetime);
        self
    }

    /// What to call while the lock is waited for, on the thread that waits; see
    /// [`LockRequest::on_wait`](crate::LockRequest::on_wait).
    pub fn on_wait(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.request = self.request.on_wait(tell);
        self
    }

    /// Acquires the lock and keeps renewing it while the guard lives.
    ///
    /// # Errors
    /// Typed by what happened; see [`AcquireError`].
    pub fn acquire(self) -> Result<Guard, AcquireError> {
        let guard = block_on(self.request.acquire())?;
        Ok(Guard { guard })
    }

    /// Acquires the lock for one ttl, without renewing it and without a guard.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    pub fn acquire_lease(self) -> Result<Lease, AcquireError> {
        block_on(self.request.acquire_lease())
    }
}

/// A lock that is held and renewed until the guard is released, dropped, or the lock is lost.
///
/// What the guard of a program with a runtime tells, this one tells as well: see [`Guard`](crate::Guard). Its calls block.
/// The client's thread renews it, whatever this one does. Dropping the guard releases the lock
/// in the background; see [`Redlock::close`](crate::Redlock::close) for the end of a program.
#[must_use = "a dropped guard releases its lock"]
pub struct Guard {
    guard: crate::Guard,
}

impl Guard {
    /// Waits until the lock is lost; see [`LeaseWatch::lost`].
    pub fn lost(&self) -> Loss {
        block_on(self.guard.lost())
    }

    /// Renews the lock now, without waiting for the next regular renewal. Returns until when it
    /// is valid.
    ///
    /// # Errors
    /// When the lock is lost, or no majority renewed it this time.
    pub fn extend(&self) -> Result<ClientInstant, ExtendError> {
        block_on(self.guard.extend())
    }

    /// Releases the lock; see [`Guard::release`](crate::Guard::release).
    pub fn release(self) -> Release {
        block_on(self.guard.release())
    }

    /// Releases the lock and waits for every node; see
    /// [`Guard::release_everywhere`](crate::Guard::release_everywhere).
    pub fn release_everywhere(self) -> Release {
        block_on(self.guard.release_everywhere())
    }

    /// Ends the guard without a release; see [`Guard::into_lease`](crate::Guard::into_lease).
    #[must_use = "its token alone extends and releases the lock"]
    pub fn into_lease(self) -> Lease {
        self.guard.into_lease()
    }

    /// Runs `work` on this thread while the lock is held; the [module](self) has an example. Work that blocks cannot be stopped from
    /// outside: it looks at the lease it is given, and ends when that is no longer valid. The
    /// guard stays with the caller, to be released.
    ///
    /// # Errors
    /// When the lock is lost before the work is done, whatever the work has returned. Work that
    /// would begin after the loss is not begun.
    pub fn run<T>(&self, work: impl FnOnce(&LeaseWatch) -> T) -> Result<T, Loss> {
        let lease = self.guard.watch();
        if let Some(loss) = lease.loss() {
            return Err(loss);
        }
        let done = work(&lease);
        lease.loss().map_or(Ok(done), Err)
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        &self.guard
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(formatter)
    }
}

/// Waits on this thread for a future that only another thread moves on.
fn block_on<F: Future>(future: F) -> F::Output {
    // A caller on a runtime's thread must not use up the budget of its task: nobody would refill
    // it while this waits.
    let mut future = pin!(unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
