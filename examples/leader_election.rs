//! Leader election: of several candidates one leads at a time, and observers are told who that is.
//!
//! Run it with `cargo run --example leader_election`. Three candidates, which would be three
//! processes on three machines, stand for election. The first leads and resigns; from the second
//! the lock is taken away, as a `DEL` by an operator would; the third leads after that. The operator's program observes them.
//!
//! On loss: `run` drops the leader's work at its next await and gives the reason: before anybody
//! else can lead where renewals fail, and up to a third of the ttl later where an operator removed it. The candidate then stands again. If the machine is too slow to notice (a
//! pause longer than the lease), another may lead already when the work goes on for a moment: what
//! the leader writes to elsewhere must stand that.
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

mod cluster;

use std::time::Duration;

use quorlock::Redlock;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = cluster::nodes().await?;
    let operator = Redlock::builder().nodes(&cluster.addresses).build()?;
    let mut observer = operator.election("leader").observe();
    let observing = tokio::spawn(async move {
        while let Some(observed) = observer.next().await {
            println!("observed: {observed}");
        }
    });
    let mut candidates = Vec::new();
    for name in ["anna", "ben", "cleo"] {
        let redlock = Redlock::builder().nodes(&cluster.addresses).build()?;
        candidates.push(tokio::spawn(stand(name, redlock, operator.clone())));
        // So that they come in this order.
        sleep(Duration::from_millis(50)).await;
    }
    for candidate in candidates {
        candidate.await?.map_err(|error| error.to_string())?;
    }
    observing.abort();
    let _aborted = observing.await;
    println!("everybody has led once");
    operator.close().await;
    Ok(())
}

/// Waits for the leadership, leads, and resigns.
async fn stand(
    name: &str,
    redlock: Redlock,
    operator: Redlock,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let election = redlock.election("leader").proposal(name).ttl(TTL);
    let leadership = election.campaign().await?;
    println!("{name} leads");
    if name == "ben" {
        // Renewals find this within a third of the ttl.
        let _taken_away = operator.release("leader", leadership.token()).await;
    }
    // The leader's work is dropped at its next await if the leadership is lost.
    match leadership.run(sleep(TTL)).await {
        Ok(()) => println!("{name} resigns"),
        Err(loss) => println!("{name} has lost the leadership: {loss}"),
    }
    // Also after a loss: single nodes may still hold the lock.
    let _release = leadership.resign().await;
    redlock.close().await;
    Ok(())
}

const TTL: Duration = Duration::from_millis(600);
