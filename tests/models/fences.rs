//! The model of fences: clients, nodes, an operator, a network in no order, crashes and lost disks.
//!
//! Invariant to be checked: of two acquisitions the one that was completed later has the larger fence. There is no clock.
//! That a node keeps a lock until the validity of its attempt is over is what the model of exclusion shows. Here an attempt's
//! time may be up at any moment, and a lock may end at any moment after that, or after its acquisition: whether by release,
//! by its TTL or in a restart delay.

mod action;
mod client;
mod node;
mod scope;

use stateright::{Model, Property};

use crate::check::{Explain, Refuted};
use crate::parts::Token;

pub(crate) use action::Action;
use client::{Client, Message, Way};
use node::{Node, Request, Told};
use scope::{Budget, Sight};
pub(crate) use scope::{Mutant, Scope, everything, mutants, scopes};

/// The model: one scope, and what is wrong with what it mirrors, if anything.
#[derive(Clone, Debug)]
pub(crate) struct Fencing {
    pub(crate) scope: Scope,
    pub(crate) mutant: Mutant,
    refuted: Refuted,
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    /// On its way. Never delivered is lost, so there is no action for that.
    pub(crate) network: Vec<Message>,
    pub(crate) budget: Budget,
    /// The fences that were acquired, in the order of their acquisitions.
    acquired: Vec<u64>,
    /// One is not above all that were acquired before its attempt began.
    is_behind: bool,
    /// A node has taken a fence for a token that does not hold the lock there.
    is_unowned: bool,
    has_forced: bool,
    has_healed: bool,
    is_after_adoption: bool,
    is_after_restart: bool,
}

impl Fencing {
    pub(crate) fn new(scope: Scope, mutant: Mutant) -> Fencing {
        Fencing {
            scope,
            mutant,
            refuted: Refuted::default(),
        }
    }

    /// Lets a client do something, and puts on its way what it sends.
    fn with_client(
        &self,
        world: &mut World,
        number: u8,
        act: impl FnOnce(&mut Client, &mut Vec<Message>) -> Option<u64>,
    ) {
        let client = &mut world.clients[usize::from(number)];
        let acquired = act(client, &mut world.network);
        if let Some(fence) = acquired {
            self.note(world, number, fence);
        }
        let client = &mut world.clients[usize::from(number)];
        if client.trying.is_none() {
            client.above = 0;
            for node in &mut world.nodes {
                node.waits_for &= !(1 << number);
            }
        }
        let clients = &world.clients;
        let matters = |message: &Message| {
            let client = &clients[usize::from(message.token.client)];
            client.is_at(message.token) || message.told.is_none() && self.scope.has_late_requests
        };
        world.network.retain(matters);
        for node in &mut world.nodes {
            node.held.retain(matters);
        }
        world.network.sort_unstable();
        world.network.dedup();
    }

    /// A client has acquired the lock with this fence.
    fn note(&self, world: &mut World, number: u8, fence: u64) {
        let may_heal = world.budget.healed > 0;
        let client = &mut world.clients[usize::from(number)];
        client.held = may_heal.then(|| (client.token(), fence));
        world.is_behind |= fence <= client.above || world.acquired.contains(&fence);
        world.acquired.push(fence);
        let token = client.token();
        let is_its = |node: &&Node| node.holder == Some(token);
        for node in world.nodes.iter().filter(is_its) {
            world.is_after_adoption |= node.has_adopted;
            world.is_after_restart |= node.starts > 0;
        }
    }

    /// A request reaches its node, or a reply its client.
    fn deliver(&self, world: &mut World, message: Message) {
        if message.told.is_some() {
            let number = message.token.client;
            return self.with_client(world, number, |client, out| client.open(message, out));
        }
        let is_over = |token: Token| !world.clients[usize::from(token.client)].is_at(token);
        let node = &world.nodes[usize::from(message.node)];
        let is_free = match node.holder {
            Some(holder) if self.mutant == Mutant::LeaseTooShort => holder != message.token,
            Some(holder) => holder != message.token && is_over(holder),
            None => true,
        };
        let node = &mut world.nodes[usize::from(message.node)];
        if is_free {
            node.holder = None;
        }
        let told = node.execute(message.token, message.request);
        let is_taken = matches!(told, Told::Taken(_));
        world.is_unowned |= is_taken && node.holder != Some(message.token);
        let reply = Message {
            told: Some((told, node.starts)),
            ..message
        };
        let is_failing = self.scope.failing.contains(&message.node);
        if !is_failing {
            node.sync();
        }
        let tells = !matches!(told, Told::WithoutLock | Told::Refused);
        if tells && !node.is_synced() && self.mutant != Mutant::RepliesBeforeSync {
            node.held.push(reply);
            node.held.sort_unstable();
        } else {
            self.tell(world, reply);
        }
    }

    /// A reply leaves its node.
    fn tell(&self, world: &mut World, reply: Message) {
        if !world.clients[usize::from(reply.token.client)].is_at(reply.token) {
            return;
        }
        if self.scope.has_late_replies {
            world.network.push(reply);
            world.network.sort_unstable();
        } else {
            self.deliver(world, reply);
        }
    }

    /// A node takes a lock that others hold already, and its fence: the same request as that of an attempt with a guess.
    fn heal(&self, world: &mut World, client: u8, number: u8) {
        world.budget.healed -= 1;
        let held = world.clients[usize::from(client)].held;
        let (token, fence) = held.expect("only what is held is healed");
        let node = &mut world.nodes[usize::from(number)];
        node.holder = None;
        let told = node.execute(token, Request::Acquire(Some(fence)));
        if !self.scope.failing.contains(&number) {
            node.sync();
        }
        world.has_healed |= matches!(told, Told::Granted { is_guess: true, .. });
    }

