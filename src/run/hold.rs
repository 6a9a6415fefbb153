//! From the command's start to its end, with an eye on the lock.
//!
//! The loss of the lock comes before everything else: the command is asked to end, and killed
//! with its whole group before the lease is over. A command that runs as another user cannot be
//! killed by this one; that is told and never passed over.

use std::io;
use std::time::Duration;

use quorlock_client::{ClientInstant, Clock, Guard, Loss, SystemClock};
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::time::timeout;

use super::job::{Ending, Job, JobChange};
use super::terminal::Terminal;
use crate::output::remark;
use crate::signals::Signals;

/// What came of the command.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It ended while the lock was held.
    Ended(Ending),
    /// The lock was lost before the command had ended.
    Lost {
        /// Why.
        loss: Loss,
        /// What became of the command.
        stop: Stop,
    },
}

/// What became of a command whose lock was lost.
#[derive(Debug)]
pub(super) enum Stop {
    /// It had ended before it could be asked to.
    EndedByItself,
    /// It ended when it was asked to.
    Asked {
        /// Whether the lease was not over yet.
        in_time: bool,
    },
    /// It had to be killed.
    Killed {
        /// Whether the lease was not over yet.
        in_time: bool,
    },
    /// It goes on: this process may not signal it.
    Refused {
        /// The command's process.
        pid: Pid,
        /// Why not.
        error: io::Error,
    },
}

/// Waits for the command's end or the lock's loss.
pub(super) async fn until_end(
    mut job: Job,
    guard: &Guard,
    signals: &mut Signals,
    terminal: Option<&Terminal>,
    lends_at_once: bool,
) -> io::Result<Outcome> {
    signals.add(&PASSED_ON_TOO)?;
    let group = job.group();
    if let Some(terminal) = terminal.filter(|_| lends_at_once) {
        terminal.lend(group);
    }
    let outcome = watch(&mut job, guard, signals, terminal).await?;
    let deadline = guard.valid_until();
    let stopped = match outcome {
        None => None,
        Some((loss, true)) => Some((loss, StopOutcome::None)),
        Some((loss, false)) => {
            let request = stop(&mut job, grace_end(&loss, SystemClock.now(), deadline)).await?;
            Some((loss, request))
        }
    };
    if let Some((loss, StopOutcome::Refused(error))) = stopped {
        if let Some(terminal) = terminal {
            terminal.take_back(group);
        }
        let stop = Stop::Refused { pid: group, error };
        return Ok(Outcome::Lost { loss, stop });
    }
    let ending = job.reap()?;
    let in_time = !SystemClock.now().has_reached(deadline);
    if let Some(terminal) = terminal {
        terminal.take_back(group);
    }
    let Some((loss, request)) = stopped else {
        return Ok(Outcome::Ended(ending));
    };
    let stop = match request {
        StopOutcome::Heard => Stop::Asked { in_time },
        StopOutcome::Forced => Stop::Killed { in_time },
        StopOutcome::None | StopOutcome::Refused(_) => Stop::EndedByItself,
    };
    Ok(Outcome::Lost { loss, stop })
}

/// Waits for the command's end or the lock's loss. Gives the loss, and whether the command had
/// ended when it was noticed.
async fn watch(
    job: &mut Job,
    guard: &Guard,
    signals: &mut Signals,
    terminal: Option<&Terminal>,
) -> io::Result<Option<(Loss, bool)>> {
    loop {
        tokio::select! {
            biased;
            loss = guard.lost() => return Ok(Some((loss, false))),
            change = job.change() => match change? {
                // After a suspend the clock may know of the loss before the client has told it.
                JobChange::Ended => return Ok(guard.lost_signal().now().map(|loss| (loss, true))),
                JobChange::Stopped(signal) => after_stop(job, guard, terminal, signal),
            },
            signal = signals.next() => {
                if let Err(error) = job.signal(signal) {
                    remark(format_args!("a signal did not reach the command: {error}"));
                }
            }
        }
    }
}

