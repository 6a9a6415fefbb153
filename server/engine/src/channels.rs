//! Who listens to which channel, and what was published for whom.
//!
//! Nothing here is logged: a message reaches those who listen when it is published, and nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::glob::GlobBudget;
use crate::reply::Reply;

/// The number of a connection.
pub type ClientId = u64;
/// Some connections: mostly one, which takes no memory of its own.
pub type ClientIds = SmallVec<[ClientId; 1]>;

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
pub enum PushMessage {
    /// What was published on a channel.
    Published(Arc<Reply>),
    /// A request that was executed, for a client that watches them: a line.
    Monitored(Arc<Reply>),
    /// A lock for which the client waits: the push that says that it is free and the client's turn, or asks whether it still
    /// waits.
    LockFree(Arc<Reply>),
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

impl PushMessage {
    /// The push, which without RESP3 is an array; not every message is one.
    pub fn push(&self) -> Option<&Reply> {
        match self {
            PushMessage::Published(push)
            | PushMessage::Monitored(push)
            | PushMessage::Invalidated(push)
            | PushMessage::LockFree(push)
            | PushMessage::Redirected { push, .. } => Some(push),
            PushMessage::RedirectionBroken { .. } => None,
        }
    }

    /// The bytes of its names and texts, which are shared by all to whom it is sent.
    pub fn bytes(&self) -> usize {
        self.push().map_or(0, shared_bytes)
    }
}

/// The depth of a message is a constant, hence the recursion.
fn shared_bytes(reply: &Reply) -> usize {
    let sum = |parts: &[Reply]| {
        let bytes = parts.iter().map(shared_bytes);
        bytes.fold(0, usize::saturating_add)
    };
    match reply {
        Reply::Shared(bytes) => bytes.len(),
        Reply::Status(line) => line.len(),
        Reply::Push(parts) | Reply::Array(parts) => sum(parts),
        _ => 0,
    }
}

/// What was published, for those who listened at that moment.
#[derive(Clone, Debug)]
pub struct Published {
    /// What they are sent.
    pub message: PushMessage,
    /// Who they are.
    pub receivers: Receivers,
}

/// Whom a message is for.
#[derive(Clone, Debug)]
pub enum Receivers {
    /// All subscribers of a channel or a pattern, in their order. The list is shared by all messages until somebody
    /// comes or goes.
    Listeners(Arc<[Subscriber]>),
    /// Clients that are told of changes of keys.
    Clients(ClientIds),
}

/// A subscriber, and where the node serves it. Listeners are in the order of workers and their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subscriber {
    /// The number of its worker.
    pub worker: usize,
    /// Its number there.
    pub connection: usize,
    /// Its own.
    pub client: ClientId,
}

type Patterns = Vec<Arc<[u8]>>;
type Names = BTreeMap<Arc<[u8]>, Listeners>;

/// Who listens to one channel or pattern.
#[derive(Debug, Default)]
struct Listeners {
    /// By client. Most channels have one, for which a tree would take ten times the memory.
    all: Vec<Subscriber>,
    /// The same as messages have it, made by the first message after a change.
    shared: OnceLock<Arc<[Subscriber]>>,
}

/// Who listens to what.
#[derive(Debug, Default)]
pub struct Channels {
    names: [Names; 3],
    clients: BTreeMap<ClientId, [BTreeSet<Arc<[u8]>>; 3]>,
    /// What the command that runs may still spend on patterns.
    budget: GlobBudget,
    /// Those whose messages were not made. They are subscribed to nothing any more, and are to be disconnected.
    missed: Vec<Subscriber>,
}

impl Channels {
    /// Subscribes a client. False if it was subscribed.
    pub fn subscribe(&mut self, listener: Subscriber, to: Subscription, name: &[u8]) -> bool {
        let names = &mut self.names[to as usize];
        let name = match names.get_key_value(name) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(name),
        };
        let listeners = names.entry(Arc::clone(&name)).or_default();
        let of_client = self.clients.entry(listener.client).or_default();
        of_client[to as usize].insert(name);
        listeners.insert(listener)
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
            listeners.remove(client);
            if listeners.all.is_empty() {
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
        let listeners = self.names[to as usize].get(name);
        listeners.map_or(0, |listeners| listeners.all.len())
    }

    /// Another command, script or transaction begins, or work that belongs to none.
    pub fn begin(&mut self) {
        self.budget = GlobBudget::default();
    }

