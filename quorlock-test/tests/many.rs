//! Many clusters at once, and what is left of them: nothing.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(
    clippy::disallowed_methods,
    reason = "how long it takes, and threads that end by themselves: no lock depends on it"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quorlock_test::TestCluster;

/// The counts are the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// One test of a user's: a lock survives the loss of a minority, and is free at the end.
async fn one(seed: u64) {
    let cluster = TestCluster::builder().seed(seed).start().await;
    let redlock = cluster.client();
    let lock = redlock.lock("job").ttl(Duration::from_secs(10));
    let guard = lock.acquire().await.unwrap();
    cluster.kill(0).await;
    cluster.pause(1).await;
    cluster.advance(Duration::from_secs(30)).await;
    assert!(guard.is_valid(), "{}", cluster.history());
    cluster.resume(1).await;
    cluster.restart(0).await;
    let _released = tokio::join!(
        guard.release_everywhere(),
        cluster.advance(Duration::from_secs(70))
    );
    cluster.assert_free("job").await;
    cluster.assert_at_most_one_holder().await;
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Threads, descriptors, and what is in the folder for temporary files under the name of the project.
fn in_use() -> [usize; 3] {
    let temporary = std::fs::read_dir(std::env::temp_dir()).unwrap();
    let ours = |entry: &std::io::Result<std::fs::DirEntry>| {
        let name = entry.as_ref().map(|entry| entry.file_name());
        name.is_ok_and(|name| name.to_string_lossy().contains("quorlock"))
    };
    [
        entries("/proc/self/task"),
        entries("/proc/self/fd"),
        temporary.filter(ours).count(),
    ]
}

fn run(clusters: usize, threads: usize) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    // What the first one starts for the process stays.
    runtime().block_on(one(0));
    let before = settled(&[usize::MAX; 3]);
    let (next, most) = (AtomicUsize::new(0), Mutex::new([0; 3]));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= clusters {
                        return;
                    }
                    runtime().block_on(one(u64::try_from(number).unwrap()));
                    let now = in_use();
                    let mut most = most.lock().unwrap();
                    *most = std::array::from_fn(|place| most[place].max(now[place]));
                }
            });
        }
    });
    let took = began.elapsed();
    let after = settled(&before);
    eprintln!(
        "{clusters} clusters on {threads} threads in {took:?}; threads, descriptors, temporary files: before {before:?}, at most {:?}, \
         after {after:?}",
        most.lock().unwrap()
    );
    assert!(
        after
            .iter()
            .zip(&before)
            .all(|(after, before)| after <= before)
    );
}

/// What is in use once the clients' threads, which end by themselves, have ended.
fn settled(goal: &[usize; 3]) -> [usize; 3] {
    let began = Instant::now();
    let mut last = in_use();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = in_use();
        let is_there = now.iter().zip(goal).all(|(now, goal)| now <= goal);
        if (now == last && is_there) || began.elapsed() > Duration::from_secs(20) {
            return now;
        }
        last = now;
    }
}

#[test]
fn sixty_clusters_leave_nothing_behind() {
    run(60, 6);
}

#[test]
#[ignore = "a measurement: a thousand clusters, 20 at once, take minutes"]
fn a_thousand_clusters_leave_nothing_behind() {
    run(1_000, 20);
}
