//! What a node is doing, from its start to its end, and a watch of it that outlives the node.
//!
//! Invariant: an end is never left again. Which event leads to which state is said by [`RunState::after`] alone; it needs no
//! thread and no clock. A watch keeps neither the node's directory nor its memory.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::restart::node_time;
use quorlock_engine::{NodeTime, RawTime};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::node::Outcome;
use quorlock_node::core::commit::{Commit, Failure};
use quorlock_node::core::state::NodeState;
use quorlock_node::show_duration;
use quorlock_node::sync::Latch;

/// What a node is doing. As text it is a line for people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunState {
    /// It is about to serve.
    Starting,
    /// In its restart delay: it answers, and serves no locks.
    Delayed {
        /// How long still, by the node's clock.
        left: Duration,
        /// Why.
        reason: &'static str,
    },
    /// It serves locks.
    Serving,
    /// It was asked to stop, by its program or by a client's SHUTDOWN, and serves no locks any more.
    Stopping,
    /// It has stopped in order, or as [`Node::crash`](crate::Node::crash) asked. Nothing follows.
    Stopped,
    /// Its log failed, or one of its threads panicked: it serves no locks any more, and ends. Nothing follows.
    Failed(Failure),
}

/// The error of [`Node::serving`](crate::Node::serving): the node ends, and will serve no locks. Another one is to be started.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the node serves no locks any more: {state}")]
#[non_exhaustive]
pub struct NotServing {
    /// What it is doing instead.
    pub state: RunState,
}

/// What may happen to a node.
#[derive(Clone, Debug)]
enum LifecycleEvent {
    DelayBegins(Duration, &'static str),
    ServesNow,
    StopAsked,
    Failed(Failure),
    Ended(Result<(), Failure>),
}

impl RunState {
    /// The rule: the state that follows.
    fn after(self, event: LifecycleEvent) -> Self {
        match (self, event) {
            (end @ (Self::Stopped | Self::Failed(_)), _) => end,
            (_, LifecycleEvent::Failed(failure) | LifecycleEvent::Ended(Err(failure))) => {
                Self::Failed(failure)
            }
            (_, LifecycleEvent::Ended(Ok(()))) => Self::Stopped,
            (Self::Stopping, _) | (_, LifecycleEvent::StopAsked) => Self::Stopping,
            (Self::Serving, _) | (_, LifecycleEvent::ServesNow) => Self::Serving,
            (_, LifecycleEvent::DelayBegins(left, reason)) => Self::Delayed { left, reason },
        }
    }

    /// Whether it serves locks: the only state in which a request for one may be granted.
    pub fn is_serving(&self) -> bool {
        matches!(self, Self::Serving)
    }

    /// Whether no other state follows: a loop over [`StateWatch::changed`] ends here.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Stopped | Self::Failed(_))
    }

    /// Whether it will serve, if nothing happens to it.
    fn is_on_its_way(&self) -> bool {
        matches!(self, Self::Starting | Self::Delayed { .. })
    }

    /// What is left of a delay is not a state of its own.
    fn is_same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => formatter.write_str("starting"),
            Self::Delayed { left, reason } => {
                let left = show_duration(*left);
                write!(
                    formatter,
                    "in its restart delay for another {left} ({reason})"
                )
            }
            Self::Serving => formatter.write_str("serving"),
            Self::Stopping => formatter.write_str("stopping"),
            Self::Stopped => formatter.write_str("stopped"),
            Self::Failed(failure) => write!(formatter, "failed: {failure}"),
        }
    }
}

/// A watch of what a node is doing. It may outlive the node, and keeps nothing of it in use.
#[derive(Clone)]
pub struct StateWatch {
    commit: Arc<Commit>,
    clock: Arc<dyn Clock>,
    base: NodeTime,
    base_raw: RawTime,
    delay: Option<(NodeTime, &'static str)>,
    serving: Arc<Latch>,
    stop: Arc<Latch>,
    outcome: watch::Receiver<Outcome>,
}

impl StateWatch {
    pub(super) fn of(node: &NodeState, outcome: watch::Receiver<Outcome>) -> Self {
        let delay = node.facts.verdict.delay;
        Self {
            commit: Arc::clone(&node.commit),
            clock: Arc::clone(&node.clock),
            base: node.facts.start.base,
            base_raw: node.facts.start.raw,
            delay: delay.map(|delay| (delay.until, delay.cause.delay_reason())),
            serving: Arc::clone(&node.signals.serving),
            stop: Arc::clone(&node.signals.stop),
            outcome,
        }
    }

    /// What it is doing now: of a node that is gone, how it has ended.
    pub fn state(&self) -> RunState {
        let delay = self.delay.map(|(until, reason)| {
            let now = node_time(self.base, self.base_raw, self.clock.raw()).unwrap_or(self.base);
            let left_ns = until.as_nanos().saturating_sub(now.as_nanos());
            LifecycleEvent::DelayBegins(Duration::from_nanos(left_ns), reason)
        });
        // Read against the order in which they happen: what has followed an event is not missed beside it.
        let ended = self.ended().map(LifecycleEvent::Ended);
        let failed = self.commit.failure().cloned().map(LifecycleEvent::Failed);
        let stop = self.stop.is_set().then_some(LifecycleEvent::StopAsked);
        let serves = self.serving.is_set().then_some(LifecycleEvent::ServesNow);
        let events = [delay, serves, stop, failed, ended].into_iter().flatten();
        events.fold(RunState::Starting, RunState::after)
    }

