//! Channels over all nodes: what callers listen to, what nodes send, and what is published.
//!
//! Invariants: a message of an agent reaches each caller that listens once, wherever it was published; one that a client has published on
//! a node without an agent reaches it once for each node on which it was. A caller gets only what it listens to: the node in front of the
//! agent chooses among its connections by the channel, as any node does.

mod envelope;
mod inbox;
mod publisher;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::channels::{Heard, Topic};
use quorlock_clock::ClientInstant;
use rand::Rng;

use crate::request_id::RequestId;
use envelope::{Envelope, TAIL_BYTES};
use inbox::{Copy, Delivery, Inbox};
use publisher::Publisher;
pub(crate) use subscriptions::Changes;
use subscriptions::{Ended, Subscriptions};

/// What is to be done for channels.
#[derive(Debug, Default)]
pub(crate) struct ToDo {
    pub(crate) ended: Vec<Ended>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) changes: Changes,
}

#[derive(Debug)]
pub(crate) struct Channels {
    subscriptions: Subscriptions,
    inbox: Inbox,
    publisher: Publisher,
    /// When what is remembered of messages is looked at.
    ages_at: Option<ClientInstant>,
    to_do: ToDo,
}

impl Channels {
    pub(crate) fn new(random: &mut dyn Rng) -> Self {
        Self {
            subscriptions: Subscriptions::default(),
            inbox: Inbox::default(),
            publisher: Publisher::new(random),
            ages_at: None,
            to_do: ToDo::default(),
        }
    }

    pub(crate) fn of(self, labels: Vec<Arc<str>>, quorum: usize) -> Self {
        let subscriptions = Subscriptions::of(labels, quorum);
        Self {
            subscriptions,
            ..self
        }
    }

    pub(crate) fn listen(
        &mut self,
        now: ClientInstant,
        id: RequestId,
        client: u64,
        topics: Vec<Topic>,
    ) {
        let ended = self.subscriptions.listen(now, id, client, topics);
        self.to_do.ended.extend(ended);
    }

    pub(crate) fn unlisten(&mut self, client: u64, topics: &[Topic]) {
        self.subscriptions.unlisten(client, topics);
    }

    /// A caller has gone: the request with which it waited for a subscription.
    pub(crate) fn left(&mut self, client: u64) -> Option<RequestId> {
        self.subscriptions.left(client)
    }

    /// A message of a caller, as it is published.
    pub(crate) fn envelop(&mut self, now: ClientInstant, channel: &Bytes, payload: &[u8]) -> Bytes {
        self.begin_to_age(now);
        self.publisher.next(channel).around(payload)
    }

    pub(crate) fn heard(&mut self, now: ClientInstant, heard: Heard) {
        match heard {
            Heard::Opened { node, id } => self.subscriptions.opened(node, id),
            Heard::Stands { node, topic } => {
                let ended = self.subscriptions.stands(node, &topic);
                self.to_do.ended.extend(ended);
            }
            Heard::Refused { node, topic, cause } => {
                self.subscriptions.refused(node, &topic, cause.to_string());
            }
            Heard::Lost { node, cause } => {
                self.subscriptions.lost(node, cause.to_string());
                self.look(now);
            }
            Heard::Message {
                node,
                topic,
                channel,
                payload,
            } => self.message(now, node, topic, channel, payload),
        }
    }

    fn message(
        &mut self,
        now: ClientInstant,
        node: usize,
        topic: Topic,
        channel: Bytes,
        payload: Bytes,
    ) {
        // The last of what nobody wants any more.
        if !self.subscriptions.stands_at(node, &topic) {
            return;
        }
        let Some((envelope, payload)) = Envelope::of(&payload) else {
            if self.subscriptions.counts(node, &topic, &channel) {
                self.to_do.deliveries.push((channel, payload));
            }
            return;
        };
        self.begin_to_age(now);
        let copy = Copy {
            node,
            topic,
            channel,
            envelope,
            payload,
        };
        let subscriptions = &self.subscriptions;
        let standing = |topic: &Topic| subscriptions.nodes_of(topic);
        let deliveries = &mut self.to_do.deliveries;
        self.inbox.take(now, copy, &standing, deliveries);
    }

    /// The time that was named has come. All that had arrived by then was taken.
    pub(crate) fn tick(&mut self, now: ClientInstant) {
        let ended = self.subscriptions.take_overdue(now);
        self.to_do.ended.extend(ended);
        self.look(now);
        if self.ages_at.is_some_and(|at| now.has_reached(at)) {
            self.inbox.age();
            self.publisher.age();
            let is_empty = self.inbox.is_empty() && self.publisher.is_empty();
            self.ages_at = (!is_empty).then(|| now.after(AGES_EVERY));
        }
    }

    pub(crate) fn next_time(&mut self) -> Option<ClientInstant> {
        let times = [
            self.subscriptions.next_time(),
            self.inbox.next_time(),
            self.ages_at,
        ];
        times.into_iter().flatten().reduce(ClientInstant::earlier)
    }

    pub(crate) fn take_to_do(&mut self) -> ToDo {
        let changes = std::mem::take(&mut self.subscriptions.changes);
        ToDo {
            changes,
            ..std::mem::take(&mut self.to_do)
        }
    }

    fn look(&mut self, now: ClientInstant) {
        let subscriptions = &self.subscriptions;
        let standing = |topic: &Topic| subscriptions.nodes_of(topic);
        let deliveries = &mut self.to_do.deliveries;
        self.inbox.look(now, &standing, deliveries);
    }

    fn begin_to_age(&mut self, now: ClientInstant) {
        if self.ages_at.is_none() {
            self.ages_at = Some(now.after(AGES_EVERY));
        }
    }
}

/// What a message has at most: more is not kept of a string that a node sends.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 * 1024 - 1 - TAIL_BYTES;
const AGES_EVERY: Duration = Duration::from_secs(1);
/// How many bytes the names have together that are listened to, published on, or remembered of messages. A name has up to 256 KiB.
pub(crate) const NAMES_BYTES_MAX: usize = 16 << 20;
