//! A client of the model, which reads or writes: the production [`Acquisition`] and [`Holding`], driven event by event.

use std::time::Duration;

use quorlock_client_rules::acquisition::{
    Acquisition, AttemptAction, AttemptEvent, Decision, Patience,
};
use quorlock_client_rules::clock::ClientInstant;
use quorlock_client_rules::holding::{Holding, HoldingAction, HoldingEvent};
use quorlock_client_rules::outcome::{Cause, Loss};
use quorlock_client_rules::{Answer, ExtendAnswer};

use super::node::{LEASE, TICK, Told, Wish};
use super::scope::{Asker, Scope};
use crate::parts::{Token, client_time, identity, terms};

/// Something on its way between a client and a node. The network keeps them in no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) token: Token,
    pub(crate) node: u8,
    pub(crate) round: u8,
    pub(crate) wish: Wish,
    /// A reply to the request, and the start of the node that it comes from.
    pub(crate) told: Option<(Told, u8)>,
}

/// What a client is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    Idle,
    Trying(Acquisition),
    Holding(Holding),
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    number: u8,
    pub(crate) is_reader: bool,
    nodes: u8,
    /// How long it waits for a node. Giving up earlier than the lease ends is a choice of the caller.
    patience: Duration,
    /// It tries again as soon as time has gone on.
    pub(crate) goes_on: bool,
    tick: u8,
    /// Attempts begun so far: the number of the current one.
    pub(crate) attempt: u8,
    pub(crate) extensions_left: u8,
    pub(crate) standing: Standing,
    timer: Option<ClientInstant>,
    /// The nodes that its next attempt asks before the others.
    first: Vec<usize>,
    /// When it asked for the first time.
    pub(crate) asked_at: Option<u8>,
    /// An operator has ended what it held, or was about to hold, in this attempt.
    pub(crate) forced: Option<u8>,
    pub(crate) has_held: bool,
    pub(crate) has_extended: bool,
    /// Its lock was gone at a majority of the nodes, which no operator had ended.
    pub(crate) has_lost: bool,
}

impl Client {
    pub(crate) fn new(number: u8, scope: &Scope) -> Client {
        let Asker {
            is_reader,
            extensions,
            ..
        } = scope.askers[usize::from(number)];
        Client {
            number,
            is_reader,
            nodes: scope.nodes,
            patience: match scope.is_prompt {
                true => TICK,
                false => LEASE,
            },
            goes_on: scope.is_prompt && !is_reader,
            tick: 0,
            attempt: 0,
            extensions_left: extensions,
            standing: Standing::Idle,
            timer: None,
            first: Vec::new(),
            asked_at: None,
            forced: None,
            has_held: false,
            has_extended: false,
            has_lost: false,
        }
    }

    pub(crate) fn token(&self) -> Token {
        Token {
            client: self.number,
            attempt: self.attempt,
        }
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.forced == Some(self.attempt)
    }

    /// Whether the program behind it may act on the lock now, and no operator has interfered.
    pub(crate) fn counts_itself_in(&self) -> bool {
        let Standing::Holding(holding) = &self.standing else {
            return false;
        };
        let is_over = holding.ended().is_some() || self.now().has_reached(holding.valid_until());
        !is_over && !self.is_forced()
    }

    /// Time goes on. Says whether its timer is due.
    pub(crate) fn tick(&mut self) -> bool {
        self.tick += 1;
        let is_at_work = self.standing != Standing::Idle;
        is_at_work && self.timer.is_some_and(|at| self.now().has_reached(at))
    }

    pub(crate) fn begin(&mut self, out: &mut Vec<Message>) {
        self.attempt += 1;
        self.asked_at = self.asked_at.or(Some(self.tick));
        let mut actions = Vec::new();
        let patience = Patience {
            most: self.patience,
            contended: self.patience,
        };
        let first = std::mem::take(&mut self.first);
        let is_first = |node| first.is_empty() || first.contains(&node);
        let (terms, now) = (terms(self.nodes, LEASE), self.now());
        let attempt = Acquisition::start_with(terms, now, is_first, |_| patience, &mut actions);
        self.standing = Standing::Trying(attempt);
        self.act_trying(actions, out);
    }

    pub(crate) fn handle_trying(&mut self, event: AttemptEvent, out: &mut Vec<Message>) {
        let now = self.now();
        let Standing::Trying(attempt) = &mut self.standing else {
            return;
        };
        let mut actions = Vec::new();
        attempt.handle(now, event, &mut actions);
        self.act_trying(actions, out);
    }

    pub(crate) fn handle_holding(&mut self, event: HoldingEvent, out: &mut Vec<Message>) {
        let now = self.now();
        let Standing::Holding(holding) = &mut self.standing else {
            return;
        };
        let mut actions = Vec::new();
        holding.handle(now, self.patience, event, &mut actions);
        let ended = holding.ended().cloned();
        self.act_holding(actions, out);
        if let Some(loss) = ended {
            self.has_lost |= loss == Loss::BelowMajority && !self.is_forced();
            self.standing = Standing::Idle;
        }
    }

