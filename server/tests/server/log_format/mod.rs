//! The log's format as the book describes it: logs of every version that was ever written are kept
//! beside these tests and are read for ever, by the program and by a second reader that was written from
//! the chapter alone.
//!
//! To keep the log of a new version: `QUORLOCK_KEEP_FIXTURES=1 cargo test -p quorlock-server --test
//! server log_format`, after the version was raised. What is there already is never written again.

mod by_the_book;
mod kept;
mod payloads;
mod reader;
mod workload;
