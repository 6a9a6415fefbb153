//! From the command's start to its end, with an eye on the lock.
//!
//! The loss of the lock comes before everything else: the command is asked to end, and killed
//! with all its descendants before the lease is over. Where no majority renews the lock, that
//! begins while it is still held. What runs as another user cannot be killed by this process; that
//! is told and never passed over.

use std::io;
use std::time::Duration;

use quorlock_client::{ClientInstant, Clock, Guard, Loss, SystemClock};
use rustix::process::{Signal, getpid, kill_process};
use tokio::time::sleep;

use super::descendants::{self, Process};
use super::job::{Ending, Job, JobChange};
use super::on_lost::{OnLost, StopRules};
use super::stop;
use super::terminal::Terminal;
use crate::output::remark;
use crate::signals::CaughtSignals;

/// What came of the command.
#[derive(Debug)]
pub(super) struct Outcome {
    /// How it ended while the lock was held, and what it had left behind and was ended then; or why
    /// the lock was lost before the command and all that it started had ended, and what became of it.
    pub(super) ended: Result<(Ending, Vec<Process>), (Loss, CommandEnd)>,
    /// What could not be stopped.
    pub(super) escaped: Vec<Process>,
}

/// What became of a command whose lock was lost.
#[derive(Debug)]
pub(super) enum CommandEnd {
    /// It had ended before it could be asked to.
    EndedByItself,
    /// It ended when it was asked to.
    Asked {
        /// Whether the lease was not over yet.
        in_time: bool,
    },
    /// It, or something that it had started, had to be killed.
    Killed {
        /// Whether the lease was not over yet.
        in_time: bool,
    },
    /// It was left to go on, and has ended by now.
    Ignored,
    /// It goes on: this process may not signal it.
    GoesOn,
}

/// A command that holds a lock.
pub(super) struct Hold<'a> {
    pub(super) guard: &'a Guard,
    pub(super) signals: &'a mut CaughtSignals,
    pub(super) terminal: Option<&'a Terminal>,
    pub(super) rules: StopRules,
    /// The end of the longest time that the lock may be held.
    pub(super) ends_at: Option<ClientInstant>,
}

impl Hold<'_> {
    /// Waits for the command's end or the lock's loss.
    pub(super) async fn until_end(
        mut self,
        mut job: Job,
        lends_at_once: bool,
    ) -> io::Result<Outcome> {
        self.signals.add(&PASSED_ON_TOO)?;
        if let Some(terminal) = self.terminal.filter(|_| lends_at_once) {
            terminal.lend(job.group());
        }
        let loss = self.watch(&mut job).await?;
        match loss {
            Some(loss) => self.end_lost(job, loss).await,
            None => self.end_orphans(job).await,
        }
    }

    /// Waits for the command's end or the lock's loss; gives the loss.
    async fn watch(&mut self, job: &mut Job) -> io::Result<Option<Loss>> {
        let (guard, rules, ends_at) = (self.guard, self.rules, self.ends_at);
        let ignores = rules.on_lost == OnLost::Ignore;
        let mut ignored = None;
        let mut is_warned = false;
        loop {
            tokio::select! {
                biased;
                loss = guard.lost(), if ignored.is_none() => {
                    if !ignores {
                        return Ok(Some(loss));
                    }
                    remark(format_args!("the lock was lost, the command goes on: {loss}"));
                    ignored = Some(loss);
                }
                loss = lease_runs_out(guard, rules, ends_at), if !ignores => return Ok(Some(loss)),
                () = guard.renewal_failing(), if !is_warned && ignored.is_none() => {
                    is_warned = true;
                    warn(guard, rules);
                }
                () = guard.renewal_recovered(), if is_warned && ignored.is_none() => {
                    is_warned = false;
                    if guard.is_valid() {
                        remark("a majority of the nodes renews the lock again");
                    }
                }
                change = job.change() => match change? {
                    // After a suspend the clock may know of the loss before the client has told it.
                    JobChange::Ended => return Ok(ignored.or_else(|| guard.loss())),
                    JobChange::Stopped(signal) => {
                        after_stop(job, self.terminal, signal, || ignores || guard.is_valid());
                    }
                },
                signal = self.signals.next() => {
                    if let Err(error) = job.signal(signal) {
                        remark(format_args!("a signal did not reach the command: {error}"));
                    }
                }
            }
        }
    }

    /// Ends a command whose lock is lost.
    async fn end_lost(self, mut job: Job, loss: Loss) -> io::Result<Outcome> {
        let had_ended = job.has_ended()?;
        let deadline = self.guard.valid_until();
        let stopped = if self.rules.on_lost == OnLost::Ignore {
            None
        } else {
            let kill_at = kill_at(&loss, SystemClock.now(), deadline, self.rules);
            Some(stop::end_all(&mut job, self.rules.request(), kill_at).await)
        };
        let in_time = !SystemClock.now().has_reached(deadline);
        let (was_killed, escaped) = stopped.map_or((None, Vec::new()), |stopped| {
            (Some(stopped.was_killed), stopped.escaped)
        });
        self.take_terminal_back(&job);
        let fate = if escaped.iter().any(|process| process.is(job.group())) {
            CommandEnd::GoesOn
        } else {
            job.reap()?;
            match was_killed {
                None => CommandEnd::Ignored,
                Some(true) => CommandEnd::Killed { in_time },
                Some(false) if had_ended => CommandEnd::EndedByItself,
                Some(false) => CommandEnd::Asked { in_time },
            }
        };
        let ended = Err((loss, fate));
        Ok(Outcome { ended, escaped })
    }

    /// Ends what the command has left behind, while the lock is still held.
    async fn end_orphans(self, mut job: Job) -> io::Result<Outcome> {
        // The shell of a script wants its terminal back as soon as the command has ended.
        self.take_terminal_back(&job);
        let orphans = if self.rules.leaves_orphans {
            Vec::new()
        } else {
            descendants::alive()?
        };
        let (mut lost, mut escaped) = (None, Vec::new());
        if !orphans.is_empty() {
            let deadline = self.guard.valid_until();
            let kill_at = kill_at(&Loss::Released, SystemClock.now(), deadline, self.rules);
            let stopped = stop::end_all(&mut job, self.rules.request(), kill_at).await;
            escaped = stopped.escaped;
            let in_time = !SystemClock.now().has_reached(deadline);
            lost = self
                .guard
                .loss()
                .map(|loss| (loss, CommandEnd::Killed { in_time }));
        }
        let ending = job.reap()?;
        let ended = lost.map_or(Ok((ending, orphans)), Err);
        Ok(Outcome { ended, escaped })
    }

    fn take_terminal_back(&self, job: &Job) {
        if let Some(terminal) = self.terminal {
            terminal.take_back(job.group());
        }
    }
}

