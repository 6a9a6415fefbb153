//! Lua scripts: what EVAL runs, in a sandbox, within limits, as one group of effects.
//!
//! The path of a script: `commands` reads the request, `runner` finds or compiles the script and hands it to `native`, which runs
//! the usual lock scripts, or to the interpreter in `luau`. Both run commands through `call`. `failure` makes the error replies.
//! `syntax` holds texts to Lua 5.1. `limits` ends a script that uses too much.

mod cache;
#[cfg(test)]
mod cache_tests;
mod call;
pub(crate) mod commands;
mod counted;
mod failure;
mod invocation;
mod limits;
#[cfg(feature = "scripts")]
mod luau;
#[cfg(not(feature = "scripts"))]
#[path = "script/no_luau.rs"]
mod luau;
mod native;
mod recency;
pub(crate) mod runner;
mod send;
mod shebang;
mod syntax;

pub use invocation::{LogLine, REDIS_VERSION};
pub use limits::ScriptLimits;
pub use luau::HAS_INTERPRETER;
pub(crate) use send::Scripts;
