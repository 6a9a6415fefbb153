//! Why a request could not be read. Every one of these ends the connection after the reply.
//!
//! The texts are Redis's, letter for letter, because drivers and people search for them.

/// A violation of the protocol. The stream cannot be trusted after it, so the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Something other than `$` where a bulk string must begin.
    #[error("expected '$', got '{}'", shown(.0))]
    ExpectedBulk(u8),
    /// The count after `*` is not a number or is too large.
    #[error("invalid multibulk length")]
    InvalidMultibulkLength,
    /// The length after `$` is not a number, is negative or is too large.
    #[error("invalid bulk length")]
    InvalidBulkLength,
    /// No line end within the bound after `*`.
    #[error("too big mbulk count string")]
    TooBigMultibulkCount,
    /// No line end within the bound after `$`.
    #[error("too big bulk count string")]
    TooBigBulkCount,
    /// No line end within the bound of an inline request.
    #[error("too big inline request")]
    TooBigInlineRequest,
    /// The arguments of one request together are larger than a connection may hold.
    #[error("too big request, see client-query-buffer-limit")]
    TooBigRequest,
    /// Quotes of an inline request do not match.
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
    /// More arguments than a client may send before AUTH.
    #[error("unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// A longer argument than a client may send before AUTH.
    #[error("unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// `POST` or `Host:`: a browser was made to talk to this port (cross-protocol scripting).
    #[error(
        "possible SECURITY ATTACK: POST or Host: was sent to this port, which is likely cross protocol scripting from a browser"
    )]
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

fn shown(byte: &u8) -> String {
    match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}
