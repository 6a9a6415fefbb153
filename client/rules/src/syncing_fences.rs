//! Nodes that may have lost fences are told what the others took.
//!
//! Invariant: what a node adopts is the largest ceiling of a majority of other nodes that are certain of theirs, asked after
//! the node had answered, so that its restart delay was over: until then what it took before may still be on its way to the others.
//! The node takes no fence in between.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::{Content, NodeCeiling};
use crate::call::Outcome;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::{Cause, FenceState, NodeFences};
use crate::round::Round;
use crate::step::{Input, Step};
use crate::votes::{Ballot, Identity, NodeIndex, majority};

type Answer = Result<NodeCeiling, Cause>;

#[derive(Debug)]
pub(super) struct SyncingFences {
    trusts_disks: bool,
    stage: Stage,
    pub(super) round: Round<Answer>,
    /// The nodes that were uncertain, and out of their restart delays, before the others were asked what they took.
    uncertain: Vec<(NodeIndex, Identity)>,
    states: Vec<FenceState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Which of them are uncertain.
    Looking,
    /// What the others took.
    Asking,
    Adopting,
}

impl SyncingFences {
    pub(super) fn start(trusts_disks: bool, context: &mut Context<'_>) -> Self {
        let everybody = everybody(context);
        Self {
            trusts_disks,
            stage: Stage::Looking,
            round: ask(&everybody, Stage::Looking, context),
            uncertain: Vec::new(),
            states: Vec::new(),
        }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        if let Input::Reply(reply) = input
            && reply.round == self.stage.number()
            && let Content::Ceiling(answer) = reply.content
        {
            self.round.answered(reply.node, answer);
        }
        if !self.round.is_over(context.now) {
            return Step::GoesOn;
        }
        match self.stage {
            Stage::Looking => {
                self.uncertain = self.uncertain_now();
                if self.uncertain.is_empty() {
                    return self.end(context);
                }
                let everybody = everybody(context);
                self.go_on(Stage::Asking, &everybody, context);
            }
            Stage::Asking => {
                let adoptions = self.adoptions(context.nodes());
                if adoptions.is_empty() {
                    return self.end(context);
                }
                self.note_states(context.nodes());
                self.go_on(Stage::Adopting, &adoptions, context);
            }
            Stage::Adopting => return self.end(context),
        }
        Step::GoesOn
    }

    fn go_on(&mut self, stage: Stage, questions: &[(NodeIndex, Kind)], context: &mut Context<'_>) {
        self.stage = stage;
        self.round = ask(questions, stage, context);
    }

    fn end(&mut self, context: &mut Context<'_>) -> Step {
        self.note_states(context.nodes());
        self.note_doubtful(context);
        let labels = context.labels.iter().map(Arc::clone);
        let states = self.states.drain(..);
        let nodes = labels
            .zip(states)
            .map(|(node, state)| NodeFences { node, state });
        let nodes = nodes.collect();
        context.tell(Outcome::FencesSynced(nodes));
        Step::Ended
    }

    /// What is known of each node after this round.
    fn note_states(&mut self, nodes: usize) {
        let is_adopting = self.stage == Stage::Adopting;
        let answers = self.round.answers().iter().enumerate();
        let states = answers.map(|(node, answer)| match answer {
            None if is_adopting && !self.round.awaits(node) => self.states[node].clone(),
            None => FenceState::Unknown(Cause::Silent),
            Some(Err(cause)) => FenceState::Unknown(cause.clone()),
            Some(Ok(told)) if is_adopting => FenceState::Adopted(told.ceiling),
            Some(Ok(told)) if told.is_certain => FenceState::Certain(told.ceiling),
            Some(Ok(told)) => FenceState::Uncertain {
                ceiling: told.ceiling,
                certain_others: self.certain_others(told).0,
                needed: majority(nodes),
            },
        });
        self.states = states.collect();
    }

    fn uncertain_now(&self) -> Vec<(NodeIndex, Identity)> {
        let answers = self.round.answers().iter().enumerate();
        let uncertain = answers.filter_map(|(node, answer)| match answer {
            Some(Ok(told)) if !told.is_certain => Some((node, told.by.clone())),
            _ => None,
        });
        uncertain.collect()
    }

