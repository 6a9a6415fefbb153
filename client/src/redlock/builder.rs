//! What a client is built from.
//!
//! Invariant: all settings and addresses are checked before a thread is started.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::address::{AddressError, NodeAddress};
use quorlock_client_rules::client::Client;
use quorlock_client_rules::outcome::BuildError;
use quorlock_client_rules::settings::{Drift, RetryDelay, Settings, VotesBy};
use quorlock_client_rules::votes::NODES_MAX;
use quorlock_clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Redlock;
use crate::guard::Guard;
use crate::lock_event::{LockEvent, OnEvent};
use crate::opaque::Opaque;
use crate::program_name;
use crate::runtime;
use crate::runtime::connector::Connector;
use crate::runtime::tls::Tls;
use crate::shared::{OnAcquired, Shared};
use crate::tls_options::TlsOptions;
use quorlock_system_clock::SystemClock;

/// Builds a [`Redlock`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_client::Redlock;
///
/// let redlock = Redlock::builder()
///     .nodes(["redis://:secret@db1:7001", "redis://db2:7001", "unix:///run/node.sock"])
///     .client_name("billing")
///     .max_lifetime(Duration::from_secs(3600))
///     .build()?; // connects to nobody yet
/// assert_eq!(&*redlock.nodes()[0], "redis://db1:7001"); // without the password
/// # Ok::<(), quorlock_client::BuildError>(())
/// ```
#[derive(Clone)]
#[must_use = "call build()"]
pub struct RedlockBuilder {
    nodes: Vec<GivenNode>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    has_own_thread: bool,
    on_acquired: Option<OnAcquired>,
    on_event: Option<OnEvent>,
    tls: TlsOptions,
    accepts_failover: bool,
}

/// An entry of the list.
#[derive(Clone)]
enum GivenNode {
    At(String),
    /// The program makes the connections.
    Through(String, Connector),
}

