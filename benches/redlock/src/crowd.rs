//! Callers of one client that wait for one lock and give up together, beside a lock that the same client keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quorlock_client::{AcquireError, Redlock, Wait};
use serde_json::json;
use tokio::sync::Barrier;

use crate::Outcome;

/// How the waits of the callers ended.
#[derive(Debug, Default)]
struct Ends {
    busy: usize,
    no_quorum: usize,
    others: usize,
    /// How long the last of them took beyond its wait.
    latest: Duration,
}

/// Has so many callers wait for a lock that another client holds, and says as JSON what they were told, how long the
/// client's thread was busy, and whether a lock of 3 s that the same client holds has lived.
pub async fn run(nodes: &[&str], callers: usize) -> Outcome<String> {
    let open = || Redlock::builder().nodes(nodes.iter().copied()).build();
    let other = open()?;
    let held = other.lock("crowd").ttl(TTL_HELD).acquire().await?;
    let redlock = open()?;
    let guard = redlock.lock("beside").ttl(TTL_BESIDE).acquire().await?;
    let watch = tokio::spawn(longest_wait(redlock.clone()));
    let busy_before = thread_time()?;
    let start = Instant::now();
    let ends = wait_all(&redlock, callers).await?;
    let took = start.elapsed();
    // The next renewal of the lock beside shows that it goes on.
    tokio::time::sleep(TTL_BESIDE).await;
    let busy = thread_time()?.saturating_sub(busy_before);
    watch.abort();
    let report = json!({
        "callers": callers,
        "busy": ends.busy,
        "no_quorum": ends.no_quorum,
        "others": ends.others,
        "latest_ms": ends.latest.as_secs_f64() * 1e3,
        "took_ms": took.as_secs_f64() * 1e3,
        "thread_busy_ms": busy.as_secs_f64() * 1e3,
        "longest_unanswered_ms": LONGEST_MS.load(Ordering::Relaxed),
        "lock_beside_lives": guard.loss().is_none() && guard.is_valid(),
    });
    let _released = guard.release().await;
    let _released = held.release().await;
    Ok(report.to_string())
}

async fn wait_all(redlock: &Redlock, callers: usize) -> Outcome<Ends> {
    let begin = Arc::new(Barrier::new(callers));
    let wait_one = |_| {
        let (redlock, begin) = (redlock.clone(), Arc::clone(&begin));
        tokio::spawn(async move {
            let request = redlock.lock("crowd").ttl(TTL_HELD).wait(Wait::For(WAIT));
            let request = request.on_wait(|_| {});
            begin.wait().await;
            let start = Instant::now();
            (request.acquire().await.err(), start.elapsed())
        })
    };
    let waiting: Vec<_> = (0..callers).map(wait_one).collect();
    let mut ends = Ends::default();
    for caller in waiting {
        let (error, waited) = caller.await?;
        match error {
            Some(AcquireError::Busy { .. }) => ends.busy += 1,
            Some(error @ AcquireError::NoQuorum { .. }) => {
                if ends.no_quorum == 0 {
                    eprintln!("{error}");
                }
                ends.no_quorum += 1;
            }
            other => {
                if ends.others == 0 {
                    eprintln!("{other:?}");
                }
                ends.others += 1;
            }
        }
        ends.latest = ends.latest.max(waited.saturating_sub(WAIT));
    }
    Ok(ends)
}

/// Asks the client's thread again and again for what it answers at once, and notes the longest that it took.
async fn longest_wait(redlock: Redlock) {
    loop {
        let start = Instant::now();
        let _counted = redlock.statistics().await;
        let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        LONGEST_MS.fetch_max(took, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The time that the threads of all clients have run.
fn thread_time() -> Outcome<Duration> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // A thread may end between the listing and the reading.
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.trim() != "quorlock-client" {
            continue;
        }
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        let spent = text
            .split(' ')
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        nanoseconds += spent.unwrap_or_default();
    }
    Ok(Duration::from_nanos(nanoseconds))
}

static LONGEST_MS: AtomicU64 = AtomicU64::new(0);
const TTL_HELD: Duration = Duration::from_secs(60);
const TTL_BESIDE: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_secs(3);
