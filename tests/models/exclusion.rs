//! The model of timed exclusion: clients, nodes, clocks, a network in no order, crashes and stops.
//!
//! Invariant to be checked: no two clients believe in the same lock at the same true time. Time is
//! an integer that every clock follows at a pace of its own; a message is delivered at any later
//! time, in any order, or never. The checker takes every choice there is within a scope's bounds.

mod action;
mod client;
#[cfg(test)]
mod engine_tests;
mod image;
mod life;
mod mutant;
mod node;
mod properties;
mod scope;
mod scopes;
mod worlds;

use std::sync::Arc;

use quorlock_client_rules::acquisition::AttemptEvent;
use quorlock_client_rules::holding::HoldingEvent;
use quorlock_client_rules::votes::Identity;
use quorlock_engine::RawTime;
use stateright::{Model, Property};

use crate::check::{Explain, Refuted};
use crate::parts::Token;

pub(crate) use action::Action;
use client::{Client, EPOCH_NS, Means, Message, Standing};
pub(crate) use mutant::Mutant;
use node::{Node, Phase, Rules, Wish};
pub(crate) use scope::Scope;
use scope::{Asker, Budget};
pub(crate) use scopes::{Size, everything, mutants, scopes};

/// The model: one scope, and what is wrong with the rules, if anything.
#[derive(Clone, Debug)]
pub(crate) struct Exclusion {
    pub(crate) scope: Scope,
    pub(crate) mutant: Mutant,
    refuted: Refuted,
    /// The names of the nodes, and names for addresses that a mutant takes for nodes.
    names: Vec<Arc<str>>,
}

/// Everything at one moment of true time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) tick: u8,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    /// On its way. Never delivered is lost, so there is no action for that.
    pub(crate) network: Vec<Message>,
    /// Replies that wait for their node's next sync, by node.
    pub(crate) held: Vec<(u8, Message)>,
    pub(crate) budget: Budget,
}

impl Exclusion {
    pub(crate) fn new(scope: Scope, mutant: Mutant) -> Exclusion {
        let name = |index: usize| Arc::from(format!("n{index}"));
        Exclusion {
            scope,
            mutant,
            refuted: Refuted::default(),
            names: (0..NAMES).map(name).collect(),
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            mutant: self.mutant,
            policy: self.scope.policy(),
            keeps_log: self.scope.keeps_log(),
            counts_frames: !self.scope.live.is_empty(),
        }
    }

    /// A node's raw clock. It goes on while the node is down, and elsewhere in another boot.
    pub(crate) fn raw(&self, world: &World, node: u8) -> RawTime {
        let index = usize::from(node);
        let passed_ns = self.scope.node_paces[index] * u64::from(world.tick);
        let boot_ns = BOOT_NS * u64::from(world.nodes[index].boot);
        RawTime::from_nanos(EPOCH_NS + boot_ns + passed_ns)
    }

    fn asker(&self, client: u8) -> &Asker {
        &self.scope.askers[usize::from(client)]
    }

    fn identity(&self, client: u8, address: u8, incarnation: u8) -> Identity {
        let index = if self.mutant == Mutant::NodeCountedTwice {
            self.scope.node_paces.len() + usize::from(address)
        } else {
            usize::from(self.asker(client).addresses[usize::from(address)])
        };
        Identity::new(Arc::clone(&self.names[index]), u64::from(incarnation))
    }