    /// Resolves with the next state that is not `seen`: at once where it is another one already, never after an end. A state
    /// that passes between two calls may be missed; an end is not.
    pub async fn changed(&self, seen: &RunState) -> RunState {
        let mut outcome = self.outcome.clone();
        loop {
            let progress = self.commit.progress();
            let (serves, stops) = (self.serving.is_set(), self.stop.is_set());
            outcome.mark_unchanged();
            let state = self.state();
            if !state.is_same(seen) {
                return state;
            }
            if state.is_final() {
                return std::future::pending().await;
            }
            let is_stopping = matches!(state, RunState::Stopping);
            tokio::select! {
                () = self.serving.wait(), if !serves => {}
                () = self.stop.wait(), if !stops => {}
                // Its end is the end of the node's thread, also where that has panicked.
                _ = outcome.changed() => {}
                // A failure before that is followed by a stop.
                () = progress, if is_stopping => {}
            }
        }
    }

    /// Resolves when the node serves locks.
    pub(super) async fn serving(&self) -> Result<(), NotServing> {
        let mut state = self.state();
        while state.is_on_its_way() {
            state = self.changed(&state).await;
        }
        if state.is_serving() {
            Ok(())
        } else {
            Err(NotServing { state })
        }
    }

    /// Resolves when the node's threads have ended.
    pub(super) async fn stopped(&self) -> Result<(), Failure> {
        // Where the thread has panicked there is no outcome.
        let _ = self.outcome.clone().wait_for(Option::is_some).await;
        self.ended().unwrap_or(Ok(()))
    }

    /// How it ended, if it has.
    pub(super) fn ended(&self) -> Outcome {
        let has_panicked = self.outcome.has_changed().is_err();
        let outcome = self.outcome.borrow().clone();
        outcome.or_else(|| {
            has_panicked.then(|| {
                // The alarm of that thread has said so.
                let failure = self.commit.failure().cloned();
                Err(failure.unwrap_or_else(|| Failure::new("the node's thread ended unexpectedly")))
            })
        })
    }
}

impl fmt::Debug for StateWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("StateWatch")
            .field(&self.state())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(events: &[LifecycleEvent]) -> String {
        let states = events.iter().cloned();
        states.fold(RunState::Starting, RunState::after).to_string()
    }

    fn failure(why: &str) -> Failure {
        Failure::new(why)
    }

    #[test]
    fn each_event_leads_to_its_state() {
        let delay = || LifecycleEvent::DelayBegins(Duration::from_secs(5), "killed");
        for (events, state) in [
            (vec![], "starting"),
            (
                vec![delay()],
                "in its restart delay for another 5 s (killed)",
            ),
            (vec![LifecycleEvent::ServesNow], "serving"),
            (vec![delay(), LifecycleEvent::ServesNow], "serving"),
            (vec![delay(), LifecycleEvent::StopAsked], "stopping"),
            (
                vec![LifecycleEvent::StopAsked, LifecycleEvent::ServesNow],
                "stopping",
            ),
            (
                vec![LifecycleEvent::ServesNow, LifecycleEvent::StopAsked],
                "stopping",
            ),
            (
                vec![LifecycleEvent::StopAsked, LifecycleEvent::Ended(Ok(()))],
                "stopped",
            ),
            (vec![LifecycleEvent::Ended(Ok(()))], "stopped"),
        ] {
            assert_eq!(after(&events), state, "{events:?}");
        }
    }

    #[test]
    fn an_end_is_not_left_and_the_first_failure_stays() {
        let failed = "failed: the log failed and is not trusted any more: first";
        let later = || {
            [
                LifecycleEvent::DelayBegins(Duration::ZERO, ""),
                LifecycleEvent::ServesNow,
                LifecycleEvent::StopAsked,
                LifecycleEvent::Failed(failure("second")),
                LifecycleEvent::Ended(Err(failure("third"))),
                LifecycleEvent::Ended(Ok(())),
            ]
        };
        for before in [
            vec![],
            vec![LifecycleEvent::ServesNow],
            vec![LifecycleEvent::StopAsked],
        ] {
            for next in later() {
                let with =
                    |end: LifecycleEvent| after(&[&before[..], &[end, next.clone()]].concat());
                assert_eq!(
                    with(LifecycleEvent::Failed(failure("first"))),
                    failed,
                    "{next:?}"
                );
                assert_eq!(
                    with(LifecycleEvent::Ended(Err(failure("first")))),
                    failed,
                    "{next:?}"
                );
                assert_eq!(with(LifecycleEvent::Ended(Ok(()))), "stopped", "{next:?}");
            }
        }
    }
}
