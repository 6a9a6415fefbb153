//! What callers listen to, and on which nodes that stands.
//!
//! Invariants: a subscription is confirmed to its caller once a majority of distinct nodes has confirmed it to the agent: from then on
//! a message that a majority takes reaches at least one node that sends it here. However many callers listen to the same, the
//! nodes have one subscription for it, and none when the last caller has gone.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::channels::Topic;
use quorlock_clock::ClientInstant;
use quorlock_engine::{ErrorReply, GlobBudget};

use super::NAMES_BYTES_MAX;
use crate::refusal;
use crate::request_id::RequestId;

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    quorum: usize,
    nodes: Vec<NodeSide>,
    topics: BTreeMap<Topic, Subscribed>,
    /// Of the names of these.
    name_bytes: usize,
    clients: HashMap<u64, BTreeSet<Topic>>,
    waiting: HashMap<RequestId, Waiting>,
    /// In the order in which their time is over.
    deadlines: VecDeque<(ClientInstant, RequestId)>,
    pub(crate) changes: Changes,
}

/// What nodes are to be asked for.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) add: Vec<Topic>,
    pub(crate) remove: Vec<Topic>,
}

#[derive(Debug)]
struct NodeSide {
    label: Arc<str>,
    /// Who it is, while its connection stands.
    id: Option<Arc<str>>,
    /// Why it did not confirm something last.
    cause: Option<String>,
}

#[derive(Debug, Default)]
struct Subscribed {
    callers: usize,
    /// The nodes that have confirmed it, as bits.
    stands: u64,
    /// Requests that wait for it.
    waiting: Vec<RequestId>,
}

/// A request that waits until all it names stands.
#[derive(Debug)]
struct Waiting {
    client: u64,
    topics: Vec<Topic>,
    /// Those that its client did not listen to before.
    new: Vec<Topic>,
}

/// A request that is over.
pub(crate) type Ended = (RequestId, Result<(), ErrorReply>);

impl Subscriptions {
    pub(crate) fn of(labels: Vec<Arc<str>>, quorum: usize) -> Self {
        let nodes = labels.into_iter().map(|label| NodeSide {
            label,
            id: None,
            cause: None,
        });
        Self {
            quorum,
            nodes: nodes.collect(),
            ..Self::default()
        }
    }

    /// A caller wants to listen to these.
    pub(crate) fn listen(
        &mut self,
        now: ClientInstant,
        id: RequestId,
        client: u64,
        topics: Vec<Topic>,
    ) -> Option<Ended> {
        let unknown: BTreeSet<&Topic> = topics
            .iter()
            .filter(|topic| !self.topics.contains_key(*topic))
            .collect();
        let bytes: usize = unknown.iter().map(|topic| topic.name.len()).sum();
        let is_too_much = self.topics.len() + unknown.len() > TOPICS_MAX
            || self.name_bytes + bytes > NAMES_BYTES_MAX;
        if is_too_much && !unknown.is_empty() {
            return Some((id, Err(TOO_MANY)));
        }
        // Names that share their request's bytes would keep the whole request. All callers share one copy.
        let own = |topic: Topic| match self.topics.get_key_value(&topic) {
            Some((known, _)) => known.clone(),
            None => Topic {
                name: Bytes::copy_from_slice(&topic.name),
                ..topic
            },
        };
        let topics: Vec<Topic> = topics.into_iter().map(own).collect();
        let of_client = self.clients.entry(client).or_default();
        let mut new = Vec::new();
        for topic in &topics {
            if of_client.insert(topic.clone()) {
                new.push(topic.clone());
            }
        }
        for topic in &new {
            let subscribed = self.topics.entry(topic.clone()).or_default();
            subscribed.callers += 1;
            if subscribed.callers == 1 {
                self.name_bytes += topic.name.len();
                self.changes.add.push(topic.clone());
            }
        }
        let waiting = Waiting {
            client,
            topics,
            new,
        };
        self.waiting.insert(id, waiting);
        if let Some(ended) = self.look_at(id) {
            return Some(ended);
        }
        self.deadlines.push_back((now.after(PATIENCE), id));
        None
    }

