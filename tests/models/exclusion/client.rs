//! A client of the model: the production state machines of `quorlock-client`, and the clocks of its machine.
//!
//! [`Acquisition`] and [`Holding`] run as they are; this file carries their actions out and hands
//! them the events, in any order the checker chooses.

use std::time::Duration;

use quorlock_client_rules::acquisition::{
    Acquisition, AttemptAction, AttemptEvent, Decision, Terms,
};
use quorlock_client_rules::clock::ClientInstant;
use quorlock_client_rules::holding::{Holding, HoldingAction, HoldingEvent};
use quorlock_client_rules::outcome::Cause;
use quorlock_client_rules::votes::Identity;
use quorlock_client_rules::{Answer, ExtendAnswer};

use super::mutant::Mutant;
use super::node::{Told, Wish};
use super::scope::{Asker, DRIFT, Pace};

/// Something on its way between a client and a node. The network keeps them in no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) client: u8,
    pub(crate) address: u8,
    pub(crate) attempt: u8,
    pub(crate) round: u8,
    pub(crate) wish: Wish,
    /// A reply to the request, with what the node told and the incarnation it told it in.
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
    boot_ns: u64,
    monotonic_ns: u64,
    raw_ns: u64,
    /// Attempts begun so far: the number of the current one.
    pub(crate) attempt: u8,
    pub(crate) extensions_left: u8,
    pub(crate) standing: Standing,
    timer: Option<ClientInstant>,
    pub(crate) has_extended: bool,
    pub(crate) has_held: bool,
}

/// What a client cannot change.
pub(crate) struct Means<'a> {
    pub(crate) asker: &'a Asker,
    pub(crate) mutant: Mutant,
    /// The identity the node at an address shows in an incarnation.
    pub(crate) identity: &'a dyn Fn(u8, u8) -> Identity,
}

impl Client {
    pub(crate) fn new(number: u8, asker: &Asker) -> Client {
        Client {
            number,
            boot_ns: EPOCH_NS + asker.lead_ns,
            monotonic_ns: EPOCH_NS,
            raw_ns: EPOCH_NS,
            attempt: 0,
            extensions_left: asker.extensions,
            standing: Standing::Idle,
            timer: None,
            has_extended: false,
            has_held: false,
        }
    }

    /// Whether the program behind it may act on the lock now.
    pub(crate) fn believes(&self, mutant: Mutant) -> bool {
        let Standing::Holding(holding) = &self.standing else {
            return false;
        };
        holding.ended().is_none() && !self.now(mutant).has_reached(holding.valid_until())
    }

    /// One tick of true time.
    pub(crate) fn tick(&mut self, pace: Pace) {
        self.boot_ns += pace.boot_ns;
        self.monotonic_ns += pace.monotonic_ns;
        self.raw_ns += pace.raw_ns;
    }

    pub(crate) fn timer_is_due(&self, mutant: Mutant) -> bool {
        let is_at_work = self.standing != Standing::Idle;
        is_at_work
            && self
                .timer
                .is_some_and(|at| self.now(mutant).has_reached(at))
    }

    /// Begins an attempt.
    pub(crate) fn begin(&mut self, means: &Means<'_>, out: &mut Vec<Message>) {
        self.attempt += 1;
        let mut actions = Vec::new();
        let terms = terms(means, means.asker.ttl_ns);
        let now = self.now(means.mutant);
        let attempt = Acquisition::start(terms, now, |_| PATIENCE, &mut actions);
        self.standing = Standing::Trying(attempt);
        self.act_trying(means, actions, out);
    }

    /// The caller gives the attempt up, or a timer has come, or a node has told.
    pub(crate) fn handle_trying(
        &mut self,
        means: &Means<'_>,
        event: AttemptEvent,
        out: &mut Vec<Message>,
    ) {
        let now = self.now(means.mutant);
        let Standing::Trying(attempt) = &mut self.standing else {
            return;
        };
        let mut actions = Vec::new();
        attempt.handle(now, event, &mut actions);
        self.act_trying(means, actions, out);
    }

    pub(crate) fn handle_holding(
        &mut self,
        means: &Means<'_>,
        event: HoldingEvent,
        out: &mut Vec<Message>,
    ) {
        let now = self.now(means.mutant);
        let Standing::Holding(holding) = &mut self.standing else {
            return;
        };
        let mut actions = Vec::new();
        holding.handle(now, PATIENCE, event, &mut actions);
        let has_ended = holding.ended().is_some();
        self.act_holding(means, actions, out);
        if has_ended {
            self.standing = Standing::Idle;
        }
    }

    /// A timer that has come.
    pub(crate) fn ring(&mut self, means: &Means<'_>, out: &mut Vec<Message>) {
        match self.standing {
            Standing::Trying(_) => self.handle_trying(means, AttemptEvent::Timer, out),
            Standing::Holding(_) => self.handle_holding(means, HoldingEvent::Timer, out),
            Standing::Idle => {}
        }
    }

