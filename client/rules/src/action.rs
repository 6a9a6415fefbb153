//! What happens to a client, and what is to be done for it.

use std::io;
use std::time::Duration;

use crate::OperationId;
use crate::call::{Call, Outcome};
use crate::channels::Heard;
use crate::clock::ClientInstant;
use crate::leader::Observed;
use crate::link::ConnectionId;
use crate::log_line::LogLine;
use crate::outcome::{Cause, ConnectionError, Loss};
use crate::token::Token;
use crate::wait::Waiting;

/// What happens to a client.
#[derive(Debug)]
pub enum Event<'a> {
    /// A handle asks for something. Every call has a number of its own.
    Call(OperationId, Call),
    /// Nobody is interested in a call any more, or a guard is gone.
    Gone(OperationId),
    /// A connection stands, to this address in the end.
    Connected(ConnectionId, &'a str),
    /// Bytes arrived on a connection.
    Received(ConnectionId, &'a [u8]),
    /// A connection could not be made, or has ended.
    Closed(ConnectionId, Cause),
    /// The time that was named has come, or any other time.
    Timer,
}

/// Why a connection [has ended](Event::Closed) on which this failed.
#[must_use]
pub fn broken(what: &str, error: io::Error) -> Cause {
    Cause::Unreachable(ConnectionError::while_doing(what, error))
}

/// What is to be done for a client.
#[derive(Clone, Debug)]
pub enum Action {
    /// Connect to a node, and tell how that went.
    Open(ConnectionId),
    /// Close a connection; nothing is to be told about it any more.
    Close(ConnectionId),
    /// Give a connection up when its bytes were not acknowledged for so long.
    LimitUnacknowledged(ConnectionId, Duration),
    /// A call has its outcome.
    Tell(OperationId, Outcome),
    /// A call goes on waiting for its lock, for this reason.
    Waiting(OperationId, Waiting),
    /// An observer is to be told who leads.
    Observed(OperationId, Observed),
    /// A watch has this to say: a majority said that the lock is held under this token, and it is still. None where that may have
    /// changed, or the lock is not held.
    Watched(OperationId, Option<Token>),
    /// A listener is to be told this.
    Heard(OperationId, Heard),
    /// A lock's validity has moved on.
    Renewed {
        /// The call that acquired it.
        held: OperationId,
        /// Its new end.
        valid_until: ClientInstant,
    },
    /// A renewal has found no majority; the lock is held until its validity ends.
    RenewalFailing {
        /// The call that acquired it.
        held: OperationId,
    },
    /// A lock is lost, or was released.
    Lost {
        /// The call that acquired it.
        held: OperationId,
        /// Why.
        loss: Loss,
    },
    /// There is something to log.
    Log(LogLine),
}