    /// A caller does not want to listen to these any more.
    pub(crate) fn unlisten(&mut self, client: u64, topics: &[Topic]) {
        let Some(of_client) = self.clients.get_mut(&client) else {
            return;
        };
        let gone: Vec<_> = topics.iter().filter(|it| of_client.remove(*it)).collect();
        if of_client.is_empty() {
            self.clients.remove(&client);
        }
        for topic in gone {
            let Some(subscribed) = self.topics.get_mut(topic) else {
                continue;
            };
            subscribed.callers -= 1;
            if subscribed.callers == 0 {
                self.topics.remove(topic);
                self.name_bytes -= topic.name.len();
                self.changes.remove.push(topic.clone());
            }
        }
    }

    /// A caller has gone: the request with which it waited, if it did.
    pub(crate) fn left(&mut self, client: u64) -> Option<RequestId> {
        let topics = self.clients.get(&client).cloned().unwrap_or_default();
        let topics: Vec<Topic> = topics.into_iter().collect();
        self.unlisten(client, &topics);
        let mut waiting = self.waiting.iter();
        let id = *waiting.find(|(_, waiting)| waiting.client == client)?.0;
        self.waiting.remove(&id);
        Some(id)
    }

    pub(crate) fn opened(&mut self, node: usize, id: Arc<str>) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.id = Some(id);
            node.cause = None;
        }
    }

    /// A node has confirmed one. What nobody wants any more means nothing.
    pub(crate) fn stands(&mut self, node: usize, topic: &Topic) -> Vec<Ended> {
        let Some(subscribed) = self.topics.get_mut(topic) else {
            return Vec::new();
        };
        subscribed.stands |= 1 << node;
        if !self.is_standing(topic) {
            return Vec::new();
        }
        let Some(subscribed) = self.topics.get_mut(topic) else {
            return Vec::new();
        };
        let waiting = std::mem::take(&mut subscribed.waiting);
        waiting
            .into_iter()
            .filter_map(|id| self.look_at(id))
            .collect()
    }

    pub(crate) fn refused(&mut self, node: usize, topic: &Topic, cause: String) {
        if let Some(subscribed) = self.topics.get_mut(topic) {
            subscribed.stands &= !(1 << node);
        }
        if let Some(node) = self.nodes.get_mut(node) {
            node.cause = Some(cause);
        }
    }

    /// Nothing stands on this node any more.
    pub(crate) fn lost(&mut self, node: usize, cause: String) {
        for subscribed in self.topics.values_mut() {
            subscribed.stands &= !(1 << node);
        }
        if let Some(node) = self.nodes.get_mut(node) {
            node.id = None;
            node.cause = Some(cause);
        }
    }

    /// Requests whose time is over. What they asked for is not wanted any more.
    pub(crate) fn take_overdue(&mut self, now: ClientInstant) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some((until, id)) = self.deadlines.front()
            && now.has_reached(*until)
        {
            let id = *id;
            self.deadlines.pop_front();
            if let Some(waiting) = self.waiting.remove(&id) {
                self.unlisten(waiting.client, &waiting.new);
                ended.push((id, Err(self.refusal())));
            }
        }
        ended
    }

    pub(crate) fn next_time(&mut self) -> Option<ClientInstant> {
        while let Some((_, id)) = self.deadlines.front()
            && !self.waiting.contains_key(id)
        {
            self.deadlines.pop_front();
        }
        self.deadlines.front().map(|(until, _)| *until)
    }

    /// The nodes that have confirmed it, as bits.
    pub(crate) fn nodes_of(&self, topic: &Topic) -> u64 {
        self.topics.get(topic).map_or(0, |it| it.stands)
    }

    pub(crate) fn stands_at(&self, node: usize, topic: &Topic) -> bool {
        self.nodes_of(topic) & (1 << node) != 0
    }

    /// Whether the copy that a node has sent for this topic is the one that counts of those that it has sent of the same message: the
    /// one for the channel, or else the one for the first of the patterns that match.
    pub(crate) fn counts(&self, node: usize, topic: &Topic, channel: &Bytes) -> bool {
        if !topic.is_pattern {
            return true;
        }
        if self.stands_at(node, &Topic::channel(channel.clone())) {
            return false;
        }
        let mut budget = GlobBudget::default();
        let patterns = self.topics.range(Topic::pattern("")..topic.clone());
        let mut before = patterns.filter(|(_, it)| it.stands & (1 << node) != 0);
        !before.any(|(other, _)| budget.matches(&other.name, channel).unwrap_or(false))
    }

    fn is_standing(&self, topic: &Topic) -> bool {
        let nodes = self.nodes_of(topic);
        let mut ids: Vec<&Arc<str>> = Vec::new();
        for (node, side) in self.nodes.iter().enumerate() {
            if let Some(id) = &side.id
                && nodes & (1 << node) != 0
                && !ids.contains(&id)
            {
                ids.push(id);
            }
        }
        ids.len() >= self.quorum
    }

    /// Whether a request is over; else it waits for the first of its topics that does not stand.
    fn look_at(&mut self, id: RequestId) -> Option<Ended> {
        let waiting = self.waiting.get(&id)?;
        let mut topics = waiting.topics.iter();
        let Some(missing) = topics.find(|topic| !self.is_standing(topic)).cloned() else {
            self.waiting.remove(&id);
            return Some((id, Ok(())));
        };
        if let Some(subscribed) = self.topics.get_mut(&missing) {
            subscribed.waiting.push(id);
        }
        None
    }

    fn refusal(&self) -> ErrorReply {
        let mut text = format!(
            "no quorum: fewer than {} of {} nodes have confirmed the subscription",
            self.quorum,
            self.nodes.len()
        );
        for node in &self.nodes {
            let cause = node.cause.as_deref();
            let cause = match (&node.id, cause) {
                (_, Some(cause)) => cause,
                (Some(_), None) => "connected",
                (None, None) => "not connected yet",
            };
            text.push_str(&format!("; {}: {cause}", node.label));
        }
        refusal::no_quorum(&text, "Nothing was subscribed: subscribe again")
    }
}

