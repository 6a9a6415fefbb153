//! A message that was published, and its bytes on the wire: they are made once for each protocol, by the first worker
//! that needs them, and shared by all connections that are sent it.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use quorlock_engine::Protocol;
use quorlock_engine::channels::PushMessage;

use crate::protocol::{Charge, Output, reply};

/// See above.
pub(crate) struct SharedMessage {
    pub(crate) message: PushMessage,
    bytes: usize,
    charge: Arc<Charge>,
    resp2: OnceLock<Output>,
    resp3: OnceLock<Output>,
}

impl SharedMessage {
    /// It is counted in `sum` until the last connection has sent it.
    pub(crate) fn new(message: PushMessage, sum: &Arc<AtomicUsize>) -> Self {
        let bytes = message.bytes() + MESSAGE_BYTES;
        Self {
            bytes,
            charge: Arc::new(Charge::new(bytes + SHARED_ONCE_BYTES, sum)),
            message,
            resp2: OnceLock::new(),
            resp3: OnceLock::new(),
        }
    }

    /// What it counts at each client that is yet to be sent it: its bytes are shared with others, but who does not
    /// read keeps them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its push, or what has the same parts in RESP2.
    pub(crate) fn rendered(&self, protocol: Protocol) -> &Output {
        let rendered = match protocol {
            Protocol::Resp2 => &self.resp2,
            Protocol::Resp3 => &self.resp3,
        };
        rendered.get_or_init(|| {
            let mut output = Output::default();
            if let Some(push) = self.message.push() {
                reply::write(&mut output, push, protocol);
                output.charge(&self.charge);
            }
            output
        })
    }
}

/// What a message takes at a client beside its bytes.
pub(crate) const MESSAGE_BYTES: usize = 64;
/// What it takes beside them once, however many it is for: its parts, and a short one's form on the wire.
pub(crate) const SHARED_ONCE_BYTES: usize = 512;
/// What one receiver costs until the message is handed out, beside the message.
pub(crate) const RECEIVER_COST: usize = 64;
