//! The client: built once from a list of nodes, cloned cheaply, used for any number of locks.
//!
//! Invariant: a clone is a handle. All connections and all locks in hand live on one thread of
//! the client's own, so they outlive a cancelled future, a dropped guard and the caller's runtime.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::address::NodeAddress;
use crate::clock::Clock;
use crate::lease::Lease;
use crate::lock::{LockRequest, check_ttl};
use crate::name::check_name;
use crate::outcome::{BuildError, ExtendError, Loss, Release};
use crate::probe::NodeStatus;
use crate::rules::call::Call;
#[cfg(feature = "simulation")]
use crate::rules::client::Client;
use crate::runtime;
use crate::runtime::handle::ReplyTo;
use crate::settings::{Drift, RetryDelay, Settings};
use crate::shared::Shared;
use crate::token::Token;
use crate::votes::NODES_MAX;

/// A Redlock client over a fixed set of nodes.
#[derive(Clone, Debug)]
pub struct Redlock {
    shared: Arc<Shared>,
}

impl Redlock {
    /// Starts to build a client.
    pub fn builder() -> Builder {
        Builder {
            nodes: Vec::new(),
            settings: Settings::default(),
        }
    }

    /// A lock with this name, to be acquired.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        LockRequest::new(
            Arc::clone(&self.shared),
            Bytes::copy_from_slice(name.as_ref()),
        )
    }

    /// Extends a lock that is held under `token` to at least `ttl` from now, on a majority.
    ///
    /// # Errors
    /// When no majority holds the lock for this token, or too few nodes answer.
    pub async fn extend(
        &self,
        name: impl AsRef<[u8]>,
        token: &Token,
        ttl: Duration,
    ) -> Result<Lease, ExtendError> {
        let name = Bytes::copy_from_slice(name.as_ref());
        let invalid = |reason| ExtendError::Invalid { reason };
        check_name(&name).map_err(invalid)?;
        check_ttl(ttl, self.shared.settings.drift, Duration::ZERO).map_err(invalid)?;
        let (reply, answer) = oneshot::channel();
        let call = Call::Extend {
            name: name.clone(),
            token: token.clone(),
            ttl,
        };
        let pending = self.shared.handle.call(call, ReplyTo::Extend(reply));
        let stopped = |_| ExtendError::Lost(Loss::ClientStopped);
        let valid_until = answer.await.map_err(stopped)??;
        pending.done();
        let clock = Arc::clone(&self.shared.settings.clock);
        Ok(Lease::new(name, token.clone(), ttl, valid_until, clock))
    }

    /// Releases a lock that is held under `token`, on all nodes. Harmless where it is not held.
    ///
    /// Waits until every node has told, or has had its time; what a node that cannot be reached
    /// is owed, it gets in the background.
    pub async fn release(&self, name: impl AsRef<[u8]>, token: &Token) -> Release {
        let (reply, answer) = oneshot::channel();
        let call = Call::Release {
            held: None,
            name: Bytes::copy_from_slice(name.as_ref()),
            token: token.clone(),
        };
        let pending = self.shared.handle.call(call, ReplyTo::Release(reply));
        let released = answer.await;
        pending.done();
        released.unwrap_or_else(|_| Release::client_stopped(&self.shared.nodes))
    }

    /// Asks every node who it is and how it does. Connects where there is no connection yet.
    pub async fn probe(&self) -> Vec<NodeStatus> {
        let (reply, answer) = oneshot::channel();
        let pending = self.shared.handle.call(Call::Probe, ReplyTo::Probe(reply));
        let statuses = answer.await;
        pending.done();
        statuses.unwrap_or_default()
    }

    /// Waits until what is being released in the background has been released on all nodes that
    /// can be reached, for one node deadline at most. For a program that is about to end.
    pub async fn settle(&self) {
        let (reply, answer) = oneshot::channel();
        let pending = self
            .shared
            .handle
            .call(Call::Settle, ReplyTo::Settle(reply));
        // A client that has stopped owes nothing.
        let _stopped = answer.await;
        pending.done();
    }

    /// The nodes' addresses, without passwords, in the order they were listed.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<str>] {
        &self.shared.nodes
    }

    /// How many nodes must agree.
    #[must_use]
    pub fn quorum(&self) -> usize {
        crate::votes::majority(self.shared.nodes.len())
    }
}

