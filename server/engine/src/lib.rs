//! The rules of a Quorlock node: keys, commands, scripts and time as data, with no I/O.
//!
//! The node hands in a command and the time, and gets back a reply and its effects: bytes for the
//! log and what the reply has to wait for. Nothing in this crate reads a clock, a file, a socket
//! or a source of randomness.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod caller;
mod command;
pub mod control;
mod effects;
mod engine;
mod error;
pub mod incarnation;
mod inspection;
mod integer;
mod keyspace;
pub mod live_mode;
mod mutation;
mod replay;
mod reply;
pub mod restart;
mod script;
mod snapshot;
mod stop;
mod stored;
mod time;
mod turn;
#[cfg(test)]
mod undo_tests;

pub use caller::{Caller, DATABASES, Protocol};
pub use command::{
    Command, Flags, KeyPositions, PATTERN_BYTES_MAX, PATTERN_TOO_LONG, Spec, all_specs, fits_arity,
    glob_matches, spec_named,
};
pub use effects::{Dependency, Effects, NO_ROOM};
pub use engine::{
    Engine, EngineOptions, Hint, JOURNAL_BYTES_MAX, KEY_BYTES_MAX, Reclaimed, VALUE_BYTES_MAX,
};
pub use error::ErrorReply;
pub use inspection::{Change, Value, changes};
pub use integer::parse_integer;
pub use keyspace::{DatabaseCount, Statistics};
pub use mutation::{PayloadError, PayloadErrorKind};
pub use reply::{REPLY_BYTES_MAX, Reply, ReplyBudget, ReplyTooLarge};
pub use script::{LogLine, ScriptLimits};
pub use snapshot::SnapshotCursor;
pub use stored::{Stored, StoredValue};
pub use time::{Deadline, Moment, NodeTime};
