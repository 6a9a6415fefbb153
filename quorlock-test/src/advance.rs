//! How a cluster's time moves: from deadline to deadline, and each time on only when everything that was due is done.
//!
//! Invariant: while a request is on its way that is not held back, time stands still. So a renewal that is due within an advance is
//! sent and answered at its time, however busy the machine is.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{RunningCluster, TestCluster};
use crate::stopwatch::Stopwatch;
use crate::time::TIME_MAX;

impl TestCluster {
    /// Moves the time of all nodes and clients on by `by`. Renewals, retries, restart delays and late replies happen at their times on
    /// the way. Whatever waits for the time goes on meanwhile if its runtime lets it, so a call that has to wait
    /// and an advance go together: `tokio::join!(lock.acquire(), cluster.advance(ttl))`.
    ///
    /// A cluster's time ends after 100 years, so `Duration::MAX` moves it there. More than 5,000 steps are not made: the rest of the
    /// time passes at once, as on machines that sleep, and locks are lost by it. The [`history`](Self::history) notes it.
    ///
    /// The threads of nodes that write and sync logs are not waited for. What is synced once this returns depends on the scheduler,
    /// unless [`Fsync::Always`](crate::Fsync::Always) has each reply wait for its sync.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let cluster = quorlock_test::TestCluster::three().await;
    /// let lease = cluster.client().lock("job").ttl(Duration::from_secs(10)).acquire_lease().await?;
    /// cluster.advance(Duration::from_secs(10)).await; // nobody renews a lease
    /// assert!(!lease.is_valid());
    /// cluster.assert_free("job").await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advance(&self, by: Duration) {
        let time = &self.cluster().time;
        let target = time.now().saturating_add(by).min(TIME_MAX);
        // Nothing else moves the time further meanwhile.
        let _sleeper = time.sleep_until(target);
        for steps in 0_u32.. {
            self.settle().await;
            let next = self.cluster().next();
            if time.now() >= target {
                return;
            }
            let mut at = next.map_or(target, |next| next.min(target));
            if at < target && steps >= STEPS_MAX {
                let text = format!(
                    "the rest of an advance passes at once: it has more than {STEPS_MAX} steps"
                );
                self.cluster().history.note(time.now(), text);
                at = target;
            }
            self.change(move |cluster| cluster.step(at)).await;
        }
    }

    /// Waits for `by` of the cluster's time, which something else must move: an [`advance`](Self::advance), or
    /// [`explore`](crate::explore). For jobs that take time in a test.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    ///
    /// let cluster = quorlock_test::TestCluster::three().await;
    /// let hour = Duration::from_secs(3600);
    /// tokio::join!(cluster.sleep(hour), cluster.advance(hour));
    /// assert_eq!(cluster.now(), hour);
    /// # }
    /// ```
    pub fn sleep(&self, by: Duration) -> impl Future<Output = ()> + Send + use<> {
        let time = &self.cluster().time;
        time.sleep_until(time.now().saturating_add(by).min(TIME_MAX))
    }

    /// Waits until all that is due now is done: no request is on its way, and no client has anything to do before its next deadline.
    pub(crate) async fn settle(&self) {
        let began = Stopwatch::start();
        let mut seen = None;
        while began.elapsed() < SETTLES_WITHIN {
            // Other tasks of the caller's runtime go on.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            let traffic = self.change(RunningCluster::quiet).await;
            if seen == Some(traffic) {
                return;
            }
            seen = Some(traffic);
        }
    }

    /// Moves the time on to whatever comes next, if something does; for `explore`.
    pub(crate) async fn step_on(&self) {
        self.settle().await;
        match self.cluster().next() {
            Some(next) => self.change(move |cluster| cluster.step(next)).await,
            None => {
                // Made on the cluster's thread: the caller's runtime need not have timers.
                let pause = async { tokio::time::sleep(NOTHING_TO_DO).await };
                self.change(|_| pause).await;
            }
        }
    }
}

impl RunningCluster {
    /// When something happens next.
    fn next(&self) -> Option<Duration> {
        let now = self.time.now();
        let delays = self.members.iter().filter_map(|member| member.delay_left());
        let delays = delays.map(|left| now.saturating_add(left));
        let others = self.time.next().into_iter().chain(self.queue.next());
        let next = delays.chain(others).min();
        // What could not be done at its time does not hold the time up.
        next.map(|next| next.max(now.saturating_add(STEP_MIN)))
    }

    async fn step(self: Arc<Self>, at: Duration) {
        self.time.move_to(at);
        for member in &self.members {
            member.end_delay().await;
        }
        let now = self.time.now();
        while let Some(fault) = self.queue.take_due(now) {
            self.inject(&fault).await;
        }
        self.history.look(now);
    }

    /// Waits until nothing moves. Returns how much has moved until then.
    async fn quiet(self: Arc<Self>) -> u64 {
        self.history.look(self.time.now());
        let began = Stopwatch::start();
        let (mut rounds, mut seen) = (0, None);
        while rounds < QUIET_ROUNDS && began.elapsed() < SETTLES_WITHIN {
            let traffic = self.round().await;
            rounds = if traffic.is_some() && traffic == seen {
                rounds + 1
            } else {
                0
            };
            seen = traffic;
        }
        self.network.traffic()
    }

    /// Lets clients and connections look once. Returns how much has moved, if nothing was due.
    async fn round(&self) -> Option<u64> {
        let clients = self.time.clients();
        let passes: Vec<_> = clients.iter().map(|client| client.pass()).collect();
        for pass in passes {
            pass.await;
        }
        // The connections' tasks go on, and this thread looks at its sockets.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        let is_busy = self.network.is_owed() || self.time.is_client_due();
        (!is_busy).then(|| self.network.traffic())
    }
}

/// Clients tell their time in nanoseconds, nodes in milliseconds.
const STEP_MIN: Duration = Duration::from_nanos(1);

const STEPS_MAX: u32 = 5_000;
const QUIET_ROUNDS: u32 = 2;

/// Of the machine's time: a node that does not answer within it is not waited for.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);

const NOTHING_TO_DO: Duration = Duration::from_millis(1);
