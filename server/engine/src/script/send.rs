//! Lets the interpreter move between threads together with the engine that owns it.
//!
//! The interpreter's handles count their references without synchronisation, so they may be used
//! by one thread at a time only. That is what the engine's lock ensures. The crate `mlua` offers
//! its feature `send` for this, which takes a lock at every step into the interpreter; the figures
//! are in docs/adr/0002-lua-with-luau.md. This is the only file of the crate with `unsafe`. What it
//! says of mlua's internals was checked for one version, which the workspace's Cargo.toml pins
//! exactly: check it again before another one is used.
#![allow(
    unsafe_code,
    reason = "moving is sound as long as all handles move together, see SAFETY"
)]

use crate::script::runner::Runner;

/// All scripts of an engine and the interpreter that runs them: a runner that may be moved to another
/// thread, but is never shared between two.
#[derive(Debug)]
pub(crate) struct Scripts(Box<Runner>);

// SAFETY: Moving is sound if no other thread keeps a handle to anything inside. A `Runner` owns
// its interpreter, and every handle to it (functions of the cache, the closures' shared state,
// reference-counted by `Rc`) is reachable from the same `Runner` only: `get_mut` lends it out for
// the time of a call, none of its methods returns a handle, and arguments and results are plain
// bytes and replies. So all handles move together. Neither mlua without `send` nor Luau keeps
// state of an interpreter in a thread's own storage. `Sync` is not implemented, so that a shared
// `Scripts` stays on one thread.
unsafe impl Send for Scripts {}

impl Scripts {
    pub(crate) fn new(runner: Runner) -> Scripts {
        Scripts(Box::new(runner))
    }

    pub(crate) fn get(&self) -> &Runner {
        &self.0
    }

    pub(crate) fn get_mut(&mut self) -> &mut Runner {
        &mut self.0
    }
}
