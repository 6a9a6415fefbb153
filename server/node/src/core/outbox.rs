//! What was published and is not on its way, with what the replies of its publishers wait for: who hears of a change
//! must not know more than who made it.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorlock_engine::Engine;
use quorlock_engine::channels::{ClientId, Published, Receivers, Subscriber};

use crate::core::shared_message::{MESSAGE_BYTES, RECEIVER_COST};
use crate::core::wait::DurabilityWait;

/// In the order in which it was published.
#[derive(Default)]
pub(crate) struct Outbox {
    published: Vec<(Published, DurabilityWait)>,
    /// The same for what clients are told of prefixes, which the engine puts together.
    broadcasts: DurabilityWait,
    /// About what it costs to hand out what is here, as [`Deliveries`](crate::core::deliveries::Deliveries) counts it.
    cost: usize,
    has_new: bool,
}

impl Outbox {
    /// Takes in what a command has published.
    pub(crate) fn extend(
        &mut self,
        engine: &mut Engine,
        published: impl Iterator<Item = Published>,
        wait: DurabilityWait,
    ) {
        let cost = &mut self.cost;
        let with_wait = published.map(|one| {
            *cost += one.message.bytes() + MESSAGE_BYTES + one.receivers.len() * RECEIVER_COST;
            (one, wait)
        });
        self.published.extend(with_wait);
        self.has_new = true;
        if engine.tracking().has_broadcasts() {
            self.broadcasts.raise(wait);
        }
    }

    /// Takes all that is here.
    pub(crate) fn take(&mut self, engine: &mut Engine) -> Vec<(Published, DurabilityWait)> {
        if engine.tracking().has_broadcasts() {
            let wait = std::mem::take(&mut self.broadcasts);
            let mut broadcasts = Vec::new();
            engine.tracking().take_broadcasts(&mut broadcasts);
            let broadcasts = broadcasts.into_iter().map(|one| (one, wait));
            self.published.extend(broadcasts);
        }
        self.cost = 0;
        std::mem::take(&mut self.published)
    }

    /// Takes clients off the lists of those who get the messages of channels: they are disconnected, and may not have them.
    pub(crate) fn withhold_from(&mut self, clients: &BTreeSet<u64>) {
        // Messages in a row share their list.
        let mut last: Option<[Arc<[Subscriber]>; 2]> = None;
        for (one, _) in &mut self.published {
            let Receivers::Listeners(listeners) = &mut one.receivers else {
                continue;
            };
            let is_same = |[before, _]: &&[Arc<[Subscriber]>; 2]| Arc::ptr_eq(before, listeners);
            let stay = match last.as_ref().filter(is_same) {
                Some([_, stay]) => Arc::clone(stay),
                None => {
                    let stays = |listener: &&Subscriber| !clients.contains(&listener.client);
                    listeners.iter().filter(stays).copied().collect()
                }
            };
            last = Some([Arc::clone(listeners), Arc::clone(&stay)]);
            *listeners = stay;
        }
    }

    /// Keeps from a client the messages about locks for which it waits and of which this is true. They stay, for nobody: they are counted by place.
    pub(crate) fn withhold_locks(&mut self, client: ClientId, is_withheld: impl Fn(&[u8]) -> bool) {
        for (one, _) in &mut self.published {
            if let Receivers::Clients(clients) = &mut one.receivers
                && clients.contains(&client)
                && one.message.awaited_lock().is_some_and(&is_withheld)
            {
                clients.retain(|id| *id != client);
            }
        }
    }

    /// How much is here, without what clients are told of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.published.len()
    }

    /// See the field.
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// Whether anything was taken in since the last call.
    pub(crate) fn take_has_new(&mut self) -> bool {
        let has_new = self.has_new;
        if has_new {
            self.has_new = false;
        }
        has_new
    }
}
