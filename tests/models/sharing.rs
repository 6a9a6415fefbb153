//! The model of locks that readers share: readers, writers, nodes, a network in no order, crashes, lost disks, an operator.
//!
//! Invariants to be checked: nobody writes while another client counts itself in; a reader that counts itself in is kept by a
//! majority of the nodes; none is told that its lock is gone; and a writer that goes on trying has the lock after a bounded
//! time. All clocks go alike here: that they may be apart is the matter of the model of exclusion.

mod action;
mod client;
mod node;
mod scope;

use quorlock_client_rules::acquisition::AttemptEvent;
use quorlock_client_rules::holding::HoldingEvent;
use quorlock_client_rules::votes::majority;
use stateright::{Model, Property};

use crate::check::{Explain, Refuted};

pub(crate) use action::Action;
use client::{Client, Message, Standing};
use node::{LEASE_TICKS, Node, Told, Wish};
use scope::{Budget, Sight};
pub(crate) use scope::{Mutant, Scope, everything, mutants, scopes};

/// The model: one scope, and what is wrong with what it mirrors, if anything.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    pub(crate) scope: Scope,
    pub(crate) mutant: Mutant,
    refuted: Refuted,
}

/// Everything at one moment of true time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) tick: u8,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    /// On its way. Never delivered is lost, so there is no action for that.
    pub(crate) network: Vec<Message>,
    pub(crate) budget: Budget,
    was_kept_out: bool,
}

impl Sharing {
    pub(crate) fn new(scope: Scope, mutant: Mutant) -> Sharing {
        Sharing {
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
        act: impl FnOnce(&mut Client, &mut Vec<Message>),
    ) {
        act(&mut world.clients[usize::from(number)], &mut world.network);
        let clients = &world.clients;
        let matters = |message: &Message| {
            if matches!(message.wish, Wish::Release(_) | Wish::Force) {
                return true;
            }
            let client = usize::from(message.token.client);
            if self.scope.askers[client].unheard == Some(message.node) {
                return false;
            }
            let client = &clients[client];
            let is_awaited = client.token() == message.token && client.standing != Standing::Idle;
            is_awaited || message.told.is_none() && self.scope.has_late_requests
        };
        let is_heard = |message: &Message| {
            let asker = &self.scope.askers[usize::from(message.token.client)];
            asker.unheard != Some(message.node)
        };
        world
            .network
            .retain(|message| matters(message) && is_heard(message));
        for node in &mut world.nodes {
            node.retain(matters);
        }
        world.network.sort_unstable();
        world.network.dedup();
    }

    /// A request reaches its node, or a reply its client.
    fn deliver(&self, world: &mut World, message: Message) {
        if message.told.is_some() {
            let number = message.token.client;
            return self.with_client(world, number, |client, out| client.open(message, out));
        }
        let node = &mut world.nodes[usize::from(message.node)];
        let before = node.unsynced();
        let told = node.execute(world.tick, message.token, message.wish);
        world.was_kept_out |= told == Told::WriterWaits;
        let reply = Message {
            told: Some((told, node.starts)),
            ..message
        };
        let is_failing = self.scope.failing.contains(&message.node);
        if !is_failing {
            node.sync();
        }
        let has_effect = node.unsynced() > before || told == Told::Extended;
        let waits = self.scope.trusts_sync && has_effect && node.unsynced() > 0;
        if waits && self.mutant != Mutant::RepliesBeforeSync {
            node.hold(reply);
        } else {
            self.tell(world, reply);
        }
    }

    /// A reply leaves its node, and arrives: a client that is told earlier counts itself in earlier, not longer.
    fn tell(&self, world: &mut World, reply: Message) {
        let client = &world.clients[usize::from(reply.token.client)];
        let is_release = matches!(reply.wish, Wish::Release(_) | Wish::Force);
        if client.token() == reply.token && client.standing != Standing::Idle && !is_release {
            self.deliver(world, reply);
        }
    }

    fn tick(&self, world: &mut World) {
        world.tick += 1;
        for node in &mut world.nodes {
            node.tick(world.tick);
        }
        for number in 0..u8::try_from(world.clients.len()).unwrap_or(u8::MAX) {
            // A timer that is late changes nothing: whatever happens to a client, it reads its clock first.
            if world.clients[usize::from(number)].tick() {
                self.with_client(world, number, Client::ring);
            }
            let client = &world.clients[usize::from(number)];
            let goes_on = client.goes_on && client.asked_at.is_some() && !client.has_held;
            if goes_on && client.standing == Standing::Idle {
                self.with_client(world, number, Client::begin);
            }
        }
    }

    fn happen_to_client(&self, world: &mut World, action: &Action) {
        match *action {
            Action::Begin(number) => self.with_client(world, number, Client::begin),
            Action::Cancel(number) => self.with_client(world, number, |client, out| {
                client.handle_trying(AttemptEvent::Cancel, out);
            }),
            Action::Extend(number) => self.with_client(world, number, |client, out| {
                client.extensions_left -= 1;
                client.handle_holding(HoldingEvent::Extend, out);
            }),
            Action::Release(number) => self.with_client(world, number, |client, out| {
                client.handle_holding(HoldingEvent::Release, out);
            }),
            Action::Force(number) => {
                world.budget.forced_releases -= 1;
                let client = &mut world.clients[usize::from(number)];
                client.forced = Some(client.attempt);
                let token = client.token();
                let request = |node| Message {
                    token,
                    node,
                    round: 0,
                    wish: Wish::Force,
                    told: None,
                };
                let unheard = self.scope.askers[usize::from(number)].unheard;
                let nodes = (0..self.scope.nodes).filter(|node| Some(*node) != unheard);
                world.network.extend(nodes.map(request));
                world.network.sort_unstable();
            }
            _ => {}
        }
    }

    fn happen_to_node(&self, world: &mut World, action: &Action) {
        let short = u8::from(self.mutant == Mutant::DelayOneTickShort);
        let until = world.tick + LEASE_TICKS - short;
        let budget = &mut world.budget;
        match *action {
            Action::Sync(number) => {
                for reply in world.nodes[usize::from(number)].sync() {
                    self.tell(world, reply);
                }
            }
            Action::Kill(number) => {
                budget.kills -= 1;
                world.nodes[usize::from(number)].kill();
            }
            Action::LosePower(number, kept) => {
                budget.power_losses -= 1;
                let until = if self.scope.trusts_sync { 0 } else { until };
                world.nodes[usize::from(number)].lose_power(kept, until);
            }
            Action::LoseDisk(number) => {
                budget.lost_disks -= 1;
                world.nodes[usize::from(number)].lose_disk(until);
            }
            _ => {}
        }
    }
}

impl Explain for Sharing {
    fn refuted(&self) -> &Refuted {
        &self.refuted
    }