    /// A timer that has come.
    pub(crate) fn ring(&mut self, out: &mut Vec<Message>) {
        match self.standing {
            Standing::Trying(_) => self.handle_trying(AttemptEvent::Timer, out),
            Standing::Holding(_) => self.handle_holding(HoldingEvent::Timer, out),
            Standing::Idle => {}
        }
    }

    /// A reply of the current attempt.
    pub(crate) fn open(&mut self, message: Message, out: &mut Vec<Message>) {
        let Some((told, starts)) = message.told else {
            return;
        };
        let node = usize::from(message.node);
        let by = identity(message.node, starts);
        let round = u32::from(message.round);
        if matches!(message.wish, Wish::Extend(_)) {
            let answer = match told {
                Told::Extended => ExtendAnswer::Extended(by),
                Told::Gone => ExtendAnswer::Gone(by),
                Told::Other => ExtendAnswer::Other(by),
                _ => ExtendAnswer::Not(Cause::Silent),
            };
            let event = HoldingEvent::Extended {
                node,
                round,
                answer,
            };
            return self.handle_holding(event, out);
        }
        let answer = match told {
            Told::Granted => Answer::Granted(by),
            Told::Busy | Told::WriterWaits => Answer::Busy { by, holder: None },
            _ => Answer::Not(Cause::Silent),
        };
        if matches!(self.standing, Standing::Trying(_)) {
            let event = AttemptEvent::Answered {
                node,
                answer,
                fence: None,
            };
            return self.handle_trying(event, out);
        }
        let event = HoldingEvent::Taken {
            node,
            round,
            answer,
        };
        self.handle_holding(event, out);
    }

    fn act_trying(&mut self, actions: Vec<AttemptAction>, out: &mut Vec<Message>) {
        for action in actions {
            match action {
                AttemptAction::Send { node } => out.push(self.request(node, 0, self.take())),
                AttemptAction::ArmTimer(at) => self.timer = Some(at),
                AttemptAction::Decide(Decision::Acquired { valid_until }) => self.hold(valid_until),
                AttemptAction::Decide(_) => {
                    if let Standing::Trying(attempt) = &self.standing
                        && self.goes_on
                    {
                        self.first = attempt.first_of_next();
                    }
                    self.standing = Standing::Idle;
                }
                AttemptAction::ReleaseEverywhere => self.release_everywhere(out),
                AttemptAction::Release { node } => {
                    out.push(self.request(node, 0, Wish::Release(self.is_reader)));
                }
                AttemptAction::Fence { .. } => unreachable!("no fence is asked for"),
            }
        }
    }

    fn hold(&mut self, valid_until: ClientInstant) {
        let Standing::Trying(attempt) = &self.standing else {
            return;
        };
        let (terms, now) = (terms(self.nodes, LEASE), self.now());
        let mut actions = Vec::new();
        let holding = Holding::start(attempt, terms, valid_until, now, false, None, &mut actions);
        for action in actions {
            if let HoldingAction::ArmTimer(at) = action {
                self.timer = Some(at);
            }
        }
        self.standing = Standing::Holding(holding);
        self.has_held = true;
    }

    fn act_holding(&mut self, actions: Vec<HoldingAction>, out: &mut Vec<Message>) {
        for action in actions {
            match action {
                HoldingAction::Extend { node, round } => {
                    out.push(self.request(node, round, Wish::Extend(self.is_reader)));
                }
                HoldingAction::Take { node, round } => {
                    out.push(self.request(node, round, self.take()));
                }
                HoldingAction::ArmTimer(at) => self.timer = Some(at),
                HoldingAction::Renewed { .. } => self.has_extended = true,
                HoldingAction::NotRenewed | HoldingAction::Lost(_) => {}
                HoldingAction::ReleaseEverywhere => self.release_everywhere(out),
            }
        }
    }

    fn release_everywhere(&self, out: &mut Vec<Message>) {
        let nodes = 0..usize::from(self.nodes);
        out.extend(nodes.map(|node| self.request(node, 0, Wish::Release(self.is_reader))));
    }

    fn take(&self) -> Wish {
        match self.is_reader {
            true => Wish::Read,
            false => Wish::Write,
        }
    }

    fn request(&self, node: usize, round: u32, wish: Wish) -> Message {
        Message {
            token: self.token(),
            node: u8::try_from(node).unwrap_or(u8::MAX),
            round: u8::try_from(round).unwrap_or(u8::MAX),
            wish,
            told: None,
        }
    }

    fn now(&self) -> ClientInstant {
        client_time(TICK * u32::from(self.tick))
    }
}
