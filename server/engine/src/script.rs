//! Lua scripts: what EVAL runs, in a sandbox, within limits, as one group of effects.
//!
//! The path of a script: `commands` reads the request, `runner` finds or compiles the script and
//! hands it to the interpreter in `vm`, `call` runs the commands it asks for, `convert` turns
//! values into replies, `failure` makes the error texts. `library`, `redis_library` and `libraries` are the functions
//! that a script can call. `syntax` holds texts to Lua 5.1. `native` runs the usual lock scripts without the interpreter. `limits` ends a script that uses too much.

mod cache;
#[cfg(test)]
mod cache_tests;
mod call;
pub(crate) mod commands;
mod convert;
mod counted;
mod failure;
mod libraries;
mod library;
mod limits;
mod native;
mod random;
mod recency;
mod redis_library;
pub(crate) mod runner;
mod script_arguments;
mod send;
mod shebang;
mod syntax;
mod vm;

pub use call::LogLine;
pub use limits::ScriptLimits;
pub use redis_library::REDIS_VERSION;
pub(crate) use send::Scripts;
