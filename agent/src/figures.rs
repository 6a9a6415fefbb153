//! What an agent knows of itself and of its nodes, as INFO, the metrics and `/readyz` show it.
//!
//! Invariant: it is ready only if the nodes were asked a short time ago and enough of them could vote then.

use std::sync::Arc;
use std::time::Duration;

use quorlock_agent_rules::{Counts, CountsByPattern};
use quorlock_client::{NodeState, NodeStatus, Statistics};
use quorlock_clock::ClientInstant;
use quorlock_engine::lock_counts::LockPatterns;

use crate::clusters::{self, Mixed, REMEDY};

/// The last known figures.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) counts: Counts,
    /// What of these was about locks, by the patterns of their names.
    pub(crate) locks: CountsByPattern,
    pub(crate) nodes: Vec<NodeFigures>,
    /// How many nodes must agree.
    pub(crate) quorum: usize,
    /// When the nodes were last heard of.
    probed: Option<ClientInstant>,
    /// Nodes of several clusters were heard of then.
    pub(crate) mixed: Option<Mixed>,
}

/// One node.
#[derive(Debug)]
pub(crate) struct NodeFigures {
    /// Its address, without its password.
    pub(crate) node: Arc<str>,
    /// Whether it can vote, or why not.
    pub(crate) state: Result<(), String>,
    pub(crate) round_trip: Option<Duration>,
    /// Requests that it answered, and those that it did not.
    pub(crate) answers: u64,
    pub(crate) failures: u64,
    /// Releases that were not owed to it any more, because these were too many.
    pub(crate) given_up: u64,
    /// Why it could not vote when it last could not, and when that was.
    pub(crate) last_error: Option<(String, ClientInstant)>,
}

impl Figures {
    pub(crate) fn new(nodes: &[Arc<str>], quorum: usize) -> Self {
        let nodes = nodes.iter().map(|node| NodeFigures {
            node: Arc::clone(node),
            state: Err(NOT_ASKED.to_owned()),
            round_trip: None,
            answers: 0,
            failures: 0,
            given_up: 0,
            last_error: None,
        });
        Self {
            counts: Counts::default(),
            locks: CountsByPattern::new(LockPatterns::default()),
            nodes: nodes.collect(),
            quorum,
            probed: None,
            mixed: None,
        }
    }

    /// The nodes have said how they do.
    pub(crate) fn note_probe(&mut self, now: ClientInstant, statuses: &[NodeStatus]) {
        self.probed = Some(now);
        self.mixed = clusters::mixed(statuses);
        for status in statuses {
            let Some(figures) = self.nodes.iter_mut().find(|it| it.node == status.node) else {
                continue;
            };
            figures.state = match &status.state {
                NodeState::Votes => Ok(()),
                NodeState::DoesNotVote(cause) => Err(cause.to_string()),
                _ => Err(NOT_ASKED.to_owned()),
            };
            if let Err(cause) = &figures.state {
                figures.last_error = Some((cause.clone(), now));
            }
            figures.round_trip = status.round_trip.or(figures.round_trip);
        }
    }

    /// The client has said what it has counted.
    pub(crate) fn note_statistics(&mut self, statistics: &Statistics) {
        for counted in &statistics.nodes {
            if let Some(figures) = self.nodes.iter_mut().find(|it| it.node == counted.node) {
                figures.round_trip = counted.round_trip.or(figures.round_trip);
                (figures.answers, figures.failures) = (counted.answers, counted.failures);
                figures.given_up = counted.releases_given_up;
            }
        }
    }

