//! What a guard keeps where its locks are on another system: Redis with Sentinel, Redis Cluster, etcd or PostgreSQL.
//!
//! Run it with `QUORLOCK_NODES=etcd://127.0.0.1:2379 cargo run --example other_system`. Callers of two clients take one lock in
//! turns, a fence is asked for, a dropped guard wakes a caller that waits, and a lock is taken from its holder. The program
//! ends with an error at the first thing that is not so.
//!
//! On loss: the holder is told while its lease lasts, and its release does not free the lock of the next one. The second
//! client releases the lock with the token of the first to bring that about. With the argument `by-hand` the program prints
//! `delete NAME` instead, and reads a line once somebody has deleted the lock on the system.
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorlock::{AcquireError, Redlock, Wait};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let address = std::env::var("QUORLOCK_NODES");
    let address = address.map_err(|_| "QUORLOCK_NODES has to name one system")?;
    let is_by_hand = std::env::args().nth(1).as_deref() == Some("by-hand");
    // A failover of Sentinels and of Redis Cluster may lose a lock: a program has to accept that.
    let client = || {
        let builder = Redlock::builder().node(address.as_str());
        builder.accept_failover().build()
    };
    let clients = [client()?, client()?];
    one_holder(&clients).await?;
    fences(&clients[0]).await?;
    woken(&clients).await?;
    lost(&clients, is_by_hand).await?;
    for client in clients {
        client.close().await;
    }
    Ok(())
}

/// Callers take one lock in turns, and drop their guards.
async fn one_holder(clients: &[Redlock; 2]) -> Outcome<()> {
    let inside = Arc::new(AtomicU32::new(0));
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let client = clients[number % 2].clone();
        let inside = Arc::clone(&inside);
        callers.spawn(async move {
            for _ in 0..TURNS {
                let request = client.lock("other-system:turns").wait(PATIENCE);
                let guard = request.acquire().await?;
                let others = inside.fetch_add(1, Ordering::SeqCst);
                check(others == 0, "the lock has two holders")?;
                sleep(Duration::from_millis(5)).await;
                check(guard.is_valid(), "a lock is lost within its ttl")?;
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    println!("one holder at a time, of {CALLERS} callers");
    Ok(())
}

/// Each holder has a larger fence than the one before, or the system has none and says so.
async fn fences(client: &Redlock) -> Outcome<()> {
    let mut last = 0;
    for _ in 0..2 {
        let request = client.lock("other-system:fence").fenced().wait(Wait::None);
        let guard = match request.acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                let reason = error.to_string().replace('\n', " ");
                println!("no fences: {reason}");
                return Ok(());
            }
        };
        let fence = guard.fence().ok_or("the guard has no fence")?;
        guard.extend().await?;
        check(guard.fence() == Some(fence), "a renewal changes the fence")?;
        check(fence > last, "a fence is not larger than the one before")?;
        last = fence;
        check(!guard.release().await.was_lost(), "a lock was lost")?;
    }
    println!("fences rise");
    Ok(())
}

/// A dropped guard wakes a caller of another client that waits.
async fn woken([one, other]: &[Redlock; 2]) -> Outcome<()> {
    let name = "other-system:wanted";
    let mut times = Vec::new();
    for _ in 0..5 {
        let guard = one.lock(name).ttl(LONG).wait(PATIENCE).acquire().await?;
        let second = tokio::spawn(other.lock(name).wait(PATIENCE).acquire());
        // It has asked once, or stands in line at once, and is about to listen.
        sleep(Duration::from_millis(500)).await;
        check(!second.is_finished(), "a second caller need not wait")?;
        let dropped = Instant::now();
        drop(guard);
        let guard = second.await??;
        times.push(dropped.elapsed());
        check(!guard.release().await.was_lost(), "a lock was lost")?;
    }
    times.sort();
    let median = times[times.len() / 2];
    check(median < WOKEN_MAX, &format!("woken after {times:?}"))?;
    println!("who waits is woken");
    Ok(())
}

/// A holder whose lock is gone and has another holder is told.
async fn lost([one, other]: &[Redlock; 2], is_by_hand: bool) -> Outcome<()> {
    let name = "other-system:lost";
    let guard = one.lock(name).ttl(TTL).wait(PATIENCE).acquire().await?;
    let begun = Instant::now();
    // A renewal takes the lock again where that comes first.
    let second = loop {
        if is_by_hand {
            println!("delete {name}");
            io::stdin().read_line(&mut String::new())?;
        } else {
            let _freed = other.release(name, guard.token()).await;
        }
        match other.lock(name).ttl(LONG).wait(Wait::None).acquire().await {
            Ok(second) => break second,
            Err(AcquireError::Busy { .. }) if begun.elapsed() < TTL => {}
            Err(error) => return Err(error.into()),
        }
    };
    let told = timeout(TOLD_MAX, guard.lost()).await;
    let loss = told.map_err(|_| "the holder is not told of the loss")?;
    check(!guard.is_valid(), "a lost lock is valid")?;
    check(guard.release().await.was_lost(), "a release hides the loss")?;
    let third = one.lock(name).wait(Wait::None).acquire().await;
    let is_kept = matches!(third, Err(AcquireError::Busy { .. })) && second.is_valid();
    check(is_kept, "the lock of the next holder was freed")?;
    check(!second.release().await.was_lost(), "a lock was lost")?;
    println!("a loss is told: {loss}");
    Ok(())
}

fn check(is_so: bool, otherwise: &str) -> Outcome<()> {
    match is_so {
        true => Ok(()),
        false => Err(otherwise.into()),
    }
}

const CALLERS: usize = 8;
const TURNS: usize = 5;
const PATIENCE: Wait = Wait::For(Duration::from_secs(30));
const WOKEN_MAX: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);
/// Renewals come at a third of it.
const TTL: Duration = Duration::from_secs(9);
/// Before the lease is over.
const TOLD_MAX: Duration = Duration::from_secs(6);
