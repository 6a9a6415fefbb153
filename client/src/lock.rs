//! A lock to be acquired, and a lease on one that was.
//!
//! Invariant: arguments are checked here, before anything is sent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::clock::{ClientInstant, Clock};
use crate::guard::Guard;
use crate::orders::{AcquireOrder, Order};
use crate::outcome::AcquireError;
use crate::redlock::Inner;
use crate::settings::{Drift, LIFETIME, outlives};
use crate::token::Token;

/// How long to try when the lock is held by somebody else or too few nodes answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// One attempt.
    None,
    /// Attempts until this time has passed.
    For(Duration),
    /// Attempts until the lock is acquired or the future is dropped.
    Forever,
}

/// A lock that can be acquired. Made by [`Redlock::lock`](crate::Redlock::lock).
#[derive(Clone, Debug)]
#[must_use = "call acquire()"]
pub struct LockRequest {
    inner: Arc<Inner>,
    name: Bytes,
    ttl: Duration,
    wait: Wait,
    min_validity: Duration,
    max_lifetime: Option<Duration>,
}

impl LockRequest {
    pub(crate) fn new(inner: Arc<Inner>, name: Bytes) -> Self {
        let min_validity = inner.settings.min_validity;
        let max_lifetime = inner.settings.max_lifetime;
        Self {
            inner,
            name,
            ttl: TTL_DEFAULT,
            wait: WAIT_DEFAULT,
            min_validity,
            max_lifetime,
        }
    }

    /// The length of the lease on each node. 30 s by default. The lock is lost this long after
    /// the last successful renewal at the latest.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long to try. 10 s by default.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// The least validity with which the lock is handed out.
    pub fn min_validity(mut self, validity: Duration) -> Self {
        self.min_validity = validity;
        self
    }

    /// The longest time the lock is held, renewals included.
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.max_lifetime = Some(lifetime);
        self
    }

    /// Acquires the lock and keeps renewing it while the guard lives.
    ///
    /// Dropping the future cancels the attempt; what was taken on single nodes is released in the
    /// background.
    ///
    /// # Errors
    /// Typed by what happened; see [`AcquireError`].
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        self.order(true).await
    }

    /// Acquires the lock for one ttl, without renewing it and without a guard: for a program that
    /// hands the token to another one.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    pub async fn acquire_lease(self) -> Result<Lease, AcquireError> {
        let ttl = self.ttl;
        Ok(self.order(false).await?.into_lease(ttl))
    }

    async fn order(self, renews: bool) -> Result<Guard, AcquireError> {
        let invalid = |reason| AcquireError::Invalid { reason };
        check_name(&self.name).map_err(invalid)?;
        check_ttl(self.ttl, self.inner.settings.drift, self.min_validity).map_err(invalid)?;
        if outlives(self.min_validity, self.max_lifetime) {
            return Err(invalid(Arc::from(LIFETIME)));
        }
        let (reply, answer) = oneshot::channel();
        let cancelled = AcquireError::Cancelled {
            name: shown(&self.name),
        };
        let order = AcquireOrder {
            name: self.name,
            ttl: self.ttl,
            wait: self.wait,
            renews,
            min_validity: self.min_validity,
            max_lifetime: self.max_lifetime,
            reply,
        };
        let clock = &self.inner.settings.clock;
        let began = clock.now();
        self.inner
            .orders
            .send(Order::Acquire(order))
            .map_err(|_| cancelled.clone())?;
        let guard = answer.await.unwrap_or(Err(cancelled))?;
        // The caller may be polled long after the votes came, or the machine may have slept.
        let remaining = guard.remaining();
        if remaining.is_zero() || remaining < self.min_validity {
            return Err(AcquireError::TimedOut {
                name: shown(guard.name()),
                nodes: Vec::new(),
                waited: clock.now().since(began),
            });
        }
        Ok(guard)
    }
}

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

pub(crate) fn check_name(name: &[u8]) -> Result<(), Arc<str>> {
    match name.len() {
        0 => Err(Arc::from("a lock needs a name")),
        NAME_BYTES_MAX.. => Err(Arc::from(format!(
            "a lock's name has fewer than {NAME_BYTES_MAX} bytes"
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn check_ttl(
    ttl: Duration,
    drift: Drift,
    min_validity: Duration,
) -> Result<(), Arc<str>> {
    if ttl > TTL_MAX {
        return Err(Arc::from("the ttl is at most 365 days"));
    }
    if !ttl.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(Arc::from("the ttl is a whole number of milliseconds"));
    }
    let validity = drift.validity(ttl);
    if validity.is_zero() || validity < min_validity {
        return Err(Arc::from(format!(
            "a ttl of {} ms leaves {} ms after drift ({} ms), which is too short",
            ttl.as_millis(),
            validity.as_millis(),
            drift.of(ttl).as_millis()
        )));
    }
    Ok(())
}

/// A lock's name as it is shown to people.
pub(crate) fn shown(name: &[u8]) -> Arc<str> {
    struct Shown<'a>(&'a [u8]);
    impl fmt::Display for Shown<'_> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            let cut = &self.0[..self.0.len().min(200)];
            for character in String::from_utf8_lossy(cut).chars() {
                if character.is_control() {
                    write!(formatter, "{}", character.escape_default())?;
                } else {
                    write!(formatter, "{character}")?;
                }
            }
            if cut.len() < self.0.len() {
                formatter.write_str("...")
            } else {
                Ok(())
            }
        }
    }
    Arc::from(Shown(name).to_string())
}

const TTL_DEFAULT: Duration = Duration::from_secs(30);
const WAIT_DEFAULT: Wait = Wait::For(Duration::from_secs(10));
const TTL_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
const NAME_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_must_leave_validity() {
        let drift = Drift::default();
        let none = Duration::ZERO;
        let millis = Duration::from_millis;
        for (ttl, least, good) in [
            (none, none, false),
            (millis(1), none, false),
            (millis(2), none, false),
            (millis(3), none, true),
            (millis(500), none, true),
            (millis(500), millis(493), true),
            (millis(500), millis(494), false),
            (Duration::from_micros(5_500), none, false),
            (TTL_MAX, none, true),
            (TTL_MAX + millis(1), none, false),
            (Duration::MAX, none, false),
        ] {
            assert_eq!(
                check_ttl(ttl, drift, least).is_ok(),
                good,
                "{ttl:?} {least:?}"
            );
        }
    }

    #[test]
    fn names_are_bounded_and_shown_without_control_characters() {
        assert!(check_name(b"").is_err());
        assert!(check_name(&[b'x'; NAME_BYTES_MAX]).is_err());
        assert!(check_name(&[b'x'; NAME_BYTES_MAX - 1]).is_ok());
        assert_eq!(&*shown(b"a\r\nb\x1b"), "a\\r\\nb\\u{1b}");
        assert!(shown(&[b'x'; 1000]).len() < 210);
    }
}
