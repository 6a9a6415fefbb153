//! Some of the locks that a majority of the nodes holds: one page of one node, compared with what the others hold.
//!
//! A lock that a majority holds is on at least one of any `n - quorum + 1` nodes, so the pages of so many nodes are gone through, one node
//! after the other. A lock is told of at the first of them that holds it. Which these are is in the cursor, so nothing is
//! remembered between two pages.
//!
//! Invariants: what is told of is held by a majority of distinct nodes under one token. A lock that a majority of the
//! nodes holds as long as the list is read, on nodes that answer, is told of at least once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::answer::{Content, KeptLock, NodePage};
use crate::call::Outcome;
use crate::clock::ClientInstant;
use crate::connecting::Connecting;
use crate::context::Context;
use crate::link::request::{Kind, Subject};
use crate::outcome::{Cause, ListedLock, LockPage, ReadError};
use crate::protocol::listing::{compare_words, page_words};
use crate::round::Round;
use crate::step::{Input, Step};
use crate::votes::{Ballot, Identity, NodeIndex};

#[derive(Debug)]
pub(super) struct Listing {
    pattern: Bytes,
    prefix_bytes: usize,
    place: Place,
    stage: Stage,
    /// Why nodes have not told their page.
    causes: Vec<Option<Cause>>,
}

/// How far a list was read: what a cursor says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    /// The node whose pages are read.
    node: NodeIndex,
    /// Where it goes on; 0 at its beginning.
    cursor: u64,
    /// The nodes whose pages were all read.
    read: u64,
}

#[derive(Debug)]
enum Stage {
    Connecting(Connecting),
    /// The node was asked for its page, and has so long.
    Paging(ClientInstant),
    Comparing(RecordComparison),
}

type Answer = Result<(Identity, Vec<KeptLock>), Cause>;

#[derive(Debug)]
struct RecordComparison {
    names: Vec<Bytes>,
    round: Round<Answer>,
    /// Whose page it is.
    node: NodeIndex,
    /// The nodes that have told of their locks before.
    read: u64,
}

impl Listing {
    pub(super) fn start(pattern: Bytes, cursor: u128, context: &mut Context<'_>) -> Self {
        let connecting = Connecting::start(Duration::MAX, true, context);
        let mut listing = Self {
            pattern,
            prefix_bytes: context.settings.prefix.len(),
            place: match Place::of(cursor) {
                place if place.node < context.nodes() => place,
                _ => Place::default(),
            },
            stage: Stage::Paging(context.now),
            causes: vec![None; context.nodes()],
        };
        match connecting {
            Some(connecting) => listing.stage = Stage::Connecting(connecting),
            // What follows from it comes as an answer or with the time.
            None => listing.ask_page(context),
        }
        listing
    }

    pub(super) fn next_time(&self) -> ClientInstant {
        match &self.stage {
            Stage::Connecting(connecting) => connecting.deadline,
            Stage::Paging(deadline) => *deadline,
            Stage::Comparing(comparing) => comparing.round.deadline,
        }
    }

    pub(super) fn handle(&mut self, input: Input, context: &mut Context<'_>) -> Step {
        match &mut self.stage {
            Stage::Connecting(connecting) => {
                if connecting.handle(input, context.now) {
                    self.ask_page(context);
                }
                Step::GoesOn
            }
            Stage::Paging(deadline) => {
                let answer = match input {
                    Input::Reply(reply) if reply.node == self.place.node => match reply.content {
                        Content::Page(page) => page,
                        _ => return Step::GoesOn,
                    },
                    _ if context.now.has_reached(*deadline) => Err(Cause::Silent),
                    _ => return Step::GoesOn,
                };
                match answer {
                    Ok(page) => self.compare(page, context),
                    Err(cause) => self.leave_out(cause, context),
                }
            }
            Stage::Comparing(comparing) => {
                if let Input::Reply(reply) = input
                    && let Content::Compared(answer) = reply.content
                {
                    comparing.round.answered(reply.node, answer);
                }
                self.look(context)
            }
        }
    }

