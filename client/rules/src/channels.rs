//! Messages that are published on the nodes: what a client listens to, and what it hears.
//!
//! Each node has a connection for that, which is made when there is something to listen to. This says what each node said. Which
//! message is a new one, and who is to have it, is decided by who listens.

pub(crate) mod stream;
#[cfg(test)]
mod stream_tests;

use bytes::Bytes;
use std::sync::Arc;

use crate::name::behind;
use crate::outcome::Cause;
use crate::votes::NodeIndex;

/// What is listened to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic {
    /// Whether it is a pattern, or the name of a channel.
    pub is_pattern: bool,
    /// The pattern or the name.
    pub name: Bytes,
}

/// What nodes have said to a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The connection to a node stands. Nothing is subscribed on it yet.
    Opened {
        /// The entry of the list.
        node: NodeIndex,
        /// Who the node is.
        id: Arc<str>,
    },
    /// A node has confirmed that it sends these messages from now on.
    Stands {
        /// The entry of the list.
        node: NodeIndex,
        /// What it sends.
        topic: Topic,
    },
    /// A node does not send them, for this reason.
    Refused {
        /// The entry of the list.
        node: NodeIndex,
        /// What it does not send.
        topic: Topic,
        /// Why.
        cause: Cause,
    },
    /// The connection to a node has ended, or could not be made. It is made again, and what is listened to is subscribed again.
    Lost {
        /// The entry of the list.
        node: NodeIndex,
        /// Why.
        cause: Cause,
    },
    /// A node has sent a message.
    Message {
        /// The entry of the list.
        node: NodeIndex,
        /// Why it was sent.
        topic: Topic,
        /// On which channel it was published.
        channel: Bytes,
        /// What was published.
        payload: Bytes,
    },
}

impl Topic {
    /// A channel of this name.
    #[must_use]
    pub fn channel(name: impl Into<Bytes>) -> Self {
        Self {
            is_pattern: false,
            name: name.into(),
        }
    }

    /// All channels whose names match this pattern.
    #[must_use]
    pub fn pattern(name: impl Into<Bytes>) -> Self {
        Self {
            is_pattern: true,
            name: name.into(),
        }
    }

    /// The same of channels whose names have this before them.
    #[must_use]
    pub(crate) fn behind(&self, prefix: &[u8]) -> Self {
        let name = match self.is_pattern {
            true => pattern_behind(prefix, &self.name),
            false => behind(prefix, &self.name),
        };
        Self { name, ..*self }
    }
}

/// A pattern that matches what begins with this text, and matches the pattern behind it.
#[must_use]
pub(crate) fn pattern_behind(prefix: &[u8], pattern: &Bytes) -> Bytes {
    match prefix {
        [] => pattern.clone(),
        prefix => Bytes::from([&literal(prefix)[..], pattern].concat()),
    }
}

/// The pattern that matches this text alone.
pub(crate) fn literal(text: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(text.len());
    for byte in text {
        if br"*?[]\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        let prefix = br"a*[1]?\:";
        let pattern = Topic::pattern("b*").behind(prefix);
        assert_eq!(pattern, Topic::pattern(r"a\*\[1\]\?\\:b*"));
        let channel = Topic::channel("b*").behind(prefix);
        assert_eq!(channel, Topic::channel(r"a*[1]?\:b*"));
        assert_eq!(Topic::pattern("b*").behind(b""), Topic::pattern("b*"));
    }
}
