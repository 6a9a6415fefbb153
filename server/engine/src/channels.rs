//! Who listens to which channel, and what was published for whom.
//!
//! Nothing here is logged: a message reaches those who listen when it is published, and nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::glob::glob_matches;
use crate::reply::Reply;

/// The number of a connection.
pub type ClientId = u64;

/// What a client subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// A channel of this name.
    Channel,
    /// All channels whose names match this pattern.
    Pattern,
    /// A sharded channel of this name. As there is one shard, only the name of the messages differs.
    Shard,
}

impl Subscription {
    /// All kinds, in the order in which they are kept.
    pub const ALL: [Subscription; 3] = [
        Subscription::Channel,
        Subscription::Pattern,
        Subscription::Shard,
    ];
}

/// What clients are sent that is no answer to a request.
#[derive(Clone, Debug)]
pub enum Message {
    /// What was published on a channel.
    Published(Arc<Reply>),
    /// Keys of which a client must not believe what it keeps: the push that says so.
    Invalidated(Arc<Reply>),
    /// The same for a client that is told in the place of another one.
    Redirected {
        /// What it is sent with RESP3.
        push: Arc<Reply>,
        /// Who keeps the keys.
        owner: ClientId,
    },
    /// The client that is to be told in the place of this one has gone.
    RedirectionBroken {
        /// Who that was.
        target: ClientId,
    },
}

/// What was published, for those who listened at that moment.
#[derive(Clone, Debug)]
pub struct Published {
    /// What they are sent.
    pub message: Message,
    /// Who they are.
    pub receivers: Vec<ClientId>,
}

type Names = BTreeMap<Arc<[u8]>, BTreeSet<ClientId>>;

/// Who listens to what.
#[derive(Debug, Default)]
pub struct Channels {
    names: [Names; 3],
    clients: BTreeMap<ClientId, [BTreeSet<Arc<[u8]>>; 3]>,
}

impl Channels {
    /// Subscribes a client. False if it was subscribed.
    pub fn subscribe(&mut self, client: ClientId, to: Subscription, name: &[u8]) -> bool {
        let names = &mut self.names[to as usize];
        let name = match names.get_key_value(name) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(name),
        };
        let listeners = names.entry(Arc::clone(&name)).or_default();
        self.clients.entry(client).or_default()[to as usize].insert(name);
        listeners.insert(client)
    }

    /// Ends a client's subscription. False if it had none.
    pub fn unsubscribe(&mut self, client: ClientId, to: Subscription, name: &[u8]) -> bool {
        let Some(of_client) = self.clients.get_mut(&client) else {
            return false;
        };
        if !of_client[to as usize].remove(name) {
            return false;
        }
        if of_client.iter().all(BTreeSet::is_empty) {
            self.clients.remove(&client);
        }
        let names = &mut self.names[to as usize];
        if let Some(listeners) = names.get_mut(name) {
            listeners.remove(&client);
            if listeners.is_empty() {
                names.remove(name);
            }
        }
        true
    }

    /// The client has gone, or listens to nothing any more.
    pub fn leave(&mut self, client: ClientId) {
        for to in Subscription::ALL {
            for name in self.names_of(client, to) {
                self.unsubscribe(client, to, &name);
            }
        }
    }

    /// What a client is subscribed to.
    pub fn names_of(&self, client: ClientId, to: Subscription) -> Vec<Arc<[u8]>> {
        let of_client = self.clients.get(&client);
        of_client.map_or(Vec::new(), |names| {
            names[to as usize].iter().cloned().collect()
        })
    }

    /// How many subscriptions of this kind a client has.
    pub fn count_of(&self, client: ClientId, to: Subscription) -> usize {
        let of_client = self.clients.get(&client);
        of_client.map_or(0, |names| names[to as usize].len())
    }

    /// All channels, or patterns, that somebody is subscribed to.
    pub fn names(&self, to: Subscription) -> impl Iterator<Item = &[u8]> {
        self.names[to as usize].keys().map(AsRef::as_ref)
    }

    /// How many channels, or patterns, somebody is subscribed to.
    pub fn len(&self, to: Subscription) -> usize {
        self.names[to as usize].len()
    }

    /// How many clients listen to anything.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many are subscribed to a channel.
    pub fn listeners(&self, to: Subscription, name: &[u8]) -> usize {
        self.names[to as usize].get(name).map_or(0, BTreeSet::len)
    }

    /// The messages for all who listen to this channel: one for its subscribers, one for each pattern it matches.
    pub(crate) fn publish(
        &self,
        to: Subscription,
        channel: &[u8],
        payload: &[u8],
    ) -> Vec<Published> {
        let mut published = Vec::new();
        let text = |text: &[u8]| Reply::Shared(Arc::from(text));
        if let Some(listeners) = self.names[to as usize].get(channel) {
            let kind = match to {
                Subscription::Shard => "smessage",
                _ => "message",
            };
            let parts = vec![Reply::bulk(kind), text(channel), text(payload)];
            published.push(Published::new(parts, listeners));
        }
        if to == Subscription::Channel {
            let patterns = &self.names[Subscription::Pattern as usize];
            for (pattern, listeners) in patterns {
                if glob_matches(pattern, channel) {
                    let pattern = Reply::Shared(Arc::clone(pattern));
                    let parts = vec![
                        Reply::bulk("pmessage"),
                        pattern,
                        text(channel),
                        text(payload),
                    ];
                    published.push(Published::new(parts, listeners));
                }
            }
        }
        published
    }
}

impl Published {
    fn new(parts: Vec<Reply>, listeners: &BTreeSet<ClientId>) -> Published {
        Published {
            message: Message::Published(Arc::new(Reply::Push(parts))),
            receivers: listeners.iter().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_gone_leaves_nothing_behind() {
        let mut channels = Channels::default();
        for client in 0..1000 {
            assert!(channels.subscribe(client, Subscription::Channel, b"one"));
            assert!(!channels.subscribe(client, Subscription::Channel, b"one"));
            assert!(channels.subscribe(client, Subscription::Pattern, b"o*"));
            assert!(channels.subscribe(client, Subscription::Shard, &client.to_le_bytes()));
        }
        let receivers = |channels: &Channels| {
            let published = channels.publish(Subscription::Channel, b"one", b"text");
            published
                .iter()
                .map(|one| one.receivers.len())
                .sum::<usize>()
        };
        assert_eq!(receivers(&channels), 2000);
        for client in 0..999 {
            channels.leave(client);
        }
        assert_eq!(receivers(&channels), 2);
        assert!(channels.unsubscribe(999, Subscription::Channel, b"one"));
        assert!(!channels.unsubscribe(999, Subscription::Channel, b"one"));
        assert_eq!(receivers(&channels), 1);
        channels.leave(999);
        assert_eq!(receivers(&channels), 0);
        assert!(channels.clients.is_empty());
        assert!(channels.names.iter().all(BTreeMap::is_empty));
    }
}
