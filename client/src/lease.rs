//! A lock that is held under a token, without a guard.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::{ClientInstant, Clock};
use crate::token::Token;

/// A lock that is held for a while under a token, without being renewed. Nothing happens when it
/// is dropped.
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
