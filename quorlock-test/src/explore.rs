//! Runs a test under many schedules of faults, and shows the smallest that breaks it.
//!
//! Invariant: each run has a cluster, a runtime and a thread of its own, so that a test that panics or hangs disturbs no other.
//! The cluster's time moves by itself, from deadline to deadline, whenever the test waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::task::LocalSet;

use crate::broken::{Broken, FailedRun, HowBroken};
use crate::builder::TestClusterBuilder;
use crate::cluster::TestCluster;
use crate::random::SeededRandom;
use crate::schedule::{self, Scheduled};
use crate::shrink::shrink;
use crate::stopwatch::Stopwatch;

/// Runs `test` once for each seed, on a cluster of five nodes under the faults of that seed, until one run breaks: a
/// panic, or no end within 30 seconds of the machine's time. Then it removes faults from that schedule as long as the rest breaks the
/// test as well. [`Explorer`] has other settings.
///
/// Within a test the time moves by itself whenever everything waits, so it calls [`sleep`](TestCluster::sleep) for the time
/// that its jobs take, and rarely `advance`. It must not block its thread. The faults are those that a Redlock client withstands: nodes
/// that crash, lose power, stand still, are slow or have bad disks, a minority of them in each schedule, and the clients 0 and 1
/// cut from nodes. A schedule is repeated to the cluster's nanosecond; what the clients decide by chance is not.
///
/// # Errors
/// The smallest schedule that was found to break the test, as an error to be shown.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_test::explore;
/// use quorlock_test::quorlock_client::Wait;
///
/// // A job that does not look at its lock after a pause: another one may have it by then.
/// let broken = explore(0..50, |cluster| async move {
///     let redlock = cluster.client();
///     let lock = redlock.lock("job").ttl(Duration::from_secs(10)).wait(Wait::Forever);
///     let Ok(guard) = lock.acquire().await else { return };
///     cluster.sleep(Duration::from_secs(30)).await;
///     assert!(guard.is_valid(), "written without the lock"); // where the job writes
/// });
/// let broken = broken.expect_err("a cut of more than ten seconds takes the lock");
/// println!("{broken}"); // the seed, one or two faults, and what happened
/// assert!(broken.schedule.len() <= 3);
/// ```
pub fn explore<F>(
    seeds: impl IntoIterator<Item = u64>,
    test: impl Fn(TestCluster) -> F + Send + Sync + 'static,
) -> Result<Explored, Box<Broken>>
where
    F: Future<Output = ()>,
{
    Explorer::new().explore(seeds, test)
}

/// The settings of [`explore`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// use quorlock_test::{Explorer, TestCluster};
///
/// let explorer = Explorer::new()
///     .cluster(TestCluster::builder().nodes(3))
///     .faults_max(3)
///     .time_out(Duration::from_secs(10));
/// let explored = explorer.explore(0..3, |cluster| async move {
///     cluster.sleep(Duration::from_secs(60)).await;
/// });
/// assert_eq!(explored.map(|explored| explored.runs).ok(), Some(3));
/// ```
#[derive(Clone, Debug)]
#[must_use = "call explore()"]
pub struct Explorer {
    cluster: TestClusterBuilder,
    clients: usize,
    faults_max: usize,
    horizon: Duration,
    time_out: Duration,
}

/// What was tried and did not break: to be printed, or to assert that the seeds were as many as was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// How often the test ran.
    pub runs: u32,
}

impl Explorer {
    /// Five nodes, up to six faults within the first minute, two clients that may be cut, 30 seconds for each run.
    pub fn new() -> Self {
        Self {
            cluster: TestCluster::builder(),
            clients: 2,
            faults_max: 6,
            horizon: Duration::from_secs(60),
            time_out: Duration::from_secs(30),
        }
    }

    /// The clusters to run on, where five nodes with the defaults do not fit. The seed is that of each run.
    pub fn cluster(mut self, builder: TestClusterBuilder) -> Self {
        self.cluster = builder;
        self
    }

    /// How many clients may be cut from nodes, those with the first numbers: as many as the test makes.
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// How many faults a schedule has at most; at least one. More find rarer defects, and take longer to be made fewer.
    pub fn faults_max(mut self, faults: usize) -> Self {
        self.faults_max = faults.max(1);
        self
    }

    /// All faults begin within this time of the cluster: about as long as the test's jobs take. Later ones would meet nothing.
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// How much of the machine's time one run may take, from its cluster's start on. A test that blocks its thread is given up
    /// 30 seconds later.
    pub fn time_out(mut self, time_out: Duration) -> Self {
        self.time_out = time_out;
        self
    }

    /// The schedule of a seed: to look at it, or to carry parts of it out by [`TestCluster::apply`](crate::TestCluster::apply).
    #[must_use]
    pub fn schedule(&self, seed: u64) -> Vec<Scheduled> {
        let nodes = self.cluster.nodes;
        let mut random = SeededRandom::new(seed);
        schedule::random(
            &mut random,
            nodes,
            self.clients,
            self.faults_max,
            self.horizon,
        )
    }

