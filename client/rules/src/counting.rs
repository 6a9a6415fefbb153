//! Counting what becomes of calls and requests.
//!
//! Invariant: only what is told to callers, links and nodes is counted, at the place where it is
//! told; nothing is decided by a count.

use std::sync::Arc;

use crate::action::{Action, Event};
use crate::answer::{Answer, Content, ExtendAnswer};
use crate::call::Outcome;
use crate::link::{Link, LinkReply};
use crate::outcome::{AcquireError, Loss, NodeRelease};
use crate::statistics::{NodeStatistics, Statistics};

#[derive(Debug)]
pub(super) struct Counting {
    statistics: Statistics,
}

impl Counting {
    pub(super) fn of(nodes: &[Arc<str>]) -> Self {
        Self {
            statistics: Statistics::of(nodes),
        }
    }

    /// Counts as they are now, with what the links have measured.
    pub(super) fn snapshot(&self, links: &[Link], held: usize) -> Statistics {
        let mut statistics = self.statistics.clone();
        statistics.held = held;
        for (node, link) in statistics.nodes.iter_mut().zip(links) {
            let usual = link.round_trip();
            node.round_trip = (!usual.is_zero()).then_some(usual);
            node.releases_given_up = link.given_up();
        }
        statistics
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        if let Event::Connected(id, _) = event
            && let Some(node) = self.statistics.nodes.get_mut(id.node)
        {
            node.connections += 1;
        }
    }

    pub(super) fn actions(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Open(id) => {
                    if let Some(node) = self.statistics.nodes.get_mut(id.node) {
                        node.connects += 1;
                    }
                }
                Action::Tell(_, outcome) => self.outcome(outcome),
                Action::Renewed { .. } => self.statistics.renewals += 1,
                Action::RenewalFailing { .. } => self.statistics.failed_renewals += 1,
                Action::Lost { loss, .. } if *loss != Loss::Released => self.statistics.lost += 1,
                _ => {}
            }
        }
    }

    pub(super) fn reply(&mut self, reply: &LinkReply) {
        if let Some(node) = self.statistics.nodes.get_mut(reply.node) {
            count(node, &reply.content);
        }
    }

    pub(super) fn retry(&mut self) {
        self.statistics.retries += 1;
    }

    pub(super) fn cancelled(&mut self) {
        self.statistics.cancelled += 1;
    }

    fn outcome(&mut self, outcome: &Outcome) {
        let statistics = &mut self.statistics;
        match outcome {
            Outcome::Acquired { .. } => statistics.acquired += 1,
            Outcome::NotAcquired(AcquireError::Busy { .. }) => statistics.busy += 1,
            Outcome::NotAcquired(AcquireError::NoQuorum { .. }) => statistics.no_quorum += 1,
            Outcome::NotAcquired(AcquireError::TimedOut { .. }) => statistics.timed_out += 1,
            Outcome::NotAcquired(AcquireError::Cancelled { .. }) => statistics.cancelled += 1,
            _ => {}
        }
    }
}

fn count(node: &mut NodeStatistics, content: &Content) {
    match content {
        Content::Taken(Answer::Not(_), _)
        | Content::Extended(ExtendAnswer::Not(_))
        | Content::Released(NodeRelease::Not(_))
        | Content::Holder(Err(_))
        | Content::Seen(Err(_), _)
        | Content::Published(Err(_))
        | Content::Page(Err(_))
        | Content::Compared(Err(_))
        | Content::Info(Err(_)) => node.failures += 1,
        // That a key has no end, or is gone, is an answer, and is not told from none.
        Content::TimeLeft(None) | Content::Exists(None) => {}
        // A node that has no lines is as good as any.
        Content::InLine(Err(_), _) | Content::Tracking(_) => {}
        // Connections are counted where they are made, and so are those that stand.
        Content::Connected(_) => {}
        _ => node.answers += 1,
    }
}
