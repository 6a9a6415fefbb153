//! A lock to be acquired.
//!
//! Invariant: arguments are checked here, before anything is sent.

use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::call::{AcquireCall, Call};
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::outcome::AcquireError;
use quorlock_client_rules::owner_text;
use quorlock_client_rules::permits::{check_permits, permit_name};
use quorlock_client_rules::settings::{LIFETIME, outlives};
use quorlock_client_rules::unasked;
use quorlock_client_rules::wait::{Wait, Waiting};
use tokio::sync::{oneshot, watch};

use crate::guard::Guard;
use crate::lease::Lease;
use crate::limits::{check_lock_delay, check_reserve, check_ttl, whole_milliseconds};
use crate::on_wait::OnWait;
use crate::runtime::handle::ReplyTo;
use crate::shared::Shared;

/// A lock that can be acquired. Made by [`Redlock::lock`](crate::Redlock::lock), of several names by
/// [`Redlock::locks`](crate::Redlock::locks), and of a semaphore by [`Redlock::semaphore`](crate::Redlock::semaphore).
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// # use quorlock_client::{AcquireError, Wait};
/// let lock = redlock.lock("backup").ttl(Duration::from_secs(10)).wait(Wait::None);
/// let _guard = lock.clone().acquire().await?;
/// assert!(matches!(lock.acquire().await, Err(AcquireError::Busy { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call acquire()"]
pub struct LockRequest {
    shared: Arc<Shared>,
    lock: AcquireCall,
    on_wait: Option<OnWait>,
}

impl LockRequest {
    pub(crate) fn new(shared: Arc<Shared>, name: LockName) -> Self {
        let lock = AcquireCall {
            wait: WAIT_DEFAULT,
            min_validity: shared.settings.min_validity,
            max_lifetime: shared.settings.max_lifetime,
            ..AcquireCall::new(name, TTL_DEFAULT)
        };
        Self {
            shared,
            lock,
            on_wait: None,
        }
    }

    /// The same for one of so many permits.
    pub(crate) fn of_permits(mut self, permits: u32) -> Self {
        self.lock.permits = Some(permits);
        self
    }