    /// Runs `test` for each seed; see [`explore`].
    ///
    /// # Errors
    /// The smallest schedule that was found to break the test.
    pub fn explore<F>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        test: impl Fn(TestCluster) -> F + Send + Sync + 'static,
    ) -> Result<Explored, Box<Broken>>
    where
        F: Future<Output = ()>,
    {
        let test = Arc::new(test);
        let mut runs = 0;
        for seed in seeds {
            let mut run = |schedule: &[Scheduled]| {
                runs += 1;
                self.run(seed, schedule, &test).err()
            };
            let schedule = self.schedule(seed);
            if let Some(found) = run(&schedule) {
                let (schedule, found) = shrink(schedule, found, run);
                return Err(Box::new(Broken {
                    seed,
                    schedule,
                    how: found.how,
                    history: found.history,
                    runs,
                }));
            }
        }
        Ok(Explored { runs })
    }

    /// Runs `test` once under a given schedule: that of a [`Broken`], until it breaks no more.
    ///
    /// # Errors
    /// That schedule, if it breaks the test.
    pub fn repeat<F>(
        &self,
        seed: u64,
        schedule: &[Scheduled],
        test: impl Fn(TestCluster) -> F + Send + Sync + 'static,
    ) -> Result<Explored, Box<Broken>>
    where
        F: Future<Output = ()>,
    {
        let run = self.run(seed, schedule, &Arc::new(test));
        let broken = |found: FailedRun| Broken {
            seed,
            schedule: schedule.to_vec(),
            how: found.how,
            history: found.history,
            runs: 1,
        };
        run.map(|()| Explored { runs: 1 })
            .map_err(|found| Box::new(broken(found)))
    }

    fn run<F, T>(&self, seed: u64, schedule: &[Scheduled], test: &Arc<T>) -> Result<(), FailedRun>
    where
        T: Fn(TestCluster) -> F + Send + Sync + 'static,
        F: Future<Output = ()>,
    {
        let (started, starts) = mpsc::channel();
        let (outcome, ended) = mpsc::channel();
        let builder = self.cluster.clone().seed(seed);
        let (schedule, test) = (schedule.to_vec(), Arc::clone(test));
        let time_out = self.time_out;
        let thread = std::thread::Builder::new().name("quorlock-explore".to_owned());
        let thread = thread.spawn(move || {
            run_here(builder, &schedule, &*test, time_out, started, outcome);
        });
        let thread = thread.expect("the machine has a thread left for a run");
        // A cluster that cannot start panics.
        let _started_or_gone = starts.recv();
        let outcome = match ended.recv_timeout(time_out.saturating_add(GRACE)) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => {
                return Err(FailedRun::before_end(HowBroken::Blocked(time_out)));
            }
            Err(RecvTimeoutError::Disconnected) => Ok(()),
        };
        // The cluster ends. What the test has left behind may block that, which does not change the outcome.
        let is_over = ended.recv_timeout(GRACE);
        if matches!(is_over, Err(RecvTimeoutError::Timeout)) {
            return outcome;
        }
        let panicked = |panic| FailedRun::before_end(HowBroken::Panicked(message(panic)));
        outcome.and(thread.join().map_err(panicked))
    }
}

/// One run, on a thread of its own.
fn run_here<F: Future<Output = ()>>(
    builder: TestClusterBuilder,
    schedule: &[Scheduled],
    test: &impl Fn(TestCluster) -> F,
    time_out: Duration,
    started: mpsc::Sender<()>,
    outcome: mpsc::Sender<Result<(), FailedRun>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("the machine has descriptors left for a run");
    let local = LocalSet::new();
    let cluster = local.block_on(&runtime, builder.start());
    // The time of the test is counted from here on.
    drop(started);
    let began = Stopwatch::start();
    cluster.cluster().queue.plan(schedule);
    let run = async {
        let driver = async {
            while began.elapsed() < time_out {
                cluster.step_on().await;
            }
        };
        tokio::select! {
            biased;
            () = test(cluster.clone()) => None,
            () = driver => Some(HowBroken::TimedOut(time_out)),
        }
    };
    let ended = catch_unwind(AssertUnwindSafe(|| local.block_on(&runtime, run)));
    let how = ended.unwrap_or_else(|panic| Some(HowBroken::Panicked(message(panic))));
    let history = cluster.history();
    // Nobody listens any more where the test has blocked its thread.
    let _late = outcome.send(how.map_or(Ok(()), |how| Err(FailedRun { how, history })));
    // What the test has left running has the cluster as well.
    drop(local);
    runtime.shutdown_background();
}

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

impl Default for Explorer {
    fn default() -> Self {
        Self::new()
    }
}

/// For the cluster's own part of a run: a busy machine lets it go on late.
const GRACE: Duration = Duration::from_secs(30);
