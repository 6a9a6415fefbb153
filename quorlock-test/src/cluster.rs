//! A cluster: its parts, its beginning and its end.
//!
//! Invariant: whatever waits runs on the cluster's own thread, one change at a time, so that a dropped future leaves nothing
//! half done. The last handle that is dropped waits for all of it to end.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::Duration;

use quorlock_client::{Redlock, RedlockBuilder};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::builder::TestClusterBuilder;
use crate::history::EventHistory;
use crate::member::{Member, explained};
use crate::network::{Route, TestNetwork};
use crate::random::SeededRandom;
use crate::schedule::FaultQueue;
use crate::time::Time;

/// Nodes of one Redlock cluster in this process, and the clients, the time and the faults that go with them.
///
/// Its time stands still until [`advance`](Self::advance) moves it: a lock does not expire while a debugger has the
/// test. Faults and clients are numbered from 0. A clone is the same cluster; the last one that is dropped waits for the nodes to
/// end, and prints the [`history`](Self::history) if the thread panics.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use quorlock_test::TestCluster;
///
/// let cluster = TestCluster::five().await;
/// let guard = cluster.client().lock("job").ttl(Duration::from_secs(10)).acquire().await?;
/// cluster.kill(0).await;
/// cluster.kill(1).await;
/// cluster.advance(Duration::from_secs(60)).await; // three nodes are a majority: it was renewed
/// assert!(guard.is_valid());
/// cluster.kill(2).await;
/// cluster.advance(Duration::from_secs(10)).await;
/// assert!(!guard.is_valid());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TestCluster {
    owner: Arc<Owner>,
}

/// Ends the cluster when the last handle goes.
struct Owner {
    cluster: Arc<RunningCluster>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a cluster is made of.
pub(crate) struct RunningCluster {
    pub(crate) runtime: Handle,
    pub(crate) time: Arc<Time>,
    pub(crate) network: Arc<TestNetwork>,
    pub(crate) members: Vec<Arc<Member>>,
    pub(crate) history: EventHistory,
    pub(crate) queue: FaultQueue,
    /// Held by whatever changes a node or the time.
    pub(crate) turn: tokio::sync::Mutex<()>,
    urls: Vec<String>,
    clients: Mutex<usize>,
}

impl TestClusterBuilder {
    /// Starts the nodes. All of them serve when this returns.
    ///
    /// # Panics
    /// If a number is out of its range, or the machine has no thread or no port left, or the process may open too few files: each of its
    /// nodes keeps 96.
    pub async fn start(self) -> TestCluster {
        let nodes = self.nodes;
        assert!(
            (1..=64).contains(&nodes),
            "a cluster has 1 to 64 nodes, not {nodes}"
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("the machine has descriptors left for a cluster");
        let handle = runtime.handle().clone();
        let mut random = SeededRandom::new(self.seed);
        let member = |_| Member::new(self.fsync, self.ttl_max, random.split());
        let members: Vec<Arc<Member>> = (0..nodes).map(member).map(Arc::new).collect();
        let (time, network) = (Arc::new(Time::default()), Arc::new(TestNetwork::new(nodes)));
        let url = |(node, member): (usize, &Arc<Member>)| {
            time.add_node(member.clock());
            let route = Route { client: None, node };
            url(&network, &handle, route, member, &time)
        };
        let urls = members.iter().enumerate().map(url).collect();
        let cluster = Arc::new(RunningCluster {
            runtime: handle,
            time,
            network,
            members,
            history: EventHistory::default(),
            queue: FaultQueue::default(),
            turn: tokio::sync::Mutex::new(()),
            urls,
            clients: Mutex::new(0),
        });
        let (end, ended) = oneshot::channel();
        let ending = Arc::clone(&cluster);
        let thread = std::thread::Builder::new().name("quorlock-test".to_owned());
        let thread = thread.spawn(move || runtime.block_on(ending.run(ended)));
        let owner = Owner {
            cluster,
            end: Some(end),
            thread: Some(thread.expect("the machine has a thread left for a cluster")),
        };
        let started = TestCluster {
            owner: Arc::new(owner),
        };
        for node in 0..nodes {
            started
                .change(move |cluster| cluster.first_start(node))
                .await;
        }
        started
    }
}

impl TestCluster {
    /// Three nodes: for tests that need a majority and no more.
    pub async fn three() -> Self {
        Self::of(3).await
    }

    /// Five nodes, of which two may be away: the usual cluster, for tests with faults.
    pub async fn five() -> Self {
        Self::of(5).await
    }

    /// So many nodes, from 1 to 64.
    ///
    /// # Panics
    /// If there are none or more, or the machine has no thread or no port left.
    pub async fn of(nodes: usize) -> Self {
        Self::builder().nodes(nodes).start().await
    }

    /// Another number of nodes, fsync mode, seed, or bound of the ttl, where [`TestCluster::five`] does not fit.
    pub fn builder() -> TestClusterBuilder {
        TestClusterBuilder::new()
    }

    /// How many nodes it has, those that are down included: for loops over all of them.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it has one node at least")]
    pub fn len(&self) -> usize {
        self.cluster().members.len()
    }