    /// Lets a client do something, and puts on its way what it sends.
    fn with_client(
        &self,
        world: &mut World,
        number: u8,
        act: impl FnOnce(&mut Client, &Means<'_>, &mut Vec<Message>),
    ) {
        let identity = |address, incarnation| self.identity(number, address, incarnation);
        let means = Means {
            asker: self.asker(number),
            mutant: self.mutant,
            identity: &identity,
        };
        let client = &mut world.clients[usize::from(number)];
        act(client, &means, &mut world.network);
        let scope = &self.scope;
        let (attempt, is_over) = (client.attempt, client.standing == Standing::Idle);
        let matters = |message: &Message| {
            if scope.askers[usize::from(message.client)].unheard == Some(message.address) {
                return false;
            }
            if message.wish == Wish::Release {
                return scope.askers[usize::from(message.client)].has_releases;
            }
            // What an attempt that is over would still be told changes nothing. Nor do its late
            // takes, except where a retry could be confused with it.
            let is_dead = message.client == number && (is_over || message.attempt != attempt);
            !is_dead || message.told.is_none() && scope.has_late_requests
        };
        world.network.retain(matters);
        world.held.retain(|(_, message)| matters(message));
        world.network.sort_unstable();
    }

    /// A request reaches its node, or a reply its client.
    fn deliver(&self, world: &mut World, message: Message) {
        if message.told.is_some() {
            let number = message.client;
            self.with_client(world, number, |client, means, out| {
                client.open(means, message, out);
            });
            return;
        }
        let asker = self.asker(message.client);
        let node = asker.addresses[usize::from(message.address)];
        let raw = self.raw(world, node);
        let is_renewal = message.wish == Wish::Extend || message.round > 0;
        let ttl_ns = if is_renewal {
            asker.extension_ns
        } else {
            asker.ttl_ns
        };
        let token = Token {
            client: message.client,
            attempt: if self.mutant == Mutant::TokenReused {
                0
            } else {
                message.attempt
            },
        };
        let target = &mut world.nodes[usize::from(node)];
        let request = (message.wish, token, ttl_ns);
        let (told, waits) = target.execute(&self.rules(), raw, request);
        let incarnation = u8::try_from(target.incarnation()).unwrap_or(u8::MAX);
        // When the log of a node that never fails is synced is of no interest.
        let is_safe = !self.scope.failing.contains(&node);
        if is_safe {
            target.sync(&self.rules(), raw);
        }
        let client = &world.clients[usize::from(message.client)];
        let is_awaited = message.wish != Wish::Release
            && client.attempt == message.attempt
            && client.standing != Standing::Idle;
        if !is_awaited {
            return;
        }
        let reply = Message {
            told: Some((told, incarnation)),
            ..message
        };
        if waits && !is_safe {
            world.held.push((node, reply));
            world.held.sort_unstable();
        } else {
            self.tell(world, reply);
        }
    }

    /// A reply leaves its node.
    fn tell(&self, world: &mut World, reply: Message) {
        if self.scope.has_late_replies {
            world.network.push(reply);
            world.network.sort_unstable();
        } else {
            self.deliver(world, reply);
        }
    }

    /// Replies that waited for a sync leave.
    fn let_go(&self, world: &mut World, node: u8) {
        let is_of_node = |(at, _): &(u8, Message)| *at == node;
        let held = std::mem::take(&mut world.held);
        let (freed, kept): (Vec<_>, Vec<_>) = held.into_iter().partition(is_of_node);
        world.held = kept;
        for (_, reply) in freed {
            self.tell(world, reply);
        }
    }

    fn happen_to_client(&self, world: &mut World, action: &Action) {
        match *action {
            Action::Begin(number) => self.with_client(world, number, Client::begin),
            Action::Cancel(number) => self.with_client(world, number, |client, means, out| {
                client.handle_trying(means, AttemptEvent::Cancel, out);
            }),
            Action::Extend(number) => self.with_client(world, number, |client, means, out| {
                client.extensions_left -= 1;
                client.handle_holding(means, HoldingEvent::Extend, out);
            }),
            Action::Release(number) => self.with_client(world, number, |client, means, out| {
                client.handle_holding(means, HoldingEvent::Release, out);
            }),
            _ => {}
        }
    }

    fn happen_to_node(&self, world: &mut World, action: &Action) {
        let rules = self.rules();
        let Some(node) = action.node() else { return };
        let raw = self.raw(world, node);
        let subject = &mut world.nodes[usize::from(node)];
        let budget = &mut world.budget;
        match *action {
            Action::Sync(_) => subject.sync(&rules, raw),
            Action::Kill(_) => {
                budget.kills -= 1;
                subject.kill();
            }
            Action::LosePower(_, survivors) => {
                budget.power_losses -= 1;
                subject.lose_power(usize::from(survivors));
            }
            Action::Lie(_, kept) => {
                budget.lies -= 1;
                subject.lose_acknowledged(usize::from(kept));
            }
            Action::Repair(_, kept) => {
                budget.repairs -= 1;
                subject.repair(&rules, usize::from(kept));
            }
            Action::Stop(_) => {
                budget.stops -= 1;
                subject.stop(&rules, raw);
            }
            Action::Start(_, configured) => {
                let configuration = self.scope.configurations[usize::from(configured)];
                subject.start(&rules, raw, configuration);
            }
            Action::EndDelay(_) => subject.end_delay(&rules, raw),
            Action::Change(_, to) => {
                budget.changes -= 1;
                subject.change(raw, to);
            }
            Action::Checkpoint(_) => {
                budget.checkpoints -= 1;
                subject.open_checkpoint(&rules, raw);
            }
            _ => {}
        }
        if world.nodes[usize::from(node)].phase == Phase::Down && !matches!(action, Action::Stop(_))
        {
            // Whoever waited for the process that ended is told nothing.
            world.held.retain(|(at, _)| *at != node);
        } else if !world.nodes[usize::from(node)].has_unsynced() {
            self.let_go(world, node);
        }
    }
}

impl Explain for Exclusion {
    fn refuted(&self) -> &Refuted {
        &self.refuted
    }

