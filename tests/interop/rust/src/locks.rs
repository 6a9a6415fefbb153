//! rslock over all nodes: acquire, refuse, extend, release, expire, and ten callers at once.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{Client, cmd};
use rslock::LockManager;

use crate::{Failure, Report, expect};

const TTL: Duration = Duration::from_secs(10);

pub async fn run(report: &mut Report, urls: &[String], delayed: Option<&str>) {
    let suffix = delayed.map_or("", |_| " with a node in its restart delay");
    let serving: Vec<String> =
        urls.iter().filter(|url| Some(url.as_str()) != delayed).cloned().collect();
    let mut add =
        |scenario: &str, outcome| report.add(&format!("rslock: {scenario}{suffix}"), outcome);
    let name = |case: &str| format!("interop:rslock:{case}:{}", std::process::id());
    let refused = refuses(urls, &name("refused")).await;
    add("acquires, and a second owner is refused", refused);
    add("extends", extends(urls, &name("extend")).await);
    add("releases on every node", releases(urls, &serving, &name("release")).await);
    add("expires", expires(urls, &name("expire")).await);
    add("ten callers, no overlap", excludes(urls, &name("ten")).await);
}

/// A manager that tries once.
fn manager(urls: &[String]) -> LockManager {
    let mut manager = LockManager::new(urls.iter().map(String::as_str).collect());
    manager.set_retry(1, Duration::from_millis(10));
    manager
}

async fn refuses(urls: &[String], name: &str) -> Result<(), Failure> {
    let lock = manager(urls).lock(name, TTL).await?;
    expect(manager(urls).lock(name, TTL).await.is_err(), "a second owner got the lock")?;
    lock.release().await;
    Ok(())
}

async fn extends(urls: &[String], name: &str) -> Result<(), Failure> {
    let owner = manager(urls);
    let lock = owner.lock(name, Duration::from_secs(2)).await?;
    let extended = owner.extend(&lock, TTL).await?;
    let mut connection = connect(&urls[0]).await?;
    let left: i64 = cmd("PTTL").arg(name).query_async(&mut connection).await?;
    expect((5_000..=10_000).contains(&left), format!("{left} ms are left after the extension"))?;
    extended.release().await;
    Ok(())
}

async fn releases(urls: &[String], serving: &[String], name: &str) -> Result<(), Failure> {
    manager(urls).lock(name, TTL).await?.release().await;
    for url in serving {
        let mut connection = connect(url).await?;
        let count: i64 = cmd("EXISTS").arg(name).query_async(&mut connection).await?;
        expect(count == 0, format!("the key is still on {url}"))?;
    }
    manager(urls).lock(name, TTL).await?.release().await;
    Ok(())
}

async fn expires(urls: &[String], name: &str) -> Result<(), Failure> {
    let short = Duration::from_millis(400);
    let _held = manager(urls).lock(name, short).await?;
    expect(manager(urls).lock(name, short).await.is_err(), "a second owner got the lock")?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    manager(urls).lock(name, TTL).await?.release().await;
    Ok(())
}

async fn excludes(urls: &[String], name: &str) -> Result<(), Failure> {
    let held: Arc<Mutex<Vec<(Instant, Instant)>>> = Arc::default();
    let mut callers = Vec::new();
    for _ in 0..10 {
        let (urls, name, held) = (urls.to_vec(), name.to_owned(), held.clone());
        callers.push(tokio::spawn(async move {
            let mut owner = manager(&urls);
            owner.set_retry(5_000, Duration::from_millis(10));
            for _ in 0..3 {
                let lock = owner.lock(name.as_str(), TTL).await?;
                let start = Instant::now();
                tokio::time::sleep(Duration::from_millis(2)).await;
                held.lock().map_err(|e| e.to_string())?.push((start, Instant::now()));
                lock.release().await;
            }
            Ok::<(), Failure>(())
        }));
    }
    for caller in callers {
        caller.await??;
    }
    let mut held = held.lock().map_err(|e| e.to_string())?.clone();
    held.sort();
    let overlaps = held.windows(2).filter(|pair| pair[1].0 < pair[0].1).count();
    expect((held.len(), overlaps) == (30, 0), format!("{} holds, {overlaps} overlaps", held.len()))
}

async fn connect(url: &str) -> Result<redis::aio::MultiplexedConnection, Failure> {
    Ok(Client::open(url)?.get_multiplexed_async_connection().await?)
}
