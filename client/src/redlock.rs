//! The client: built once from a list of nodes, cloned cheaply, used for any number of locks.
//!
//! Invariant: a clone is a handle. All connections and all locks in hand live on one thread of
//! the client's own, so they outlive a cancelled future, a dropped guard and the caller's runtime.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::address::NodeAddress;
use crate::clock::Clock;
use crate::lock::{Lease, LockRequest, check_name, check_ttl};
use crate::orders::{ExtendOrder, Order, ReleaseOrder};
use crate::outcome::{BuildError, ExtendError, Loss, Release};
use crate::probe::NodeStatus;
use crate::settings::{Drift, RetryDelay, Settings};
use crate::token::Token;
use crate::votes::NODES_MAX;
use crate::worker;

/// A Redlock client over a fixed set of nodes.
#[derive(Clone, Debug)]
pub struct Redlock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) settings: Settings,
    pub(crate) nodes: Vec<Arc<str>>,
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
            Arc::clone(&self.inner),
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
        check_ttl(ttl, self.inner.settings.drift, Duration::ZERO).map_err(invalid)?;
        let (reply, answer) = oneshot::channel();
        let order = ExtendOrder {
            name: name.clone(),
            token: token.clone(),
            ttl,
            reply,
        };
        let stopped = ExtendError::Lost(Loss::ClientStopped);
        self.inner
            .orders
            .send(Order::Extend(order))
            .map_err(|_| stopped.clone())?;
        let valid_until = answer.await.map_err(|_| stopped)??;
        let clock = Arc::clone(&self.inner.settings.clock);
        Ok(Lease::new(name, token.clone(), ttl, valid_until, clock))
    }

    /// Releases a lock that is held under `token`, on all nodes. Harmless where it is not held.
    pub async fn release(&self, name: impl AsRef<[u8]>, token: &Token) -> Release {
        let name = Bytes::copy_from_slice(name.as_ref());
        let (reply, answer) = oneshot::channel();
        let order = ReleaseOrder {
            name,
            token: token.clone(),
            reply,
        };
        if self.inner.orders.send(Order::Release(order)).is_ok()
            && let Ok(release) = answer.await
        {
            return release;
        }
        Release::client_stopped(&self.inner.nodes)
    }

    /// Asks every node who it is and how it does. Connects where there is no connection yet.
    pub async fn probe(&self) -> Vec<NodeStatus> {
        let (reply, answer) = oneshot::channel();
        let sent = self.inner.orders.send(Order::Probe(reply)).is_ok();
        match answer.await {
            Ok(statuses) if sent => statuses,
            _ => Vec::new(),
        }
    }

    /// Waits until what is being released in the background has been released on all nodes that
    /// can be reached, for one node deadline at most. For a program that is about to end.
    pub async fn settle(&self) {
        let (reply, answer) = oneshot::channel();
        if self.inner.orders.send(Order::Settle(reply)).is_ok() {
            let _ended = answer.await;
        }
    }

    /// The nodes' addresses, without passwords, in the order they were listed.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<str>] {
        &self.inner.nodes
    }

    /// How many nodes must agree.
    #[must_use]
    pub fn quorum(&self) -> usize {
        crate::votes::majority(self.inner.nodes.len())
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
        let nodes = addresses
            .iter()
            .map(|address| Arc::from(address.to_string()))
            .collect();
        let orders = worker::start(addresses, self.settings.clone())?;
        Ok(Redlock {
            inner: Arc::new(Inner {
                orders,
                settings: self.settings,
                nodes,
            }),
        })
    }
}
