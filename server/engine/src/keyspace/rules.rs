//! The bounds of keys and values, and of what one command may write.

use std::time::Duration;

/// What an engine's keys have to obey.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyspaceRules {
    /// The longest TTL for whose loss a restart delay makes up.
    pub(crate) restart_delay_max: Duration,
    /// Whether keys beyond that are refused.
    pub(crate) require_ttl: bool,
    /// How many databases commands may name.
    pub(crate) databases: u8,
    pub(crate) key_bytes_max: usize,
    pub(crate) value_bytes_max: usize,
    pub(crate) collection_bytes_max: usize,
    pub(crate) journal_bytes_max: usize,
    pub(crate) reply_bytes_max: usize,
    /// What all keys may take before commands that add are refused, in bytes; 0: no limit.
    pub(crate) memory_max: usize,
}

/// The longest string unless told otherwise.
pub(crate) const VALUE_BYTES_MAX: usize = 4 << 20;

/// The largest hash, list, set or sorted set unless told otherwise.
pub(crate) const COLLECTION_BYTES_MAX: usize = 512 << 20;

/// The largest group of mutations unless told otherwise: a frame of the log with room to spare.
pub const JOURNAL_BYTES_MAX: usize = 7 << 20;

#[cfg(test)]
impl KeyspaceRules {
    /// What keyspaces of unit tests have.
    pub(crate) const FOR_TESTS: Self = Self {
        restart_delay_max: Duration::from_secs(60),
        require_ttl: false,
        databases: 16,
        key_bytes_max: 100,
        value_bytes_max: 1000,
        collection_bytes_max: 1000,
        journal_bytes_max: 10_000,
        reply_bytes_max: 10_000,
        memory_max: 0,
    };
}
