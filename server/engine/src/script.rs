//! Lua scripts: what EVAL runs, in a sandbox, within limits, as one group of effects.
//!
//! The way of a script: `commands` reads the request, `runner` finds or compiles the script and
//! hands it to the interpreter in `vm`, `call` runs the commands it asks for, `convert` turns
//! values into replies, `failure` words what went wrong. `limits` says when it is too much.

mod cache;
#[cfg(test)]
mod cache_tests;
mod call;
pub(crate) mod commands;
mod convert;
mod failure;
mod library;
mod limits;
mod random;
mod recency;
mod runner;
mod send;
mod shebang;
mod vm;

pub use call::LogLine;
pub use limits::ScriptLimits;

use crate::time::NodeTime;
use runner::Runner;
use send::Confined;

/// All scripts of an engine and the interpreter that runs them.
#[derive(Debug)]
pub(crate) struct Scripts(Confined);

impl Scripts {
    /// No scripts yet, and no interpreter before the first one. `clock` measures how long scripts
    /// run; keys expire by the frozen time of their command and not by this clock.
    pub(crate) fn new(
        limits: ScriptLimits,
        clock: Box<dyn FnMut() -> NodeTime + Send>,
        seed: u64,
    ) -> Scripts {
        Scripts(Confined::new(Runner::new(limits, clock, seed)))
    }

    fn runner(&mut self) -> &mut Runner {
        self.0.get_mut()
    }

    /// Sets the clock that measures how long scripts run.
    pub(crate) fn set_clock(&mut self, clock: Box<dyn FnMut() -> NodeTime + Send>) {
        self.runner().set_clock(clock);
    }

    /// Changes what scripts may use.
    pub(crate) fn set_limits(&mut self, limits: ScriptLimits) {
        self.runner().set_limits(limits);
    }

    /// How many scripts are known.
    pub(crate) fn count(&self) -> usize {
        self.0.get().scripts()
    }

    /// The memory of the interpreter, in bytes.
    pub(crate) fn used_memory(&self) -> usize {
        self.0.get().used_memory()
    }

    /// What scripts have written with `redis.log` since the last call.
    pub(crate) fn take_log(&mut self) -> Vec<LogLine> {
        self.runner().take_log()
    }
}