    /// How many nodes can vote.
    pub(crate) fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| node.state.is_ok()).count()
    }

    /// Why it is not ready now, if so: it can take no lock, or its nodes are of several clusters of which none has a majority.
    pub(crate) fn not_ready(&self, now: ClientInstant) -> Option<String> {
        let is_undecided = self.mixed.as_ref().is_some_and(|mixed| !mixed.is_decided);
        let undecided = self.warning().filter(|_| is_undecided);
        match (self.lacks_votes(now), undecided) {
            (Some(lacks), Some(undecided)) => Some(format!("{lacks}; {undecided}")),
            (lacks, undecided) => lacks.or(undecided),
        }
    }

    /// What is wrong with its list of nodes, if something is.
    pub(crate) fn warning(&self) -> Option<String> {
        let Mixed { text, is_decided } = self.mixed.as_ref()?;
        let which = match is_decided {
            true => "Only the nodes of the cluster that has a majority of the list vote",
            false => "None of them has a majority of the list",
        };
        Some(format!("{text}. {which}: {REMEDY}"))
    }

    /// Why it can take no lock now, if so.
    pub(crate) fn lacks_votes(&self, now: ClientInstant) -> Option<String> {
        let Some(probed) = self.probed else {
            return Some(format!("the nodes have {NOT_ASKED}"));
        };
        let age = now.since(probed);
        if age > AGE_MAX {
            let seconds = age.as_secs();
            return Some(format!("the nodes were last heard of {seconds} s ago"));
        }
        let (voting, count) = (self.voting(), self.nodes.len());
        if voting >= self.quorum {
            return None;
        }
        let away = self.nodes.iter().filter_map(|node| {
            let cause = node.state.as_ref().err()?;
            Some(format!("; {}: {}", node.node, one_line(cause)))
        });
        let away: String = away.collect();
        let quorum = self.quorum;
        Some(format!(
            "{voting} of {count} nodes can vote, and {quorum} must{away}"
        ))
    }
}

/// A text without line breaks.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

const NOT_ASKED: &str = "not answered yet";
/// Longer than nodes are asked and not heard of.
const AGE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn at(seconds: u64) -> ClientInstant {
        let nanos = 1_000_000_000 * (100 + seconds);
        ClientInstant::from_nanos(nanos, nanos)
    }

    /// Three nodes; those with a cause cannot vote.
    pub(crate) fn figures(causes: [Option<&str>; 3]) -> Figures {
        let names = ["redis://a:1", "redis://b:2", "redis://c:3"].map(Arc::from);
        let mut figures = Figures::new(&names, 2);
        figures.probed = Some(at(0));
        for (node, cause) in figures.nodes.iter_mut().zip(causes) {
            node.state = cause.map_or(Ok(()), |cause| Err(cause.to_owned()));
            node.last_error = cause.map(|cause| (cause.to_owned(), at(0)));
            node.round_trip = Some(Duration::from_micros(250));
        }
        figures
    }

    #[test]
    fn it_is_ready_while_a_majority_could_vote_a_short_time_ago() {
        let away = Some("connection\nrefused");
        assert_eq!(figures([None, away, None]).not_ready(at(30)), None);
        let why = figures([None, away, away]).not_ready(at(1)).unwrap();
        assert_eq!(
            why,
            "1 of 3 nodes can vote, and 2 must; redis://b:2: connection refused; redis://c:3: connection refused"
        );
        let mut mixed = figures([None; 3]);
        let clusters = |is_decided| {
            let text = "clusters: blue (a), red (b)".to_owned();
            Some(Mixed { text, is_decided })
        };
        mixed.mixed = clusters(false);
        let why = mixed.not_ready(at(1)).unwrap();
        assert!(
            why.contains("blue (a), red (b)") && why.contains("correct the list"),
            "{why}"
        );
        assert_eq!(mixed.lacks_votes(at(1)), None);
        assert_eq!(mixed.warning(), Some(why));
        mixed.mixed = clusters(true);
        assert_eq!(mixed.not_ready(at(1)), None);
        assert!(
            mixed
                .warning()
                .is_some_and(|text| text.contains("correct the list"))
        );
        let why = figures([None; 3]).not_ready(at(31)).unwrap();
        assert_eq!(why, "the nodes were last heard of 31 s ago");
        let why = Figures::new(&["redis://a:1".into()], 1)
            .not_ready(at(0))
            .unwrap();
        assert_eq!(why, "the nodes have not answered yet");
    }
}