    /// Asks the node whose turn it is.
    fn ask_page(&mut self, context: &mut Context<'_>) {
        let node = self.place.node;
        let words = page_words(self.place.cursor, &self.pattern);
        self.stage = Stage::Paging(context.now.after(context.patience(LASTS)));
        context.ask(node, Kind::Page, &Subject::of_words(words, LASTS), 0);
    }

    /// The next node's pages are read, if there is one more: the others have to do without this one.
    fn leave_out(&mut self, cause: Cause, context: &mut Context<'_>) -> Step {
        self.causes[self.place.node] = Some(cause);
        match self.place.next_node(context) {
            Some(next) => {
                self.place = next;
                self.ask_page(context);
                Step::GoesOn
            }
            None => self.fail(&[], context),
        }
    }

    fn compare(&mut self, page: NodePage, context: &mut Context<'_>) -> Step {
        let Place { node, read, .. } = self.place;
        if page.cursor > NODE_CURSOR_MAX {
            let cause = Cause::Refused(Arc::from("its cursors are longer than 48 bits"));
            return self.leave_out(cause, context);
        }
        // The caller would read the same page again and again. That the cursors of a node never end is for the caller to notice.
        if page.cursor == self.place.cursor && page.cursor != 0 {
            let cause = Cause::Refused(Arc::from("its list of locks does not go on"));
            return self.leave_out(cause, context);
        }
        self.place.cursor = page.cursor;
        let deadline = context.now.after(context.patience(LASTS));
        // Without names as well: nothing is said without a majority.
        let subject = Subject::of_words(compare_words(&page.names), LASTS);
        let round = context.ask_all(Kind::Compare, &subject, deadline);
        self.stage = Stage::Comparing(RecordComparison {
            names: page.names,
            round,
            node,
            read,
        });
        self.look(context)
    }

    fn look(&mut self, context: &mut Context<'_>) -> Step {
        let Stage::Comparing(comparing) = &self.stage else {
            return Step::GoesOn;
        };
        let held: Vec<_> = (0..comparing.names.len())
            .map(|at| comparing.held(at, context.quorum()))
            .collect();
        let has_quorum = comparing.have_answered() >= context.quorum();
        // Whether it was told of before, those have to say that were read before.
        let is_decided = has_quorum
            && held.iter().all(Option::is_some)
            && !(0..context.nodes()).any(|node| comparing.awaits_earlier(node));
        if !is_decided && !comparing.round.is_over(context.now) {
            return Step::GoesOn;
        }
        if !has_quorum {
            let answers: Vec<_> = (0..context.nodes())
                .map(|node| comparing.round.cause(node))
                .collect();
            return self.fail(&answers, context);
        }
        let told = held
            .into_iter()
            .flatten()
            .filter(|lock| comparing.is_new(lock));
        let locks = told.map(|(lock, _)| ListedLock {
            name: lock.name.slice(self.prefix_bytes.min(lock.name.len())..),
            ..lock
        });
        let locks = locks.collect();
        let next = match self.place.cursor {
            0 => {
                self.place.read |= 1 << self.place.node;
                let needed = context.nodes() + 1 - context.quorum();
                let is_complete = self.place.read.count_ones() as usize >= needed;
                match self.place.next_node(context) {
                    _ if is_complete => Place::default(),
                    Some(next) => next,
                    None => return self.fail(&[], context),
                }
            }
            _ => self.place,
        };
        let cursor = next.cursor();
        context.tell(Outcome::Listed(Ok(LockPage { cursor, locks })));
        Step::Ended
    }

