//! Ends the command and everything that descends from it, before a deadline.
//!
//! First by asking, then by force. It ends when nothing is left that this process may signal, so
//! that a worker of the command has its grace even where the command itself ends at once.

use std::time::Duration;

use quorlock_client::{ClientInstant, Clock, SystemClock};
use rustix::process::Signal;
use tokio::time::timeout;

use super::descendants::{self, Process};
use super::job::Job;
use crate::output::remark;

/// What came of it.
#[derive(Debug)]
pub(super) struct StopOutcome {
    /// Whether something had to be killed.
    pub(super) was_killed: bool,
    /// What could not be stopped, and goes on.
    pub(super) escaped: Vec<Process>,
}

/// Asks with `request` if there is one, and kills at `kill_at` what is left then.
pub(super) async fn end_all(
    job: &mut Job,
    request: Option<Signal>,
    kill_at: ClientInstant,
) -> StopOutcome {
    if let Some(request) = request {
        ask(job, request);
        while SystemClock.now().until(kill_at) > Duration::ZERO {
            if alive().is_empty() {
                break;
            }
            // In slices, because only the lock's own clock goes on in suspend, and because the
            // end of a process whose parent lives is not told to this one.
            let slice = SystemClock.now().until(kill_at).min(LOOK_EVERY);
            let _no_matter_which = timeout(slice, job.any_child()).await;
        }
    }
    kill(job).await
}

fn ask(job: &Job, request: Signal) {
    let elsewhere: Vec<Process> = alive()
        .into_iter()
        .filter(|process| !process.is_in_group(job.group()))
        .collect();
    // Should it not be allowed, the kill will say so; until then they may end by themselves. What
    // was stopped could not hear it.
    for signal in [request, Signal::CONT] {
        let _asked = job.signal(signal);
        let _asked = descendants::signal(&elsewhere, signal);
    }
}

/// Kills whatever is left, and what that starts meanwhile.
async fn kill(job: &mut Job) -> StopOutcome {
    let was_killed = !alive().is_empty();
    // The group first and in one call: nothing in it gets away by starting something else.
    let _refused_below = job.signal(Signal::KILL);
    let give_up = SystemClock.now().after(KILL_TIME_MAX);
    loop {
        let alive = alive();
        let refused = descendants::signal(&alive, Signal::KILL);
        if refused.len() == alive.len() || SystemClock.now().has_reached(give_up) {
            let escaped = alive;
            return StopOutcome {
                was_killed,
                escaped,
            };
        }
        let _no_matter_which = timeout(KILL_EVERY, job.any_child()).await;
    }
}

fn alive() -> Vec<Process> {
    descendants::alive().unwrap_or_else(|error| {
        remark(format_args!(
            "the list of processes cannot be read: {error}; only the command's own process group \
             is ended"
        ));
        Vec::new()
    })
}

const LOOK_EVERY: Duration = Duration::from_millis(50);
const KILL_EVERY: Duration = Duration::from_millis(2);
/// What is not gone by then hangs in the kernel.
const KILL_TIME_MAX: Duration = Duration::from_secs(1);
