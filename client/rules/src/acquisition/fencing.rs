//! The fence of an attempt: one number that a majority of the nodes takes for its token.
//!
//! Invariant: a number is the fence only once a majority of distinct nodes has taken it, each after it had granted the lock,
//! and it was above what each of them had taken for the name before. Any two majorities share a node, so fences of a name
//! grow with each acquisition. The attempt sees to it that all this comes to pass within the validity of its first request:
//! until then no node that took the number can have lost its disk and come back.

use crate::answer::FenceAnswer;
use crate::clock::ClientInstant;
use crate::outcome::FENCE_MAX;
use crate::votes::{Ballot, Identity, NodeIndex};

/// What an attempt knows of the nodes' fences, and what it asks them to take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fencing {
    /// What the nodes are asked to take; none until enough of them have told what they have.
    fence: Option<u64>,
    nodes: Vec<Node>,
    /// The smallest number that a node has refused as too far above its own.
    too_high: Option<u64>,
    rounds: u32,
    is_done: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    /// The largest fence of the name that it has told.
    told: Option<u64>,
    standing: Standing,
}

/// What a node is to the number that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Standing {
    /// It has not granted the lock.
    #[default]
    WithoutLock,
    /// It has granted the lock and is to be asked.
    Granted(Identity),
    /// It was asked, and is waited for until then.
    Asked(Identity, ClientInstant),
    Taken(Identity),
    /// It does not take this one, and is asked again for another.
    Refused(Identity),
    /// It has the lock no more, or does not answer.
    Out,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A majority has taken it.
    Done,
    Wait,
    /// No number can be had from the nodes that have granted the lock so far.
    Fail,
}

impl Fencing {
    /// A fence from so many nodes; a guess is asked for together with the lock.
    pub(super) fn start(nodes: usize, guess: Option<u64>) -> Self {
        Self {
            fence: guess,
            nodes: vec![Node::default(); nodes],
            too_high: None,
            rounds: 0,
            is_done: false,
        }
    }

    /// The fence, once a majority has taken it.
    pub(super) fn fence(&self) -> Option<u64> {
        self.fence.filter(|_| self.is_done)
    }

    /// The largest fence that a majority has told, but of nodes that are far ahead of the others.
    pub(super) fn known(&self, quorum: usize) -> Option<u64> {
        let mut told: Vec<u64> = self.told().collect();
        told.sort_unstable();
        let of_majority = told.get(quorum - 1).copied()?;
        let near = self
            .told()
            .filter(|fence| fence.saturating_sub(of_majority) < STEP_MAX);
        near.max()
    }

    fn told(&self) -> impl Iterator<Item = u64> {
        self.nodes.iter().filter_map(|node| node.told)
    }