/// Says that the lock will be lost, unless the nodes come back.
fn warn(guard: &Guard, rules: StopRules) {
    let left = guard.remaining();
    if left.is_zero() {
        return;
    }
    let asked_in = left.saturating_sub(rules.time_needed());
    let follows = match rules.on_lost {
        OnLost::Ignore => "the command goes on without it".to_owned(),
        _ => format!("the command will be ended in {}", shown(asked_in)),
    };
    remark(format_args!(
        "no majority of the nodes renews the lock, which is held for another {}; if that goes on, \
         {follows}",
        shown(left)
    ));
}

/// Cut to tenths of a second.
fn shown(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

/// Waits until so little is left of the lease that the command must be asked to end now.
async fn lease_runs_out(guard: &Guard, rules: StopRules, ends_at: Option<ClientInstant>) -> Loss {
    let needed = rules.time_needed();
    loop {
        let left = guard.remaining().saturating_sub(needed);
        if left.is_zero() {
            break;
        }
        // In slices, because only the lock's own clock goes on in suspend.
        sleep(left.min(LOOK_EVERY)).await;
    }
    let is_last = ends_at.is_some_and(|end| SystemClock.now().until(end) <= needed + ROUND_MAX);
    let last = if is_last {
        Loss::MaxLifetime
    } else {
        Loss::Expired
    };
    guard.loss().unwrap_or(last)
}

/// When the command is killed. Where the lease just ends, nobody else can hold the lock before;
/// otherwise somebody else may have it already, and only the grace is left.
fn kill_at(
    loss: &Loss,
    now: ClientInstant,
    valid_until: ClientInstant,
    rules: StopRules,
) -> ClientInstant {
    let margin = rules.margin.min(now.until(valid_until) / 2);
    let last = valid_until.before(margin);
    match loss {
        Loss::Expired | Loss::Late | Loss::MaxLifetime => last,
        _ => last.earlier(now.after(rules.grace)),
    }
}

/// Does what a shell does when a command stops: lends the terminal to one that asked for it, or
/// stops too, so that the shell gets its prompt back.
fn after_stop(job: &Job, terminal: Option<&Terminal>, signal: i32, may_go_on: impl Fn() -> bool) {
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
    if !may_go_on() {
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

/// What the command gets besides the signals that interrupt a wait.
const PASSED_ON_TOO: [Signal; 6] = [
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::CONT,
    Signal::WINCH,
];

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A lock is older than its guard by the round that has taken it.
const ROUND_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_the_whole_lease_only_where_nobody_else_can_hold_the_lock() {
        let now = ClientInstant::from_nanos(7_000_000_000, 9_000_000_000);
        let rules = StopRules {
            on_lost: OnLost::Signal(Signal::TERM),
            grace: Duration::from_secs(5),
            margin: Duration::from_millis(100),
            leaves_orphans: false,
        };
        let end = now.after(Duration::from_secs(3_600));
        for loss in [Loss::Expired, Loss::Late, Loss::MaxLifetime] {
            assert_eq!(
                kill_at(&loss, now, end, rules),
                end.before(rules.margin),
                "{loss}"
            );
        }
        for loss in [Loss::BelowMajority, Loss::ClientStopped] {
            assert_eq!(
                kill_at(&loss, now, end, rules),
                now.after(rules.grace),
                "{loss}"
            );
            let soon = now.after(Duration::from_millis(10));
            let half = now.after(Duration::from_millis(5));
            assert_eq!(
                kill_at(&loss, now, soon, rules),
                half,
                "before the lease is over"
            );
        }
    }
}
