//! What a command answers, independent of the protocol's version.
//!
//! The engine decides the meaning (a map, a set, nothing); the server decides the bytes.

use std::borrow::Cow;

use crate::error::ErrorReply;

/// One reply. The server renders it for RESP2 or RESP3 and keeps CR and LF out of lines.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// A simple line.
    Status(Cow<'static, [u8]>),
    /// Nothing, where a bulk would be.
    Nil,
    /// Nothing, where an array would be.
    NilArray,
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// A sequence.
    Array(Vec<Reply>),
    /// Pairs; flattened to an array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// A sequence without order; an array in RESP2.
    Set(Vec<Reply>),
    /// A floating point number; a bulk in RESP2.
    Double(f64),
    /// True or false; 1 or 0 in RESP2.
    Boolean(bool),
    /// Text with a three-letter format; a bulk in RESP2.
    Verbatim([u8; 3], Vec<u8>),
    /// Data that is no answer to a request; an array in RESP2.
    Push(Vec<Reply>),
    /// A refusal.
    Error(ErrorReply),
}

impl Reply {
    /// A simple line from a constant.
    pub const fn status(text: &'static str) -> Reply {
        Reply::Status(Cow::Borrowed(text.as_bytes()))
    }

    /// A bulk with a copy of `bytes`.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(bytes.as_ref().to_vec())
    }

    /// 1 or 0.
    pub const fn flag(yes: bool) -> Reply {
        Reply::Integer(if yes { 1 } else { 0 })
    }

    /// A count of things in memory.
    pub fn count(count: usize) -> Reply {
        Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Whether this is a refusal.
    pub const fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

impl From<ErrorReply> for Reply {
    fn from(error: ErrorReply) -> Reply {
        Reply::Error(error)
    }
}
