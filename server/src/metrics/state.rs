//! What the node is doing, in one word and for people.

use std::fmt;
use std::time::Duration;

use quorlock_node::clock::WallReading;
use quorlock_node::core::executor::Phase;
use quorlock_node::core::state::NodeState;
use quorlock_node::show_duration;

/// The node's state as `/readyz` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Serving,
    /// It serves, and its upstream has this to say.
    UpstreamWarns(String),
    /// Its upstream can answer no request now, for this reason.
    UpstreamNotReady(String),
    /// In its restart delay for so many milliseconds, for this reason.
    Waiting(u64, &'static str),
    Stopping,
    /// The log failed, or a thread panicked: the process is about to end.
    Failed(String),
}

/// Reads the state; holds the engine's lock for a moment.
pub(super) fn of(node: &NodeState) -> State {
    if let Some(failure) = node.commit.failure() {
        return State::Failed(failure.to_string());
    }
    let Ok(mut executor) = node.executor.lock() else {
        return State::Failed("a thread panicked while it held the engine".to_owned());
    };
    let read_wall = || WallReading::now(&*node.clock);
    let now = executor.time.now(node.clock.raw(), read_wall).node;
    let state = match &executor.phase {
        Phase::Serving => State::Serving,
        Phase::Waiting(until, reason) => {
            let left_ns = until.as_nanos().saturating_sub(now.as_nanos());
            State::Waiting(left_ns.div_ceil(1_000_000), reason)
        }
        Phase::Stopped(_) => State::Stopping,
    };
    drop(executor);
    let upstream = node.upstream.as_ref().filter(|_| state.is_serving());
    let report = upstream.map(|upstream| upstream.report());
    let report = report.unwrap_or_default();
    match (report.not_ready, report.warning) {
        (Some(why), _) => State::UpstreamNotReady(why),
        (None, Some(warning)) => State::UpstreamWarns(warning),
        (None, None) => state,
    }
}

impl State {
    pub(super) fn is_serving(&self) -> bool {
        matches!(self, Self::Serving | Self::UpstreamWarns(_))
    }

    pub(super) fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// What is left of the restart delay, in milliseconds; 0 outside of it.
    pub(super) fn left_ms(&self) -> u64 {
        match self {
            Self::Waiting(left_ms, _) => *left_ms,
            _ => 0,
        }
    }

    /// When to ask again, where that is known.
    pub(super) fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Waiting(left_ms, _) => Some(left_ms.div_ceil(1_000).max(1)),
            _ => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serving => formatter.write_str("serving"),
            Self::UpstreamWarns(warning) => write!(formatter, "serving; {warning}"),
            Self::Waiting(left_ms, reason) => write!(
                formatter,
                "in its restart delay, serves no locks for another {} ({reason})",
                show_duration(Duration::from_millis(*left_ms))
            ),
            Self::UpstreamNotReady(why) => write!(formatter, "not ready: {why}"),
            Self::Stopping => formatter.write_str("stopping"),
            Self::Failed(why) => write!(formatter, "failed: {why}"),
        }
    }
}
