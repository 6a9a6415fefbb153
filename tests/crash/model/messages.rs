//! What clients that listen are told of a request: events of keys and published messages, to the byte.

use super::Execution;

/// A message to one who listens to all events of keys and to [`CHANNEL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Of a key in a database.
    Event(u8, Vec<u8>, &'static str),
    /// On [`CHANNEL`].
    Published(Vec<u8>),
}

impl Message {
    /// As it is sent with RESP3.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Message::Event(database, key, event) => {
                let channel = format!("__keyspace@{database}__:");
                let channel = [channel.as_bytes(), key].concat();
                push(&[b"pmessage", EVENTS.as_bytes(), &channel, event.as_bytes()])
            }
            Message::Published(payload) => push(&[b"message", CHANNEL.as_bytes(), payload]),
        }
    }
}

impl Execution<'_> {
    /// What happened to a key, behind the change.
    pub(super) fn tell(&mut self, event: &'static str, key: &[u8]) {
        let message = Message::Event(self.database, key.to_vec(), event);
        self.messages.push(message);
    }

    /// The same, and that the key has gone where nothing is left of it.
    pub(super) fn tell_of_part(&mut self, event: &'static str, key: &[u8]) {
        self.tell(event, key);
        if self.item(key).is_none() {
            self.tell("del", key);
        }
    }
}

fn push(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!(">{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The channels of events.
pub(crate) const EVENTS: &str = "__keyspace@*__:*";

/// The channel of what scripts publish.
pub(crate) const CHANNEL: &str = "news";
