//! Calls as the rules know them, for what speaks another protocol in front of the client.

use bytes::Bytes;
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::channels::{Heard, Topic};
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;

use crate::opaque::Opaque;
use crate::redlock::Redlock;
use crate::runtime::handle::{Pending, ReplyTo};

impl Redlock {
    /// Makes a call, which nothing undoes, and returns its number. `told` is called with its outcome on the client's thread, so it
    /// must be brief; it is dropped where the client has ended. A lock that is acquired so is held until it is
    /// [handed over](Call::Detach) or its lease is over.
    ///
    /// What the call names is sent as it is: whoever makes it has checked names, tokens and times.
    #[doc(hidden)]
    pub fn submit(&self, call: Call, told: impl FnOnce(Outcome) + Send + 'static) -> OperationId {
        let reply = ReplyTo::Whole(Opaque(Box::new(told)));
        let pending = self.shared().handle.call(call, reply);
        let operation = pending.operation();
        pending.done();
        operation
    }

    /// Watches a lock until what this returns is dropped. `report` is called on the client's thread, so it must be brief: with the
    /// token of who has the lock, as a majority said and as it is still, and with none while that may have changed, or nobody has it.
    #[doc(hidden)]
    pub fn watch(&self, name: Bytes, report: impl Fn(Option<Token>) + Send + 'static) -> LockWatch {
        let reply = ReplyTo::Watch(Opaque(Box::new(report)));
        LockWatch {
            _pending: self.shared().handle.call(Call::Watch { name }, reply),
        }
    }

    /// Listens to what [`Hearing::listen_to`] names until what this returns is dropped. `report` is called on the client's thread, so it
    /// must be brief. A client has one listener.
    #[doc(hidden)]
    pub fn listen(&self, report: impl Fn(Heard) + Send + 'static) -> Hearing {
        let reply = ReplyTo::Listen(Opaque(Box::new(report)));
        Hearing {
            pending: self.shared().handle.call(Call::Listen, reply),
        }
    }

    /// The call is not wanted any more: it ends without an outcome, and a lock that it has taken and not
    /// [handed over](Call::Detach) is released.
    #[doc(hidden)]
    pub fn cancel(&self, operation: OperationId) {
        self.shared().handle.gone(operation);
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

/// A watch on a lock. It ends when this is dropped.
#[doc(hidden)]
#[derive(Debug)]
pub struct LockWatch {
    _pending: Pending,
}

/// What listens to channels. It ends when this is dropped.
#[doc(hidden)]
#[derive(Debug)]
pub struct Hearing {
    pending: Pending,
}

impl Hearing {
    /// Begins to listen to these, and ends to listen to those.
    pub fn listen_to(&self, add: Vec<Topic>, remove: Vec<Topic>) {
        let call = Call::ListenTo { add, remove };
        self.pending.handle().call(call, ReplyTo::Nobody).done();
    }
}
