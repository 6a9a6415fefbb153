//! What an operation may use of the client while it handles an event.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng;

use crate::OperationId;
use crate::action::Action;
use crate::call::Outcome;
use crate::clock::ClientInstant;
use crate::counting::Counting;
use crate::fences::KnownFences;
use crate::lines::Lines;
use crate::link::obstacle::outsider;
use crate::link::request::{Asker, Form, Kind, Request, Subject};
use crate::link::{Link, LinkReply};
use crate::log_line::{LogLine, News};
use crate::refusals::Refusals;
use crate::register::Register;
use crate::round::Round;
use crate::settings::Settings;
use crate::token::Token;
use crate::votes::NodeIndex;
use crate::wait::Waiting;

pub(super) struct Context<'a> {
    pub(super) now: ClientInstant,
    pub(super) operation: OperationId,
    pub(super) settings: &'a Settings,
    pub(super) labels: &'a Arc<[Arc<str>]>,
    pub(super) links: &'a mut [Link],
    pub(super) register: &'a Register,
    pub(super) refusals: &'a mut Refusals,
    pub(super) fences: &'a mut KnownFences,
    pub(super) lines: &'a mut Lines,
    pub(super) random: &'a mut dyn Rng,
    pub(super) actions: &'a mut Vec<Action>,
    /// Answers of nodes that are not asked because what they would say is known.
    pub(super) known: &'a mut VecDeque<LinkReply>,
    pub(super) counting: &'a mut Counting,
}