/// Until when a command may go on to clean up. Where the lease just ends, nobody else can hold
/// the lock before; otherwise somebody else may have it already, and time is short.
fn grace_end(loss: &Loss, now: ClientInstant, valid_until: ClientInstant) -> ClientInstant {
    match loss {
        Loss::Expired | Loss::Late | Loss::MaxLifetime => valid_until,
        _ => valid_until.earlier(now.after(GRACE_MAX)),
    }
}

/// How a command took being told to end.
enum StopOutcome {
    /// It was not told.
    None,
    /// It ended.
    Heard,
    /// It was killed.
    Forced,
    /// It could not be told.
    Refused(io::Error),
}

/// Ends the command before `deadline`: first by asking, then by force, its whole group.
async fn stop(job: &mut Job, deadline: ClientInstant) -> io::Result<StopOutcome> {
    let clock = SystemClock;
    let margin = (clock.now().until(deadline) / 2).min(KILL_MARGIN_MAX);
    // Should it not be allowed, the kill will say so; until then the command may end by itself.
    let _asked = job.signal(Signal::TERM);
    // A command that was stopped could not hear it.
    let _asked = job.signal(Signal::CONT);
    let has_ended = loop {
        let left = clock.now().until(deadline);
        if left <= margin {
            break false;
        }
        // In slices, because only the lock's own clock goes on in suspend.
        let slice = (left - margin).min(SLICE_MAX);
        if let Ok(change) = timeout(slice, job.change()).await
            && change? == JobChange::Ended
        {
            break true;
        }
    };
    let killed = job.signal(Signal::KILL);
    Ok(match (has_ended, killed) {
        // What is left of the group was signalled as far as it is ours.
        (true, _) => StopOutcome::Heard,
        (false, Ok(())) => StopOutcome::Forced,
        (false, Err(error)) => StopOutcome::Refused(error),
    })
}

/// Does what a shell does when a command stops: lends the terminal to one that asked for it, or
/// stops too, so that the shell gets its prompt back.
fn after_stop(job: &Job, guard: &Guard, terminal: Option<&Terminal>, signal: i32) {
    let asked_for_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
    let Some(terminal) = terminal else { return };
    if asked_for_terminal && terminal.is_held_now() {
        terminal.lend(job.group());
        go_on(job);
        return;
    }
    if !asked_for_terminal && signal != Signal::TSTP.as_raw() {
        return;
    }
    terminal.take_back(job.group());
    remark("stopped; the lock is not renewed meanwhile, and the command is ended if it is lost");
    // Returns once somebody has sent SIGCONT.
    let _cannot_fail = kill_process(getpid(), Signal::STOP);
    if !guard.is_valid() {
        return;
    }
    if terminal.is_held_now() {
        terminal.lend(job.group());
    }
    go_on(job);
}

fn go_on(job: &Job) {
    if let Err(error) = job.signal(Signal::CONT) {
        remark(format_args!(
            "the stopped command cannot be told to go on: {error}"
        ));
    }
}

/// What the command gets besides the signals that break a wait off.
const PASSED_ON_TOO: [Signal; 6] = [
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::CONT,
    Signal::WINCH,
];

const SLICE_MAX: Duration = Duration::from_millis(100);
/// The kill comes this long before the end of the lease, or halfway to it if that is sooner.
const KILL_MARGIN_MAX: Duration = Duration::from_millis(50);
/// A command whose lock somebody else may hold already gets no longer than this to clean up.
const GRACE_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_the_whole_lease_only_where_nobody_else_can_hold_the_lock() {
        let now = ClientInstant::from_nanos(7, 9);
        let end = now.after(Duration::from_secs(3_600));
        for loss in [Loss::Expired, Loss::Late, Loss::MaxLifetime] {
            assert_eq!(grace_end(&loss, now, end), end, "{loss}");
        }
        for loss in [Loss::BelowMajority, Loss::ClientStopped] {
            assert_eq!(grace_end(&loss, now, end), now.after(GRACE_MAX), "{loss}");
            let soon = now.after(Duration::from_millis(1));
            assert_eq!(
                grace_end(&loss, now, soon),
                soon,
                "never longer than the lease"
            );
        }
    }
}
