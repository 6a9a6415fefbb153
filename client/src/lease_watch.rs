//! What becomes of a lock that is held, to be followed apart from its guard.
//!
//! Invariant: no validity is told beyond its end, whatever the client's thread is doing: the
//! deadline is checked against the clock here as well.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::outcome::Loss;
use quorlock_clock::{ClientInstant, Clock};
use tokio::sync::watch;

use crate::runtime::handle::LeaseState;
use crate::runtime::process::Process;

/// Follows a lock that is held: until when it is valid, whether it is being renewed, and whether
/// it is lost. Handed out by [`Guard::watch`](crate::Guard::watch), cloned freely, for any number
/// of tasks. It keeps nothing alive: the lock ends with its guard.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// # use quorlock_client::Loss;
/// let guard = redlock.lock("backup").acquire().await?;
/// let watch = guard.watch();
/// let task = tokio::spawn(async move { watch.lost().await });
/// assert!(guard.release().await.released());
/// assert_eq!(task.await?, Loss::Released);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaseWatch {
    state: watch::Receiver<LeaseState>,
    clock: Arc<dyn Clock>,
    process: Process,
}

impl LeaseWatch {
    pub(crate) fn new(
        state: watch::Receiver<LeaseState>,
        clock: Arc<dyn Clock>,
        process: Process,
    ) -> Self {
        Self {
            state,
            clock,
            process,
        }
    }

    /// Waits until the lock is lost or released. Fires a little before the validity ends (a
    /// fiftieth of the ttl, 100 ms at most), even if all nodes hang, so that there is time to stop
    /// the work. May be dropped and called again.
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
    /// tokio::select! {
    ///     loss = guard.lost() => println!("stop at once: {loss}"),
    ///     () = tokio::time::sleep(Duration::from_millis(1)) => println!("the work is done"),
    /// }
    /// assert_eq!(guard.loss(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> Loss {
        if !self.process.is_current() {
            return Loss::ClientStopped;
        }
        let mut state = self.state.clone();
        match state.wait_for(|state| state.loss.is_some()).await {
            Ok(state) => state.loss.clone().unwrap_or(Loss::Expired),
            Err(_) => Loss::ClientStopped,
        }
    }

    /// The loss, if it has happened: for work that looks now and then. [`LeaseWatch::lost`] waits for it.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        // The lock is held by the process before the fork.
        if !self.process.is_current() {
            return Some(Loss::ClientStopped);
        }
        let state = self.state.borrow();
        if state.loss.is_none() && self.clock.now().has_reached(state.valid_until) {
            return Some(Loss::Expired);
        }
        state.loss.clone()
    }

    /// Waits until a renewal has found no majority: the lock is still held, and will be lost at
    /// [`valid_until`](Self::valid_until) if that goes on. Returns at once while that is so, and
    /// also once the lock is lost. May be dropped and called again.
    ///
    /// The client tries again by itself; [`renewal_recovered`](Self::renewal_recovered) waits until
    /// it has succeeded.
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
    /// tokio::select! {
    ///     () = guard.renewal_failing() => println!("{:?} are left", guard.remaining()),
    ///     () = tokio::time::sleep(Duration::from_millis(1)) => println!("the work is done"),
    /// }
    /// assert!(!guard.is_renewal_failing());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn renewal_failing(&self) {
        self.turned(true).await;
    }

    /// Waits until no renewal is failing any more: one has found a majority. Returns at once where
    /// the last one did, and also once the lock is lost. May be dropped and called again.
    pub async fn renewal_recovered(&self) {
        self.turned(false).await;
    }

    /// Waits until renewals fail, or do not, or the lock is lost. A client that has stopped renews nothing any more.
    async fn turned(&self, is_failing: bool) {
        if !self.process.is_current() {
            return;
        }
        let mut state = self.state.clone();
        let _stopped = state
            .wait_for(|state| state.is_renewal_failing == is_failing || state.loss.is_some())
            .await;
    }

    /// Whether the last renewal found no majority, or the lock is lost: a warning before the loss, with time left to end work.
    #[must_use]
    pub fn is_renewal_failing(&self) -> bool {
        self.state.borrow().is_renewal_failing || self.loss().is_some()
    }

    /// The end of the present validity on the client's clock, for programs that count with the same clock. Renewals move it on.
    #[must_use]
    pub fn valid_until(&self) -> ClientInstant {
        self.state.borrow().valid_until
    }

    /// Validity left, after drift; zero once the lock is lost. A step that takes longer is not to be begun.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let state = self.state.borrow();
        match state.loss {
            _ if !self.process.is_current() => Duration::ZERO,
            Some(_) => Duration::ZERO,
            None => self.clock.now().until(state.valid_until),
        }
    }

    /// Whether the lock is held now. Ask again after every pause: only the moment counts.
    ///
    /// As far as this machine's clocks tell: a hypervisor that pauses a guest stops them all, and the lock seems held until the
    /// next renewal, for a third of the ttl at most once they go on.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

impl fmt::Debug for LeaseWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("LeaseWatch")
            .field(&*self.state.borrow())
            .finish()
    }
}
