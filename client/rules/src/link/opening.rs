//! A connection that is being made: dialled, then logged in.

use std::time::Duration;

use super::ConnectionId;
use super::login::{Login, Peer};
use crate::address::NodeAddress;
use crate::clock::ClientInstant;
use crate::outcome::Cause;
use crate::votes::Identity;

#[derive(Debug)]
pub(super) struct Opening {
    pub(super) id: ConnectionId,
    /// When the present step must have ended.
    pub(super) deadline: ClientInstant,
    pub(super) out: Vec<u8>,
    connected: Option<ClientInstant>,
    login: Option<Login>,
}

impl Opening {
    pub(super) fn start(id: ConnectionId, deadline: ClientInstant) -> Self {
        Self {
            id,
            deadline,
            out: Vec::new(),
            connected: None,
            login: None,
        }
    }

    pub(super) fn connected(&mut self, now: ClientInstant, deadline: ClientInstant) {
        self.connected = Some(now);
        self.deadline = deadline;
    }

    pub(super) fn log_in(
        &mut self,
        address: &NodeAddress,
        client_name: &str,
        identity: Option<Identity>,
    ) {
        if self.connected.is_some() && self.login.is_none() {
            self.login = Some(Login::start(address, client_name, identity, &mut self.out));
        }
    }

    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<Option<Peer>, Cause> {
        let login = self.login.as_mut();
        login.map_or(Ok(None), |login| login.receive(bytes))
    }

    /// How long it takes at most, where each step has a deadline of this length.
    pub(super) fn most_left(&self, step: Duration, now: ClientInstant) -> Duration {
        let login = match self.connected {
            None => step,
            Some(_) => Duration::ZERO,
        };
        now.until(self.deadline).saturating_add(login)
    }

    /// The round trip of the login.
    pub(super) fn login_time(&self, now: ClientInstant) -> Option<Duration> {
        self.connected.map(|connected| now.since(connected))
    }

    /// What did not happen in time.
    pub(super) fn missed(&self) -> &'static str {
        match self.connected {
            None => "no connection within its deadline",
            Some(_) => "connected, but the login was not answered within its deadline",
        }
    }
}