/// Builds a [`Redlock`].
#[derive(Clone, Debug)]
#[must_use = "call build()"]
pub struct Builder {
    nodes: Vec<String>,
    settings: Settings,
}

impl Builder {
    /// Adds a node: `redis://[[user]:password@]host[:port][/database]` or `unix:///path`.
    pub fn node(mut self, address: impl Into<String>) -> Self {
        self.nodes.push(address.into());
        self
    }

    /// Adds several nodes.
    pub fn nodes<I>(mut self, addresses: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.nodes.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// How much the clocks may differ in rate. 1 % and 2 ms by default.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.settings.drift = drift;
        self
    }

    /// The pauses between attempts. From 10 ms up to 200 ms by default.
    pub fn retry_delay(mut self, delay: RetryDelay) -> Self {
        self.settings.retry_delay = delay;
        self
    }

    /// A lock with less validity left than this is not handed out. Zero by default.
    pub fn min_validity(mut self, validity: Duration) -> Self {
        self.settings.min_validity = validity;
        self
    }

    /// The longest time a lock may be held, renewals included. Unlimited by default.
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.max_lifetime = Some(lifetime);
        self
    }

    /// The longest time one node is given to answer; less where measured round trips are short
    /// or the ttl is. One second by default.
    pub fn node_deadline(mut self, deadline: Duration) -> Self {
        self.settings.node_deadline_max = deadline;
        self
    }

    /// The name shown by the nodes' `CLIENT LIST`.
    pub fn client_name(mut self, name: &str) -> Self {
        self.settings.client_name = Arc::from(name);
        self
    }

    /// The clock that decides about validity, for tests and simulations.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Builds the client. No connection is made yet: a node that is down is one node's "no" when
    /// it is asked, never an error here.
    ///
    /// # Errors
    /// When no or too many nodes are named, an address cannot be read, or a setting cannot work.
    pub fn build(self) -> Result<Redlock, BuildError> {
        let (addresses, settings) = self.check()?;
        let nodes = addresses
            .iter()
            .map(|address| Arc::from(address.to_string()))
            .collect();
        let handle = runtime::start(addresses, settings.clone())?;
        Ok(Redlock {
            shared: Arc::new(Shared {
                handle,
                settings,
                nodes,
            }),
        })
    }

    /// The client's rules alone, for a simulation: no thread, no sockets, no clock.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    #[cfg(feature = "simulation")]
    pub fn build_rules(self, random: Box<dyn rand::Rng>) -> Result<Client, BuildError> {
        let (addresses, settings) = self.check()?;
        Ok(Client::new(addresses, settings, random))
    }

    /// Reads the addresses and checks that the settings can work.
    pub(crate) fn check(self) -> Result<(Vec<NodeAddress>, Settings), BuildError> {
        self.settings.check()?;
        if self.nodes.is_empty() {
            return Err(BuildError::NoNodes);
        }
        if self.nodes.len() > NODES_MAX {
            return Err(BuildError::TooManyNodes(self.nodes.len()));
        }
        let mut addresses: Vec<NodeAddress> = Vec::with_capacity(self.nodes.len());
        for text in &self.nodes {
            let address = NodeAddress::parse(text)?;
            if addresses
                .iter()
                .any(|other| other.endpoint == address.endpoint)
            {
                return Err(BuildError::Duplicate(Arc::from(address.to_string())));
            }
            addresses.push(address);
        }
        Ok((addresses, self.settings))
    }
}
