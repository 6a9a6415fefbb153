//! From the command's start to its end, with an eye on the lock.
//!
//! The loss of the lock comes before everything else: the command is asked to end, and killed
//! with its whole group before the lease is over.

use std::io;
use std::time::Duration;

use quorlock_client::{ClientInstant, Clock, Guard, Loss, SystemClock};
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::timeout;

use super::ending::Ending;
use super::job::{Change, Job};
use super::terminal::Terminal;
use crate::output::remark;

/// What came of the command.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It ended while the lock was held.
    Ended(Ending),
    /// The lock was lost and the command was stopped.
    Lost {
        /// Why.
        loss: Loss,
        /// Whether it did not end when it was asked to.
        was_killed: bool,
    },
}

/// Waits for the command's end or the lock's loss.
pub(super) async fn until_end(
    mut job: Job,
    guard: &Guard,
    terminal: Option<&Terminal>,
    lends_at_once: bool,
) -> io::Result<Outcome> {
    let mut signals = Signals::listen()?;
    let group = job.group();
    if let Some(terminal) = terminal.filter(|_| lends_at_once) {
        terminal.lend(group);
    }
    let loss = loop {
        tokio::select! {
            biased;
            loss = guard.lost() => break Some(loss),
            change = job.change() => match change? {
                Change::Ended => break None,
                Change::Stopped(signal) => after_stop(&job, guard, terminal, signal),
            },
            signal = signals.next() => job.signal(signal),
        }
    };
    let was_killed = match &loss {
        Some(_) => stop(&mut job, guard.valid_until()).await?,
        None => false,
    };
    let ending = job.reap()?;
    if let Some(terminal) = terminal {
        terminal.take_back(group);
    }
    Ok(match loss {
        Some(loss) => Outcome::Lost { loss, was_killed },
        None => Outcome::Ended(ending),
    })
}

/// Ends the command before `deadline`: first by asking, then by force, its whole group. Says
/// whether force was needed for the command itself.
async fn stop(job: &mut Job, deadline: ClientInstant) -> io::Result<bool> {
    let clock = SystemClock;
    let margin = (clock.now().until(deadline) / 2).min(KILL_MARGIN_MAX);
    job.signal(Signal::TERM);
    // A command that was stopped could not hear it.
    job.signal(Signal::CONT);
    let was_killed = loop {
        let left = clock.now().until(deadline);
        if left <= margin {
            break true;
        }
        // In slices, because only the lock's own clock goes on in suspend.
        let slice = (left - margin).min(SLICE_MAX);
        if let Ok(change) = timeout(slice, job.change()).await
            && change? == Change::Ended
        {
            break false;
        }
    };
    job.signal(Signal::KILL);
    Ok(was_killed)
}

/// Does what a shell does when a command stops: lends the terminal to one that asked for it, or
/// stops too, so that the shell gets its prompt back.
fn after_stop(job: &Job, guard: &Guard, terminal: Option<&Terminal>, signal: i32) {
    let asked_for_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
    let Some(terminal) = terminal else { return };
    if asked_for_terminal && terminal.is_held_now() {
        terminal.lend(job.group());
        job.signal(Signal::CONT);
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
    job.signal(Signal::CONT);
}

/// The signals that are passed on to the command.
struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let listen = |passed: &Signal| -> io::Result<(Signal, Stream)> {
            Ok((*passed, signal(SignalKind::from_raw(passed.as_raw()))?))
        };
        Ok(Self {
            streams: PASSED_ON.iter().map(listen).collect::<Result<_, _>>()?,
        })
    }

    /// The next signal somebody sent to this process. Cancel-safe.
    async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

const PASSED_ON: [Signal; 9] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::CONT,
    Signal::WINCH,
];

const SLICE_MAX: Duration = Duration::from_millis(100);
/// The kill comes this long before the end of the lease, or halfway to it if that is sooner.
const KILL_MARGIN_MAX: Duration = Duration::from_millis(50);