    fn explain(&self, world: &World) -> String {
        let clients = (0..).zip(&world.clients);
        let counted: Vec<String> = clients
            .filter(|(_, client)| client.counts_itself_in())
            .map(|(number, client): (u8, _)| {
                let kind = if client.is_reader { "reader" } else { "writer" };
                format!("client {number}, a {kind}")
            })
            .collect();
        let holders = |node: &Node| match node.is_waiting(world.tick) {
            true => "waits".to_owned(),
            false => {
                let holders = node.holders(world.tick);
                let names: Vec<_> = holders.map(|held| held.token.client.to_string()).collect();
                format!("[{}]", names.join(", "))
            }
        };
        let nodes: Vec<_> = world.nodes.iter().map(holders).collect();
        let (tick, counted, nodes) = (world.tick, counted.join("; "), nodes.join(" "));
        format!("at tick {tick} these count themselves in: [{counted}]; the nodes keep {nodes}")
    }
}

impl Model for Sharing {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let clients = (0..).zip(&self.scope.askers);
        vec![World {
            tick: 0,
            nodes: vec![Node::fresh(); usize::from(self.scope.nodes)],
            clients: clients
                .map(|(number, _)| Client::new(number, &self.scope))
                .collect(),
            network: Vec::new(),
            budget: self.scope.budget,
            was_kept_out: false,
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
            Action::Tick => self.tick(&mut world),
            Action::Deliver(message) => {
                let at = world.network.iter().position(|other| *other == message)?;
                world.network.remove(at);
                self.deliver(&mut world, message);
            }
            Action::Sync(_) | Action::Kill(_) | Action::LosePower(..) | Action::LoseDisk(_) => {
                self.happen_to_node(&mut world, &action);
            }
            _ => self.happen_to_client(&mut world, &action),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(APART, |model: &Self, world: &World| {
                model.refuted.unless_first(are_apart(world))
            }),
            Property::always(KEPT, |model: &Self, world: &World| {
                model.refuted.unless_first(are_kept(world))
            }),
            Property::always(NOT_LOST, |model: &Self, world: &World| {
                let has_lost = world.clients.iter().any(|client| client.has_lost);
                model.refuted.unless_first(!has_lost)
            }),
        ];
        if self.scope.is_prompt {
            all.push(Property::always(
                NOT_STARVED,
                |model: &Self, world: &World| model.refuted.unless_first(!is_starved(world)),
            ));
        }
        all.extend(self.scope.sights.iter().map(|sight| match sight {
            Sight::Together => {
                Property::sometimes("two readers hold the lock together", |_, world: &World| {
                    counted_in(world).filter(|client| client.is_reader).count() > 1
                })
            }
            Sight::InTurn => Property::sometimes("a writer and a reader hold it in turn", in_turn),
            Sight::Extended => Property::sometimes("a reader extends it", |_, world: &World| {
                world
                    .clients
                    .iter()
                    .any(|client| client.has_extended && client.is_reader)
            }),
            Sight::LostGrant => Property::sometimes("a crash loses a grant", |_, world: &World| {
                world.nodes.iter().any(|node| node.has_lost_grant)
            }),
            Sight::AfterRestart => Property::sometimes(
                "two readers are kept by a node that started again",
                restarted,
            ),
            Sight::AfterForce => Property::sometimes(
                "a reader outlives an operator's release of another",
                |_, world: &World| {
                    world.clients.iter().any(Client::is_forced) && counted_in(world).count() > 0
                },
            ),
            Sight::KeptOut => {
                Property::sometimes("a reader is kept out for a writer", |_, world: &World| {
                    world.was_kept_out
                })
            }
        }));
        all
    }
}

fn counted_in(world: &World) -> impl Iterator<Item = &Client> {
    world
        .clients
        .iter()
        .filter(|client| client.counts_itself_in())
}

fn are_apart(world: &World) -> bool {
    counted_in(world).all(|client| client.is_reader) || counted_in(world).count() <= 1
}

/// A node in its restart delay keeps everybody else out.
fn are_kept(world: &World) -> bool {
    counted_in(world).all(|client| {
        let keeps = |node: &&Node| {
            let mut holders = node.holders(world.tick);
            node.is_waiting(world.tick) || holders.any(|held| held.token == client.token())
        };
        world.nodes.iter().filter(keeps).count() >= majority(world.nodes.len())
    })
}

fn is_starved(world: &World) -> bool {
    world.clients.iter().any(|client| {
        let has_waited = client
            .asked_at
            .is_some_and(|at| world.tick - at > PATIENCE_TICKS);
        !client.is_reader && !client.has_held && has_waited
    })
}

fn in_turn(_: &Sharing, world: &World) -> bool {
    let has_held = |is_reader| {
        let mut clients = world.clients.iter();
        clients.any(|client| client.has_held && client.is_reader == is_reader)
    };
    has_held(true) && has_held(false)
}

fn restarted(_: &Sharing, world: &World) -> bool {
    let keeps_two = |node: &Node| node.starts > 0 && node.holders(world.tick).count() > 1;
    world.nodes.iter().any(keeps_two)
}

/// C1 of the tests.
const APART: &str = "nobody writes while another client holds the lock";
/// Who counts itself in relies on it.
const KEPT: &str = "who holds the lock is kept by a majority of the nodes";
/// What one reader or an operator ends is not another one's.
const NOT_LOST: &str = "nobody is told that a lock is gone which nobody has ended";
/// It asks the nodes first that have refused it. No reader has a majority without one of them.
const NOT_STARVED: &str = "a writer that goes on trying has the lock after the readers that it met";
const PATIENCE_TICKS: u8 = LEASE_TICKS + 1;