    /// The address of a node for any Redis client, `redis://127.0.0.1:PORT`: the same over all its restarts. A pause and a slow
    /// node concern such a client as well.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn url(&self, node: usize) -> &str {
        self.cluster().check(node);
        &self.cluster().urls[node]
    }

    /// A new client of all nodes, on the cluster's time, with the next number: the first is client 0.
    ///
    /// # Panics
    /// If the machine has no thread or no port left.
    #[must_use]
    pub fn client(&self) -> Redlock {
        let client = self.client_builder().build();
        client.expect("the addresses are those of this cluster, and the machine has a thread left")
    }

    /// The same, to be built with settings of one's own: spare votes, the longest lifetime of a lock, its name.
    ///
    /// Build one client from each call. Clients that are built from clones of one builder have one number, are cut together, and
    /// the cluster knows the deadline of one of them only: an [`advance`](Self::advance) may pass the renewals of the others.
    ///
    /// # Panics
    /// If the machine has no port left.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = quorlock_test::TestCluster::five().await;
    /// let redlock = cluster.client_builder().spare_votes(1).build()?;
    /// assert_eq!(redlock.quorum(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_builder(&self) -> RedlockBuilder {
        let cluster = self.cluster();
        let client = {
            let mut clients = cluster
                .clients
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *clients += 1;
            *clients - 1
        };
        let url = |(node, member): (usize, &Arc<Member>)| {
            let client = Some(client);
            let route = Route { client, node };
            url(
                &cluster.network,
                &cluster.runtime,
                route,
                member,
                &cluster.time,
            )
        };
        let urls: Vec<String> = cluster.members.iter().enumerate().map(url).collect();
        let weak = Arc::downgrade(cluster);
        Redlock::builder()
            .nodes(urls)
            .clock(cluster.time.add_client())
            .on_acquired(move |guard, is_renewed| {
                if let Some(cluster) = weak.upgrade() {
                    let now = cluster.time.now();
                    cluster.history.acquired(now, client, guard, is_renewed);
                }
            })
    }

    /// The cluster's time since it was started, to be compared before and after: it moves by [`advance`](Self::advance) alone.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.cluster().time.now()
    }

    /// Whether a node's process runs, paused or not.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn is_up(&self, node: usize) -> bool {
        self.cluster().check(node);
        self.cluster().members[node].is_up()
    }

    /// Whether a node serves locks: it is up, and not in its restart delay.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn is_serving(&self, node: usize) -> bool {
        self.cluster().check(node);
        self.cluster().members[node].is_serving()
    }

    /// All faults, and what the cluster's clients acquired and lost, with the cluster's time. Printed by a test that panics.
    #[must_use]
    pub fn history(&self) -> String {
        let cluster = self.cluster();
        cluster.history.look(cluster.time.now());
        cluster.history.text()
    }

    pub(crate) fn cluster(&self) -> &Arc<RunningCluster> {
        &self.owner.cluster
    }

    /// Makes a change on the cluster's thread, in its turn. It is carried out also if this future is dropped.
    pub(crate) async fn change<F>(&self, change: impl FnOnce(Arc<RunningCluster>) -> F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let cluster = Arc::clone(self.cluster());
        let changing = change(Arc::clone(&cluster));
        let runtime = cluster.runtime.clone();
        let task = runtime.spawn(async move {
            let _turn = cluster.turn.lock().await;
            changing.await
        });
        match task.await {
            Ok(output) => output,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => unreachable!("the thread runs until the last handle is dropped"),
        }
    }
}

/// Where a client finds a node.
fn url(
    network: &Arc<TestNetwork>,
    runtime: &Handle,
    route: Route,
    member: &Arc<Member>,
    time: &Arc<Time>,
) -> String {
    let address = network.listen(runtime, route, member, time);
    let address = address.expect("the machine has a port of 127.0.0.1 left");
    format!("redis://{address}")
}

impl RunningCluster {
    /// The cluster's thread.
    async fn run(self: Arc<Self>, end: oneshot::Receiver<()>) {
        let _asked_or_gone = end.await;
        self.time.end();
        // Changes whose futures were dropped are done first.
        let turn = self.turn.lock().await;
        let members = self.members.clone();
        let ends: Vec<_> = members
            .into_iter()
            .map(|member| tokio::spawn(async move { member.kill().await }))
            .collect();
        for end in ends {
            let _ended = end.await;
        }
        drop(turn);
    }

    async fn first_start(self: Arc<Self>, node: usize) {
        let member = &self.members[node];
        let started = member.start(true).await;
        started.unwrap_or_else(|error| panic!("node {node} did not start: {}", explained(&error)));
        member.save_image();
    }

    pub(crate) fn check(&self, node: usize) {
        let nodes = self.members.len();
        assert!(
            node < nodes,
            "there is no node {node} in a cluster of {nodes}, whose first is node 0"
        );
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let cluster = &self.cluster;
        cluster.history.look(cluster.time.now());
        if std::thread::panicking() {
            eprintln!(
                "What happened in the cluster until the panic:\n{}",
                cluster.history.text()
            );
        }
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It ends by itself: it waits for nothing of this thread.
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for TestCluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TestCluster")
            .field("nodes", &self.len())
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}
