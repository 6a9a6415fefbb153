//! Who holds a lock, as a majority of the nodes says.
//!
//! Invariant: that it is held, or is not, is said only where a majority of distinct nodes says the same. A node tells its token
//! before the time it has left: who is still held under that token later had that time, or less, behind the first answer.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use crate::answer::{Content, Kept, Sight};
use crate::call::Outcome;
use crate::clock::ClientInstant;
use crate::connecting::Connecting;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::{Cause, Looked, ReadError, Reading as Told};
use crate::round::Round;
use crate::step::{Input, Step};
use crate::token::Token;
use crate::votes::{Ballot, Identity, NodeIndex};

#[derive(Debug)]
pub(super) enum Reading {
    /// No majority could be asked now, and connections are being made.
    Connecting(Connecting, Question),
    Asking(Asking),
}

#[derive(Debug)]
pub(super) struct Question {
    subject: Rc<Subject>,
    /// Whether it is also about what the nodes know of the holder.
    is_full: bool,
}

#[derive(Debug)]
pub(super) struct Asking {
    is_full: bool,
    began: ClientInstant,
    holders: Round<Result<(Identity, Kept), Cause>>,
    /// How long the nodes keep the lock, asked right behind its token.
    left: Round<Option<Duration>>,
    /// What they know of the holder, asked behind that. It decides nothing.
    sights: Round<Option<Sight>>,
}

impl Reading {
    pub(super) fn start(name: Bytes, is_full: bool, context: &mut Context<'_>) -> Self {
        let subject = Subject::new(name.into(), Token::from_bytes(Bytes::new()), LASTS);
        let question = Question { subject, is_full };
        match Connecting::start(Duration::MAX, true, context) {
            Some(connecting) => Self::Connecting(connecting, question),
            None => Self::Asking(Asking::start(&question, context)),
        }
    }

    pub(super) fn next_time(&self) -> ClientInstant {
        match self {
            Self::Connecting(connecting, _) => connecting.deadline,
            Self::Asking(asking) => asking.holders.deadline,
        }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        match self {
            Self::Connecting(connecting, question) => {
                if connecting.handle(input, context.now) {
                    *self = Self::Asking(Asking::start(question, context));
                }
                Step::GoesOn
            }
            Self::Asking(asking) => asking.handle(input, context),
        }
    }
}

impl Asking {
    fn start(question: &Question, context: &mut Context<'_>) -> Self {
        let Question { subject, is_full } = question;
        let deadline = context.now.after(context.patience(LASTS));
        let mut holders = Round::start(context.nodes(), deadline);
        let mut left = Round::start(context.nodes(), deadline);
        let mut sights = Round::start(context.nodes(), deadline);
        for node in 0..context.nodes() {
            holders.ask(node);
            context.ask(node, Kind::Holder, subject, 0);
            left.ask(node);
            context.ask(node, Kind::TimeLeft, subject, 0);
            if *is_full {
                sights.ask(node);
                let look = Kind::Look {
                    is_tracked: false,
                    index: None,
                };
                context.ask(node, look, subject, 0);
            }
        }
        Self {
            is_full: *is_full,
            began: context.now,
            holders,
            left,
            sights,
        }
    }

    fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        if let Input::Reply(reply) = input {
            match reply.content {
                Content::Holder(holder) => self.holders.answered(reply.node, holder),
                Content::TimeLeft(left) => self.left.answered(reply.node, left),
                Content::Seen(seen, _) => {
                    let sight = seen.ok().and_then(|(_, sight)| sight);
                    self.sights.answered(reply.node, sight);
                }
                _ => {}
            }
        }
        let is_over = self.holders.is_over(context.now) && self.left.is_over(context.now);
        let told = match self.said_by_majority(context) {
            Some(told) => Ok(told),
            None if !is_over => return Step::GoesOn,
            None => self.said_by_some(context),
        };
        if self.is_full && !self.has_seen(&told, context) {
            return Step::GoesOn;
        }
        context.tell(match self.is_full {
            true => Outcome::Looked(told.map(|told| self.looked(told, context))),
            false => Outcome::Read(told),
        });
        Step::Ended
    }

    /// Whether no answer that is still to come could say more of the holder.
    fn has_seen(&self, told: &Result<Told, ReadError>, context: &Context<'_>) -> bool {
        let Ok(Told::Held { token, .. }) = told else {
            return true;
        };
        let agree = |(_, one): (NodeIndex, &Sight)| {
            let is_same = |other: &Sight| other.fence == one.fence && other.owner == one.owner;
            self.is_seen_by_majority(token, is_same, context)
        };
        self.sights.is_over(context.now) || self.sights_of(token).any(agree)
    }

    fn looked(&self, reading: Told, context: &Context<'_>) -> Looked {
        let (mut owner, mut fence) = (None, None);
        if let Told::Held { token, .. } = &reading {
            let mut owners = self.sights_of(token).map(|(_, sight)| &sight.owner);
            owner = owners.find_map(Clone::clone);
            let mut fences = self.sights_of(token).filter_map(|(_, sight)| sight.fence);
            fence = fences.find(|fence| {
                self.is_seen_by_majority(token, |sight| sight.fence == Some(*fence), context)
            });
        }
        Looked {
            reading,
            owner,
            fence,
        }
    }

    /// Whether a majority knows this of the holder with this token.
    fn is_seen_by_majority(
        &self,
        token: &Token,
        is_so: impl Fn(&Sight) -> bool,
        context: &Context<'_>,
    ) -> bool {
        let nodes = self.sights_of(token).filter(|(_, sight)| is_so(sight));
        let nodes: Vec<NodeIndex> = nodes.map(|(node, _)| node).collect();
        self.distinct(&nodes) >= context.quorum()
    }

    /// What nodes know of the holder with this token.
    fn sights_of(&self, token: &Token) -> impl Iterator<Item = (NodeIndex, &Sight)> {
        let sights = self.sights.answers().iter().enumerate();
        let sights = sights.filter_map(|(node, sight)| Some((node, sight.as_ref()?.as_ref()?)));
        sights.filter(move |(_, sight)| sight.token == *token)
    }

    /// What a majority says, if one says the same. Where the lock is held, those nodes have told for how long, if they do in time.
    fn said_by_majority(&self, context: &Context<'_>) -> Option<Told> {
        let (kept, mut nodes) = self.most_said()?;
        if *kept != Kept::Nothing && !self.left.is_over(context.now) {
            nodes.retain(|node| !self.left.awaits(*node));
        }
        if self.distinct(&nodes) < context.quorum() {
            return None;
        }
        let left = || self.shortest_left(&nodes, context.now);
        Some(match kept {
            Kept::Nothing => Told::Free,
            Kept::Token(token) => Told::Held {
                token: token.clone(),
                left: left(),
                longest: self.longest_left(&nodes),
            },
            Kept::OtherType => Told::OtherType { left: left() },
        })
    }

    fn said_by_some(&self, context: &Context<'_>) -> Result<Told, ReadError> {
        let has_told = |node: &NodeIndex| matches!(self.holders.answers()[*node], Some(Ok(_)));
        let told: Vec<_> = (0..context.nodes()).filter(has_told).collect();
        if self.distinct(&told) < context.quorum() {
            return Err(self.unread(context));
        }
        // One holder counts more than readers: it may be on its way, or on its way out.
        let held = self.kept_by_count().into_iter();
        let most_held = held.max_by_key(|(kept, _)| match kept {
            Kept::Nothing => 0,
            Kept::OtherType => 1,
            Kept::Token(_) => 2,
        });
        let left = |nodes: &[NodeIndex]| self.shortest_left(nodes, context.now);
        match most_held {
            Some((Kept::Token(token), nodes)) => Ok(Told::Split {
                token: token.clone(),
                left: left(&nodes),
            }),
            Some((Kept::OtherType, nodes)) => Ok(Told::OtherType { left: left(&nodes) }),
            Some((Kept::Nothing, _)) | None => Err(self.unread(context)),
        }
    }

    fn unread(&self, context: &Context<'_>) -> ReadError {
        ReadError {
            needed: context.quorum(),
            nodes: self.holders.causes(context.labels),
        }
    }

    /// What the most nodes say, and which these are.
    fn most_said(&self) -> Option<(&Kept, Vec<NodeIndex>)> {
        self.kept_by_count().pop()
    }

    /// What nodes say that they keep, and which say it: last what the most of them say, of several the one said first.
    fn kept_by_count(&self) -> Vec<(&Kept, Vec<NodeIndex>)> {
        let mut said: Vec<(&Kept, Vec<NodeIndex>)> = Vec::new();
        for (node, answer) in self.holders.answers().iter().enumerate() {
            let Some(Ok((_, kept))) = answer else {
                continue;
            };
            match said.iter_mut().find(|(other, _)| *other == kept) {
                Some((_, nodes)) => nodes.push(node),
                None => said.push((kept, vec![node])),
            }
        }
        said.reverse();
        said.sort_by_key(|(_, nodes)| nodes.len());
        said
    }

    /// How many nodes of one cluster these are.
    fn distinct(&self, nodes: &[NodeIndex]) -> usize {
        let mut ballot = Ballot::default();
        for node in nodes {
            if let Some(Ok((identity, _))) = &self.holders.answers()[*node] {
                ballot.add(*node, identity.clone());
            }
        }
        ballot.distinct()
    }

    /// The longest time that one of these nodes keeps the lock.
    fn longest_left(&self, nodes: &[NodeIndex]) -> Option<Duration> {
        let left = nodes.iter().filter_map(|node| self.left.answers()[*node]);
        left.flatten().max()
    }

    /// The shortest time that one of these nodes still keeps the lock. One that has not told is no bound.
    fn shortest_left(&self, nodes: &[NodeIndex], now: ClientInstant) -> Option<Duration> {
        let left = nodes.iter().filter_map(|node| self.left.answers()[*node]);
        let shortest = left.flatten().min()?;
        // What was left when a node was asked is not less than what it told.
        Some(shortest.saturating_sub(now.since(self.began)))
    }
}

/// How long the question is worth asking, and by which the silence of nodes is judged.
const LASTS: Duration = Duration::from_secs(10);