    /// Whether so many steps are used that work which can be done later is better done then.
    pub(crate) fn is_half_used(&self) -> bool {
        self.budget.is_half_used()
    }

    /// The messages for all who listen to this channel: one for its subscribers, one for each pattern it matches. Where
    /// the command has no steps left to match a pattern with, those who listen to it are missed.
    pub fn publish(&mut self, to: Subscription, channel: &[u8], payload: &[u8]) -> Vec<Published> {
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
            let (matched, missed) = self.matching(channel);
            for pattern in matched {
                if let Some(listeners) = self.names[Subscription::Pattern as usize].get(&pattern) {
                    let pattern = Reply::Shared(pattern);
                    let parts = vec![
                        Reply::bulk("pmessage"),
                        pattern,
                        text(channel),
                        text(payload),
                    ];
                    published.push(Published::new(parts, listeners));
                }
            }
            for pattern in missed {
                let listeners = self.names[Subscription::Pattern as usize].get(&pattern);
                let listeners = listeners.map_or(Vec::new(), |listeners| listeners.all.clone());
                self.miss(&listeners);
            }
        }
        published
    }

    /// The patterns that match a channel, in their order, and those of which that is not known. The cheap ones come first:
    /// what is missed is what costs most.
    fn matching(&mut self, channel: &[u8]) -> (Patterns, Patterns) {
        let (mut matched, mut unknown, mut missed) = (Vec::new(), Vec::new(), Vec::new());
        let budget = &mut self.budget;
        for pattern in self.names[Subscription::Pattern as usize].keys() {
            match budget.quick_match(pattern, channel) {
                Ok(Some(true)) => matched.push(Arc::clone(pattern)),
                Ok(Some(false)) => {}
                Ok(None) => unknown.push(Arc::clone(pattern)),
                Err(_) => missed.push(Arc::clone(pattern)),
            }
        }
        let is_complete = unknown.is_empty();
        for pattern in unknown {
            match budget.decide(&pattern, channel) {
                Ok(true) => matched.push(pattern),
                Ok(false) => {}
                Err(_) => missed.push(pattern),
            }
        }
        if !is_complete {
            matched.sort_unstable();
        }
        (matched, missed)
    }

    /// Messages for these are not made: they are subscribed to nothing from now on.
    pub fn miss(&mut self, listeners: &[Subscriber]) {
        for listener in listeners {
            self.leave(listener.client);
        }
        self.missed.extend(listeners);
    }

    /// Takes those whom messages have missed, to disconnect them.
    pub fn take_missed(&mut self) -> Vec<Subscriber> {
        std::mem::take(&mut self.missed)
    }
}

impl Published {
    fn new(parts: Vec<Reply>, listeners: &Listeners) -> Published {
        Published {
            message: PushMessage::Published(Arc::new(Reply::Push(parts))),
            receivers: Receivers::Listeners(listeners.shared()),
        }
    }
}

impl Listeners {
    /// False if the client was there; it is served where it says.
    fn insert(&mut self, listener: Subscriber) -> bool {
        self.shared = OnceLock::new();
        match self.find(listener.client) {
            Ok(index) => {
                self.all[index] = listener;
                false
            }
            Err(index) => {
                if self.all.is_empty() {
                    self.all.reserve_exact(1);
                }
                self.all.insert(index, listener);
                true
            }
        }
    }

    fn remove(&mut self, client: ClientId) {
        self.shared = OnceLock::new();
        if let Ok(index) = self.find(client) {
            self.all.remove(index);
        }
    }

    fn find(&self, client: ClientId) -> Result<usize, usize> {
        self.all.binary_search_by_key(&client, |one| one.client)
    }

    fn shared(&self) -> Arc<[Subscriber]> {
        let make = || {
            let mut sorted = self.all.clone();
            sorted.sort_unstable();
            sorted.into()
        };
        Arc::clone(self.shared.get_or_init(make))
    }
}

impl Receivers {
    /// How many they are.
    pub fn len(&self) -> usize {
        match self {
            Self::Listeners(listeners) => listeners.len(),
            Self::Clients(clients) => clients.len(),
        }
    }

