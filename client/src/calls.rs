//! Calls as the rules know them, for what speaks another protocol in front of the client.

use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_clock::ClientInstant;

use crate::redlock::Redlock;
use crate::runtime::handle::{ReplyTo, Whole};

impl Redlock {
    /// Makes a call, which nothing undoes, and returns its number. `told` is called with its outcome on the client's thread, so it
    /// must be brief; it is dropped where the client has ended. A lock that is acquired so is held until it is
    /// [handed over](Call::Detach) or its lease is over.
    ///
    /// What the call names is sent as it is: whoever makes it has checked names, tokens and times.
    #[doc(hidden)]
    pub fn submit(&self, call: Call, told: impl FnOnce(Outcome) + Send + 'static) -> OperationId {
        let reply = ReplyTo::Whole(Whole(Box::new(told)));
        let pending = self.shared().handle.call(call, reply);
        let operation = pending.operation();
        pending.done();
        operation
    }

    /// The present moment on the clock of this client.
    #[doc(hidden)]
    #[must_use]
    pub fn now(&self) -> ClientInstant {
        self.shared().clock.now()
    }

    /// The wall clock of this client, in microseconds since the epoch.
    #[doc(hidden)]
    #[must_use]
    pub fn wall_us(&self) -> u64 {
        self.shared().clock.wall_us()
    }

    /// The drift that this client allows for.
    #[doc(hidden)]
    #[must_use]
    pub fn drift(&self) -> crate::Drift {
        self.shared().settings.drift
    }
}
