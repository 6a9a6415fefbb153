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
/// the others are none, or nobody can have one. The second matters for an even number of nodes, half of which keep a
/// majority from everybody. Where nodes do not tell the holder, it counts as one.
pub(super) fn is_split(attempt: &Acquisition, nodes: usize) -> bool {
    let blocking = nodes - majority(nodes) + 1;
    most_of_one(attempt).is_some_and(|most| most < blocking) || is_draw(attempt, nodes)
}

/// Whether several callers have taken nodes and none of them can have a majority, not even with all nodes that have told
/// neither way.
pub(super) fn is_draw(attempt: &Acquisition, nodes: usize) -> bool {
    let is_told =
        |vote: &&Vote| matches!(vote, Vote::Told(Answer::Granted(_) | Answer::Busy { .. }));
    let unknown = nodes - attempt.votes().iter().filter(is_told).count();
    most_of_one(attempt).is_some_and(|most| most + unknown < majority(nodes))
}

/// On how many nodes a single owner refuses, where every refusal names its owner.
fn most_of_one(attempt: &Acquisition) -> Option<usize> {
    let votes = attempt.votes().iter();
    let holders = votes.filter_map(|vote| match vote {
        Vote::Told(Answer::Busy { holder, .. }) => Some(holder.as_ref()),
        _ => None,
    });
    let holders: Option<Vec<&Token>> = holders.collect();
    let holders = holders?;
    let count = |holder: &&Token| holders.iter().filter(|one| *one == holder).count();
    holders.iter().map(count).max()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::acquisition::{AttemptEvent, Terms};
    use crate::settings::Drift;
    use crate::votes::Identity;

    /// An attempt at so many nodes after these votes: `+` for a grant, `.` for no answer, a letter for its holder.
    fn attempt(votes: &str) -> Acquisition {
        let terms = Terms {
            nodes: votes.len(),
            ttl: Duration::from_secs(10),
            drift: Drift::default(),
            min_validity: Duration::ZERO,
        };
        let start = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let mut actions = Vec::new();
        let patience = |_| Duration::from_secs(1);
        let mut attempt = Acquisition::start(terms, start, patience, &mut actions);
        for (node, vote) in votes.chars().enumerate() {
            let by = Identity {
                id: Arc::from(format!("n{node}")),
                incarnation: 1,
                cluster: None,
            };
            let answer = match vote {
                '.' => continue,
                '+' => Answer::Granted(by),
                '?' => Answer::Busy { by, holder: None },
                letter => Answer::Busy {
                    by,
                    holder: Some(Token::from(letter.to_string().as_str())),
                },
            };
            attempt.handle(start, AttemptEvent::Answered { node, answer }, &mut actions);
        }
        attempt
    }

    #[test]
    fn split_votes_are_told_from_a_lock_that_is_held() {
        for split in [
            "+ab", "++aa", "+++aaa", "++aab", "+a.", "+aab.", "++ab", ".++aab",
        ] {
            assert!(is_split(&attempt(split), split.len()), "{split}");
        }
        for held in [
            "+aa", "aa.", "+aa.", "aa..", "+++", "++aaa", "aaa..", "+??", "+a?",
        ] {
            assert!(!is_split(&attempt(held), held.len()), "{held}");
        }
    }
}
