//! How much one request may ask for, before and after authentication.
//!
//! The limits bound memory by bytes that were really received: a header that merely claims a size
//! reserves nothing.

use quorlock_engine::JOURNAL_BYTES_MAX;

/// Bounds on one request. Most numbers beyond them end the connection with Redis's error texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most arguments of one request, the command's name included.
    pub arguments_max: usize,
    /// Longest argument.
    pub bulk_bytes_max: usize,
    /// Longest argument that is kept. A request with a longer one is read to its end and refused.
    pub argument_bytes_max: usize,
    /// Longest inline request, and longest line of any header.
    pub inline_bytes_max: usize,
    /// Longest request as a whole. A longer one is refused in the same way.
    pub request_bytes_max: u32,
    /// Whether the client has proven who it is; decides which error text a limit gives.
    pub is_authenticated: bool,
}

impl Limits {
    /// Limits for a client that has not sent the password yet: enough for HELLO and AUTH with a
    /// password, a user and a name of any allowed length. Redis lets such a client send 16 KiB per
    /// argument; here that is what its whole connection may cost.
    pub const UNAUTHENTICATED: Self = Self {
        arguments_max: 10,
        bulk_bytes_max: 4 * 1024,
        argument_bytes_max: 4 * 1024,
        inline_bytes_max: 4 * 1024,
        request_bytes_max: 6 * 1024,
        is_authenticated: false,
    };

    /// Limits for everybody else, from `proto-max-bulk-len` and `client-query-buffer-limit`.
    pub const fn authenticated(bulk_bytes_max: usize, request_bytes_max: u32) -> Self {
        Self {
            arguments_max: 1024 * 1024,
            bulk_bytes_max,
            argument_bytes_max: if bulk_bytes_max < ARGUMENT_BYTES_MAX {
                bulk_bytes_max
            } else {
                ARGUMENT_BYTES_MAX
            },
            inline_bytes_max: 64 * 1024,
            request_bytes_max,
            is_authenticated: true,
        }
    }
}

/// No command can do anything with a longer argument: a value has at most 4 MiB, and what a command changes at once 7.
const ARGUMENT_BYTES_MAX: usize = JOURNAL_BYTES_MAX + 64 * 1024;
