//! A nightly job that cron starts on several machines and that one of them does.
//!
//! Run it with `cargo run --example nightly_job`. Two machines start the job at the same time; the
//! one that gets the lock does it, the other one ends without an error.
//!
//! On loss: `guard.run` drops the job at its next await, before anybody else can have the lock where renewals
//! fail (an operator who removes it is noticed up to a third of the ttl later), and
//! the program ends with an error, so that somebody looks after the half done work. A job that
//! cannot be dropped anywhere (a database transaction, say) asks `guard.is_valid()` before its last
//! step. While renewals fail, `guard.renewal_failing()` tells it before the loss.
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

mod cluster;

use std::time::Duration;

use quorlock::{AcquireError, Redlock, Wait};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = cluster::nodes().await?;
    let machine = || Redlock::builder().nodes(&cluster.addresses).build();
    let (first, second) = (machine()?, machine()?);
    let (first, second) = tokio::join!(nightly("first", first), async {
        sleep(Duration::from_millis(100)).await;
        nightly("second", second).await
    });
    first?;
    second
}

async fn nightly(machine: &str, redlock: Redlock) -> Result<(), Box<dyn std::error::Error>> {
    let lock = redlock.lock("nightly-report").ttl(TTL).wait(Wait::None);
    let guard = match lock.acquire().await {
        Ok(guard) => guard,
        Err(AcquireError::Busy { .. }) => {
            println!("{machine}: another machine does it");
            redlock.close().await;
            return Ok(());
        }
        // Too few nodes answer: nobody may do the job now.
        Err(error) => return Err(error.into()),
    };
    let warned = guard.watch();
    let warn = tokio::spawn(async move {
        warned.renewal_failing().await;
        println!("the lock is lost soon, unless the nodes come back");
    });
    let done = guard.run(report()).await;
    warn.abort();
    let release = guard.release().await;
    redlock.close().await;
    let pages = done?;
    if release.was_lost() {
        return Err("the lock was lost at the very end: check the report".into());
    }
    println!("{machine}: the report has {pages} pages");
    Ok(())
}

/// The work. It takes longer than a lease; the guard renews the lock meanwhile.
async fn report() -> u32 {
    for _page in 0..12 {
        sleep(TTL / 10).await;
    }
    12
}

const TTL: Duration = Duration::from_millis(500);
