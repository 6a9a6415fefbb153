//! Clients that want one lock, each on connections of its own, and how long each waits for its turn.

use std::time::{Duration, Instant};

use quorlock_client::{Redlock, Wait};
use serde_json::json;

use crate::Outcome;

/// Has so many clients take the lock so often altogether, for a few milliseconds each, and says as JSON how long they
/// waited for it.
pub async fn run(nodes: &[&str], clients: usize, turns: usize) -> Outcome<String> {
    let mut running = Vec::new();
    for _ in 0..clients {
        let redlock = Redlock::builder().nodes(nodes.iter().copied()).build()?;
        running.push(tokio::spawn(async move {
            client(&redlock, turns / clients).await
        }));
    }
    let mut waits = Vec::new();
    for client in running {
        waits.extend(client.await??);
    }
    waits.sort();
    let at = |permille: usize| {
        waits[(waits.len() * permille / 1000).min(waits.len() - 1)].as_secs_f64() * 1e3
    };
    let (median, p99) = (at(500), at(990));
    let report = json!({
        "median_ms": median,
        "p99_ms": p99,
        "worst_ms": at(1000),
        "p99_by_median": p99 / median,
    });
    Ok(report.to_string())
}

async fn client(redlock: &Redlock, turns: usize) -> Outcome<Vec<Duration>> {
    let mut waits = Vec::with_capacity(turns);
    for _ in 0..turns {
        let start = Instant::now();
        let request = redlock.lock("turns").ttl(TTL).wait(Wait::Forever);
        let guard = request.acquire().await?;
        waits.push(start.elapsed());
        tokio::time::sleep(WORK).await;
        let _released = guard.release().await;
    }
    Ok(waits)
}

const TTL: Duration = Duration::from_secs(10);
const WORK: Duration = Duration::from_millis(5);