    fn explain(&self, world: &World) -> String {
        let clients = world.clients.iter().enumerate();
        let believers: Vec<_> = clients
            .filter(|(_, client)| client.believes(self.mutant))
            .map(|(number, _)| format!("client {number}"))
            .collect();
        let key = |node: &Node| match (node.phase, node.key) {
            (Phase::Down, _) => "down".to_owned(),
            (_, None) => "free".to_owned(),
            (_, Some(key)) => format!("client {}", key.token.client),
        };
        let keys: Vec<_> = world.nodes.iter().map(key).collect();
        let (tick, believers, keys) = (world.tick, believers.join(", "), keys.join(", "));
        format!("at tick {tick} these believe: [{believers}]; the nodes' keys: [{keys}]")
    }
}

impl Model for Exclusion {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let first = self.scope.configurations[0];
        let first_bound_ns = self.scope.first_bound_ns;
        let fresh = |_| {
            Node::fresh(
                &self.rules(),
                RawTime::from_nanos(EPOCH_NS),
                first,
                first_bound_ns,
            )
        };
        let askers = self.scope.askers.iter().zip(0..);
        vec![World {
            tick: 0,
            nodes: self.scope.node_paces.iter().map(fresh).collect(),
            clients: askers
                .map(|(asker, number)| Client::new(number, asker))
                .collect(),
            network: Vec::new(),
            held: Vec::new(),
            budget: self.scope.budget,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if !self.refuted.is_over() {
            action::possible(self, world, actions);
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match &action {
            Action::Tick(choices) => {
                world.tick += 1;
                for (number, choice) in (0..).zip(choices) {
                    let client = &mut world.clients[usize::from(number)];
                    client.tick(self.asker(number).paces[usize::from(*choice)]);
                    // Timers come on time. A late one changes nothing: whatever happens to a
                    // client, it reads its clock first.
                    if client.timer_is_due(self.mutant) {
                        self.with_client(&mut world, number, Client::ring);
                    }
                }
            }
            Action::Deliver(message) => {
                let at = world.network.iter().position(|other| other == message)?;
                world.network.remove(at);
                self.deliver(&mut world, *message);
            }
            _ if action.node().is_some() => self.happen_to_node(&mut world, &action),
            _ => self.happen_to_client(&mut world, &action),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(&self.scope)
    }
}

/// A new boot's raw clock stands somewhere else.
const BOOT_NS: u64 = 1_000 * EPOCH_NS;
const NAMES: usize = 16;