impl RedlockBuilder {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            settings: Settings {
                client_name: program_name::shown_to_nodes(),
                ..Settings::default()
            },
            clock: Arc::new(SystemClock),
            has_own_thread: false,
            on_acquired: None,
            on_event: None,
            tls: TlsOptions::default(),
            accepts_failover: false,
        }
    }

    /// Adds a node: `redis://[[user]:password@]host[:port][/database]`, the same with `rediss://` for TLS, or `unix:///path`.
    /// The port is 6379 by default. 64 at most. A master that Sentinels name, for whom
    /// [`accept_failover`](Self::accept_failover) is needed: `redis+sentinel://[[user]:password@]host[:port][,host...]/master[/database]`.
    /// With the feature `postgresql`, and as the only node, a table of PostgreSQL: `postgresql://user[:password]@host[:port]/database`. With
    /// the feature `redis-cluster`, as the only node and with `accept_failover`, a Redis Cluster:
    /// `redis-cluster://[[user]:password@]host[:port][,host...]`.
    /// An address that cannot be read, or that is listed twice, is an error of [`build`](Self::build), as is every
    /// setting below that cannot work.
    pub fn node(mut self, address: impl Into<String>) -> Self {
        self.nodes.push(GivenNode::At(address.into()));
        self
    }

    /// Adds several nodes: those of a configuration, for example.
    pub fn nodes<I>(mut self, addresses: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let addresses = addresses.into_iter().map(Into::into);
        self.nodes.extend(addresses.map(GivenNode::At));
        self
    }

    /// Adds a node to which the program makes the connections itself: one in the same process, or one that is reached through
    /// a tunnel or with TLS. `name` is shown wherever another node's address is; it has no blanks and no '/' or '@'.
    ///
    /// `connect` is called on the client's thread, on a tokio runtime, whenever the client needs a connection. The thread
    /// polls its future for as long as a node may take to connect, and the stream until the connection ends. None of them
    /// may block. One that fails, panics or does not answer is as a node that does. The program logs in where the node wants
    /// a password. `connect` is dropped on that thread, when nothing is owed to the client's nodes any more: it holds a node of
    /// the program weakly, or that would be stopped there.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use quorlock_client::Redlock;
    ///
    /// let node = Arc::new(quorlock_server::Node::builder().ephemeral().start().await?);
    /// let own = Arc::downgrade(&node);
    /// let connect = move || match own.upgrade() {
    ///     Some(node) => node.connect(),
    ///     None => Err(std::io::ErrorKind::NotConnected.into()),
    /// };
    /// let redlock = Redlock::builder()
    ///     .node_through("node1", move || std::future::ready(connect()))
    ///     .build()?;
    /// let guard = redlock.lock("backup").acquire().await?;
    /// assert!(guard.release().await.released());
    /// # Ok(())
    /// # }
    /// ```
    pub fn node_through<C, F, S>(mut self, name: &str, connect: C) -> Self
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<S>> + 'static,
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let connector = Connector::new(connect);
        self.nodes
            .push(GivenNode::Through(name.to_owned(), connector));
        self
    }

    /// How much the clocks may differ in rate. 1 % and 2 ms by default; less than half of the time.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.settings.drift = drift;
        self
    }

    /// The pauses between attempts. From 10 ms up to 200 ms by default; the first is not zero, nor more than the longest.
    pub fn retry_delay(mut self, delay: RetryDelay) -> Self {
        self.settings.retry_delay = delay;
        self
    }

    /// A lock with less validity left than this is not handed out: its call ends with
    /// [`TimedOut`](crate::AcquireError::TimedOut). Zero by default.
    pub fn min_validity(mut self, validity: Duration) -> Self {
        self.settings.min_validity = validity;
        self
    }

    /// The longest time a lock may be held, renewals included: then it is lost, by
    /// [`MaxLifetime`](crate::Loss::MaxLifetime). Longer than `min_validity`; unlimited by default.
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.max_lifetime = Some(lifetime);
        self
    }

    /// The longest time one node is given to answer; less where measured round trips are short
    /// or the ttl is. One second by default, one millisecond at least.
    pub fn node_deadline(mut self, deadline: Duration) -> Self {
        self.settings.node_deadline_max = deadline;
        self
    }

    /// What nodes show as the name of this client's connections, in `CLIENT LIST` and as the holder of its locks: at most 64
    /// visible ASCII characters without blanks. `PROGRAM@HOST:PID` of this process by default.
    pub fn client_name(mut self, name: &str) -> Self {
        self.settings.client_name = Arc::from(name);
        self
    }

    /// What each lock's name begins with on the nodes, before the name that the program says: 256 bytes at most, nothing by default.
    /// For several programs or teams that share nodes, each with names of its own. Whoever is to exclude each other says
    /// the same prefix; without one the whole name is said: `app:backup` for `backup` behind the prefix `app:`. Errors show the whole
    /// name.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.settings.prefix = Arc::from(prefix.as_ref());
        self
    }

    /// How two entries are told to be two nodes. By who the nodes say they are, by default; by address for servers that hide or zero theirs.
    pub fn votes_by(mut self, votes_by: VotesBy) -> Self {
        self.settings.votes_by = votes_by;
        self
    }

    /// Takes an agent for a node, as a lock library does, to check it. Its vote is that of its own nodes.
    #[doc(hidden)]
    pub fn takes_agent(mut self) -> Self {
        self.settings.takes_agent = true;
        self
    }

    /// How many nodes more than a majority must agree, in each call of this client. None by default.
    ///
    /// A majority alone has a second holder as soon as the one node that two majorities share has forgotten a lock: one
    /// that was emptied, or put back to an image of before. With `votes` spare ones that many nodes may forget at
    /// once, also beside callers that ask for a bare majority, and twice as many where all callers of the lock ask for as
    /// many. As many nodes fewer may be away: with five nodes and one spare vote, one.
    ///
    /// # Example
    /// ```
    /// use quorlock_client::Redlock;
    ///
    /// let nodes = (1..=5).map(|node| format!("redis://db{node}:7001"));
    /// let redlock = Redlock::builder().nodes(nodes).spare_votes(1).build()?;
    /// assert_eq!(redlock.quorum(), 4);
    /// # Ok::<(), quorlock_client::BuildError>(())
    /// ```
    pub fn spare_votes(mut self, votes: usize) -> Self {
        self.settings.spare_votes = votes;
        self
    }

    /// Whether calls stand in line for a lock that is held, on nodes that have lines; they do by default. A call that does not
    /// asks again after the pauses of [`retry_delay`](Self::retry_delay), as on Redis and Valkey.
    pub fn stand_in_line(mut self, stands: bool) -> Self {
        self.settings.stands_in_line = stands;
        self
    }

    /// The cluster that the client is for: a Quorlock node that names another (`cluster-id`) does not vote. By default
    /// votes of nodes that name different clusters are not counted together, and once a majority of the listed nodes
    /// has named one, the others do not vote. A node that says how many nodes its cluster has (`cluster-size`) votes
    /// only for clients that list as many.
    pub fn cluster_id(mut self, cluster_id: &str) -> Self {
        self.settings.cluster_id = Some(Arc::from(cluster_id));
        self
    }

    /// How TLS is spoken with the nodes at `rediss://`, where the crate has its feature `tls`. By default the authorities are
    /// those that the machine trusts, and the client shows no certificate.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = options;
        self
    }

    /// Accepts nodes that fail over, at `redis+sentinel://` and `redis-cluster://`. A master is followed by a replica, which may lack locks and
    /// renewals: then **a lock may have two holders**, until the first one finds that it cannot renew it. What must not be done
    /// twice takes independent nodes, or a resource that refuses a late write. Without this such an address is
    /// an error of [`build`](Self::build).
    ///
    /// # Example
    /// ```
    /// use quorlock_client::{BuildError, Redlock};
    ///
    /// let builder = Redlock::builder().node("redis+sentinel://s1,s2,s3/mymaster");
    /// assert!(matches!(builder.clone().build(), Err(BuildError::FailsOver(_))));
    /// let redlock = builder.accept_failover().build()?;
    /// assert_eq!(&*redlock.nodes()[0], "redis+sentinel://s1:26379,s2:26379,s3:26379/mymaster");
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn accept_failover(mut self) -> Self {
        self.accepts_failover = true;
        self
    }

    /// The clock that decides about validity, for tests and simulations. A [`SettableClock`](crate::SettableClock) that nodes are given as
    /// well moves both.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Whether the client gets a thread of its own. All clients of a process share one by default, which gives each of them that
    /// has something to do a bounded share of its work in turn. A program asks for a thread for a client that must not wait for
    /// the shares of others: busy ones, or one whose [`clock`](Self::clock) may block. What Linux has for each thread, such as a
    /// network namespace, a set of processors or a priority, the shared one takes from the thread that built its first client.
    ///
    /// # Example
    /// ```
    /// use quorlock_client::Redlock;
    ///
    /// let redlock = Redlock::builder().node("redis://db1:7001").own_thread(true).build()?;
    /// # Ok::<(), quorlock_client::BuildError>(())
    /// ```
    pub fn own_thread(mut self, has_own_thread: bool) -> Self {
        self.has_own_thread = has_own_thread;
        self
    }

    /// Calls this with what becomes of calls to acquire a lock, and of locks that are held: how long calls wait, how long locks are
    /// held, and how both end. For a program's metrics; [`Redlock::statistics`] has counts without times. It is called by the task or
    /// thread that acquires, releases or drops, and must neither block nor panic.
    ///
    /// # Example
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # use std::sync::Arc;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// use quorlock_client::{LockEvent, Redlock};
    ///
    /// let held_ns = Arc::new(AtomicU64::new(0));
    /// let counter = Arc::clone(&held_ns);
    /// let redlock = Redlock::builder().node(node.url()).on_event(move |event| match event {
    ///     LockEvent::Ended { held, .. } => {
    ///         counter.fetch_add(held.as_nanos() as u64, Ordering::Relaxed);
    ///     }
    ///     LockEvent::Failed { error, .. } => println!("no lock: {error}"),
    ///     _ => {}
    /// });
    /// let redlock = redlock.build()?;
    /// redlock.lock("backup").acquire().await?.release().await;
    /// assert!(held_ns.load(Ordering::Relaxed) > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_event(mut self, call: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        self.on_event = Some(OnEvent::new(call));
        self
    }

    /// Calls this with each lock that was acquired, before its caller has it, and whether it is renewed: for `quorlock-test`,
    /// which compares what clients believe.
    #[doc(hidden)]
    pub fn on_acquired(mut self, notify: impl Fn(&Guard, bool) + Send + Sync + 'static) -> Self {
        self.on_acquired = Some(Opaque(Arc::new(notify)));
        self
    }

    /// Builds the client. No connection is made yet: a node that is down is one node's "no" when
    /// it is asked, never an error here.
    ///
    /// # Errors
    /// When no or too many nodes are named, an address cannot be read, a setting cannot work, a file of TLS cannot be used, or the thread cannot be started.
    ///
    /// # Example
    /// ```
    /// use quorlock_client::{BuildError, Redlock};
    ///
    /// assert!(matches!(Redlock::builder().build(), Err(BuildError::NoNodes)));
    /// ```
    pub fn build(self) -> Result<Redlock, BuildError> {
        let clock = Arc::clone(&self.clock);
        let has_own_thread = self.has_own_thread;
        let connectors = self.nodes.iter().map(GivenNode::connector).collect();
        let on_acquired = self.on_acquired.clone();
        let on_event = self.on_event.clone();
        let options = self.tls.clone();
        let (addresses, settings) = self.check()?;
        let speaks_tls = addresses.iter().any(|address| address.speaks_tls);
        let tls = speaks_tls.then(|| Tls::new(options)).transpose();
        let tls = tls.map_err(BuildError::Tls)?;
        let nodes = addresses
            .iter()
            .map(|address| Arc::from(address.to_string()))
            .collect();
        let handle = runtime::start(
            addresses,
            connectors,
            tls,
            settings.clone(),
            Arc::clone(&clock),
            has_own_thread,
        )?;
        Ok(Redlock {
            shared: Arc::new(Shared {
                handle,
                settings,
                clock,
                nodes,
                on_acquired,
                on_event,
            }),
        })
    }

    /// The client's rules alone, for a simulation: no thread, no sockets, no clock.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    #[doc(hidden)]
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
        let (nodes, spare) = (self.nodes.len(), self.settings.spare_votes);
        if self.settings.quorum(nodes) > nodes {
            return Err(BuildError::TooManySpareVotes { spare, nodes });
        }
        let mut addresses: Vec<NodeAddress> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let address = node.address()?;
            if addresses
                .iter()
                .any(|other| other.endpoint == address.endpoint)
            {
                return Err(BuildError::Duplicate(Arc::from(address.to_string())));
            }
            if address.endpoint.fails_over() && !self.accepts_failover {
                return Err(BuildError::FailsOver(Arc::from(address.to_string())));
            }
            if let Some(feature) = runtime::missing_feature(&address.endpoint) {
                let address = Arc::from(address.to_string());
                return Err(BuildError::NotBuilt { address, feature });
            }
            addresses.push(address);
        }
        let is_alone = addresses.len() == 1;
        let other = |address: &&NodeAddress| address.endpoint.is_other_system();
        if let Some(other) = addresses.iter().find(other).filter(|_| !is_alone) {
            return Err(BuildError::NotAlone(Arc::from(other.to_string())));
        }
        Ok((addresses, self.settings))
    }
}

impl GivenNode {
    fn address(&self) -> Result<NodeAddress, AddressError> {
        match self {
            Self::At(address) => NodeAddress::parse(address),
            Self::Through(name, _) => NodeAddress::of_program(name),
        }
    }

    fn connector(&self) -> Option<Connector> {
        match self {
            Self::At(_) => None,
            Self::Through(_, connector) => Some(connector.clone()),
        }
    }
}

/// Without the passwords in the addresses, also in those that cannot be read.
impl fmt::Debug for RedlockBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |node: &GivenNode| match node.address() {
            Ok(address) => address.to_string(),
            Err(error) => error.address,
        };
        let nodes: Vec<String> = self.nodes.iter().map(shown).collect();
        formatter
            .debug_struct("RedlockBuilder")
            .field("nodes", &nodes)
            .field("settings", &self.settings)
            .field("clock", &self.clock)
            .field("has_own_thread", &self.has_own_thread)
            .finish()
    }
}
