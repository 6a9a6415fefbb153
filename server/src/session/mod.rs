//! What a node remembers of one connection, and the path of one request through it: who may
//! ask, which table the command is in, and where it runs.
//!
//! Commands on keys go to the engine. Commands about the connection and the node are here.

mod about;
mod batch;
#[cfg(test)]
mod batch_tests;
mod blocked;
mod client;
mod config;
mod greeting;
pub(crate) mod info;
mod table;

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::{Caller, Protocol};

pub(crate) use batch::{Batch, Next};
pub(crate) use blocked::Blocked;

use crate::config::Config;
use crate::net::clients::Client;
use crate::node::shared::Shared;
use crate::protocol::Limits;

/// One connection's state.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    caller: Caller,
    is_authenticated: bool,
    limits: Limits,
    limits_changed: bool,
    last_command: &'static str,
    /// The last position of the log that this connection wrote or was told of.
    position: u64,
}

impl Session {
    /// A new connection: RESP2, database 0, authenticated if there is no password.
    pub(crate) fn new(client: Arc<Client>, shared: &Shared) -> Self {
        let mut session = Self {
            caller: Caller {
                client_id: client.id,
                ..Caller::default()
            },
            client,
            is_authenticated: false,
            limits: Limits::UNAUTHENTICATED,
            limits_changed: false,
            last_command: "",
            position: 0,
        };
        if shared.config.requirepass.is_none() {
            session.authenticate(shared);
        }
        session
    }

    /// Limits for the requests of this connection, as it stands.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether AUTH changed the limits since the last call.
    pub(crate) fn take_limits_changed(&mut self) -> bool {
        std::mem::take(&mut self.limits_changed)
    }

    /// How long this connection may be idle; for ever where nothing is configured. A stranger
    /// who does not say the password is not kept.
    fn patience(&self, config: &Config) -> Option<Duration> {
        let configured = config.timeout;
        if self.is_authenticated {
            return configured;
        }
        Some(configured.map_or(STRANGER_IDLE_MAX, |timeout| timeout.min(STRANGER_IDLE_MAX)))
    }

    /// Whether its requests have the limits of a client that said the password, or needs none.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_authenticated
    }

    /// Whether this connection has been idle for longer than it may be.
    pub(crate) fn is_tired(&self, config: &Config, now_raw_ns: u64) -> bool {
        self.patience(config)
            .is_some_and(|patience| self.client.idle(now_raw_ns) > patience)
    }

    /// The protocol in which this connection wants its replies.
    pub(crate) fn protocol(&self) -> Protocol {
        self.caller.protocol
    }

    fn authenticate(&mut self, shared: &Shared) {
        self.is_authenticated = true;
        self.limits = Limits::authenticated(
            shared.config.proto_max_bulk_len,
            shared.config.client_query_buffer_limit,
        );
        self.limits_changed = true;
    }

    /// Back to the state of a new connection (RESET).
    fn reset(&mut self, shared: &Shared) {
        self.caller = Caller {
            client_id: self.client.id,
            ..Caller::default()
        };
        self.is_authenticated = false;
        if shared.config.requirepass.is_none() {
            self.authenticate(shared);
        } else {
            self.limits = Limits::UNAUTHENTICATED;
            self.limits_changed = true;
        }
        let mut introduction = self.client.introduction();
        introduction.name.clear();
        introduction.database = 0;
        introduction.is_resp3 = false;
    }

    fn select(&mut self, database: u8) {
        self.caller.database = database;
        self.client.introduction().database = database;
    }

    fn speak(&mut self, protocol: Protocol) {
        self.caller.protocol = protocol;
        self.client.introduction().is_resp3 = protocol == Protocol::Resp3;
    }
}

/// Idle time before AUTH after which a connection is closed.
const STRANGER_IDLE_MAX: Duration = Duration::from_secs(60);
