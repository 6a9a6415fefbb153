//! The client's listener: what it wants to hear, and the stream of each node.
//!
//! Invariant: without a listener, and a while after there is nothing to listen to, no node has a connection for it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Client;
use crate::OperationId;
use crate::action::{Action, Event};
use crate::address::NodeAddress;
use crate::channels::stream::{FIRST_NUMBER, Stream, StreamAction};
use crate::channels::{Heard, Topic, literal};
use crate::clock::ClientInstant;
use crate::link::ConnectionId;
use crate::settings::Settings;

pub(super) struct Listening {
    listener: Option<OperationId>,
    wanted: BTreeSet<Topic>,
    streams: Vec<Stream>,
    /// Since when nothing is wanted, while there may be connections all the same.
    unused_until: Option<ClientInstant>,
    prefix_bytes: usize,
    pattern_prefix_bytes: usize,
}

impl Listening {
    pub(super) fn new(addresses: &[NodeAddress], settings: &Settings) -> Self {
        let streams = addresses.iter().enumerate();
        Self {
            listener: None,
            wanted: BTreeSet::new(),
            streams: streams
                .map(|(node, address)| Stream::new(node, address.clone(), settings))
                .collect(),
            unused_until: None,
            prefix_bytes: settings.prefix.len(),
            pattern_prefix_bytes: literal(&settings.prefix).len(),
        }
    }

    pub(super) fn begin(&mut self, listener: OperationId) {
        self.listener = Some(listener);
    }

    pub(super) fn next_time(&self) -> Option<ClientInstant> {
        let streams = self.streams.iter().filter_map(Stream::next_time);
        streams
            .chain(self.unused_until)
            .reduce(ClientInstant::earlier)
    }

    pub(super) fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        self.streams.get_mut(id.node)?.output(id)
    }

    /// What was heard, as the listener knows it.
    fn shown(&self, heard: Heard) -> Heard {
        let stripped = |topic: Topic| {
            let bytes = match topic.is_pattern {
                true => self.pattern_prefix_bytes,
                false => self.prefix_bytes,
            };
            let name = topic.name.slice(bytes.min(topic.name.len())..);
            Topic { name, ..topic }
        };
        match heard {
            Heard::Stands { node, topic } => Heard::Stands {
                node,
                topic: stripped(topic),
            },
            Heard::Refused { node, topic, cause } => Heard::Refused {
                node,
                topic: stripped(topic),
                cause,
            },
            Heard::Message {
                node,
                topic,
                channel,
                payload,
            } => Heard::Message {
                node,
                topic: stripped(topic),
                channel: channel.slice(self.prefix_bytes.min(channel.len())..),
                payload,
            },
            other => other,
        }
    }
}

impl Client {
    pub(super) fn listen_to(&mut self, now: ClientInstant, add: &[Topic], remove: &[Topic]) {
        let listening = &mut self.listening;
        for topic in remove {
            listening.wanted.remove(topic);
        }
        listening.wanted.extend(add.iter().cloned());
        for stream in &mut listening.streams {
            stream.change(add, remove);
        }
        listening.unused_until = match listening.wanted.is_empty() {
            true => Some(now.after(UNUSED_FOR)),
            false => None,
        };
    }

    /// Nobody listens any more, if this was the listener.
    pub(super) fn end_listening(&mut self, operation: OperationId, actions: &mut Vec<Action>) {
        if self.listening.listener != Some(operation) {
            return;
        }
        self.listening.listener = None;
        self.listening.wanted.clear();
        self.listening.unused_until = None;
        self.listening.streams.iter_mut().for_each(Stream::end);
        self.act_for_streams(actions);
    }

    /// Something happens to the connection of a stream.
    pub(super) fn of_stream(&mut self, now: ClientInstant, event: Event<'_>) {
        let Listening {
            streams, wanted, ..
        } = &mut self.listening;
        let random = &mut *self.random;
        match event {
            Event::Connected(id, peer) => {
                if let Some(stream) = streams.get_mut(id.node) {
                    stream.connected(now, id, peer);
                }
            }
            Event::Received(id, bytes) => {
                if let Some(stream) = streams.get_mut(id.node) {
                    stream.received(now, id, bytes, wanted, random);
                }
            }
            Event::Closed(id, cause) => {
                if let Some(stream) = streams.get_mut(id.node) {
                    stream.closed(now, id, cause, random);
                }
            }
            Event::Call(..) | Event::Gone(_) | Event::Timer => {}
        }
    }

    /// Does what is due for streams, and tells what they have heard.
    pub(super) fn settle_streams(
        &mut self,
        now: ClientInstant,
        is_time: bool,
        actions: &mut Vec<Action>,
    ) {
        let listening = &mut self.listening;
        let is_unused = listening.wanted.is_empty();
        let ends = is_time
            && listening
                .unused_until
                .is_some_and(|until| now.has_reached(until));
        if ends {
            listening.unused_until = None;
        }
        if !is_unused || ends {
            for stream in &mut listening.streams {
                let is_new = stream.next_time().is_none();
                if is_time || is_new {
                    stream.tick(now, &listening.wanted, &mut *self.random);
                }
            }
        } else if is_time {
            // They are of use again if something is wanted soon.
            for stream in &mut listening.streams {
                stream.keep(now, &mut *self.random);
            }
        }
        self.act_for_streams(actions);
    }

    fn act_for_streams(&mut self, actions: &mut Vec<Action>) {
        for node in 0..self.listening.streams.len() {
            let stream = &mut self.listening.streams[node];
            let done = std::mem::take(&mut stream.actions).into_iter();
            actions.extend(done.map(|action| match action {
                StreamAction::Open(id) => Action::Open(id),
                StreamAction::Close(id) => Action::Close(id),
            }));
            while let Some(heard) = self.listening.streams[node].heard.pop_front() {
                let heard = self.listening.shown(heard);
                if let Some(listener) = self.listening.listener {
                    actions.push(Action::Heard(listener, heard));
                }
            }
        }
    }
}

/// Whether a connection is that of a stream.
pub(super) fn is_stream(id: ConnectionId) -> bool {
    id.number > FIRST_NUMBER
}

/// Whether an event is about such a connection.
pub(super) fn is_of_stream(event: &Event<'_>) -> bool {
    match event {
        Event::Connected(id, _) | Event::Received(id, _) | Event::Closed(id, _) => is_stream(*id),
        Event::Call(..) | Event::Gone(_) | Event::Timer => false,
    }
}

/// For how long connections stay that nothing is heard on.
const UNUSED_FOR: Duration = Duration::from_secs(10);
