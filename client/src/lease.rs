//! A lock that is held under a token, without a guard.

use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::name::LockName;
use quorlock_client_rules::token::Token;
use quorlock_clock::{ClientInstant, Clock};

/// A lock that is held for a while under a token, without being renewed. Nothing happens when it
/// is dropped.
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
/// assert!(lease.remaining() > Duration::from_secs(50) && lease.is_valid());
/// assert!(redlock.release(lease.name(), lease.token()).await.released());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lease {
    name: LockName,
    token: Token,
    fence: Option<u64>,
    ttl: Duration,
    valid_until: ClientInstant,
    kept_until: Option<ClientInstant>,
    clock: Arc<dyn Clock>,
}

impl Lease {
    pub(crate) fn new(
        name: LockName,
        token: Token,
        ttl: Duration,
        valid_until: ClientInstant,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            name,
            token,
            fence: None,
            ttl,
            valid_until,
            kept_until: None,
            clock,
        }
    }

    /// The same with its fence.
    pub(crate) fn fenced(self, fence: Option<u64>) -> Self {
        Self { fence, ..self }
    }

    /// The same, and until when the nodes have told that they keep the lock.
    pub(crate) fn kept_until(self, kept_until: Option<ClientInstant>) -> Self {
        Self { kept_until, ..self }
    }

    /// The lock's name; of [several locks](crate::Redlock::locks) the first of [`names`](Self::names).
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.first()
    }

    /// All names of the lock, in ascending order: of [several locks](crate::Redlock::locks) each of them, otherwise one. Each
    /// is extended and released by itself under the token.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.name.parts().iter().map(|name| &name[..])
    }

    /// The token that extends and releases it: to be kept where the lease is to outlive this process.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The fence of its acquisition, where one was asked for; see [`Guard::fence`](crate::Guard::fence). None for a lease that
    /// was extended by its token alone.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// The ttl that was asked for; what is left of it is [`Lease::remaining`].
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The end of the validity on the client's clock, for programs that count with the same clock.
    #[must_use]
    pub fn valid_until(&self) -> ClientInstant {
        self.valid_until
    }

    /// Validity left, after drift: work that takes longer extends the lease first.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.clock.now().until(self.valid_until)
    }

    /// How long a majority of the nodes goes on holding the lock, as they told when it was extended;
    /// nothing for a lease that was just acquired. Longer than [`ttl`](Self::ttl) where the
    /// extension has found a lock that lasts longer, which it does not shorten. For people: what is
    /// certain is [`remaining`](Self::remaining).
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let lease = redlock.lock("backup").ttl(Duration::from_secs(600)).acquire_lease().await?;
    /// let extended = redlock.extend("backup", lease.token(), Duration::from_secs(1)).await?;
    /// assert!(extended.remaining() <= Duration::from_secs(1));
    /// assert!(extended.kept() > Some(Duration::from_secs(500)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn kept(&self) -> Option<Duration> {
        self.kept_until.map(|until| self.clock.now().until(until))
    }

    /// Whether any validity is left, as far as this machine's clocks tell. Nobody renews a lease: where a hypervisor has paused the
    /// guest with all its clocks, only an extension shows that it is over.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }
}