    fn happen_to_node(&self, world: &mut World, action: &Action) {
        let trying = world.clients.iter().zip(0_u8..);
        let trying = trying.filter(|(client, _)| client.trying.is_some());
        let trying = trying.fold(0, |bits, (_, number)| bits | 1 << number);
        let budget = &mut world.budget;
        match *action {
            Action::Sync(number) => {
                for reply in world.nodes[usize::from(number)].sync() {
                    self.tell(world, reply);
                }
            }
            Action::Restart(number, is_kept) => {
                budget.crashes -= 1;
                world.nodes[usize::from(number)].restart(is_kept);
            }
            Action::LoseDisk(number) => {
                budget.lost_disks -= 1;
                world.nodes[usize::from(number)].lose_disk(trying);
            }
            Action::Ask(number, other) => {
                let ceiling = world.nodes[usize::from(other)].fences.ceiling().value();
                let (asked, largest) = &mut world.nodes[usize::from(number)].asked;
                *asked |= 1 << other;
                *largest = (*largest).max(ceiling);
            }
            Action::Adopt(number) => world.nodes[usize::from(number)].adopt(),
            Action::Force(number) => {
                budget.forced_releases -= 1;
                world.has_forced = true;
                world.nodes[usize::from(number)].holder = None;
            }
            Action::Forget(number) => {
                budget.forgotten -= 1;
                world.nodes[usize::from(number)].forget();
            }
            Action::Heal(client, node) => self.heal(world, client, node),
            Action::Begin(_) | Action::Ring(_) | Action::Deliver(_) => {}
        }
    }
}

impl Explain for Fencing {
    fn refuted(&self) -> &Refuted {
        &self.refuted
    }

    fn explain(&self, world: &World) -> String {
        format!("the fences in order of acquisition: {:?}", world.acquired)
    }
}

impl Model for Fencing {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let clients = (0..).zip(&self.scope.attempts);
        vec![World {
            nodes: vec![Node::fresh(); usize::from(self.scope.nodes)],
            clients: clients.map(|(number, _)| Client::new(number)).collect(),
            network: Vec::new(),
            budget: self.scope.budget,
            acquired: Vec::new(),
            is_behind: false,
            is_unowned: false,
            has_forced: false,
            has_healed: false,
            is_after_adoption: false,
            is_after_restart: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if !self.refuted.is_over() {
            action::possible(self, world, actions);
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match action {
            Action::Begin(number) => {
                let above = world.acquired.iter().max().copied().unwrap_or(0);
                self.with_client(&mut world, number, |client, out| {
                    client.begin(&self.scope, above, out);
                    None
                });
            }
            Action::Ring(number) => self.with_client(&mut world, number, |client, out| {
                client.ring(&self.scope, out)
            }),
            Action::Deliver(message) => {
                let at = world.network.iter().position(|other| *other == message)?;
                world.network.remove(at);
                self.deliver(&mut world, message);
            }
            _ => self.happen_to_node(&mut world, &action),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(ABOVE, |model: &Self, world: &World| {
                model.refuted.unless_first(!world.is_behind)
            }),
            Property::always(IN_ORDER, |model: &Self, world: &World| {
                let is_in_order = world.acquired.is_sorted();
                model.refuted.unless_first(is_in_order || world.has_forced)
            }),
            Property::always(OWNED, |model: &Self, world: &World| {
                model.refuted.unless_first(!world.is_unowned)
            }),
        ];
        all.extend(self.scope.sights.iter().map(|sight| match sight {
            Sight::InTurn => Property::sometimes("all clients acquire it in turn", in_turn),
            Sight::Guess => {
                Property::sometimes("a guess is the second fence", |_, world: &World| {
                    world.acquired.len() > 1 && has_way(world, Way::Guess)
                })
            }
            Sight::RefusedGuess => {
                Property::sometimes("a second round follows a guess", |_, world: &World| {
                    has_way(world, Way::RefusedGuess)
                })
            }
            Sight::AfterRestart => {
                Property::sometimes("a node votes after a crash", |_, world: &World| {
                    world.is_after_restart
                })
            }
            Sight::Healed => Property::sometimes(
                "a node that was missed takes the fence",
                |_, world: &World| world.has_healed,
            ),
            Sight::OutOfOrder => {
                Property::sometimes("the larger fence comes first", |_, world: &World| {
                    !world.acquired.is_sorted()
                })
            }
            Sight::AfterAdoption => {
                Property::sometimes("a node votes after an adoption", |_, world: &World| {
                    world.is_after_adoption
                })
            }
        }));
        all
    }
}

fn in_turn(_: &Fencing, world: &World) -> bool {
    world.clients.iter().all(|client| client.way.is_some())
}

fn has_way(world: &World, way: Way) -> bool {
    world.clients.iter().any(|client| client.way == Some(way))
}

/// C3 of the tests: fences are monotonic.
const ABOVE: &str = "a fence is new, and above all acquired before its attempt began";
/// A fence says who may write.
const OWNED: &str = "a node takes a fence for the token that holds its lock";
/// More than C3 asks for: without operators that delete locks no two validities overlap.
const IN_ORDER: &str = "fences grow in the order of acquisitions";