    /// The length of the lease on each node, rounded up to whole milliseconds. 30 s by default;
    /// 365 days at most, and more than the drift takes off (3 ms as a rule). The lock is lost this
    /// long after the last successful renewal at the latest.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock.ttl = whole_milliseconds(ttl);
        self
    }

    /// In whose name the lock is held: any bytes that tell the owners of this client apart, such as the number of a request
    /// or of a job. While the lock is held for an owner, a further call for the same name and owner has it at once, without
    /// a request to any node: the lock is reentrant for its owner. All others wait as usual, a call that names no owner included.
    ///
    /// Each call has a guard of its own, and the lock is released when the last of them is released or dropped; what the
    /// others' release comes to is [`is_shared`](crate::Release::is_shared). The lock is renewed as long as there is a guard.
    /// Its ttl, `max_lifetime` and `reserve` are those of the call that has taken it from the nodes; those of further calls
    /// change nothing, but a lock with less than their `min_validity` left is not handed out to them. The loss of the lock reaches
    /// every guard, and the owner's next call asks the nodes anew.
    ///
    /// An owner is known to this client and its clones alone, and tells nodes nothing: another client, in this process or
    /// another one, waits whatever owner it names. The guards' token is one, so what is released by its token is lost for all of them.
    /// Not for leases, permits, several names, and locks with a lock delay or a fence.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::{Redlock, Wait};
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let account = redlock.lock("account 7").wait(Wait::None);
    /// let outer = account.clone().owner("request 42").acquire().await?;
    /// let inner = account.clone().owner("request 42").acquire().await?; // called by what holds it
    /// assert!(account.clone().owner("request 43").acquire().await.is_err());
    /// assert!(outer.release().await.is_shared() && inner.is_valid());
    /// assert!(inner.release().await.is_free());
    /// # Ok(())
    /// # }
    /// ```
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Self {
        self.lock.owner = Some(Arc::from(owner.as_ref()));
        self
    }

    /// What the holder says about itself to people, such as its machine and its work: 1 to 256 bytes of UTF-8 without control
    /// characters. Quorlock nodes show it to whoever may look (`quorlock who`, `LOCK.INFO`); other servers, and nodes whose
    /// user may not use `LOCK.ACQUIRE`, take no such text, and lock all the same. It is sent with each request for the lock.
    ///
    /// Without it nodes show the [name](crate::RedlockBuilder::client_name) and the address of the connection. Several names that
    /// are taken together have no such text.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let guard = redlock.lock("backup").owner_text("nightly job, rack 4").acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn owner_text(mut self, text: impl AsRef<str>) -> Self {
        self.lock.text = Some(Arc::from(text.as_ref()));
        self
    }

    /// How long others wait after an end of the lock that was not a release: its holder died, was cut off, or lost it. Zero
    /// by default. Rounded up to whole milliseconds; 365 days at most, together with the ttl.
    ///
    /// For a resource that takes requests which the holder has sent before: they have so much time to arrive, or to be
    /// refused. The nodes keep the lock for the ttl and the delay; its holder counts with the ttl alone. A release, and the
    /// drop of a guard that is valid, free it at once. What others are told of the holder's time left includes the delay.
    /// The delay is in vain where the lock is removed from the nodes themselves.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::{AcquireError, Redlock, Wait};
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let lock = redlock.lock("backup").lock_delay(Duration::from_secs(60)).wait(Wait::None);
    /// let guard = lock.clone().max_lifetime(Duration::from_millis(300)).acquire().await?;
    /// guard.lost().await; // its longest lifetime is over
    /// assert!(matches!(lock.acquire().await, Err(AcquireError::Busy { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock.lock_delay = whole_milliseconds(delay);
        self
    }

    /// How long to try. 10 s by default. The first round has the time its nodes may need, connections included, however
    /// short the wait is.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.lock.wait = wait;
        self
    }

    /// The least validity with which the lock is handed out; less than the ttl leaves after drift. That of the client by
    /// default, which is zero where the builder was told nothing else.
    pub fn min_validity(mut self, validity: Duration) -> Self {
        self.lock.min_validity = validity;
        self
    }

    /// What must be left of the lease whenever a renewal comes back, for a holder that needs time to stop its work: a lock
    /// of which that is not to be expected, because a renewal takes as long as the votes took, is not handed out. Zero by
    /// default: then a renewal must be expected to come back before the lock is lost. Less than the ttl leaves after drift.
    /// A lock that is not renewed has none.
    pub fn reserve(mut self, reserve: Duration) -> Self {
        self.lock.reserve = reserve;
        self
    }

    /// The longest time the lock is held, renewals included: then it is lost, by
    /// [`MaxLifetime`](crate::Loss::MaxLifetime). Longer than `min_validity`. That of the client by default, which is
    /// unlimited where the builder was told nothing else.
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.lock.max_lifetime = Some(lifetime);
        self
    }

    /// Has a fence taken with the lock: a number that grows with every acquisition of the name that asks for one. The holder
    /// sends it along with what it writes, and the resource refuses a write whose fence is smaller than the largest it has
    /// seen, so that a holder which was paused beyond its lease changes nothing. [`Guard::fence`] tells it.
    ///
    /// Of one name. All nodes must be Quorlock nodes: others do not vote for such a lock. It takes one round trip where this client knows the
    /// last fence of the name, and two otherwise. Callers of a name that ask for no fence exclude this one as usual, and have
    /// no number to show.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let first = redlock.lock("backup").fenced().acquire().await?;
    /// let fence = first.fence().expect("asked for");
    /// drop(first);
    /// let second = redlock.lock("backup").fenced().acquire().await?;
    /// assert!(second.fence() > Some(fence));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced(mut self) -> Self {
        self.lock.is_fenced = true;
        self
    }

    /// The lock is to be read: held beside others who read, and not beside a writer, which is whoever acquires the same name without
    /// this. No writer acquires it while a reader holds it.
    ///
    /// All nodes must be Quorlock nodes: others do not vote for a reader. A writer is not starved: where it was refused because of
    /// readers, nodes let no new reader in for half a second after its try. Not for leases, permits, and locks with an owner,
    /// a lock delay or a fence. A guard's [`into_lease`](crate::Guard::into_lease) gives a lease that ends by itself: a token alone
    /// neither extends nor releases what is held shared.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::{Redlock, Wait};
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let first = redlock.lock("catalogue").shared().acquire().await?;
    /// let second = redlock.lock("catalogue").shared().acquire().await?;
    /// assert!(redlock.lock("catalogue").wait(Wait::None).acquire().await.is_err());
    /// drop((first, second));
    /// let writer = redlock.lock("catalogue").acquire().await?;
    /// assert!(writer.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn shared(mut self) -> Self {
        self.lock.is_shared = true;
        self
    }

    /// What to call while the lock is waited for: with its place behind other calls of this client, and again when that
    /// changes, and after each of its attempts that failed, until the lock is acquired or the wait is over.
    /// The task that awaits the call makes it, within a poll of the call and never on the client's thread, so it must not
    /// block: the call would be late, and others of that thread's runtime. Where the task is late, only the newest is told.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// # use quorlock_client::{Wait, Waiting};
    /// let guard = redlock.lock("backup").acquire().await?;
    /// let (told, mut news) = tokio::sync::mpsc::unbounded_channel();
    /// let second = redlock.lock("backup").wait(Wait::Forever).on_wait(move |waiting| {
    ///     eprintln!("waiting for 'backup': {waiting}"); // held by another owner (token 1f...
    ///     let _ended = told.send(waiting.clone());
    /// });
    /// tokio::select! {
    ///     second = second.acquire() => drop(second?),
    ///     waiting = news.recv() => assert!(matches!(waiting, Some(Waiting::Busy { .. }))),
    /// }
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_wait(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.on_wait = Some(OnWait::new(tell));
        self
    }

    /// Acquires the lock and keeps renewing it while the guard lives.
    ///
    /// Dropping the future cancels the attempt; what was taken on single nodes is released in the
    /// background.
    ///
    /// # Errors
    /// Typed by what happened, and never with the lock held: it is busy, too few nodes can vote, their votes came too
    /// late, or the arguments cannot work; see [`AcquireError`].
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// # use quorlock_client::AcquireError;
    /// match redlock.lock("backup").acquire().await {
    ///     Ok(guard) => assert!(guard.is_valid()),
    ///     Err(AcquireError::Busy { time_left, .. }) => println!("busy, for {time_left:?} at least"),
    ///     Err(error) => println!("{error}"), // says what happened, and what to do
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(mut self) -> Result<Guard, AcquireError> {
        self.lock.renews = true;
        self.call().await
    }

    /// Acquires the lock for one ttl, without renewing it and without a guard: for a program that
    /// hands the token to another one.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let lease = redlock.lock("backup").ttl(Duration::from_secs(60)).acquire_lease().await?;
    /// assert!(lease.is_valid());
    /// println!("{}", lease.token()); // for the program that releases it
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_lease(self) -> Result<Lease, AcquireError> {
        Ok(self.call().await?.into_lease())
    }

    /// Whether the arguments can work.
    fn check(&self) -> Result<(), Arc<str>> {
        let lock = &self.lock;
        let drift = self.shared.settings.drift;
        self.shared.handle.process().check()?;
        lock.name.check()?;
        lock.name.behind(&self.shared.settings.prefix).check()?;
        if let Some(permits) = lock.permits {
            check_permits(lock.name.first(), permits)?;
        }
        if lock.is_fenced && lock.name.single().is_none() {
            return Err(Arc::from(
                "several names have no fence in common: a fence is taken with one lock",
            ));
        }
        if lock.owner.is_some() || lock.is_shared {
            self.check_alone()?;
        }
        lock.text.as_deref().map_or(Ok(()), owner_text::check)?;
        check_ttl(lock.ttl, drift, lock.min_validity)?;
        check_lock_delay(lock.lock_delay, lock.ttl)?;
        if lock.renews {
            check_reserve(lock.reserve, lock.ttl, drift)?;
        }
        match outlives(lock.min_validity, lock.max_lifetime) {
            true => Err(Arc::from(LIFETIME)),
            false => Ok(()),
        }
    }

    /// A lock of an owner and a reader are one lock and nothing else besides, and have guards.
    fn check_alone(&self) -> Result<(), Arc<str>> {
        let lock = &self.lock;
        let what = match lock.renews {
            false => "a lease, which nobody renews,",
            true if lock.name.single().is_none() => "a set of several names",
            true if lock.permits.is_some() => "a permit",
            true if lock.owner.is_some() && lock.is_shared => "a lock of an owner",
            true if !lock.lock_delay.is_zero() => "a lock with a lock delay",
            true if lock.is_fenced => "a lock with a fence",
            true => return Ok(()),
        };
        let cannot = match lock.is_shared {
            true => "cannot be held shared",
            false => "has no owner",
        };
        Err(Arc::from(format!("{what} {cannot}")))
    }

    async fn call(self) -> Result<Guard, AcquireError> {
        let Some(on_event) = self.shared.on_event.clone() else {
            return self.attempt().await;
        };
        let (name, renews) = (self.lock.name.clone(), self.lock.renews);
        let clock = Arc::clone(&self.shared.clock);
        let began = clock.now();
        let outcome = self.attempt().await;
        let now = clock.now();
        on_event.note_call(&name, now.since(began), outcome.as_ref().map(|_| ()));
        outcome.map(|guard| match renews {
            true => guard.noted(on_event, name, now),
            false => guard,
        })
    }

    async fn attempt(self) -> Result<Guard, AcquireError> {
        self.check()
            .map_err(|reason| AcquireError::Invalid { reason })?;
        let (reply, answer) = oneshot::channel();
        let call = match self.on_wait {
            Some(_) => Call::AcquireTelling(self.lock.clone()),
            None => Call::Acquire(self.lock.clone()),
        };
        let clock = &self.shared.clock;
        let began = clock.now();
        let (news, mut told) = self.on_wait.as_ref().map(|_| watch::channel(None)).unzip();
        let pending = self.shared.handle.call(call, ReplyTo::Acquire(reply, news));
        let cancelled = || AcquireError::Cancelled {
            name: self.lock.name.shown(),
        };
        let answered = match (&self.on_wait, &mut told) {
            (Some(on_wait), Some(told)) => on_wait.follow(answer, told).await,
            _ => answer.await,
        };
        let acquired = answered.unwrap_or_else(|_| Err(cancelled()))?;
        let nodes = Arc::clone(&self.shared.nodes);
        let clock = Arc::clone(clock);
        let (ttl, has_lock_delay) = (self.lock.ttl, !self.lock.lock_delay.is_zero());
        let name = match acquired.permit {
            Some(index) => permit_name(self.lock.name.first(), index).into(),
            None => self.lock.name,
        };
        let guard = Guard::new(name, nodes, pending, acquired, clock, ttl, has_lock_delay);
        // The caller may be polled long after the votes came, or the machine may have slept.
        let remaining = guard.remaining();
        if remaining.is_zero() || remaining < self.lock.min_validity {
            let waited = self.shared.clock.now().since(began);
            let late = unasked::taken_late(guard.lock_name(), waited);
            guard.free_unused();
            return Err(late);
        }
        if let Some(on_acquired) = &self.shared.on_acquired {
            (on_acquired.0)(&guard, self.lock.renews);
        }
        Ok(guard)
    }
}

const TTL_DEFAULT: Duration = Duration::from_secs(30);
const WAIT_DEFAULT: Wait = Wait::For(Duration::from_secs(10));