    /// A reply of the current attempt.
    pub(crate) fn open(&mut self, means: &Means<'_>, message: Message, out: &mut Vec<Message>) {
        let Some((told, incarnation)) = message.told else {
            return;
        };
        let node = usize::from(message.address);
        let by = (means.identity)(message.address, incarnation);
        let round = u32::from(message.round);
        if message.wish == Wish::Extend {
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
            return self.handle_holding(means, event, out);
        }
        let answer = match told {
            Told::Granted => Answer::Granted(by),
            Told::Busy => Answer::Busy { by, holder: None },
            _ => Answer::Not(Cause::Silent),
        };
        if matches!(self.standing, Standing::Trying(_)) {
            let event = AttemptEvent::Answered {
                node,
                answer,
                fence: None,
            };
            return self.handle_trying(means, event, out);
        }
        let event = HoldingEvent::Taken {
            node,
            round,
            answer,
        };
        self.handle_holding(means, event, out);
    }

    fn act_trying(
        &mut self,
        means: &Means<'_>,
        actions: Vec<AttemptAction>,
        out: &mut Vec<Message>,
    ) {
        for action in actions {
            match action {
                AttemptAction::Send { node } => out.push(self.request(node, 0, Wish::Take)),
                AttemptAction::ArmTimer(at) => self.timer = Some(at),
                AttemptAction::Decide(Decision::Acquired { valid_until }) => {
                    self.hold(means, valid_until);
                }
                AttemptAction::Decide(_) => self.standing = Standing::Idle,
                AttemptAction::ReleaseEverywhere => self.release_everywhere(means, out),
                AttemptAction::Release { node } => out.push(self.request(node, 0, Wish::Release)),
                AttemptAction::Fence { .. } => unreachable!("no fence is asked for"),
            }
        }
    }

    fn hold(&mut self, means: &Means<'_>, valid_until: ClientInstant) {
        let Standing::Trying(attempt) = &self.standing else {
            return;
        };
        let terms = terms(means, means.asker.extension_ns);
        let valid_until = if means.mutant == Mutant::StartedAfterReplies {
            let ttl = Duration::from_nanos(means.asker.ttl_ns);
            self.now(means.mutant).after(DRIFT.validity(ttl))
        } else {
            valid_until
        };
        let mut actions = Vec::new();
        let now = self.now(means.mutant);
        let holding = Holding::start(attempt, terms, valid_until, now, false, None, &mut actions);
        for action in actions {
            if let HoldingAction::ArmTimer(at) = action {
                self.timer = Some(at);
            }
        }
        self.standing = Standing::Holding(holding);
        self.has_held = true;
    }

    fn act_holding(
        &mut self,
        means: &Means<'_>,
        actions: Vec<HoldingAction>,
        out: &mut Vec<Message>,
    ) {
        for action in actions {
            match action {
                HoldingAction::Extend { node, round } => {
                    out.push(self.request(node, round, Wish::Extend));
                }
                // A lease of another length is extended by its token alone, which takes nothing.
                HoldingAction::Take { .. } if means.asker.ttl_ns != means.asker.extension_ns => {}
                HoldingAction::Take { node, round } => {
                    out.push(self.request(node, round, Wish::Take))
                }
                HoldingAction::ArmTimer(at) => self.timer = Some(at),
                HoldingAction::Renewed { .. } => self.has_extended = true,
                HoldingAction::NotRenewed | HoldingAction::Lost(_) => {}
                HoldingAction::ReleaseEverywhere => self.release_everywhere(means, out),
            }
        }
    }

    fn release_everywhere(&self, means: &Means<'_>, out: &mut Vec<Message>) {
        let nodes = 0..means.asker.addresses.len();
        out.extend(nodes.map(|node| self.request(node, 0, Wish::Release)));
    }

    fn request(&self, node: usize, round: u32, wish: Wish) -> Message {
        Message {
            client: self.number,
            address: u8::try_from(node).unwrap_or(u8::MAX),
            attempt: self.attempt,
            round: u8::try_from(round).unwrap_or(u8::MAX),
            wish,
            told: None,
        }
    }

    fn now(&self, mutant: Mutant) -> ClientInstant {
        match mutant {
            Mutant::SuspendNotAdded => ClientInstant::from_nanos(self.boot_ns, self.raw_ns),
            Mutant::ClockTotals => {
                let larger = self.boot_ns.max(self.raw_ns);
                ClientInstant::from_nanos(larger, larger)
            }
            _ => ClientInstant::from_readings(self.boot_ns, self.monotonic_ns, self.raw_ns),
        }
    }
}

fn terms(means: &Means<'_>, ttl_ns: u64) -> Terms {
    let mut drift = DRIFT;
    if means.mutant == Mutant::NoDriftAllowance {
        drift.rate_ppm = 0;
    }
    Terms {
        nodes: means.asker.addresses.len(),
        spare_votes: match means.mutant {
            Mutant::NoSpareVote => 0,
            _ => means.asker.spare_votes,
        },
        ttl: Duration::from_nanos(ttl_ns),
        lock_delay: Duration::ZERO,
        drift,
        min_validity: Duration::ZERO,
        reserve: None,
    }
}

/// Nodes are waited for as long as the lease lasts: giving up earlier is a choice of the caller.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Where the clocks stand when the world begins.
pub(crate) const EPOCH_NS: u64 = 1_000_000_000;
