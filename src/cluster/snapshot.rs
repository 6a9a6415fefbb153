//! A cluster at one moment: what its supervisor knows of it, and what each node says of itself.
//!
//! Plain data behind one look. All nodes are asked at once and each for a bounded time, so a node that hangs costs no more
//! than that time, however many hang.

use std::time::Duration;

use quorlock_server::show_duration;

use super::info::{self, CONNECTION_REFUSED, ServingState};
use super::view::{LocalCluster, NodeView, ProcessState};
use crate::runtime::all_of;

/// A cluster and the answer of each of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) cluster: LocalCluster,
    /// As many as there are nodes, in their order.
    pub(super) answers: Vec<ServingState>,
}

impl Snapshot {
    /// Asks all nodes at once, past their networks; one that is paused or cut off is known to answer no client.
    pub(super) async fn take(cluster: LocalCluster) -> Self {
        let asked = cluster.nodes.iter().map(async |node| {
            match node.process == ProcessState::Running && !node.is_cut {
                true => info::ask_all(node.direct_port, cluster.cacert.as_deref()).await,
                false => ServingState::Silent,
            }
        });
        let answers = all_of(asked).await;
        Self { cluster, answers }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&NodeView, &ServingState)> {
        self.cluster.nodes.iter().zip(&self.answers)
    }

    /// How many nodes serve locks.
    pub(super) fn serving(&self) -> usize {
        let answers = self.answers.iter();
        answers.filter(|answer| answer.takes_locks()).count()
    }

    pub(super) fn can_lock(&self) -> bool {
        self.serving() >= self.cluster.quorum
    }
}

/// What a node is doing: as one word for programs, and for people.
pub(super) fn state(node: &NodeView, answer: &ServingState) -> (&'static str, String) {
    let (word, words) = match (&node.process, answer) {
        (ProcessState::Running, _) if node.is_cut => ("cut", "cut off"),
        // As `quorlock status` has it.
        (ProcessState::Running, ServingState::Serving { figures, .. }) if figures.is_full => {
            ("log-fails", "disk full: takes no locks")
        }
        (ProcessState::Running, ServingState::Serving { .. }) if node.delay_ms > 0 => {
            let later = show_duration(Duration::from_millis(node.delay_ms));
            return ("serving", format!("serving, slow by {later} each way"));
        }
        (ProcessState::Running, ServingState::Serving { .. }) if node.is_disk_full => {
            ("serving", "serving, disk full")
        }
        (ProcessState::Running, ServingState::Unreached { why }) if why == CONNECTION_REFUSED => {
            ("no-answer", CONNECTION_REFUSED)
        }
        (ProcessState::Running, ServingState::Unreached { why }) => {
            return ("no-answer", format!("does not answer: {why}"));
        }
        (ProcessState::Ended(how), _) => return ("down", format!("down ({how})")),
        (ProcessState::Running, ServingState::RestartDelay { remaining_ms }) => {
            let left = show_duration(Duration::from_millis(*remaining_ms));
            return ("restart-delay", format!("restart delay, {left} left"));
        }
        (ProcessState::Paused, _) => ("paused", "paused"),
        (ProcessState::Killed, _) => ("down", "down (killed)"),
        (ProcessState::Stopped, _) => ("down", "down (stopped cleanly)"),
        (ProcessState::Running, ServingState::Serving { .. }) => ("serving", "serving"),
        (ProcessState::Running, ServingState::Starting) => ("starting", "starting"),
        (ProcessState::Running, ServingState::Silent) => ("no-answer", "does not answer"),
    };
    (word, words.to_owned())
}
