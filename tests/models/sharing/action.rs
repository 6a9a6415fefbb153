//! What can happen next, and how it reads in a counterexample.

use std::fmt;

use super::client::{Message, Standing};
use super::node::{Told, Wish};
use super::{Sharing, World};

/// One step of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Tick,
    Deliver(Message),
    Begin(u8),
    Cancel(u8),
    Extend(u8),
    Release(u8),
    /// An operator ends what this client holds, on all nodes.
    Force(u8),
    Sync(u8),
    Kill(u8),
    /// So many frames that were not synced survive.
    LosePower(u8, u8),
    LoseDisk(u8),
}

/// Every action that is possible in this world.
pub(crate) fn possible(model: &Sharing, world: &World, actions: &mut Vec<Action>) {
    let scope = &model.scope;
    if world.tick < scope.ticks && (world.network.is_empty() || !scope.is_prompt) {
        actions.push(Action::Tick);
    }
    let messages = world.network.iter().copied();
    let messages = messages.filter(|message| !scope.is_prompt || is_next(world, message));
    actions.extend(messages.map(Action::Deliver));
    for number in 0..u8::try_from(scope.askers.len()).unwrap_or(u8::MAX) {
        client(model, world, number, actions);
    }
    for &number in &scope.failing {
        let (node, budget) = (&world.nodes[usize::from(number)], &world.budget);
        if node.unsynced() > 0 {
            actions.push(Action::Sync(number));
        }
        if budget.kills > 0 {
            actions.push(Action::Kill(number));
        }
        if budget.power_losses > 0 {
            let kept = 0..=node.unsynced();
            actions.extend(kept.map(|kept| Action::LosePower(number, kept)));
        }
        if budget.lost_disks > 0 {
            actions.push(Action::LoseDisk(number));
        }
    }
}

/// Whether it comes before all that its client has sent to the node: a connection keeps the order.
fn is_next(world: &World, message: &Message) -> bool {
    let place = |one: &Message| (one.token.attempt, matches!(one.wish, Wish::Release(_)));
    let is_same =
        |one: &&Message| (one.token.client, one.node) == (message.token.client, message.node);
    let others = world.network.iter().filter(is_same);
    others.map(place).all(|other| place(message) <= other)
}

fn client(model: &Sharing, world: &World, number: u8, actions: &mut Vec<Action>) {
    let askers = &model.scope.askers;
    let asker = &askers[usize::from(number)];
    let client = &world.clients[usize::from(number)];
    // Of clients that are alike, the first to ask is the first.
    let earlier = askers.iter().zip(&world.clients).take(number.into());
    let is_after_others = earlier
        .filter(|(other, _)| *other == asker)
        .all(|(_, other)| other.attempt > 0);
    match &client.standing {
        Standing::Idle if client.attempt < asker.attempts && is_after_others => {
            actions.push(Action::Begin(number));
        }
        Standing::Trying(_) if asker.may_cancel => actions.push(Action::Cancel(number)),
        Standing::Holding(_) => {
            if client.extensions_left > 0 {
                actions.push(Action::Extend(number));
            }
            if asker.may_release {
                actions.push(Action::Release(number));
            }
        }
        _ => {}
    }
    if world.budget.forced_releases > 0 && client.counts_itself_in() && client.is_reader {
        actions.push(Action::Force(number));
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick => formatter.write_str("time goes on"),
            Self::Deliver(message) => message.fmt(formatter),
            Self::Begin(client) => write!(formatter, "client {client} asks for the lock"),
            Self::Cancel(client) => write!(formatter, "client {client} gives its attempt up"),
            Self::Extend(client) => write!(formatter, "client {client} extends the lock"),
            Self::Release(client) => write!(formatter, "client {client} releases the lock"),
            Self::Force(client) => {
                write!(formatter, "an operator ends what client {client} holds")
            }
            Self::Sync(node) => write!(formatter, "node {node}: everything written is durable"),
            Self::Kill(node) => write!(formatter, "node {node} is killed and starts again"),
            Self::LosePower(node, kept) => write!(
                formatter,
                "node {node} loses power and starts again; {kept} of its unsynced records survive"
            ),
            Self::LoseDisk(node) => write!(formatter, "node {node} starts on an empty disk"),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wish = match self.wish {
            Wish::Read => "read",
            Wish::Write => "write",
            Wish::Extend(_) => "extend",
            Wish::Release(_) => "release",
            Wish::Force => "forced release",
        };
        let (client, attempt, node) = (self.token.client, self.token.attempt, self.node);
        let of = format!("'{wish}' of client {client} (attempt {attempt})");
        let told = match self.told {
            None => return write!(formatter, "{of} reaches node {node}"),
            Some((Told::Granted, _)) => "granted",
            Some((Told::Busy, _)) => "busy",
            Some((Told::WriterWaits, _)) => "a writer waits",
            Some((Told::Extended, _)) => "extended",
            Some((Told::Gone, _)) => "gone",
            Some((Told::Other, _)) => "held by another",
            Some((Told::Done, _)) => "done",
            Some((Told::Refused, _)) => "refused",
        };
        write!(formatter, "{of}: node {node} says {told}")
    }
}
