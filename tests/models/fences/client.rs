//! A client of the model: the production [`Acquisition`] with a fence, and what it remembers between attempts.

use std::time::Duration;

use quorlock_client_rules::acquisition::{Acquisition, AttemptAction, AttemptEvent, Decision};
use quorlock_client_rules::clock::ClientInstant;
use quorlock_client_rules::outcome::Cause;
use quorlock_client_rules::{Answer, FenceAnswer, NodeFence};

use super::node::{Request, Told};
use super::scope::Scope;
use crate::parts::{Token, client_time, identity, terms};

/// Something on its way between a client and a node. The network keeps them in no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) token: Token,
    pub(crate) node: u8,
    pub(crate) request: Request,
    /// A reply to the request, and the start of the node that it comes from.
    pub(crate) told: Option<(Told, u8)>,
}

/// How an attempt came to its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// No node was asked a second time.
    Guess,
    RefusedGuess,
    NoGuess,
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    number: u8,
    /// Attempts begun so far: the number of the current one.
    pub(crate) attempt: u8,
    /// Its time since the attempt began.
    pub(crate) tick: u8,
    pub(crate) trying: Option<Acquisition>,
    /// The fence that it would guess to be the last one.
    known: Option<u64>,
    guess: Option<u64>,
    has_asked: bool,
    /// The largest fence of all that had been acquired when it began.
    pub(crate) above: u64,
    /// What it has acquired, where nodes that have missed it may take it later.
    pub(crate) held: Option<(Token, u64)>,
    /// The last attempt succeeded, and how.
    pub(crate) way: Option<Way>,
}

impl Client {
    pub(crate) fn new(number: u8) -> Client {
        Client {
            number,
            attempt: 0,
            tick: 0,
            trying: None,
            known: None,
            guess: None,
            has_asked: false,
            above: 0,
            held: None,
            way: None,
        }
    }

    pub(crate) fn token(&self) -> Token {
        Token {
            client: self.number,
            attempt: self.attempt,
        }
    }

    /// Whether this is the attempt that it is at.
    pub(crate) fn is_at(&self, token: Token) -> bool {
        self.trying.is_some() && self.token() == token
    }

    /// Begins an attempt.
    pub(crate) fn begin(&mut self, scope: &Scope, above: u64, out: &mut Vec<Message>) {
        self.attempt += 1;
        (self.tick, self.above, self.way) = (0, above, None);
        self.guess = self.known.map(|known| known + 1);
        self.has_asked = false;
        let terms = terms(scope.nodes, 2 * TICK);
        let patience = if scope.is_patient { 2 * TICK } else { TICK };
        let mut actions = Vec::new();
        let mut attempt = Acquisition::start(terms, self.now(), |_| patience, &mut actions);
        attempt.ask_fence(self.guess);
        self.trying = Some(attempt);
        self.act(actions, out);
    }

    /// A time of the attempt has come: that of its patience, or the end of its validity.
    pub(crate) fn ring(&mut self, scope: &Scope, out: &mut Vec<Message>) -> Option<u64> {
        self.tick = if scope.is_patient { 2 } else { self.tick + 1 };
        self.handle(AttemptEvent::Timer, out)
    }

    /// A reply of the current attempt. Returns the fence with which the lock was acquired by it.
    pub(crate) fn open(&mut self, message: Message, out: &mut Vec<Message>) -> Option<u64> {
        let (told, starts) = message.told?;
        let node = usize::from(message.node);
        let by = identity(message.node, starts);
        let taken = |answer, fence| AttemptEvent::Answered {
            node,
            answer,
            fence,
        };
        let event = match (message.request, told) {
            (Request::Fence(fence), told) => AttemptEvent::Fenced {
                node,
                fence,
                answer: match told {
                    Told::Taken(_) => FenceAnswer::Taken(by),
                    Told::NotTaken(known) => FenceAnswer::Refused(known),
                    Told::WithoutLock => FenceAnswer::WithoutLock,
                    _ => FenceAnswer::Not(Cause::Silent),
                },
            },
            (_, Told::Granted { fence, is_guess }) => {
                taken(Answer::Granted(by), Some(NodeFence { fence, is_guess }))
            }
            (_, Told::Busy(fence)) => {
                let told = NodeFence {
                    fence,
                    is_guess: false,
                };
                taken(Answer::Busy { by, holder: None }, Some(told))
            }
            _ => taken(Answer::Not(Cause::Silent), None),
        };
        self.handle(event, out)
    }

    fn handle(&mut self, event: AttemptEvent, out: &mut Vec<Message>) -> Option<u64> {
        let now = self.now();
        let attempt = self.trying.as_mut()?;
        let mut actions = Vec::new();
        attempt.handle(now, event, &mut actions);
        let decision = attempt.decision().cloned();
        let fence = attempt.fence();
        self.act(actions, out);
        let decision = decision?;
        let acquired = matches!(decision, Decision::Acquired { .. });
        let fence = acquired.then(|| fence.expect("acquired only with a fence"));
        self.way = fence.map(|_| match (self.guess, self.has_asked) {
            (Some(_), false) => Way::Guess,
            (Some(_), true) => Way::RefusedGuess,
            (None, _) => Way::NoGuess,
        });
        self.end();
        fence
    }

    /// The attempt is over.
    fn end(&mut self) {
        if let Some(attempt) = self.trying.take() {
            self.known = attempt.known_fence();
        }
        (self.tick, self.guess, self.has_asked) = (0, None, false);
    }

    fn act(&mut self, actions: Vec<AttemptAction>, out: &mut Vec<Message>) {
        for action in actions {
            match action {
                AttemptAction::Send { node } => {
                    out.push(self.request(node, Request::Acquire(self.guess)));
                }
                AttemptAction::Fence { node, fence } => {
                    self.has_asked = true;
                    out.push(self.request(node, Request::Fence(fence)));
                }
                // Timers come when the checker says. A lock whose attempt is over may end at any time, released or not.
                AttemptAction::ArmTimer(_)
                | AttemptAction::Decide(_)
                | AttemptAction::ReleaseEverywhere
                | AttemptAction::Release { .. } => {}
            }
        }
    }

    fn request(&self, node: usize, request: Request) -> Message {
        Message {
            token: self.token(),
            node: u8::try_from(node).unwrap_or(u8::MAX),
            request,
            told: None,
        }
    }

    fn now(&self) -> ClientInstant {
        client_time(TICK * u32::from(self.tick))
    }
}

const TICK: Duration = Duration::from_secs(1);
