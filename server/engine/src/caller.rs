//! On whose behalf a command runs.

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
    /// The selected database, below [`DATABASES`](crate::DATABASES).
    pub database: u8,
    /// The connection's number.
    pub client_id: u64,
    /// The dialect of its replies.
    pub protocol: Protocol,
    /// It keeps what it reads, and is to be told of changes of it.
    pub keeps_reads: bool,
    /// It keeps all that it touches as well, and everything where a command names no key: for who has to know that.
    pub keeps_all: bool,
    /// The command is one that its script calls.
    pub is_in_script: bool,
}
