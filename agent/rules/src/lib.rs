//! What an agent decides: which step on the nodes a request of a lock library is.
//!
//! An agent takes the commands and scripts that lock libraries send to one Redis, and holds the locks on a majority of
//! independent nodes. It keeps no lock itself. A request is executed on a [scratch keyspace](scratch) that holds what a majority
//! says of its key; the change that it makes there is the step that is taken on the nodes, on the condition that they still hold
//! what was read. So any script whose effects are such steps works, whatever its text is.
//!
//! Nothing here reads a clock or does any I/O: [`Agent`] takes events and the time, and returns actions.

mod agent;
mod change;
mod channels;
mod commands;
mod counts;
mod counts_by_pattern;
mod known_holders;
mod listing;
mod lock_command;
mod lock_name;
mod locking;
mod looking;
mod next;
mod pauses;
mod publishing;
mod refusal;
mod refusal_log;
mod request;
mod request_id;
mod scratch;
mod sessions;
#[cfg(test)]
mod sessions_tests;
mod surroundings;
mod terms;
#[cfg(test)]
mod tests;
mod watched_names;
#[cfg(test)]
mod watched_names_tests;

pub use agent::{Action, Agent, Event};
pub use commands::Commands;
pub use counts::{Counts, Step};
pub use counts_by_pattern::{ClassCounts, CountsByPattern};
pub use lock_command::waits_for_lock;
pub use next::Expiring;
pub use refusal_log::RefusalLog;
pub use request_id::RequestId;