    /// A node has told its fence of the name.
    pub(super) fn note(&mut self, node: NodeIndex, fence: u64) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.told = node.told.max(Some(fence));
        }
    }

    /// A node has granted the lock, and has taken the guess with it, or not.
    pub(super) fn granted(&mut self, node: NodeIndex, by: Identity, took: Option<u64>) {
        let standing = match took {
            Some(fence) if self.fence == Some(fence) => Standing::Taken(by),
            _ => Standing::Granted(by),
        };
        self.stand(node, standing);
    }

    /// The vote of a node was taken back: it takes no fence.
    pub(super) fn withdraw(&mut self, node: NodeIndex) {
        self.stand(node, Standing::Out);
    }

    /// A node has answered the request to take this number.
    pub(super) fn answered(&mut self, node: NodeIndex, fence: u64, answer: &FenceAnswer) {
        match answer {
            FenceAnswer::Refused(known) => self.note(node, *known),
            FenceAnswer::Taken(_) => self.note(node, fence),
            FenceAnswer::TooHigh => {
                self.too_high = Some(self.too_high.map_or(fence, |known| known.min(fence)));
            }
            FenceAnswer::WithoutLock | FenceAnswer::Not(_) => {}
        }
        if self.fence != Some(fence) {
            return;
        }
        let standing = match (answer, self.identity(node)) {
            (FenceAnswer::Taken(by), _) => Standing::Taken(by.clone()),
            (FenceAnswer::Refused(_) | FenceAnswer::TooHigh, Some(by)) => Standing::Refused(by),
            _ => Standing::Out,
        };
        self.stand(node, standing);
    }

    /// Nodes whose time is up are not waited for any more; what they answer still counts.
    pub(super) fn tick(&mut self, now: ClientInstant) {
        for node in &mut self.nodes {
            if matches!(node.standing, Standing::Asked(_, until) if now.has_reached(until)) {
                node.standing = Standing::Out;
            }
        }
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(super) fn next_time(&self) -> Option<ClientInstant> {
        let waited_for = self.nodes.iter().filter_map(|node| match &node.standing {
            Standing::Asked(_, until) => Some(*until),
            _ => None,
        });
        waited_for.reduce(ClientInstant::earlier)
    }

    /// Goes on, where so many nodes have granted the lock as must take its fence: asks those that are to be asked, and for
    /// another number where this one cannot be had: a larger one, or a smaller one where a node that is far ahead was among the first.
    pub(super) fn go_on(
        &mut self,
        quorum: usize,
        until: impl Fn(NodeIndex) -> ClientInstant,
        mut ask: impl FnMut(NodeIndex, u64),
    ) -> Next {
        loop {
            let is_taken = |standing: &Standing| matches!(standing, Standing::Taken(_));
            if self.count(is_taken) >= quorum {
                self.is_done = true;
                return Next::Done;
            }
            let may_take = |standing: &Standing| {
                matches!(
                    standing,
                    Standing::Granted(_) | Standing::Asked(..) | Standing::Taken(_)
                )
            };
            if let Some(fence) = self.fence
                && self.count(may_take) >= quorum
            {
                self.ask(fence, &until, &mut ask);
                return Next::Wait;
            }
            let is_in = |standing: &Standing| {
                may_take(standing) || matches!(standing, Standing::Refused(_))
            };
            if self.count(is_in) < quorum || !self.raise(quorum) {
                return Next::Fail;
            }
        }
    }

    fn ask(
        &mut self,
        fence: u64,
        until: &impl Fn(NodeIndex) -> ClientInstant,
        ask: &mut impl FnMut(NodeIndex, u64),
    ) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if let Standing::Granted(by) = &node.standing {
                node.standing = Standing::Asked(by.clone(), until(index));
                ask(index, fence);
            }
        }
    }

    /// One more than the largest number that a majority has told. Says whether there is such a number.
    fn raise(&mut self, quorum: usize) -> bool {
        let next = self.known(quorum).and_then(|fence| fence.checked_add(1));
        let next = next.filter(|next| self.fence != Some(*next) && !self.is_out_of_reach(*next));
        let Some(next) = next.filter(|_| self.rounds < ROUNDS_MAX) else {
            return false;
        };
        self.rounds += 1;
        self.fence = Some(next);
        for index in 0..self.nodes.len() {
            if let Some(by) = self.identity(index) {
                self.stand(index, Standing::Granted(by));
            }
        }
        true
    }

    /// Whether no number is left for nodes that have granted the lock: the last one is taken, or they are so far apart that each
    /// number is refused by too many.
    pub(super) fn has_no_next(&self, quorum: usize) -> bool {
        let known = self.known(quorum);
        known.is_some_and(|known| self.is_out_of_reach(known.saturating_add(1)))
    }

    fn is_out_of_reach(&self, number: u64) -> bool {
        number > FENCE_MAX || self.too_high.is_some_and(|high| number >= high)
    }

    /// The largest fence of the name that this node has told.
    pub(super) fn told_by(&self, node: NodeIndex) -> Option<u64> {
        self.nodes.get(node).and_then(|node| node.told)
    }

    /// Who granted the lock under this entry, where it may still take a fence.
    fn identity(&self, node: NodeIndex) -> Option<Identity> {
        match self.nodes.get(node).map(|node| &node.standing) {
            Some(
                Standing::Granted(by)
                | Standing::Asked(by, _)
                | Standing::Taken(by)
                | Standing::Refused(by),
            ) => Some(by.clone()),
            _ => None,
        }
    }

    fn stand(&mut self, node: NodeIndex, standing: Standing) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.standing = standing;
        }
    }

    /// How many distinct nodes stand so.
    fn count(&self, is_one: impl Fn(&Standing) -> bool) -> usize {
        let mut ballot = Ballot::default();
        for index in 0..self.nodes.len() {
            if is_one(&self.nodes[index].standing)
                && let Some(by) = self.identity(index)
            {
                ballot.add(index, by);
            }
        }
        ballot.distinct()
    }
}

/// Nodes refuse a larger step. A node that is further ahead than that of the others is left out.
const STEP_MAX: u64 = 1 << 40;
/// Each round finds a larger number only where another caller has raised it meanwhile, who then had the lock there as well.
const ROUNDS_MAX: u32 = 8;

#[cfg(test)]
mod tests;
