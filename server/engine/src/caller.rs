//! Who sends a command: what the engine needs to know of a connection.

/// The dialect in which a connection reads its replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol every Redis client speaks.
    #[default]
    Resp2,
    /// The protocol chosen with `HELLO 3`.
    Resp3,
}

/// The connection on whose behalf a command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The selected database, below [`DATABASES`].
    pub database: u8,
    /// The connection's number.
    pub client_id: u64,
    /// The dialect of its replies.
    pub protocol: Protocol,
}

/// How many databases a node has. They share one table; the number is part of a key's identity.
pub const DATABASES: u8 = 16;
