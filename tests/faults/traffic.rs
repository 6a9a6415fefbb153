//! Writes to a node over several connections at once, a few per connection in flight.

use std::io;
use std::net::SocketAddr;

use quorlock_testkit::{Connection, request};

use crate::stream::{Answer, Stream};

/// What came of some traffic.
#[derive(Debug, Default)]
pub(crate) struct Came {
    /// The node went away, with what the socket said.
    pub(crate) ended: Option<String>,
    /// What it refused without executing it.
    pub(crate) refused: Vec<String>,
    /// Where it said that it does not know the outcome.
    pub(crate) doubtful: Vec<String>,
    /// What a correct node does not do.
    pub(crate) wrong: Vec<String>,
}

impl Came {
    /// Whether the node went away, or said that it does not know what it holds.
    pub(crate) fn has_failed(&self) -> bool {
        self.ended.is_some() || !self.doubtful.is_empty()
    }

    /// Whether everything was acknowledged.
    pub(crate) fn is_fine(&self) -> bool {
        self.ended.is_none()
            && self.refused.is_empty()
            && self.doubtful.is_empty()
            && self.wrong.is_empty()
    }
}

/// One connection per stream.
pub(crate) struct Traffic {
    connections: Vec<Connection>,
}

impl Traffic {
    pub(crate) fn open(address: SocketAddr, streams: &[Stream]) -> io::Result<Self> {
        let connections = streams.iter().map(|_| Connection::open(address));
        Ok(Self {
            connections: connections.collect::<io::Result<_>>()?,
        })
    }

    /// Issues `depth` writes on every connection, then reads all replies; `rounds` times, or until
    /// the node goes away, refuses or fails.
    pub(crate) fn run(&mut self, streams: &mut [Stream], rounds: usize, depth: usize) -> Came {
        let mut came = Came::default();
        for _ in 0..rounds {
            if !came.is_fine() {
                break;
            }
            if let Err(error) = self.round(streams, depth, &mut came) {
                came.ended = Some(error.to_string());
            }
        }
        came
    }

    fn round(&mut self, streams: &mut [Stream], depth: usize, came: &mut Came) -> io::Result<()> {
        // All are sent before any is read, so that the node has something to group.
        let mut outcome = Ok(());
        for (connection, stream) in self.connections.iter_mut().zip(streams.iter_mut()) {
            let requests: Vec<Vec<u8>> = (0..depth)
                .map(|_| request(&stream.issue().request()))
                .collect();
            outcome = outcome.and(connection.send(&requests.concat()));
        }
        // Also if sending failed: replies that have arrived are acknowledgements.
        for (connection, stream) in self.connections.iter_mut().zip(streams.iter_mut()) {
            for _ in 0..depth {
                let reply = match connection.reply() {
                    Ok(reply) => reply,
                    Err(error) => {
                        outcome = outcome.and(Err(error));
                        break;
                    }
                };
                match stream.answer(&reply) {
                    Answer::Acknowledged => {}
                    Answer::Refused(text) => came.refused.push(text),
                    Answer::Doubtful(text) => came.doubtful.push(text),
                    Answer::Wrong(text) => came.wrong.push(text),
                }
            }
        }
        outcome
    }
}

/// Three streams of every kind of write.
pub(crate) fn streams(seed: u64, shape: crate::stream::Shape) -> Vec<Stream> {
    ["a", "b", "c"]
        .iter()
        .zip(seed..)
        .map(|(name, seed)| Stream::new(name, seed, shape))
        .collect()
}
