//! What `explore` finds, and how small it makes it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use quorlock_client::{Redlock, Wait};
use quorlock_test::{ClusterFault, Explorer, HowBroken, Scheduled, TestCluster, explore};

const SECOND: Duration = Duration::from_secs(1);

/// A counter in a database, and the job that adds one to it: it reads, works for a while, and writes.
#[derive(Default)]
struct Counter {
    value: RefCell<u32>,
    /// The largest fence that it was told; 0 where jobs have none.
    fence: Cell<u64>,
}

/// What the job does against a late write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    Nothing,
    /// It looks at its lock before it writes, with no pause in between.
    Check,
    /// The counter knows its fence.
    Fence,
}

impl Counter {
    async fn job(&self, cluster: &TestCluster, redlock: &Redlock, care: Care) {
        let mut lock = redlock.lock("job").ttl(10 * SECOND).wait(Wait::Forever);
        if care == Care::Fence {
            // Nodes that lost power take fences again; their disks have kept what they acknowledged.
            let _nodes = redlock.sync_fences_of_trusted_disks().await;
            lock = lock.fenced().wait(Wait::For(60 * SECOND));
        }
        let Ok(guard) = lock.acquire().await else {
            return;
        };
        let fence = guard.fence().unwrap_or(0);
        if !self.takes(fence) {
            return;
        }
        let read = *self.value.borrow();
        cluster.sleep(15 * SECOND).await; // a pause, or work that takes longer than the lock
        if care == Care::Check && !guard.is_valid() {
            return;
        }
        if self.takes(fence) {
            let before = self.value.replace(read + 1);
            assert_eq!(before, read, "an update was lost");
        }
        let _released = guard.release().await;
    }

    /// Whether it lets a job with this fence read or write: none with a larger one has come.
    fn takes(&self, fence: u64) -> bool {
        self.fence.set(self.fence.get().max(fence));
        self.fence.get() == fence
    }
}

/// Three nodes, and twice the time that the four jobs take.
fn explorer() -> Explorer {
    let cluster = TestCluster::builder().nodes(3);
    Explorer::new().cluster(cluster).horizon(60 * SECOND)
}

async fn two_workers(cluster: TestCluster, care: Care) {
    let (first, second) = (cluster.client(), cluster.client());
    let counter = Rc::new(Counter::default());
    let worker = async |redlock: &Redlock| {
        for _ in 0..2 {
            counter.job(&cluster, redlock, care).await;
        }
    };
    tokio::join!(worker(&first), worker(&second));
    cluster.assert_at_most_one_holder().await;
}

