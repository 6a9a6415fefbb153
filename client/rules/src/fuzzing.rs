//! A door for the fuzz targets of `tests/fuzz/`: the reader of a node's replies. It is compiled with `--cfg fuzzing` alone.

use redis_protocol::resp2::types::OwnedFrame;

use crate::protocol::reply;

/// A node's bytes, out of which replies and pushes are taken one after the other.
#[derive(Debug)]
pub struct Replies(reply::Replies);

/// What a node has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The reply to the oldest request.
    Reply(OwnedFrame),
    /// A message that no request has asked for.
    Push(Vec<OwnedFrame>),
}

impl Replies {
    /// Those of a connection, on which RESP3 was asked for or not.
    pub fn new(is_resp3: bool) -> Self {
        let mut replies = reply::Replies::with_capacity(16);
        if is_resp3 {
            replies.expect_resp3();
        }
        Self(replies)
    }

    /// Takes in what was read.
    pub fn append(&mut self, bytes: &[u8]) {
        self.0.append(bytes);
    }

    /// Takes the next reply or push, if it is there.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn take(&mut self) -> Result<Option<Message>, String> {
        let message = |incoming| match incoming {
            reply::Incoming::Reply(frame) => Message::Reply(frame),
            reply::Incoming::Push(parts) => Message::Push(parts),
        };
        let next = self.0.next().map_err(|error| error.to_string())?;
        Ok(next.map(message))
    }

    /// How many bytes are kept that were not taken.
    pub fn buffered(&self) -> usize {
        self.0.buffered()
    }
}
