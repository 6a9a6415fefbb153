//! The one thread for log work that must not hold up a worker: it takes the steps of [`LogWork`], and waits for jobs
//! and for the sync of every second.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use quorlock_persistence::Preparer;
use tokio::runtime::Builder;

use crate::core::log_queue::{Job, Jobs};
use crate::core::log_work::{BegunJob, LogWork, OwedCommit};
use crate::core::state::NodeState;
use crate::runtime::alarm::Alarm;

/// Starts the thread.
///
/// # Errors
/// When the system has no thread to give.
pub(crate) fn spawn(
    node: Arc<NodeState>,
    jobs: Jobs,
    preparer: Preparer,
) -> std::io::Result<JoinHandle<()>> {
    // No I/O, only the timer of a sync: a job wakes the thread as a condition variable would.
    let runtime = Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new()
        .name("quorlock-log".to_owned())
        .spawn(move || runtime.block_on(run(node, jobs, preparer)))
}

async fn run(node: Arc<NodeState>, mut jobs: Jobs, preparer: Preparer) {
    let _alarm = Alarm::new(&node, THREAD);
    let mut work = LogWork::new(Arc::clone(&node), preparer);
    loop {
        let due_raw = work.sync_due_raw();
        let is_due = async {
            match due_raw {
                Some(due_raw) => node.clock.pause_until(due_raw).await,
                None => std::future::pending().await,
            }
        };
        let put_off = match work.owed_commit() {
            OwedCommit::Nothing => None,
            OwedCommit::PutOff(left_ns) => Some(Duration::from_nanos(left_ns)),
            OwedCommit::Due => {
                let begun = work.begin_commit();
                finish(&node, &mut work, begun);
                continue;
            }
        };
        if let Some(left) = put_off {
            // A timer would wait for whole milliseconds.
            node.log_queue.next_commit.wait(left.min(OTHER_JOBS_WAIT));
        }
        let begun = tokio::select! {
            biased;
            () = is_due => work.begin_sync_of_second(),
            job = jobs.recv() => match job {
                Some(Job::Stop) | None => return,
                Some(job) => work.begin(job),
            },
            () = std::future::ready(()), if put_off.is_some() => continue,
        };
        finish(&node, &mut work, begun);
    }
}

fn finish(node: &NodeState, work: &mut LogWork, mut begun: BegunJob) {
    // Goes before what has begun does: nobody is told of a job that has panicked before the node has failed.
    let _alarm = Alarm::new(node, THREAD);
    // A failure has ended the node.
    let _ = work.finish(&mut begun);
}

/// How long other jobs can wait while a commit is put off.
const OTHER_JOBS_WAIT: Duration = Duration::from_millis(1);

/// What the failure says where it panicked.
const THREAD: &str = "the log thread";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use quorlock_engine::control::Record;
    use quorlock_persistence::MemoryDisk;

    use super::*;
    use crate::clock::SettableClock;
    use crate::config::Config;
    use crate::node::for_tests;

    #[test]
    fn the_sync_of_a_second_waits_for_the_nodes_clock() {
        let clock = Arc::new(SettableClock::new());
        let disk = Arc::new(MemoryDisk::new());
        let (node, preparer, mut jobs) = for_tests::started(Config::default(), disk, clock.clone());
        while jobs.try_recv().is_some() {}
        let runtime = Builder::new_current_thread().build().unwrap();
        let position = {
            let mut executor = node.lock().unwrap();
            let now = executor.time.node_now(&*node.clock);
            executor.append(now, &Record::Tick)
        };
        node.log_writer.write(&node.executor).unwrap();
        node.log_queue.send(Job::SyncSoon);
        runtime.block_on(async {
            let run = run(Arc::clone(&node), jobs, preparer);
            let test = async {
                tokio::task::yield_now().await;
                clock.advance(Duration::from_millis(999));
                tokio::task::yield_now().await;
                assert!(node.commit.synced() < position);
                clock.advance(Duration::from_millis(1));
                while node.commit.synced() < position {
                    tokio::task::yield_now().await;
                }
                node.log_queue.send(Job::Stop);
            };
            tokio::join!(run, test);
        });
    }
}