#[test]
fn a_job_that_does_not_check_its_lock_before_it_writes_is_caught_and_passes_with_a_fence() {
    let broken = explorer()
        .explore(0..100, |cluster| two_workers(cluster, Care::Nothing))
        .unwrap_err();
    let message = "an update was lost";
    assert!(broken.to_string().contains(message), "{broken}");
    let of_a_client = |scheduled: &Scheduled| {
        matches!(
            scheduled.fault,
            ClusterFault::CutOff(_) | ClusterFault::Cut { .. }
        )
    };
    assert!((1..=3).contains(&broken.schedule.len()), "{broken}");
    assert!(broken.schedule.iter().any(of_a_client), "{broken}");
    // The report repeats it, wherever the same of the two workers comes first.
    let again = || {
        let again = explorer().repeat(broken.seed, &broken.schedule, |cluster| {
            two_workers(cluster, Care::Nothing)
        });
        again.is_err_and(|again| again.to_string().contains(message))
    };
    assert!((0..100).any(|_| again()), "{broken}");
    // Where the counter knows fences the job may stay as careless as it is.
    for _ in 0..5 {
        let fenced = explorer().repeat(broken.seed, &broken.schedule, |cluster| {
            two_workers(cluster, Care::Fence)
        });
        fenced.unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn the_same_job_with_a_check_passes() {
    let explored = explorer().explore(0..10, |cluster| two_workers(cluster, Care::Check));
    assert_eq!(
        explored.unwrap_or_else(|broken| panic!("{broken}")).runs,
        10
    );
}

#[test]
fn a_test_that_breaks_without_faults_is_reported_with_none() {
    let test = |cluster: TestCluster| async move {
        cluster.sleep(SECOND).await;
        panic!("always");
    };
    let broken = explore([7], test).unwrap_err();
    assert_eq!((broken.seed, broken.schedule.len(), broken.runs), (7, 0, 2));
    assert!(
        broken.to_string().contains("the test panicked: always"),
        "{broken}"
    );
}

#[test]
fn a_test_that_panics_before_it_waits_is_reported() {
    let test = |_cluster: TestCluster| -> std::future::Ready<()> { panic!("at once") };
    let broken = explore([1], test).unwrap_err();
    assert_eq!(broken.how, HowBroken::Panicked("at once".to_owned()));
}

#[test]
fn a_test_that_waits_for_nothing_is_ended() {
    let limit = Duration::from_millis(300);
    let explorer = Explorer::new().time_out(limit);
    let broken = explorer
        .explore([1], |_| std::future::pending())
        .unwrap_err();
    assert_eq!((&broken.how, broken.runs), (&HowBroken::TimedOut(limit), 1));
    assert!(broken.to_string().contains("the test hangs"), "{broken}");
}

#[test]
fn a_test_that_blocks_its_thread_is_left_behind() {
    let explorer = Explorer::new().time_out(Duration::from_millis(100));
    let (ends, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let test = move |_cluster: TestCluster| {
        let _ended = waits.lock().unwrap().recv();
        std::future::ready(())
    };
    let broken = explorer.explore([1], test).unwrap_err();
    assert!(matches!(broken.how, HowBroken::Blocked(_)), "{broken}");
    drop(ends);
}

/// A task that the test has left behind, and that does not end.
struct BlocksAtItsEnd(mpsc::Receiver<()>);

impl Drop for BlocksAtItsEnd {
    fn drop(&mut self) {
        let _ended = self.0.recv();
    }
}

#[test]
fn a_test_that_has_passed_counts_as_passed_though_its_end_blocks() {
    let (ends, waits) = mpsc::channel();
    let waits = Mutex::new(Some(waits));
    let test = move |_cluster: TestCluster| {
        let left_behind = BlocksAtItsEnd(waits.lock().unwrap().take().unwrap());
        async move {
            tokio::task::spawn_local(async move {
                let _left_behind = left_behind;
                std::future::pending::<()>().await;
            });
        }
    };
    let explored = Explorer::new().explore([1], test);
    assert_eq!(explored.map(|explored| explored.runs).ok(), Some(1));
    drop(ends);
}

/// The node that a fault goes wrong with. A cut is between: it may concern any.
fn ailing(scheduled: &Scheduled) -> Option<usize> {
    match scheduled.fault {
        ClusterFault::Cut { .. } | ClusterFault::CutOff(_) => None,
        ClusterFault::Kill(node)
        | ClusterFault::LosePower(node)
        | ClusterFault::Pause(node)
        | ClusterFault::Slow(node, _)
        | ClusterFault::DiskFull(node)
        | ClusterFault::FailSync(node) => Some(node),
        ref other => panic!("{other} is no fault of a schedule"),
    }
}

#[test]
fn a_seed_has_one_schedule_and_a_minority_of_nodes_in_it() {
    let explorer = Explorer::new();
    for seed in 0..200 {
        let schedule = explorer.schedule(seed);
        assert_eq!(schedule, explorer.schedule(seed));
        assert!((1..=6).contains(&schedule.len()));
        let nodes: BTreeSet<usize> = schedule.iter().filter_map(ailing).collect();
        assert!(nodes.len() <= 2, "seed {seed}: {schedule:?}");
    }
    assert_ne!(explorer.schedule(1), explorer.schedule(2));
}
