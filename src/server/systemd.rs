//! What systemd is told of a node while it runs: that it is ready, what it does, that its threads go on, and that it stops.

use std::env;
use std::fmt::Write;
use std::time::Duration;

use quorlock_server::config::SupervisedReady;
use quorlock_server::{Heartbeat, Node, RunState, StateWatch};
use tokio::task::JoinHandle;

use super::supervision::notify;

/// Tells systemd of a node until that has ended.
pub(crate) struct Report {
    task: JoinHandle<()>,
}

/// What a report says besides that the node stops, and that it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// What the node does, and that it is ready: from when on.
    All(SupervisedReady),
    /// Somebody else says the rest.
    EndAlone,
}

impl Report {
    /// Begins to tell.
    pub(crate) fn begin(node: &Node, says: Says) -> Self {
        let (states, heartbeat) = (node.watch(), node.heartbeat());
        Self {
            task: tokio::spawn(async move {
                tokio::select! {
                    () = tell(&states, says) => {}
                    () = keep_alive(&states, &heartbeat) => {}
                }
            }),
        }
    }

    /// Waits for the last word, which is about a node that has ended.
    pub(crate) async fn end(self) {
        // Where it has panicked there is nothing more to tell.
        let _ = self.task.await;
    }
}

/// Says what the node does, until it has ended.
async fn tell(states: &StateWatch, says: Says) {
    let mut reported = ReportedState::new(says);
    loop {
        let state = states.state();
        let text = reported.next(&state);
        if !text.is_empty() {
            notify(&text);
        }
        if state.is_final() {
            return;
        }
        let has_countdown = matches!(state, RunState::Delayed { .. });
        tokio::select! {
            _ = states.changed(&state) => {}
            () = tokio::time::sleep(SECOND), if has_countdown => {}
        }
    }
}

/// Says that the node is alive, twice in the time that systemd allows and only after each of its threads has answered.
async fn keep_alive(states: &StateWatch, heartbeat: &Heartbeat) {
    let Some(pause) = watchdog().map(|time| time / 2) else {
        return std::future::pending().await;
    };
    loop {
        let mut state = states.state();
        // A stop has a time limit of its own, and the threads end.
        while goes_on(&state) {
            tokio::select! {
                () = heartbeat.beat() => break,
                next = states.changed(&state) => state = next,
            }
        }
        notify("WATCHDOG=1\n");
        tokio::time::sleep(pause).await;
    }
}

fn goes_on(state: &RunState) -> bool {
    matches!(
        state,
        RunState::Starting | RunState::Delayed { .. } | RunState::Serving
    )
}

/// Within which time systemd wants to hear that this process is alive, if it does.
fn watchdog() -> Option<Duration> {
    let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let is_meant = match env::var_os("WATCHDOG_PID") {
        Some(_) => number("WATCHDOG_PID") == Some(u64::from(std::process::id())),
        None => true,
    };
    let time = number("WATCHDOG_USEC").filter(|time| is_meant && *time > 0)?;
    Some(Duration::from_micros(time))
}

/// What was reported so far.
#[derive(Debug)]
struct ReportedState {
    says: Says,
    is_ready: bool,
    is_stopping: bool,
}

impl ReportedState {
    fn new(says: Says) -> Self {
        Self {
            says,
            is_ready: false,
            is_stopping: false,
        }
    }

    /// What is to be told of this state, in the form of sd_notify(3).
    fn next(&mut self, state: &RunState) -> String {
        let mut text = String::new();
        if !goes_on(state) {
            if !self.is_stopping {
                text.push_str("STOPPING=1\n");
                self.is_stopping = true;
            }
        } else if let Says::All(when) = self.says
            && !self.is_ready
        {
            self.is_ready = state.is_serving() || when == SupervisedReady::Listening;
            text.push_str(match self.is_ready {
                true => "READY=1\n",
                false => EXTEND_TIMEOUT,
            });
        }
        if self.says != Says::EndAlone || !text.is_empty() {
            // A String takes what is written.
            let _ = writeln!(text, "STATUS={}", shown(state).replace('\n', " "));
        }
        text
    }
}

/// A state in the words of `systemctl status`.
fn shown(state: &RunState) -> String {
    match state {
        RunState::Delayed { left, reason } => {
            let seconds = left.as_millis().div_ceil(1000);
            format!("restart delay: serves no locks for another {seconds} s ({reason})")
        }
        state => state.to_string(),
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// The start may last so long from here on. It is said each second.
const EXTEND_TIMEOUT: &str = "EXTEND_TIMEOUT_USEC=30000000\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(says: Says, states: &[RunState]) -> Vec<String> {
        let mut reported = ReportedState::new(says);
        states.iter().map(|state| reported.next(state)).collect()
    }

    #[test]
    fn a_node_is_ready_once_and_stops_once() {
        let delayed = RunState::Delayed {
            left: Duration::from_millis(41_001),
            reason: "unclean stop",
        };
        let states = [
            delayed,
            RunState::Serving,
            RunState::Stopping,
            RunState::Stopped,
        ];
        let delay = "STATUS=restart delay: serves no locks for another 42 s (unclean stop)\n";
        assert_eq!(
            reported(Says::All(SupervisedReady::Listening), &states),
            [
                format!("READY=1\n{delay}").as_str(),
                "STATUS=serving\n",
                "STOPPING=1\nSTATUS=stopping\n",
                "STATUS=stopped\n"
            ]
        );
        assert_eq!(
            reported(Says::All(SupervisedReady::Serving), &states[..2]),
            [
                format!("{EXTEND_TIMEOUT}{delay}").as_str(),
                "READY=1\nSTATUS=serving\n"
            ]
        );
        assert_eq!(
            reported(Says::EndAlone, &states),
            ["", "", "STOPPING=1\nSTATUS=stopping\n", ""]
        );
    }
}
