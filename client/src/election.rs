//! Leader election: a lock whose holder leads, and observers who are told who that is.
//!
//! Invariant: who leads is who holds the lock, by the rules of a lock; there is no second mechanism. What observers see is no
//! proof: whoever acts as the leader has the guard.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::Call;
use quorlock_client_rules::leader::Observed;
use quorlock_client_rules::name::check_name;
use quorlock_client_rules::outcome::{AcquireError, Release};
use quorlock_client_rules::wait::{Wait, Waiting};
use tokio::sync::watch;

use crate::guard::Guard;
use crate::lock::LockRequest;
use crate::runtime::handle::{Pending, ReplyTo};
use crate::shared::Shared;

/// An election, for candidates and observers. Made by [`Redlock::election`](crate::Redlock::election).
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// let election = redlock.election("primary").proposal("10.0.0.7:8080");
/// let leadership = election.campaign().await?; // waits until this candidate leads
/// leadership.run(async { /* the leader's work; dropped if the leadership is lost */ }).await?;
/// leadership.resign().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call campaign() or observe()"]
pub struct Election {
    shared: Arc<Shared>,
    name: Bytes,
    request: LockRequest,
}

impl Election {
    pub(crate) fn new(shared: Arc<Shared>, name: Bytes) -> Self {
        let request = LockRequest::new(Arc::clone(&shared), name.clone().into());
        let request = request.wait(Wait::Forever);
        Self {
            shared,
            name,
            request,
        }
    }

    /// What the candidate says about itself, such as the address at which it can be reached: 1 to 256 bytes of UTF-8 without
    /// control characters. Observers are told of it by Quorlock nodes; others take no such text, and elect all the same.
    pub fn proposal(mut self, proposal: impl AsRef<str>) -> Self {
        self.request = self.request.owner_text(proposal);
        self
    }

    /// The length of the lease; see [`LockRequest::ttl`](crate::LockRequest::ttl). After a leader's death another one leads so
    /// much later at the latest. 30 s by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request = self.request.ttl(ttl);
        self
    }

    /// Has each leader take a [fence](crate::LockRequest::fenced), by which a resource knows a leader that is late.
    pub fn fenced(mut self) -> Self {
        self.request = self.request.fenced();
        self
    }

    /// How long others wait after an end of a leadership that was not a resignation; see
    /// [`LockRequest::lock_delay`](crate::LockRequest::lock_delay).
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.request = self.request.lock_delay(delay);
        self
    }

    /// How long to campaign: without end by default, as a candidate does that stands by. A bound is for programs that do something else then.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.request = self.request.wait(wait);
        self
    }

    /// What to call while the candidate waits; see [`LockRequest::on_wait`](crate::LockRequest::on_wait).
    pub fn on_wait(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.request = self.request.on_wait(tell);
        self
    }

    /// Waits in line until this candidate leads, and renews its leadership from then on. Dropping the future ends the
    /// candidacy.
    ///
    /// # Errors
    /// Those of [`LockRequest::acquire`](crate::LockRequest::acquire).
    pub async fn campaign(self) -> Result<Leadership, AcquireError> {
        let guard = self.request.acquire().await?;
        Ok(Leadership { guard })
    }

    /// Follows who leads, without being a candidate. Nodes tell of changes; where nothing changes they are asked once for
    /// each renewal of the leader's, and all of them once a minute.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::{Observed, Redlock};
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let mut observer = redlock.election("primary").observe();
    /// assert_eq!(observer.next().await, Some(Observed::Vacant));
    /// let leadership = redlock.election("primary").proposal("db 2").campaign().await?;
    /// let Some(Observed::Leader(leader)) = observer.next().await else { panic!("nobody leads") };
    /// assert_eq!(leader.proposal.as_deref(), Some("db 2"));
    /// leadership.resign().await;
    /// assert_eq!(observer.next().await, Some(Observed::Vacant));
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe(&self) -> Observer {
        let (news, observed) = watch::channel(None);
        let pending = check_name(&self.name).is_ok().then(|| {
            let name = self.name.clone();
            let handle = &self.shared.handle;
            handle.call(Call::Observe { name }, ReplyTo::Observe(news))
        });
        Observer {
            observed,
            _pending: pending,
        }
    }
}

/// The leadership of an election: a [`Guard`] of its lock, renewed until it is given up, dropped or lost.
///
/// All that a guard tells is told of the leadership: whether it is [valid](crate::LeaseWatch::is_valid), its [fence](Guard::fence), its
/// [loss](crate::LeaseWatch::lost). Dropping it resigns in the background.
#[must_use = "a candidate that drops its leadership resigns"]
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    /// Gives the leadership up, as before an orderly end: the candidate that has waited longest leads next.
    pub async fn resign(self) -> Release {
        self.guard.release().await
    }

    /// The guard alone, for code that takes any lock: the leadership ends with it.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

/// Is told who leads, as a majority of the nodes sees it. Made by [`Election::observe`].
///
/// A new leader is told of some milliseconds after its lock was taken, as a rule; within three seconds after a majority of the
/// nodes can be reached again; and where a node's message was lost, when the old leader's lease would be over, or within a minute.
/// While candidates share the nodes' votes for a moment, what was told last holds; if they go on to, nobody leads. Fences that are told never go down.
pub struct Observer {
    observed: watch::Receiver<Option<Observed>>,
    _pending: Option<Pending>,
}

impl Observer {
    /// Waits for news: the first time for what a majority of the nodes says now, then for what is another than it was. Of changes that
    /// nobody has taken the newest is told. None once the client has stopped, and where the name cannot be a lock's. May be dropped and called again.
    pub async fn next(&mut self) -> Option<Observed> {
        loop {
            self.observed.changed().await.ok()?;
            let observed = self.observed.borrow_and_update().clone();
            if observed.is_some() {
                return observed;
            }
        }
    }

    /// What was reported last, without waiting; none before a majority has answered for the first time.
    #[must_use]
    pub fn current(&self) -> Option<Observed> {
        self.observed.borrow().clone()
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observed = self.observed.borrow();
        formatter.debug_tuple("Observer").field(&*observed).finish()
    }
}
