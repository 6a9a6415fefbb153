//! An attempt that failed, and what its caller is told if it was the last.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::Answer;
use crate::clock::ClientInstant;
use crate::outcome::{AcquireError, Cause, NodeAnswer, NodeReport};
use crate::rules::acquisition::{Acquisition, Decision, Vote};
use crate::rules::context::Context;
use crate::token::Token;
use crate::votes::majority;
use crate::wait::Waiting;

#[derive(Debug)]
pub(super) struct Failure {
    pub(super) attempt: Acquisition,
    pub(super) decision: Decision,
    /// When enough nodes are free again, if nobody renews.
    pub(super) free_at: Option<ClientInstant>,
}

impl Failure {
    pub(super) fn is_split(&self, nodes: usize) -> bool {
        is_split(&self.attempt, nodes)
    }

    /// What is said of it after a wait of this length.
    pub(super) fn error(
        &self,
        name: Arc<str>,
        waited: Duration,
        context: &Context<'_>,
    ) -> AcquireError {
        let nodes = || reports(&self.attempt, context);
        match &self.decision {
            Decision::Busy { holder } => AcquireError::Busy {
                name,
                holder: holder.clone(),
                time_left: self.free_at.map(|at| context.now.until(at)),
                waited,
            },
            Decision::NoQuorum => AcquireError::NoQuorum {
                name,
                needed: context.quorum(),
                nodes: nodes(),
                waited,
            },
            Decision::TimedOut => AcquireError::TimedOut {
                name,
                nodes: nodes(),
                waited,
            },
            Decision::Cancelled | Decision::Acquired { .. } => AcquireError::Cancelled { name },
        }
    }

    /// What is said of it to a caller that goes on waiting.
    pub(super) fn waiting(&self, context: &Context<'_>) -> Option<Waiting> {
        let nodes = || reports(&self.attempt, context);
        match &self.decision {
            Decision::Busy { holder } => Some(Waiting::Busy {
                holder: holder.clone(),
                time_left: self.free_at.map(|at| context.now.until(at)),
            }),
            Decision::NoQuorum => Some(Waiting::NoQuorum {
                needed: context.quorum(),
                nodes: nodes(),
            }),
            Decision::TimedOut => Some(Waiting::TimedOut { nodes: nodes() }),
            Decision::Cancelled | Decision::Acquired { .. } => None,
        }
    }
}

/// Whether several callers have taken nodes and perhaps none of them a majority: no single one refuses on so many that
/// the others are none. Where nodes do not tell the holder, it counts as one.
pub(super) fn is_split(attempt: &Acquisition, nodes: usize) -> bool {
    let refusals: Vec<_> = attempt
        .votes()
        .iter()
        .filter_map(|vote| match vote {
            Vote::Told(Answer::Busy { holder, .. }) => Some(holder.as_ref()),
            _ => None,
        })
        .collect();
    let count = |holder: &Option<&Token>| refusals.iter().filter(|one| *one == holder).count();
    let blocking = nodes - majority(nodes) + 1;
    let is_told = refusals.iter().all(Option::is_some);
    is_told && !refusals.is_empty() && refusals.iter().all(|holder| count(holder) < blocking)
}

fn reports(attempt: &Acquisition, context: &Context<'_>) -> Vec<NodeReport> {
    let answer = |node: usize, vote: &Vote| match vote {
        Vote::Told(Answer::Granted(by)) => match attempt.ballot().twin(node) {
            Some(twin) if twin < node => {
                NodeAnswer::Not(Cause::SameNode(Arc::clone(&context.labels[twin])))
            }
            _ => match (&by.cluster, attempt.ballot().cluster()) {
                (Some(cluster), Some(expected)) if cluster != expected => {
                    NodeAnswer::Not(Cause::OtherCluster {
                        cluster: Arc::clone(cluster),
                        expected: Arc::clone(expected),
                    })
                }
                _ => NodeAnswer::Granted,
            },
        },
        Vote::Told(Answer::Busy { holder, .. }) => NodeAnswer::Busy {
            holder: holder.clone(),
        },
        Vote::Told(Answer::Not(cause)) => NodeAnswer::Not(cause.clone()),
        Vote::Overdue => NodeAnswer::Not(Cause::Silent),
        Vote::Awaited(_) | Vote::Unasked(_) => {
            NodeAnswer::Not(context.links[node].last_known(context.now))
        }
    };
    let votes = attempt.votes().iter().enumerate();
    let report = |(node, vote)| NodeReport {
        node: Arc::clone(&context.labels[node]),
        answer: answer(node, vote),
    };
    votes.map(report).collect()
}
