//! The one thread for log work that must not hold up a worker: a loop around [`LogWork`] that waits for events and for the
//! time when something is due.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread::JoinHandle;

use quorlock_persistence::Preparer;
use rustix::thread::set_current_timer_slack;

use crate::runtime::alarm::Alarm;
use quorlock_node::core::log_queue::LogEvents;
use quorlock_node::core::log_schedule::Ready;
use quorlock_node::core::log_work::{BegunJob, LogWork};
use quorlock_node::core::state::NodeState;

/// Starts the thread.
///
/// # Errors
/// When the system has no thread to give.
pub(crate) fn spawn(
    node: Arc<NodeState>,
    events: LogEvents,
    preparer: Preparer,
) -> std::io::Result<JoinHandle<()>> {
    node.clock.when_moved(node.log_queue.when_moved());
    std::thread::Builder::new()
        .name("quorlock-log".to_owned())
        .spawn(move || run(&node, &events, preparer))
}

fn run(node: &Arc<NodeState>, events: &LogEvents, preparer: Preparer) {
    // Else the system adds up to 50 us to a wait. Where it refuses this, commits are put off for longer.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut work = LogWork::new(Arc::clone(node), preparer);
    // Goes before what waits for the work, which is notified then.
    let _alarm = Alarm::new(node, THREAD);
    loop {
        while let Some(event) = events.take() {
            work.receive(event);
        }
        // Behind the events: where a test moves the clock after this, another event ends the wait.
        let now_raw = node.clock.raw();
        match work.ready(now_raw) {
            Ready::Stop => return,
            Ready::Wait(until_raw) => {
                let left = until_raw.map(|until_raw| until_raw.saturating_since(now_raw));
                if let Some(event) = events.wait(left) {
                    work.receive(event);
                }
            }
            ready => {
                let begun = work.begin(ready, now_raw);
                finish(node, &mut work, begun);
            }
        }
    }
}

fn finish(node: &NodeState, work: &mut LogWork, mut begun: BegunJob) {
    // Goes before what has begun does: no job that has panicked is reported before the node has failed.
    let _alarm = Alarm::new(node, THREAD);
    // A failure has ended the node.
    let _ = work.finish(&mut begun);
}

/// What the failure says where it panicked.
const THREAD: &str = "the log thread";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::time::Duration;

    use quorlock_engine::control::ControlRecord;
    use quorlock_persistence::MemoryDisk;

    use super::*;
    use crate::clock::SettableClock;
    use crate::config::Config;
    use quorlock_node::core::log_queue::LogEvent;
    use quorlock_node::simulation::Setup;
    use quorlock_node::start::Begun;

    /// Planted: a clock that a test moves does not wake the thread.
    #[test]
    fn the_sync_of_a_second_waits_for_the_nodes_clock() {
        let clock = Arc::new(SettableClock::new());
        let disk = Arc::new(MemoryDisk::new());
        let begun = Setup::new(Config::default()).begin(disk, clock.clone());
        let Begun {
            node,
            preparer,
            log_events: events,
            ..
        } = begun.unwrap();
        while events.take().is_some() {}
        let position = {
            let (mut executor, now) = node.lock_now().unwrap();
            executor.append(now.node, &ControlRecord::Tick)
        };
        node.log_writer.write(&node.executor).unwrap();
        let thread = spawn(Arc::clone(&node), events, preparer).unwrap();
        node.log_queue.send(LogEvent::SyncSoon);
        // The thread may see the event after the clock was moved, and then counts a second from there.
        while node.commit.synced() < position {
            clock.advance(Duration::from_secs(1));
            std::thread::yield_now();
        }
        node.log_queue.send(LogEvent::Stop);
        thread.join().unwrap();
    }
}
