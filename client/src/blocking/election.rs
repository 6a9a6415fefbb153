//! Elections without `async`.

use std::ops::Deref;
use std::time::Duration;

use quorlock_client_rules::leader::Observed;
use quorlock_client_rules::outcome::{AcquireError, Release};
use quorlock_client_rules::wait::{Wait, Waiting};

use super::{Guard, block_on};

/// An election, for candidates and observers: [`Election`](crate::Election) for programs without a runtime.
///
/// # Example
/// ```
/// # use quorlock_client::{Observed, Redlock, blocking};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # let node = runtime.block_on(quorlock_server::Node::builder().ephemeral().start())?;
/// # let redlock = blocking::Redlock::from(Redlock::builder().node(node.url()).build()?);
/// let mut observer = redlock.election("primary").observe();
/// assert_eq!(observer.next(), Some(Observed::Vacant));
/// let leadership = redlock.election("primary").proposal("db 2").campaign()?;
/// assert!(matches!(observer.next(), Some(Observed::Leader(_))));
/// assert!(leadership.resign().is_free());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call campaign() or observe()"]
pub struct Election {
    pub(super) election: crate::Election,
}

/// The same election, whose calls block: of a [`ShardedRedlock`](crate::ShardedRedlock), which has no blocking twin.
impl From<crate::Election> for Election {
    fn from(election: crate::Election) -> Self {
        Self { election }
    }
}

impl Election {
    /// What the candidate says about itself; see [`Election::proposal`](crate::Election::proposal).
    pub fn proposal(mut self, proposal: impl AsRef<str>) -> Self {
        self.election = self.election.proposal(proposal);
        self
    }

    /// The length of the lease; see [`Election::ttl`](crate::Election::ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.election = self.election.ttl(ttl);
        self
    }

    /// Has each leader take a fence; see [`Election::fenced`](crate::Election::fenced).
    pub fn fenced(mut self) -> Self {
        self.election = self.election.fenced();
        self
    }

    /// How long others wait after an end that was not a resignation; see
    /// [`Election::lock_delay`](crate::Election::lock_delay).
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.election = self.election.lock_delay(delay);
        self
    }

    /// How long to campaign: without end by default. See [`Election::wait`](crate::Election::wait).
    pub fn wait(mut self, wait: Wait) -> Self {
        self.election = self.election.wait(wait);
        self
    }

    /// What to call while the candidate waits, on the thread that waits.
    pub fn on_wait(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.election = self.election.on_wait(tell);
        self
    }

    /// Waits in line until this candidate leads; see [`Election::campaign`](crate::Election::campaign).
    ///
    /// # Errors
    /// Typed by what happened; see [`AcquireError`].
    pub fn campaign(self) -> Result<Leadership, AcquireError> {
        let leadership = block_on(self.election.campaign())?;
        let guard = leadership.into_guard();
        Ok(Leadership {
            guard: Guard { guard },
        })
    }

    /// Follows who leads, without being a candidate; see [`Election::observe`](crate::Election::observe).
    pub fn observe(&self) -> Observer {
        Observer {
            observer: self.election.observe(),
        }
    }
}

/// The leadership of an election: a [`Guard`] of its lock, renewed until it is given up, dropped or lost.
#[must_use = "a candidate that drops its leadership resigns"]
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    /// Gives the leadership up: the candidate that has waited longest leads next.
    pub fn resign(self) -> Release {
        self.guard.release()
    }

    /// The guard alone; see [`Leadership::into_guard`](crate::Leadership::into_guard).
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

/// Is told who leads; an iterator that waits for the next news. It ends once the client has stopped. See
/// [`Observer`](crate::Observer).
#[derive(Debug)]
pub struct Observer {
    observer: crate::Observer,
}

impl Observer {
    /// What was reported last, without waiting; none before a majority has answered for the first time.
    #[must_use]
    pub fn current(&self) -> Option<Observed> {
        self.observer.current()
    }
}

impl Iterator for Observer {
    type Item = Observed;

    fn next(&mut self) -> Option<Observed> {
        block_on(self.observer.next())
    }
}
