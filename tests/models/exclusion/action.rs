//! What can happen next, and how it reads in a counterexample.

use std::fmt;

use super::client::{Message, Standing};
use super::node::{Phase, Told, Wish};
use super::scope::{Configuration, TICK_NS};
use super::{Exclusion, World};

/// One step of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// True time goes on, with this choice of pace for each client.
    Tick(Vec<u8>),
    Deliver(Message),
    Begin(u8),
    Cancel(u8),
    Extend(u8),
    Release(u8),
    Sync(u8),
    Kill(u8),
    /// So many unsynced frames survive.
    LosePower(u8, u8),
    /// So many of the frames that the disk had acknowledged are left.
    Lie(u8, u8),
    /// So many of the frames that were durable are left.
    Repair(u8, u8),
    Stop(u8),
    /// With this configuration.
    Start(u8, u8),
    EndDelay(u8),
    /// To this configuration.
    Change(u8, Configuration),
    Checkpoint(u8),
}

impl Action {
    /// The node it happens to, if it is about one.
    pub(crate) fn node(&self) -> Option<u8> {
        match self {
            Self::Sync(node)
            | Self::Kill(node)
            | Self::LosePower(node, _)
            | Self::Repair(node, _)
            | Self::Lie(node, _)
            | Self::Stop(node)
            | Self::Start(node, _)
            | Self::EndDelay(node)
            | Self::Change(node, _)
            | Self::Checkpoint(node) => Some(*node),
            _ => None,
        }
    }
}

/// Every action that is possible in this world.
pub(crate) fn possible(model: &Exclusion, world: &World, actions: &mut Vec<Action>) {
    if world.tick < model.scope.ticks {
        ticks(model, actions);
    }
    for (at, message) in world.network.iter().enumerate() {
        let asker = &model.scope.askers[usize::from(message.client)];
        // Equal messages lead to equal worlds.
        let is_equal = at > 0 && world.network[at - 1] == *message;
        if is_equal {
            continue;
        }
        let node = asker.addresses[usize::from(message.address)];
        let reaches_somebody =
            message.told.is_some() || world.nodes[usize::from(node)].phase != Phase::Down;
        if reaches_somebody {
            actions.push(Action::Deliver(*message));
        }
    }
    clients(model, world, actions);
    nodes(model, world, actions);
}

fn ticks(model: &Exclusion, actions: &mut Vec<Action>) {
    let mut choices = vec![Vec::new()];
    for asker in &model.scope.askers {
        let paces = 0..u8::try_from(asker.paces.len()).unwrap_or(u8::MAX);
        choices = choices
            .into_iter()
            .flat_map(|chosen: Vec<u8>| {
                paces.clone().map(move |pace| {
                    let mut chosen = chosen.clone();
                    chosen.push(pace);
                    chosen
                })
            })
            .collect();
    }
    actions.extend(choices.into_iter().map(Action::Tick));
}

