//! Carries out what the maintenance asks for: on the node's thread, with timers and the log thread.

use quorlock_engine::RawTime;
use tokio::sync::oneshot;

use crate::clock::Clock;
use quorlock_node::core::commit::Failure;
use quorlock_node::core::log_queue::LogEvent;
use quorlock_node::core::maintenance::{Maintenance, Wake, Work};
use quorlock_node::core::next_commit::Done;
use quorlock_node::core::state::NodeState;

/// Runs until the node is asked to stop.
///
/// # Errors
/// When the log failed.
pub(crate) async fn run(node: &NodeState, maintenance: &mut Maintenance) -> Result<(), Failure> {
    tokio::select! {
        biased;
        () = node.signals.stop.wait() => Ok(()),
        outcome = live(node, maintenance) => outcome,
    }
}

async fn live(node: &NodeState, maintenance: &mut Maintenance) -> Result<(), Failure> {
    let log_queue = &node.log_queue;
    loop {
        let (progress, activity) = (node.commit.progress(), node.signals.activity.listen());
        let now_raw = node.clock.raw();
        let (step, discarded) = node.next_step(maintenance, now_raw)?;
        if maintenance.has_made_part() {
            node.note_part(maintenance, node.clock.raw());
        }
        if !discarded.is_empty() {
            // To free millions of elements takes a second: this thread accepts connections meanwhile.
            tokio::task::spawn_blocking(move || drop(discarded));
        }
        match step.work {
            Work::Sync => done(node, |done| log_queue.commit(done)).await?,
            Work::MakeSegment => {
                done(node, |done| log_queue.send(LogEvent::Prepare(Some(done)))).await?;
            }
            work @ (Work::None | Work::Write | Work::Commit) => node.perform(work, now_raw)?,
        }
        node.conclude(&step);
        match step.wake {
            Wake::Soon => {
                // A worker may wait for this core, and tokio knows of its own tasks alone.
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
            Wake::After(pause) => tokio::time::sleep(pause).await,
            Wake::At { raw, after_sync } => tokio::select! {
                () = pause_until(&*node.clock, raw) => {}
                () = activity => {}
                () = progress, if after_sync => {}
            },
        }
    }
}

/// Waits for this reading of the raw clock: by the clock itself where only a test moves it.
async fn pause_until(clock: &dyn Clock, raw: RawTime) {
    match clock.pause_until(raw) {
        Some(pause) => pause.await,
        None => tokio::time::sleep(raw.saturating_since(clock.raw())).await,
    }
}

/// Has the log thread do something, and waits until it is done, or is known to be impossible, without holding up this
/// thread.
///
/// # Errors
/// When the log failed.
async fn done(node: &NodeState, ask: impl FnOnce(Done)) -> Result<(), Failure> {
    let (done, finished) = oneshot::channel();
    ask(Box::new(move || {
        // A receiver that is gone needs no answer.
        let _ = done.send(());
    }));
    match (finished.await, node.commit.failure()) {
        (Ok(()), None) => Ok(()),
        (_, Some(failure)) => Err(failure.clone()),
        (Err(_), None) => Err(node.commit.fail("the log thread ended")),
    }
}
