//! The rules of a Quorlock node: keys, commands, scripts and time as data, with no I/O.
//!
//! The node hands in a command and the time, and gets back a reply and its effects: bytes for the
//! log and what the reply has to wait for. Nothing in this crate reads a clock, a file, a socket
//! or a source of randomness.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
#![cfg_attr(
    not(feature = "scripts"),
    allow(dead_code, reason = "what the interpreter alone uses")
)]

mod binary;
mod caller;
mod capacity;
pub mod channels;
mod command;
mod command_guard;
mod context;
pub mod control;
mod double;
mod effects;
mod engine;
mod error;
mod extended;
mod fences;
mod glob;
#[cfg(test)]
mod glob_tests;
mod hand_over;
pub mod incarnation;
mod keyspace;
mod links;
pub mod live_mode;
pub mod lock_counts;
mod lock_intents;
mod lock_queues;
mod mutation;
pub mod notifications;
mod number;
mod position;
mod queue_name;
pub mod relocation;
mod replay;
mod reply;
pub mod restart;
mod script;
mod script_counts;
#[cfg(any(test, fuzzing))]
pub mod scripts_for_tests;
mod serving;
mod snapshot;
mod stop;
mod stored;
mod time;
pub mod tracking;
#[cfg(test)]
mod tracking_tests;
mod transaction;
#[cfg(test)]
mod undo_tests;
pub mod words;

pub use caller::{Caller, Protocol};
pub use command::{
    Categories, Command, DEBUG_OBJECT, Description, Docs, Documentation, Flags, KeyAccess,
    KeyPositions, NodeCommand, RequestKey, Spec, all_specs, database_index, is_arity,
    keys_of_request, numbered_spec, refused_specs, spec_named,
};
pub use command_guard::{CommandGuard, Purpose};
pub use effects::{Dependency, Effects, LogRoom, NO_FILES, NO_ROOM, WaitLimit};
pub use engine::{Engine, EngineOptions, KeyHash, key_to_prefetch};
pub use error::ErrorReply;
#[doc(hidden)]
pub use fences::Fences;
pub use glob::{
    GlobBudget, PATTERN_BYTES_MAX, PATTERN_TOO_EXPENSIVE, PATTERN_TOO_LONG, TooManySteps,
};
pub use keyspace::change::Change;
pub use keyspace::collection::Collection;
pub use keyspace::counting::HeldLocks;
pub use keyspace::fields::Fields;
pub use keyspace::holders::ClientDescription;
pub use keyspace::list::{End, List};
pub use keyspace::members::Members;
pub use keyspace::sorted_set::SortedSet;
pub use keyspace::{
    DATABASES, DatabaseCount, Discarded, JOURNAL_BYTES_MAX, KeyspaceStatistics, Reclaimed,
};
pub use mutation::{Mutation, Mutations, NewValue, PayloadError, PayloadErrorKind};
pub use number::{double_text, parse_integer};
pub use position::LogPosition;
pub use reply::{REPLY_BYTES_MAX, Reply, ReplyBudget, ReplyTooLarge};
pub use script::{HAS_INTERPRETER, LogLine, REDIS_VERSION, ScriptLimits};
pub use script_counts::{ScriptCount, ScriptCounts};
pub use serving::Served;
pub use snapshot::SnapshotCursor;
pub use stored::{Stored, StoredValue};
pub use time::{BootTime, Deadline, Moment, NodeTime, RawTime};
pub use transaction::{RunningTransaction, WatchedKey};