    /// What each uncertain node is to adopt, where that is known. One that was not uncertain before the others were asked may
    /// have been in its restart delay when they answered: it has to be asked again.
    fn adoptions(&self, nodes: usize) -> Vec<(NodeIndex, Kind)> {
        let told = || self.round.answers().iter().flatten().flatten();
        let largest = told().map(|told| told.ceiling).max().unwrap_or(0);
        let everybody_told = told().count() == nodes;
        let adoption = |(node, answer): (NodeIndex, &Option<Answer>)| {
            let Some(Ok(told)) = answer else {
                return None;
            };
            if told.is_certain || !self.uncertain.contains(&(node, told.by.clone())) {
                return None;
            }
            let (others, ceiling) = self.certain_others(told);
            if self.far_ahead().is_some() {
                return None;
            }
            let ceiling = match others >= majority(nodes) {
                true => ceiling,
                false if self.trusts_disks && everybody_told => largest,
                false => return None,
            };
            Some((node, Kind::Adopt(ceiling)))
        };
        let answers = self.round.answers().iter().enumerate();
        answers.filter_map(adoption).collect()
    }

    /// A node that says it has taken what no counting could reach from what the others have: it may be wrong, or they are.
    fn far_ahead(&self) -> Option<(NodeIndex, u64)> {
        let answers = self.round.answers().iter().enumerate();
        let told = answers.filter_map(|(node, answer)| match answer {
            Some(Ok(told)) if told.is_certain => Some((told.ceiling, node)),
            _ => None,
        });
        let (largest, node) = told.clone().max()?;
        let (smallest, _) = told.min()?;
        (largest - smallest > SPREAD_MAX).then_some((node, largest))
    }

    /// Entries that stand for no node of their own, and nodes that adopt nothing because one is far ahead.
    fn note_doubtful(&mut self, context: &Context<'_>) {
        let far_ahead = match self.stage {
            Stage::Adopting => None,
            Stage::Looking | Stage::Asking => self.far_ahead(),
        };
        for (node, state) in self.states.iter_mut().enumerate() {
            if let Some(outsider) = context.register.outsider(node) {
                *state = FenceState::Unknown(outsider);
            } else if let Some(twin) = context.register.same_as(node) {
                let twin = Arc::clone(&context.labels[twin]);
                *state = FenceState::Unknown(Cause::SameNode(twin));
            } else if let (Some((other, ceiling)), FenceState::Uncertain { .. }) =
                (far_ahead, &*state)
            {
                let other = &context.labels[other];
                *state = FenceState::Unknown(Cause::Refused(Arc::from(format!(
                    "{other} tells a ceiling of {ceiling}, which nobody comes to by counting, so nothing was adopted: if it is wrong, \
                     empty that node; if it is right, give this number to LOCK.ADOPT on all others"
                ))));
            }
        }
    }

    /// How many distinct nodes but this one are certain, and the largest of their ceilings.
    fn certain_others(&self, node: &NodeCeiling) -> (usize, u64) {
        let (mut ballot, mut largest) = (Ballot::default(), 0);
        for (index, answer) in self.round.answers().iter().enumerate() {
            if let Some(Ok(other)) = answer
                && other.is_certain
                && other.by.id != node.by.id
            {
                ballot.add(index, other.by.clone());
                largest = largest.max(other.ceiling);
            }
        }
        (ballot.distinct(), largest)
    }
}

impl Stage {
    fn number(self) -> u32 {
        match self {
            Self::Looking => 0,
            Self::Asking => 1,
            Self::Adopting => 2,
        }
    }
}

/// What all nodes are asked.
fn everybody(context: &Context<'_>) -> Vec<(NodeIndex, Kind)> {
    let nodes = 0..context.nodes();
    nodes.map(|node| (node, Kind::Ceiling)).collect()
}

fn ask(questions: &[(NodeIndex, Kind)], stage: Stage, context: &mut Context<'_>) -> Round<Answer> {
    let subject = Subject::of_words(Vec::new(), QUESTION_LASTS);
    let deadline = context.now.after(context.settings.node_deadline_max);
    let mut round = Round::start(context.nodes(), deadline);
    for (node, kind) in questions {
        round.ask(*node);
        context.ask(*node, *kind, &subject, stage.number());
    }
    round
}

/// Nodes do not take a fence that is so far above the last one.
const SPREAD_MAX: u64 = 1 << 40;
const QUESTION_LASTS: Duration = Duration::from_secs(5);