/// A connection, a login and an answer, each of which has a second.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many channels and patterns the callers of an agent listen to.
const TOPICS_MAX: usize = 100_000;
const TOO_MANY: ErrorReply = ErrorReply::fixed(
    "ERR the callers of this agent listen to 100000 channels and patterns, whose names have up to 16 MiB together, and to no more. None of \
     these is subscribed",
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;
    use quorlock_clock::{Clock, SettableClock};

    fn subscriptions() -> (Subscriptions, ClientInstant) {
        let labels = (0..5).map(|node| Arc::from(format!("n{node}")));
        (
            Subscriptions::of(labels.collect(), 3),
            SettableClock::new().now(),
        )
    }

    fn open(subscriptions: &mut Subscriptions, node: usize) {
        subscriptions.opened(node, Arc::from(format!("id{node}")));
    }

    #[test]
    fn a_subscription_is_confirmed_once_a_majority_has_confirmed_it() {
        let (mut subscriptions, now) = subscriptions();
        let (a, b) = (Topic::channel("a"), Topic::pattern("b*"));
        let id = RequestId(1);
        let both = vec![a.clone(), b.clone()];
        assert_eq!(subscriptions.listen(now, id, 7, both.clone()), None);
        assert_eq!(subscriptions.changes.add, both);
        (0..5).for_each(|node| open(&mut subscriptions, node));
        for node in 0..3 {
            assert_eq!(subscriptions.stands(node, &b), []);
        }
        assert_eq!(subscriptions.stands(0, &a), []);
        assert_eq!(subscriptions.stands(4, &a), []);
        assert_eq!(subscriptions.stands(1, &a), [(id, Ok(()))]);
        // Others have it at once, and the nodes are asked for nothing.
        subscriptions.changes.add.clear();
        let ended = subscriptions.listen(now, RequestId(2), 8, both.clone());
        assert_eq!(ended, Some((RequestId(2), Ok(()))));
        assert_eq!(subscriptions.changes.add, []);
        // It ends on the nodes with its last caller.
        subscriptions.unlisten(7, &both);
        assert_eq!(subscriptions.changes.remove, []);
        assert_eq!(subscriptions.left(8), None);
        assert_eq!(subscriptions.changes.remove, both);
        assert_eq!(subscriptions.stands(2, &a), [], "nobody wants it");
    }

    #[test]
    fn callers_that_listen_to_the_same_share_its_name() {
        let (mut subscriptions, now) = subscriptions();
        for client in 0..3 {
            let topic = Topic::channel("a".to_owned());
            subscriptions.listen(now, RequestId(client), client, vec![topic]);
        }
        let topics = subscriptions.clients.values().flatten();
        let names: BTreeSet<_> = topics.map(|topic| topic.name.as_ptr()).collect();
        assert_eq!(names.len(), 1);
        assert_eq!(subscriptions.name_bytes, 1);
    }

    #[test]
    fn names_that_are_listened_to_have_so_many_bytes_together() {
        let (mut subscriptions, now) = subscriptions();
        let topic = |number: usize| Topic::channel(format!("{number:0>60000}"));
        let most = NAMES_BYTES_MAX / 60_000;
        for number in 0..most {
            let id = RequestId(number as u64);
            let ended = subscriptions.listen(now, id, 7, vec![topic(number)]);
            assert_eq!(ended, None, "{number}");
        }
        let more = vec![topic(most)];
        let refused = subscriptions.listen(now, RequestId(9_999), 8, more.clone());
        assert!(matches!(refused, Some((_, Err(_)))), "{refused:?}");
        subscriptions.unlisten(7, &[topic(0)]);
        let ended = subscriptions.listen(now, RequestId(9_999), 8, more);
        assert_eq!(ended, None);
        // What is listened to already takes no byte more, and what is named twice takes those of one.
        let known = (1..most).map(topic).collect();
        let ended = subscriptions.listen(now, RequestId(10_000), 9, known);
        assert_eq!(ended, None);
        let left = NAMES_BYTES_MAX - subscriptions.name_bytes;
        let twice = vec![Topic::channel("x".repeat(left)); 2];
        let ended = subscriptions.listen(now, RequestId(10_001), 9, twice);
        assert_eq!(ended, None);
        subscriptions.left(9);
        subscriptions.left(7);
        assert_eq!(subscriptions.name_bytes, 60_000);
    }

    #[test]
    fn what_was_lost_is_to_be_confirmed_again_and_one_node_is_one_vote() {
        let (mut subscriptions, now) = subscriptions();
        let a = Topic::channel("a");
        (0..4).for_each(|node| open(&mut subscriptions, node));
        subscriptions.opened(4, Arc::from("id3"));
        let id = RequestId(1);
        assert_eq!(subscriptions.listen(now, id, 7, vec![a.clone()]), None);
        for node in [0, 3, 4] {
            assert_eq!(subscriptions.stands(node, &a), []);
        }
        subscriptions.lost(0, "gone".to_owned());
        assert_eq!(subscriptions.stands(1, &a), []);
        assert_eq!(subscriptions.stands(2, &a), [(id, Ok(()))]);
    }

    #[test]
    fn a_subscription_without_a_majority_is_refused_and_nothing_is_left() {
        let (mut subscriptions, now) = subscriptions();
        let id = RequestId(1);
        subscriptions.listen(now, id, 7, vec![Topic::channel("a")]);
        subscriptions.lost(0, "refused".to_owned());
        let until = subscriptions.next_time().unwrap();
        assert_eq!(subscriptions.take_overdue(now), []);
        let ended = subscriptions.take_overdue(until);
        let [(ended, Err(error))] = &ended[..] else {
            panic!("{ended:?}")
        };
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        assert_eq!(*ended, id);
        assert!(
            text.starts_with("NOQUORUM") && text.contains("n0: refused"),
            "{text}"
        );
        assert!(subscriptions.topics.is_empty() && subscriptions.clients.is_empty());
        assert_eq!(subscriptions.changes.remove, [Topic::channel("a")]);
        assert_eq!(subscriptions.next_time(), None);
    }

    #[test]
    fn of_the_copies_of_one_node_one_counts() {
        let (mut subscriptions, now) = subscriptions();
        let all = vec![
            Topic::channel("ab"),
            Topic::pattern("a*"),
            Topic::pattern("ab*"),
        ];
        subscriptions.listen(now, RequestId(1), 7, all.clone());
        for topic in &all {
            subscriptions.stands(0, topic);
        }
        let channel = Bytes::from_static(b"ab");
        let counting = |subscriptions: &Subscriptions| {
            let counts = all
                .iter()
                .map(|topic| subscriptions.counts(0, topic, &channel));
            counts.collect::<Vec<_>>()
        };
        assert_eq!(counting(&subscriptions), [true, false, false]);
        subscriptions.unlisten(7, &all[..1]);
        assert_eq!(counting(&subscriptions)[1..], [true, false]);
        assert!(!subscriptions.counts(0, &all[2], &"abc".into()));
        subscriptions.unlisten(7, &all[1..2]);
        assert!(subscriptions.counts(0, &all[2], &channel));
    }
}