fn clients(model: &Exclusion, world: &World, actions: &mut Vec<Action>) {
    let are_alike = model.scope.askers.windows(2).all(|pair| pair[0] == pair[1]);
    let has_begun = world.clients[0].attempt > 0;
    for (client, number) in world.clients.iter().zip(0..) {
        let asker = &model.scope.askers[usize::from(number)];
        let is_first = number == 0 || has_begun;
        match &client.standing {
            // Of two clients that are alike, the first to ask is the first.
            Standing::Idle if client.attempt == 0 && !is_first && are_alike => {}
            Standing::Idle if client.attempt < asker.attempts => {
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
    }
}

fn nodes(model: &Exclusion, world: &World, actions: &mut Vec<Action>) {
    for (node, number) in world.nodes.iter().zip(0_u8..) {
        let is_up = node.phase != Phase::Down;
        if is_up && node.has_unsynced() {
            actions.push(Action::Sync(number));
        }
        if node.phase == Phase::Waiting {
            let now = node.now(model.raw(world, number));
            if node.waits_until().is_none_or(|until| until <= now) {
                actions.push(Action::EndDelay(number));
            }
        }
        if !is_up {
            let configurations = 0..model.scope.configurations.len();
            let number_of = |index| u8::try_from(index).unwrap_or(u8::MAX);
            let configurations = configurations.map(number_of);
            actions.extend(configurations.map(|configured| Action::Start(number, configured)));
        }
        if model.scope.failing.contains(&number) {
            failures(world, number, actions);
            changes(model, world, number, actions);
        }
    }
}

fn failures(world: &World, number: u8, actions: &mut Vec<Action>) {
    let node = &world.nodes[usize::from(number)];
    let budget = &world.budget;
    let is_up = node.phase != Phase::Down;
    if is_up && budget.kills > 0 {
        actions.push(Action::Kill(number));
    }
    if budget.power_losses > 0 {
        let unsynced = u8::try_from(node.unsynced()).unwrap_or(u8::MAX);
        actions.extend((0..=unsynced).map(|kept| Action::LosePower(number, kept)));
    }
    if is_up && budget.lies > 0 {
        let number_of = |frames| u8::try_from(frames).unwrap_or(u8::MAX);
        let kept = number_of(node.kept_by_liar())..=number_of(node.durable_frames());
        actions.extend(kept.map(|kept| Action::Lie(number, kept)));
    }
    if is_up && budget.stops > 0 && node.phase != Phase::Starting {
        actions.push(Action::Stop(number));
    }
    if !is_up && budget.repairs > 0 {
        let durable = u8::try_from(node.durable_frames()).unwrap_or(u8::MAX);
        actions.extend((0..durable).map(|kept| Action::Repair(number, kept)));
    }
}

fn changes(model: &Exclusion, world: &World, number: u8, actions: &mut Vec<Action>) {
    let node = &world.nodes[usize::from(number)];
    if node.phase != Phase::Serving {
        return;
    }
    if world.budget.changes > 0 {
        let others = model.scope.live.iter();
        let others = others.filter(|other| Some(**other) != node.in_force());
        actions.extend(others.map(|other| Action::Change(number, *other)));
    }
    if world.budget.checkpoints > 0 {
        actions.push(Action::Checkpoint(number));
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick(choices) if choices.iter().all(|choice| *choice == 0) => {
                formatter.write_str("time goes on")
            }
            Self::Tick(choices) => write!(formatter, "time goes on, clocks at paces {choices:?}"),
            Self::Deliver(message) => message.fmt(formatter),
            Self::Begin(client) => write!(formatter, "client {client} asks for the lock"),
            Self::Cancel(client) => write!(formatter, "client {client} gives its attempt up"),
            Self::Extend(client) => write!(formatter, "client {client} extends the lock"),
            Self::Release(client) => write!(formatter, "client {client} releases the lock"),
            Self::Sync(node) => write!(formatter, "node {node}: everything written is durable"),
            Self::Kill(node) => write!(formatter, "node {node} is killed"),
            Self::LosePower(node, kept) => write!(
                formatter,
                "node {node} loses power; {kept} of its unsynced records survive"
            ),
            Self::Repair(node, kept) => write!(
                formatter,
                "node {node}: the disk loses durable records, its log is repaired; {kept} are left"
            ),
            Self::Lie(node, kept) => write!(
                formatter,
                "node {node} loses power; its disk has kept {kept} of the records it acknowledged"
            ),
            Self::Stop(node) => write!(formatter, "node {node} stops in order"),
            Self::Start(node, configured) => {
                write!(formatter, "node {node} starts (configuration {configured})")
            }
            Self::EndDelay(node) => write!(formatter, "node {node}: its restart delay is over"),
            Self::Change(node, to) => {
                let (mode, cap) = (to.mode.name(), to.cap_ns / TICK_NS);
                write!(
                    formatter,
                    "node {node}: CONFIG SET, {mode}, cap of {cap} ticks"
                )
            }
            Self::Checkpoint(node) => write!(formatter, "node {node} writes a checkpoint"),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Message {
            client,
            address,
            attempt,
            round,
            ..
        } = self;
        let wish = match self.wish {
            Wish::Take => "take",
            Wish::Extend => "extend",
            Wish::Release => "release",
        };
        let of = format!("'{wish}' of client {client} (attempt {attempt}, round {round})");
        let Some((told, _)) = self.told else {
            return write!(formatter, "{of} reaches its node {address}");
        };
        let told = match told {
            Told::Granted => "granted",
            Told::Busy => "busy",
            Told::Extended => "extended",
            Told::Gone => "gone",
            Told::Other => "held by another",
            Told::Freed => "freed",
            Told::NotHeld => "not held",
            Told::Refused => "in its restart delay",
        };
        write!(
            formatter,
            "client {client} hears from node {address}: {told} ({wish})"
        )
    }
}
