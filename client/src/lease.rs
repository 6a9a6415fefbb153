//! A lock that is held under a token, without a guard.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::{ClientInstant, Clock};
use crate::token::Token;

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
    name: Bytes,
    token: Token,
    ttl: Duration,
    valid_until: ClientInstant,
    clock: Arc<dyn Clock>,
}

impl Lease {
    pub(crate) fn new(
        name: Bytes,
        token: Token,
        ttl: Duration,
        valid_until: ClientInstant,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            name,
            token,
            ttl,
            valid_until,
            clock,
        }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The token that extends and releases it.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The ttl that was asked for.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The end of the validity on the client's clock.
    #[must_use]
    pub fn valid_until(&self) -> ClientInstant {
        self.valid_until
    }

    /// Validity left, after drift.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.clock.now().until(self.valid_until)
    }

    /// Whether any validity is left.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }
}
