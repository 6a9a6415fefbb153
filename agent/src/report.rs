//! The figures of an agent as sections of INFO and as metrics.
//!
//! It is text made of figures: nothing here asks a node or reads a clock.

use quorlock_agent_rules::ClassCounts;
use quorlock_clock::ClientInstant;
use quorlock_engine::lock_counts::TimeCounts;
use quorlock_server::{ReportHistogram, ReportMetric, ReportSection, UpstreamReport};

use crate::figures::{Figures, NodeFigures, one_line};

/// What INFO, the metrics and `/readyz` say now.
pub(crate) fn of(figures: &Figures, under_way: usize, now: ClientInstant) -> UpstreamReport {
    let not_ready = figures.not_ready(now);
    UpstreamReport {
        sections: vec![
            agent(figures, under_way, not_ready.as_deref()),
            nodes(figures, now),
        ],
        metrics: metrics(figures, under_way, not_ready.is_none()),
        histograms: vec![
            times(
                figures,
                "quorlock_agent_lock_acquire_seconds",
                "How long requests took that got a lock, waiting within the request included",
                |counts| &counts.acquired_after,
            ),
            times(
                figures,
                "quorlock_agent_lock_hold_seconds",
                "How long locks were held that this agent has granted and released",
                |counts| &counts.holds,
            ),
        ],
        not_ready,
        warning: figures.warning(),
    }
}

fn agent(figures: &Figures, under_way: usize, not_ready: Option<&str>) -> ReportSection {
    let counts = &figures.counts;
    let field = |name: &str, value: String| (name.to_owned(), value);
    let mut fields = vec![
        field("agent_ready", u8::from(not_ready.is_none()).to_string()),
        field("agent_not_ready_reason", not_ready.unwrap_or("").to_owned()),
        field("agent_warning", figures.warning().unwrap_or_default()),
        field("agent_nodes", figures.nodes.len().to_string()),
        field("agent_nodes_needed", figures.quorum.to_string()),
        field("agent_nodes_voting", figures.voting().to_string()),
        field("agent_requests", counts.requests.to_string()),
        field("agent_requests_under_way", under_way.to_string()),
    ];
    let outcomes = counts.by_outcome().into_iter();
    fields.extend(outcomes.map(|(name, count)| (format!("agent_{name}"), count.to_string())));
    ReportSection {
        title: "Agent",
        fields,
    }
}

fn nodes(figures: &Figures, now: ClientInstant) -> ReportSection {
    let nodes = figures.nodes.iter().enumerate();
    ReportSection {
        title: "Nodes",
        fields: nodes
            .map(|(number, node)| (format!("node{}", number + 1), line(node, now)))
            .collect(),
    }
}

/// Fields of a node, separated as those of Redis's replicas are. The error may have any sign, so it comes last.
fn line(node: &NodeFigures, now: ClientInstant) -> String {
    let state = if node.state.is_ok() { "votes" } else { "away" };
    let round_trip = node.round_trip.map(|time| time.as_micros().to_string());
    let error = node.last_error.as_ref();
    let age = error.map(|(_, at)| now.since(*at).as_secs().to_string());
    let text = error.map(|(text, _)| one_line(text).replace(',', ";"));
    format!(
        "address={},state={state},round_trip_usec={},answers={},failures={},releases_given_up={},last_error_age_sec={},last_error={}",
        node.node,
        round_trip.unwrap_or_default(),
        node.answers,
        node.failures,
        node.given_up,
        age.unwrap_or_default(),
        text.unwrap_or_default(),
    )
}

/// Counts are exact enough for a graph.
fn metrics(figures: &Figures, under_way: usize, is_ready: bool) -> Vec<ReportMetric> {
    let counts = &figures.counts;
    let outcomes = counts.by_outcome().into_iter();
    let outcomes = outcomes.map(|(name, count)| (vec![("outcome", name.to_owned())], count as f64));
    let gauge = |name, help, value| of_agent(name, help, false, value);
    let ready = f64::from(u8::from(is_ready));
    let (count, needed) = (figures.nodes.len() as f64, figures.quorum as f64);
    let mut metrics = vec![
        gauge(
            "quorlock_agent_ready",
            "1 when enough nodes of one cluster can vote",
            ready,
        ),
        gauge("quorlock_agent_nodes", "Nodes that hold the locks", count),
        gauge(
            "quorlock_agent_nodes_needed",
            "Nodes that must agree",
            needed,
        ),
        gauge(
            "quorlock_agent_nodes_voting",
            "Nodes that can vote",
            figures.voting() as f64,
        ),
        gauge(
            "quorlock_agent_requests_under_way",
            "Requests without a reply",
            under_way as f64,
        ),
        of_agent(
            "quorlock_agent_requests",
            "Requests about locks",
            true,
            counts.requests as f64,
        ),
        ReportMetric {
            name: "quorlock_agent_replies",
            help: "Replies to requests about locks, by what they came to",
            is_counter: true,
            samples: outcomes.collect(),
        },
    ];
    metrics.push(locks_by_pattern(figures));
    metrics.extend(metrics_of_nodes(figures));
    metrics
}

