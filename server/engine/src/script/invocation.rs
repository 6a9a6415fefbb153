//! What a node hands to a script, and what a script tells of itself besides its reply.

/// What a script is called with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptArguments<'a> {
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) rest: &'a [&'a [u8]],
    pub(crate) is_read_only: bool,
}

/// Where the seeds of a script's random numbers come from; `None` where none can be had.
pub(crate) type Seeds = Box<dyn FnMut() -> Option<u64> + Send>;

/// A line that a script wrote with `redis.log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// 0 debug, 1 verbose, 2 notice, 3 warning.
    pub level: u8,
    /// The text, cut to a bound.
    pub text: Vec<u8>,
}

/// The Redis version this node is compatible with, as HELLO, INFO and scripts report it: clients
/// choose features by it. WAITAOF and CLIENT SETINFO are of 7.2; from 8.4 some clients switch to DELEX.
pub const REDIS_VERSION: &str = "7.2.4";
