//! Why a request could not be read. Every one of these ends the connection after the reply.
//!
//! The texts are Redis's, letter for letter, because drivers and people search for them.

use std::fmt;

/// A violation of the protocol. The stream cannot be trusted after it, so the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Something other than `$` where a bulk string must begin.
    ExpectedBulk(u8),
    /// The count after `*` is not a number or is too large.
    InvalidMultibulkLength,
    /// The length after `$` is not a number, is negative or is too large.
    InvalidBulkLength,
    /// No line end within the bound after `*`.
    TooBigMultibulkCount,
    /// No line end within the bound after `$`.
    TooBigBulkCount,
    /// No line end within the bound of an inline request.
    TooBigInlineRequest,
    /// The arguments of one request together are larger than a connection may hold.
    TooBigRequest,
    /// Quotes of an inline request do not match.
    UnbalancedQuotes,
    /// More arguments than a client may send before AUTH.
    UnauthenticatedMultibulkLength,
    /// A longer argument than a client may send before AUTH.
    UnauthenticatedBulkLength,
    /// `POST` or `Host:`: a browser was made to talk to this port (cross-protocol scripting).
    CrossProtocol,
}

impl ProtocolError {
    /// The whole error reply, ready to be sent before the connection is closed.
    ///
    /// Empty for [`ProtocolError::CrossProtocol`]: who made a browser send it learns nothing.
    pub fn write_reply(&self, out: &mut Vec<u8>) {
        if *self != Self::CrossProtocol {
            out.extend_from_slice(format!("-ERR Protocol error: {self}\r\n").as_bytes());
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::ExpectedBulk(byte @ b' '..=b'~') => {
                return write!(f, "expected '$', got '{}'", char::from(*byte));
            }
            Self::ExpectedBulk(byte) => return write!(f, "expected '$', got '\\x{byte:02x}'"),
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::TooBigMultibulkCount => "too big mbulk count string",
            Self::TooBigBulkCount => "too big bulk count string",
            Self::TooBigInlineRequest => "too big inline request",
            Self::TooBigRequest => "too big request, see client-query-buffer-limit",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            Self::CrossProtocol => {
                "possible SECURITY ATTACK: POST or Host: was sent to this port, which is likely \
                 cross protocol scripting from a browser"
            }
        };
        f.write_str(text)
    }
}

impl std::error::Error for ProtocolError {}
