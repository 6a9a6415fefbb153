//! One question to the nodes, and the answers until they are all there or their time is up.

use std::sync::Arc;

use crate::clock::ClientInstant;
use crate::outcome::Cause;
use crate::votes::{NodeIndex, NodeSet};

#[derive(Clone, Debug)]
pub(super) struct Round<A> {
    pub(super) deadline: ClientInstant,
    answers: Vec<Option<A>>,
    awaited: NodeSet,
}

impl<A> Round<A> {
    pub(super) fn start(nodes: usize, deadline: ClientInstant) -> Self {
        Self {
            deadline,
            answers: (0..nodes).map(|_| None).collect(),
            awaited: NodeSet::default(),
        }
    }

    /// This node is asked, perhaps once more.
    pub(super) fn ask(&mut self, node: NodeIndex) {
        self.awaited.insert(node);
    }

    /// A node answered; what it answered before no longer counts.
    pub(super) fn answered(&mut self, node: NodeIndex, answer: A) {
        self.awaited.remove(node);
        if let Some(place) = self.answers.get_mut(node) {
            *place = Some(answer);
        }
    }

    /// Whether no answer is waited for any more.
    pub(super) fn is_over(&self, now: ClientInstant) -> bool {
        self.awaited.is_empty() || now.has_reached(self.deadline)
    }

    /// Whether the answer of this node is waited for.
    pub(super) fn awaits(&self, node: NodeIndex) -> bool {
        self.awaited.contains(node)
    }

    /// The answers by node.
    pub(super) fn answers(&self) -> &[Option<A>] {
        &self.answers
    }

    /// How many nodes answered so.
    pub(super) fn count(&self, is_so: impl Fn(&A) -> bool) -> usize {
        self.answers.iter().flatten().filter(|a| is_so(a)).count()
    }
}

impl<A> Round<Result<A, Cause>> {
    /// Why a node has not told what it was asked, if it has not.
    pub(super) fn cause(&self, node: NodeIndex) -> Option<Cause> {
        match &self.answers[node] {
            Some(told) => told.as_ref().err().cloned(),
            None => Some(Cause::Silent),
        }
    }

    /// The same of each node.
    pub(super) fn causes(&self, labels: &[Arc<str>]) -> Vec<(Arc<str>, Option<Cause>)> {
        let labels = labels.iter().enumerate();
        labels
            .map(|(node, label)| (Arc::clone(label), self.cause(node)))
            .collect()
    }
}

/// Set in the rounds of attempts, which are counted apart from those of renewals.
pub(super) const ATTEMPT_BIT: u32 = 1 << 31;