fn locks_by_pattern(figures: &Figures) -> ReportMetric {
    let mut samples = Vec::new();
    for (pattern, counts) in figures.locks.classes() {
        for (outcome, count) in counts.by_outcome() {
            let (pattern, outcome) = (pattern.to_owned(), outcome.to_owned());
            let labels = vec![("pattern", pattern), ("outcome", outcome)];
            samples.push((labels, count as f64));
        }
    }
    ReportMetric {
        name: "quorlock_agent_locks",
        help: "Locks in replies by what these came to, by the first of metrics-lock-patterns that the name matches",
        is_counter: true,
        samples,
    }
}

fn times(
    figures: &Figures,
    name: &'static str,
    help: &'static str,
    times: impl Fn(&ClassCounts) -> &TimeCounts,
) -> ReportHistogram {
    let classes = figures.locks.classes();
    let samples = classes.map(|(pattern, counts)| {
        let labels = vec![("pattern", pattern.to_owned())];
        (labels, times(counts).clone())
    });
    ReportHistogram {
        name,
        help,
        samples: samples.collect(),
    }
}

fn of_agent(name: &'static str, help: &'static str, is_counter: bool, value: f64) -> ReportMetric {
    ReportMetric {
        name,
        help,
        is_counter,
        samples: vec![(Vec::new(), value)],
    }
}

fn metrics_of_nodes(figures: &Figures) -> [ReportMetric; 5] {
    let votes = |node: &NodeFigures| Some(f64::from(u8::from(node.state.is_ok())));
    let round_trip = |node: &NodeFigures| node.round_trip.map(|time| time.as_secs_f64());
    let answers = |node: &NodeFigures| Some(node.answers as f64);
    let failures = |node: &NodeFigures| Some(node.failures as f64);
    let given_up = |node: &NodeFigures| Some(node.given_up as f64);
    [
        of_nodes(
            figures,
            "quorlock_agent_node_votes",
            "1 when the node can vote",
            false,
            votes,
        ),
        of_nodes(
            figures,
            "quorlock_agent_node_round_trip_seconds",
            "The usual time from a request to the node's answer",
            false,
            round_trip,
        ),
        of_nodes(
            figures,
            "quorlock_agent_node_answers",
            "Requests that the node answered",
            true,
            answers,
        ),
        of_nodes(
            figures,
            "quorlock_agent_node_failures",
            "Requests that the node refused or that did not reach it",
            true,
            failures,
        ),
        of_nodes(
            figures,
            "quorlock_agent_node_releases_given_up",
            "Releases that were given up because too many were owed to the node",
            true,
            given_up,
        ),
    ]
}

/// A metric of each node that has a value.
fn of_nodes(
    figures: &Figures,
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    value: impl Fn(&NodeFigures) -> Option<f64>,
) -> ReportMetric {
    let samples = figures.nodes.iter().filter_map(|node| {
        let labels = vec![("node", node.node.to_string())];
        Some((labels, value(node)?))
    });
    ReportMetric {
        name,
        help,
        is_counter,
        samples: samples.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::tests::{at, figures};

    #[test]
    fn info_has_a_line_for_each_node_and_the_reason_where_no_majority_can_vote() {
        let mut figures = figures([None, Some("refused, twice"), Some("silent")]);
        figures.counts.requests = 1;
        (figures.nodes[0].answers, figures.nodes[0].given_up) = (7, 2);
        let report = of(&figures, 1, at(4));
        let text = |section: &ReportSection| {
            let fields = section.fields.iter();
            let lines = fields.map(|(name, value)| format!("{name}:{value}\n"));
            format!("# {}\n{}", section.title, lines.collect::<String>())
        };
        let text: String = report.sections.iter().map(text).collect();
        assert_eq!(text, INFO);
        assert_eq!(
            of(&figures, 1, at(4))
                .not_ready
                .map(|why| why.contains("1 of 3")),
            Some(true)
        );
    }

    const INFO: &str = "\
# Agent
agent_ready:0
agent_not_ready_reason:1 of 3 nodes can vote, and 2 must; redis://b:2: refused, twice; redis://c:3: silent
agent_warning:
agent_nodes:3
agent_nodes_needed:2
agent_nodes_voting:1
agent_requests:1
agent_requests_under_way:1
agent_acquired:0
agent_extended:0
agent_released:0
agent_refused:0
agent_no_quorum:0
agent_not_a_lock:0
agent_try_again:0
agent_error:0
agent_other:0
# Nodes
node1:address=redis://a:1,state=votes,round_trip_usec=250,answers=7,failures=0,releases_given_up=2,last_error_age_sec=,last_error=
node2:address=redis://b:2,state=away,round_trip_usec=250,answers=0,failures=0,releases_given_up=0,last_error_age_sec=4,last_error=refused; twice
node3:address=redis://c:3,state=away,round_trip_usec=250,answers=0,failures=0,releases_given_up=0,last_error_age_sec=4,last_error=silent
";
}
