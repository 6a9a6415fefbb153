//! What becomes of calls and of locks, told to a program as it happens: for its metrics.

use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::name::LockName;
use quorlock_client_rules::outcome::{AcquireError, Loss};
use quorlock_clock::ClientInstant;

use crate::lease_watch::LeaseWatch;
use crate::opaque::Opaque;

/// What became of a call to acquire a lock, or of a lock that was held. Passed to what
/// [`RedlockBuilder::on_event`](crate::RedlockBuilder::on_event) is given. Times are those of the client's clock.
///
/// A call whose arguments cannot work, or whose future is dropped before it ends, makes no event.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LockEvent<'a> {
    /// A call has acquired a lock.
    #[non_exhaustive]
    Acquired {
        /// The name that was asked for: of several locks the first, of a permit that of its semaphore.
        name: &'a [u8],
        /// How long the call took.
        waited: Duration,
    },
    /// A call has ended without a lock.
    #[non_exhaustive]
    Failed {
        /// As above.
        name: &'a [u8],
        /// How long the call took.
        waited: Duration,
        /// Why.
        error: &'a AcquireError,
    },
    /// The guard of a lock has ended: its release has begun, it was dropped, or it was made a lease. A lease makes no such event.
    #[non_exhaustive]
    Ended {
        /// As above.
        name: &'a [u8],
        /// How long the lock was held: until now, or until its validity ended if that was before.
        held: Duration,
        /// The loss, if the lock was lost before.
        loss: Option<&'a Loss>,
    },
}

/// What is called with each event.
#[derive(Clone, Debug)]
pub(crate) struct OnEvent(Opaque<Arc<Called>>);

type Called = dyn Fn(&LockEvent<'_>) + Send + Sync;

impl OnEvent {
    pub(crate) fn new(call: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Opaque(Arc::new(call)))
    }

    /// A call has ended.
    pub(crate) fn note_call(
        &self,
        name: &LockName,
        waited: Duration,
        outcome: Result<(), &AcquireError>,
    ) {
        let name = name.first();
        match outcome {
            Ok(()) => (self.0.0)(&LockEvent::Acquired { name, waited }),
            Err(AcquireError::Invalid { .. }) => {}
            Err(error) => (self.0.0)(&LockEvent::Failed {
                name,
                waited,
                error,
            }),
        }
    }
}

/// A part of a guard, which notes the end of the lock when it is dropped.
pub(crate) struct EndNote {
    pub(crate) on_event: OnEvent,
    pub(crate) name: LockName,
    pub(crate) acquired: ClientInstant,
    pub(crate) watch: LeaseWatch,
}

impl Drop for EndNote {
    fn drop(&mut self) {
        let loss = self.watch.loss();
        let now = self.watch.clock().now();
        let end = now.earlier(self.watch.valid_until());
        (self.on_event.0.0)(&LockEvent::Ended {
            name: self.name.first(),
            held: end.since(self.acquired),
            loss: loss.as_ref(),
        });
    }
}