    fn fail(&self, answers: &[Option<Cause>], context: &mut Context<'_>) -> Step {
        let cause = |node: NodeIndex| {
            let answered = answers.get(node).cloned().flatten();
            answered.or_else(|| self.causes[node].clone())
        };
        let labels = context.labels.iter().enumerate();
        let error = ReadError {
            needed: context.quorum(),
            nodes: labels
                .map(|(node, label)| (Arc::clone(label), cause(node)))
                .collect(),
        };
        context.tell(Outcome::Listed(Err(error)));
        Step::Ended
    }
}

impl RecordComparison {
    /// The lock of this name as a majority holds it, if one does, and the nodes that do.
    fn held(&self, at: usize, quorum: usize) -> Option<(ListedLock, u64)> {
        let answers = || self.round.answers().iter().enumerate();
        let of_node = |answer: &'_ Option<Answer>| match answer {
            Some(Ok((by, held))) => {
                let held = held.get(at).cloned().flatten();
                held.map(|(token, left)| (by.clone(), token, left))
            }
            _ => None,
        };
        let tokens = answers().filter_map(|(_, answer)| Some(of_node(answer)?.1));
        for token in tokens {
            let (mut ballot, mut nodes, mut left) = (Ballot::default(), 0, Duration::MAX);
            for (node, answer) in answers() {
                if let Some((by, other, lasts)) = of_node(answer)
                    && other == token
                {
                    ballot.add(node, by);
                    nodes |= 1 << node;
                    left = left.min(lasts);
                }
            }
            if ballot.distinct() >= quorum {
                let lock = ListedLock {
                    name: self.names[at].clone(),
                    token,
                    left,
                    nodes: ballot.distinct(),
                };
                return Some((lock, nodes));
            }
        }
        None
    }

    /// Whether no node that was read before has told of it.
    fn is_new(&self, (_, nodes): &(ListedLock, u64)) -> bool {
        nodes & self.read & !(1 << self.node) == 0
    }

    /// Whether a node that was read before has yet to answer.
    fn awaits_earlier(&self, node: NodeIndex) -> bool {
        self.read & (1 << node) != 0 && self.round.awaits(node)
    }

    /// How many nodes have answered.
    fn have_answered(&self) -> usize {
        let mut ballot = Ballot::default();
        for (node, answer) in self.round.answers().iter().enumerate() {
            if let Some(Ok((by, _))) = answer {
                ballot.add(node, by.clone());
            }
        }
        ballot.distinct()
    }
}

impl Place {
    /// A cursor is anybody's number: what is too large in it begins elsewhere.
    fn of(cursor: u128) -> Self {
        let part = |bits: u128, at: u32| {
            u64::try_from((cursor >> at) & bits).expect("no more bits than it has")
        };
        Self {
            node: usize::try_from(part(0x3f, 48)).expect("a few bits"),
            cursor: part(u128::from(NODE_CURSOR_MAX), 0),
            read: part(u128::from(u64::MAX), 54),
        }
    }

    fn cursor(self) -> u128 {
        u128::from(self.read) << 54 | (self.node as u128) << 48 | u128::from(self.cursor)
    }

    /// The beginning of the next node's pages. One that is listed twice is read once.
    fn next_node(self, context: &Context<'_>) -> Option<Self> {
        let mut others = self.node + 1..context.nodes();
        let node = others.find(|node| context.register.same_as(*node).is_none())?;
        Some(Self {
            node,
            cursor: 0,
            read: self.read,
        })
    }
}

/// How long the question is worth asking, and by which the silence of nodes is judged.
const LASTS: Duration = Duration::from_secs(10);
const NODE_CURSOR_MAX: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_says_how_far_a_list_was_read() {
        for place in [
            Place::default(),
            Place {
                node: 63,
                cursor: NODE_CURSOR_MAX,
                read: u64::MAX,
            },
            Place {
                node: 2,
                cursor: 17,
                read: 0b11,
            },
        ] {
            assert_eq!(Place::of(place.cursor()), place);
        }
        assert_eq!(Place::default().cursor(), 0);
        // More than a cursor has is cut.
        assert_eq!(Place::of(u128::MAX).node, 63);
    }
}
