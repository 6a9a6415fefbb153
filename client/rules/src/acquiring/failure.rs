//! An attempt that failed, and what its caller is told if it was the last.

use std::sync::Arc;
use std::time::Duration;

use crate::acquisition::{Acquisition, Decision, Vote};
use crate::answer::Answer;
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::outcome::{AcquireError, Cause, NodeAnswer, NodeReport, TooShort};
use crate::wait::Waiting;

#[derive(Debug)]
pub(super) struct Failure {
    pub(super) attempt: Acquisition,
    pub(super) decision: Decision,
    /// The permit that it was for, if it was for one.
    pub(super) permit: Option<u32>,
    /// When enough nodes are free again, if nobody renews.
    pub(super) free_at: Option<ClientInstant>,
}

impl Failure {
    /// Whether a later attempt shows that somebody else has the lock now. Of split votes another one refuses each time.
    pub(super) fn has_changed_hands(&self, later: &Acquisition, decision: &Decision) -> bool {
        let is_busy = matches!(decision, Decision::Busy { .. });
        is_busy && !later.is_split() && self.decision != *decision
    }

    /// Time until enough nodes are free again, if nobody renews and they have told. Once it is over it shortens no
    /// pause any more: where too few nodes can vote, one attempt would follow the other.
    pub(super) fn time_left(&self, now: ClientInstant) -> Option<Duration> {
        let free_at = self.free_at.filter(|at| !now.has_reached(*at));
        free_at.map(|at| now.until(at))
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
                time_left: self.time_left(context.now),
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
                too_short: self.too_short(context),
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
                time_left: self.time_left(context.now),
            }),
            Decision::NoQuorum => Some(Waiting::NoQuorum {
                needed: context.quorum(),
                nodes: nodes(),
            }),
            Decision::TimedOut => Some(Waiting::TimedOut {
                nodes: nodes(),
                too_short: self.too_short(context),
            }),
            Decision::Cancelled | Decision::Acquired { .. } => None,
        }
    }

    /// What the lease was too short for: the votes of this attempt, or as many round trips as were measured before.
    fn too_short(&self, context: &Context<'_>) -> Option<TooShort> {
        let terms = self.attempt.terms();
        let round_trip = self.attempt.took().or_else(|| context.mean_round_trip())?;
        let ttl_needed = terms.ttl_needed(round_trip)?;
        Some(TooShort {
            ttl: terms.ttl,
            round_trip,
            renews: terms.reserve.is_some(),
            ttl_needed,
        })
    }
}

fn reports(attempt: &Acquisition, context: &Context<'_>) -> Vec<NodeReport> {
    let answer = |node: usize, vote: &Vote| match vote {
        Vote::Told(Answer::Granted(by)) => match attempt.ballot().twin(node) {
            Some(twin) if twin < node => {
                NodeAnswer::Not(Cause::SameNode(Arc::clone(&context.labels[twin])))
            }
            _ if let Some(mixed) = context.register.undecided(node) => NodeAnswer::Not(mixed),
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
        Vote::Told(Answer::Busy { holder, .. }) => match context.register.undecided(node) {
            Some(mixed) => NodeAnswer::Not(mixed),
            None => NodeAnswer::Busy {
                holder: holder.clone(),
            },
        },
        Vote::Told(Answer::Not(cause)) => NodeAnswer::Not(cause.clone()),
        Vote::Overdue => NodeAnswer::Not(Cause::Silent),
        Vote::Awaited(_) | Vote::Left | Vote::Unasked(_) => {
            let mixed = context.register.undecided(node);
            let last_known = || context.links[node].last_known(context.now);
            NodeAnswer::Not(mixed.unwrap_or_else(last_known))
        }
    };
    let votes = attempt.votes().iter().enumerate();
    let report = |(node, vote)| NodeReport {
        node: Arc::clone(&context.labels[node]),
        answer: answer(node, vote),
    };
    votes.map(report).collect()
}