    /// Those who are subscribed.
    pub fn listeners(&self) -> &[Subscriber] {
        match self {
            Self::Listeners(listeners) => listeners,
            Self::Clients(_) => &[],
        }
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one of two workers, the last first.
    fn listener(client: ClientId) -> Subscriber {
        let connection = usize::try_from(5000 - client).expect("a test has few clients");
        Subscriber {
            worker: connection % 2,
            connection,
            client,
        }
    }

    fn listeners(channels: &mut Channels) -> Arc<[Subscriber]> {
        let mut published = channels.publish(Subscription::Channel, b"one", b"text");
        match published.pop().map(|one| one.receivers) {
            Some(Receivers::Listeners(listeners)) => listeners,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_share_the_list_of_listeners_until_one_comes_or_goes() {
        let mut channels = Channels::default();
        for client in 0..10 {
            channels.subscribe(listener(client), Subscription::Channel, b"one");
        }
        let first = listeners(&mut channels);
        assert!(first.is_sorted() && first.len() == 10);
        assert!(Arc::ptr_eq(&first, &listeners(&mut channels)));
        channels.unsubscribe(3, Subscription::Channel, b"one");
        let second = listeners(&mut channels);
        assert_eq!(second.len(), 9);
        assert!(second.iter().all(|one| one.client != 3));
        channels.subscribe(listener(3), Subscription::Channel, b"one");
        assert_eq!(listeners(&mut channels), first);
        assert_eq!(second.len(), 9, "who listened at that moment");
    }

    /// Planted: each pattern has steps of its own; what is missed is missed in silence.
    #[test]
    fn all_patterns_share_the_steps_of_a_command_and_those_who_are_missed_are_known() {
        let mut channels = Channels::default();
        for client in 0..1500 {
            let pattern = format!("*{}{client}", "a".repeat(600));
            channels.subscribe(listener(client), Subscription::Pattern, pattern.as_bytes());
        }
        // Among those that come first and last.
        for (client, pattern) in [(2000, "**aaa*"), (2001, "a*")] {
            channels.subscribe(listener(client), Subscription::Pattern, pattern.as_bytes());
        }
        for client in 0..2 {
            channels.subscribe(listener(client), Subscription::Channel, b"other");
        }
        let channel = "a".repeat(4000);
        channels.begin();
        let published = channels.publish(Subscription::Channel, channel.as_bytes(), b"text");
        assert_eq!(published.len(), 2, "the cheap ones are matched");
        let missed = channels.take_missed();
        assert!((300..1500).contains(&missed.len()), "{}", missed.len());
        for client in (0..1500).chain([2000, 2001]) {
            let is_missed = missed.contains(&listener(client));
            let names = Subscription::ALL.map(|to| channels.count_of(client, to));
            let is_subscribed = names.iter().sum::<usize>() > 0;
            assert_eq!(is_subscribed, !is_missed, "{client}");
        }
        // The next command begins with all steps: those who were decided then are decided again.
        channels.begin();
        let published = channels.publish(Subscription::Channel, channel.as_bytes(), b"text");
        assert_eq!(published.len(), 2);
        assert!(channels.take_missed().len() < missed.len());
    }

    #[test]
    fn a_client_that_has_gone_leaves_nothing_behind() {
        let mut channels = Channels::default();
        for client in 0..1000 {
            let listener = listener(client);
            assert!(channels.subscribe(listener, Subscription::Channel, b"one"));
            assert!(!channels.subscribe(listener, Subscription::Channel, b"one"));
            assert!(channels.subscribe(listener, Subscription::Pattern, b"o*"));
            assert!(channels.subscribe(listener, Subscription::Shard, &client.to_le_bytes()));
        }
        let receivers = |channels: &mut Channels| {
            let published = channels.publish(Subscription::Channel, b"one", b"text");
            published
                .iter()
                .map(|one| one.receivers.len())
                .sum::<usize>()
        };
        assert_eq!(receivers(&mut channels), 2000);
        for client in 0..999 {
            channels.leave(client);
        }
        assert_eq!(receivers(&mut channels), 2);
        assert!(channels.unsubscribe(999, Subscription::Channel, b"one"));
        assert!(!channels.unsubscribe(999, Subscription::Channel, b"one"));
        assert_eq!(receivers(&mut channels), 1);
        channels.leave(999);
        assert_eq!(receivers(&mut channels), 0);
        assert!(channels.clients.is_empty());
        assert!(channels.names.iter().all(BTreeMap::is_empty));
    }
}
