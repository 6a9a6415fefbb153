//! What can happen next, and how it reads in a counterexample.

use std::fmt;

use super::client::Message;
use super::node::{Request, Told};
use super::scope::Mutant;
use super::{Fencing, World};

/// One step of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Begin(u8),
    /// The client's patience or its validity is over; or it has crashed, which is the same to all others.
    Ring(u8),
    Deliver(Message),
    Sync(u8),
    /// What was not synced was kept, or not.
    Restart(u8, bool),
    LoseDisk(u8),
    /// The operator asks another node for the ceiling that this one is to adopt.
    Ask(u8, u8),
    Adopt(u8),
    Force(u8),
    Forget(u8),
    /// A node that has missed the lock of a client is asked to take it.
    Heal(u8, u8),
}

/// Every action that is possible in this world.
pub(crate) fn possible(model: &Fencing, world: &World, actions: &mut Vec<Action>) {
    let are_alike = model
        .scope
        .attempts
        .windows(2)
        .all(|pair| pair[0] == pair[1]);
    let has_begun = world.clients[0].attempt > 0;
    for (client, number) in world.clients.iter().zip(0..) {
        // Of two clients that are alike, the first to ask is the first.
        let is_in_turn = number == 0 || has_begun || !are_alike;
        if client.trying.is_some() {
            actions.push(Action::Ring(number));
        } else if client.attempt < model.scope.attempts[usize::from(number)] && is_in_turn {
            actions.push(Action::Begin(number));
        }
    }
    actions.extend(world.network.iter().copied().map(Action::Deliver));
    if world.budget.healed > 0 {
        healings(world, actions);
    }
    for &number in &model.scope.failing {
        failures(model, world, number, actions);
    }
}

/// The nodes that are free, and those where the lock of an attempt that is over may end.
fn healings(world: &World, actions: &mut Vec<Action>) {
    for (client, number) in world.clients.iter().zip(0..) {
        let Some((token, _)) = client.held else {
            continue;
        };
        let is_free = |node: &super::Node| {
            let is_at = |holder| world.clients.iter().any(|client| client.is_at(holder));
            node.holder != Some(token) && !node.holder.is_some_and(is_at)
        };
        let nodes = (0_u8..).zip(&world.nodes).filter(|(_, node)| is_free(node));
        actions.extend(nodes.map(|(node, _)| Action::Heal(number, node)));
    }
}

fn failures(model: &Fencing, world: &World, number: u8, actions: &mut Vec<Action>) {
    let node = &world.nodes[usize::from(number)];
    if !node.is_synced() {
        actions.push(Action::Sync(number));
    }
    if world.budget.crashes > 0 {
        actions.push(Action::Restart(number, false));
        if !node.is_synced() {
            actions.push(Action::Restart(number, true));
        }
    }
    if world.budget.lost_disks > 0 {
        actions.push(Action::LoseDisk(number));
    }
    if world.budget.forced_releases > 0 && node.holder.is_some() {
        actions.push(Action::Force(number));
    }
    if world.budget.forgotten > 0 {
        actions.push(Action::Forget(number));
    }
    let is_over = node.waits_for == 0 || model.mutant == Mutant::AsksBeforeDelay;
    if !node.is_certain() && is_over {
        let others = (0_u8..).zip(&world.nodes);
        let may_tell = |other: &super::Node| {
            other.is_synced() && (other.is_certain() || model.mutant == Mutant::AsksUncertain)
        };
        let asked = node.asked.0;
        let others =
            others.filter(|(at, other)| *at != number && asked & (1 << at) == 0 && may_tell(other));
        actions.extend(others.map(|(other, _)| Action::Ask(number, other)));
        let needed = match model.mutant {
            Mutant::AsksOne => 1,
            _ => (u32::from(model.scope.nodes) - 1) / 2 + 1,
        };
        if node.asked.0.count_ones() >= needed {
            actions.push(Action::Adopt(number));
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(client) => write!(formatter, "client {client} asks for the lock"),
            Self::Ring(client) => write!(formatter, "client {client}: its time is up"),
            Self::Deliver(message) => message.fmt(formatter),
            Self::Sync(node) => write!(formatter, "node {node}: its ceiling is durable"),
            Self::Restart(node, is_kept) => {
                let kept = if *is_kept { "kept" } else { "lost" };
                write!(
                    formatter,
                    "node {node} starts again; what was not synced is {kept}"
                )
            }
            Self::LoseDisk(node) => write!(formatter, "node {node} starts on an empty disk"),
            Self::Ask(node, other) => {
                write!(
                    formatter,
                    "the ceiling of node {other} is read for node {node}"
                )
            }
            Self::Adopt(node) => write!(formatter, "node {node} adopts the largest ceiling"),
            Self::Force(node) => write!(formatter, "node {node}: an operator deletes the lock"),
            Self::Forget(node) => write!(formatter, "node {node} forgets the name"),
            Self::Heal(client, node) => {
                write!(
                    formatter,
                    "node {node}, which has missed the lock of client {client}, is asked to take it"
                )
            }
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = match self.request {
            Request::Acquire(None) => "the lock".to_owned(),
            Request::Acquire(Some(guess)) => format!("the lock and fence {guess}"),
            Request::Fence(fence) => format!("fence {fence}"),
            Request::Adopt(ceiling) => format!("ceiling {ceiling}"),
        };
        let (client, attempt, node) = (self.token.client, self.token.attempt, self.node);
        let of = format!("client {client} (attempt {attempt})");
        match self.told {
            None => write!(
                formatter,
                "the request of {of} for {request} reaches node {node}"
            ),
            Some((told, _)) => {
                let told = match told {
                    Told::Granted { fence, is_guess } => {
                        let guess = if is_guess { "with" } else { "without" };
                        format!("granted {guess} its guess, fence {fence}")
                    }
                    Told::Busy(fence) => format!("busy, fence {fence}"),
                    Told::Taken(fence) => format!("{fence} is taken"),
                    Told::NotTaken(fence) => format!("not taken, the fence is {fence}"),
                    Told::WithoutLock => "it does not hold the lock".to_owned(),
                    Told::Refused => "refused".to_owned(),
                    Told::Adopted => "adopted".to_owned(),
                };
                write!(
                    formatter,
                    "{of} reads node {node}'s reply to {request}: {told}"
                )
            }
        }
    }
}