impl Context<'_> {
    pub(super) fn nodes(&self) -> usize {
        self.links.len()
    }

    pub(super) fn quorum(&self) -> usize {
        self.settings.quorum(self.links.len())
    }

    /// Whether the client can stand in line at any node now, as far as is known.
    pub(super) fn has_lines(&self) -> bool {
        let mut links = self.links.iter();
        links.any(|link| link.may_have_lines(self.now))
    }

    /// The longest that any node is waited for in a round about a lease of `ttl`.
    pub(super) fn patience(&self, ttl: Duration) -> Duration {
        let links = self.links.iter();
        links
            .map(|link| link.patience(ttl, self.now))
            .max()
            .unwrap_or(Duration::ZERO)
    }

    /// How long a majority of the nodes takes for a round, as far as was measured.
    pub(super) fn round_trip(&self) -> Duration {
        round_trip(self.links, self.quorum())
    }

    /// What a round with a majority of the nodes has taken in the mean, if so many were measured.
    pub(super) fn mean_round_trip(&self) -> Option<Duration> {
        let mut means: Vec<_> = self
            .links
            .iter()
            .filter_map(Link::mean_round_trip)
            .collect();
        means.sort_unstable();
        means.get(self.quorum() - 1).copied()
    }

    /// How long a turn of this client in a line at this node has to last: a few round trips with the node, which sends the
    /// message, and with a majority, which is asked then. None where turns are as long anyway.
    pub(super) fn turn_at(&self, node: NodeIndex) -> Option<Duration> {
        let needed = self.links[node]
            .round_trip()
            .saturating_add(self.round_trip());
        (needed > TURN_LASTS).then_some(needed.min(TURN_MAX))
    }

    /// Asks one node. Every question is answered, if need be with why it was not put.
    pub(super) fn ask(&mut self, node: NodeIndex, kind: Kind, subject: &Rc<Subject>, round: u32) {
        let asker = Asker {
            operation: self.operation,
            round,
        };
        let request = self.request(kind, subject, Some(asker));
        let link = &mut self.links[node];
        let outsider = match link.is_logged_in() {
            true => outsider(self.register, node, kind, round),
            // Who answers on the next connection is not known yet.
            false => None,
        };
        let submitted = match outsider {
            Some(cause) => {
                link.doubt_login(subject.ttl, self.now);
                Err(cause)
            }
            None => link.submit(self.now, request),
        };
        if let Err(cause) = submitted {
            self.known.push_back(LinkReply {
                node,
                operation: self.operation,
                round,
                content: kind.without_answer(cause),
            });
        }
    }

    /// Asks all nodes, until this time.
    pub(super) fn ask_all<A>(
        &mut self,
        kind: Kind,
        subject: &Rc<Subject>,
        deadline: ClientInstant,
    ) -> Round<A> {
        let mut round = Round::start(self.nodes(), deadline);
        for node in 0..self.nodes() {
            round.ask(node);
            self.ask(node, kind, subject, 0);
        }
        round
    }

    /// Releases on every node, behind whatever was sent there before, and lets the nodes' queues
    /// see to it.
    pub(super) fn release_everywhere(&mut self, subject: &Rc<Subject>) {
        for node in 0..self.links.len() {
            let request = self.request(Kind::Release, subject, None);
            if let Err(cause) = self.links[node].submit(self.now, request) {
                let node = Arc::clone(&self.labels[node]);
                let news = News::NotQueued(cause);
                self.actions.push(Action::Log(LogLine { node, news }));
            }
        }
    }

    /// Stands in line for a lock no longer.
    pub(super) fn leave_line(&mut self, name: &Bytes) {
        self.let_readers_in(name);
        if let Some(node) = self.lines.leave(name) {
            self.unwait(node, name);
        }
    }

    /// Leaves the lines in which the client stands beside the one, to keep readers out.
    pub(super) fn let_readers_in(&mut self, name: &Bytes) {
        while let Some(node) = self.lines.take_also_at(name) {
            self.unwait(node, name);
        }
    }

    /// Leaves the line for a lock at a node, where the connection stands to which it belongs.
    pub(super) fn unwait(&mut self, node: NodeIndex, name: &Bytes) {
        if !self.links[node].has_lines() {
            return;
        }
        let subject = Subject::new(
            name.clone().into(),
            Token::from_bytes(Bytes::new()),
            UNWAIT_TTL,
        );
        let request = self.request(Kind::Unwait, &subject, None);
        // A line that is not left costs the others the turn of this client, which lapses.
        let _not_queued = self.links[node].submit(self.now, request);
    }

    /// Nobody wants to know of changes at a node any more.
    pub(super) fn untrack(&mut self, node: NodeIndex) {
        let subject = Subject::of_words(Vec::new(), UNWAIT_TTL);
        let request = self.request(Kind::Untrack, &subject, None);
        // Where it is not told, the client gets more messages than it needs.
        let _not_queued = self.links[node].submit(self.now, request);
    }

    pub(super) fn tell(&mut self, outcome: Outcome) {
        self.tell_other(self.operation, outcome);
    }

    pub(super) fn tell_other(&mut self, operation: OperationId, outcome: Outcome) {
        self.actions.push(Action::Tell(operation, outcome));
    }

    pub(super) fn tell_waiting(&mut self, waiting: Waiting) {
        self.actions.push(Action::Waiting(self.operation, waiting));
    }

    fn request(&self, kind: Kind, subject: &Rc<Subject>, asker: Option<Asker>) -> Request {
        let lasts = match kind {
            // What a lost release would leave behind is gone then.
            Kind::Release => subject.kept.saturating_add(RELEASE_SLACK),
            // Half of a lease is the least that makes taking a node worth while.
            _ => subject.ttl / 2,
        };
        Request {
            kind,
            subject: Rc::clone(subject),
            asker,
            since: self.now,
            until: self.now.after(lasts),
            form: Form::Preferred,
            is_repeated: false,
            closures: 0,
        }
    }
}

/// How long so many of these nodes take for a round, as far as was measured.
pub(super) fn round_trip(links: &[Link], quorum: usize) -> Duration {
    let mut usual: Vec<_> = links.iter().map(Link::round_trip).collect();
    usual.sort_unstable();
    usual[quorum - 1]
}

/// What turns last, and the longest that a node admits.
const TURN_LASTS: Duration = Duration::from_millis(50);
const TURN_MAX: Duration = Duration::from_secs(2);
/// A request about no lease: its silence is judged as that of one about this.
const UNWAIT_TTL: Duration = Duration::from_secs(10);
const RELEASE_SLACK: Duration = Duration::from_secs(1);
