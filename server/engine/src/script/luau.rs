//! The interpreter of scripts, Luau: a text is checked, compiled and run here, and nothing else names it.
//!
//! `vm` is the interpreter, made when a script needs it. `redis_call` runs the commands that a script asks for, `convert`
//! turns values into replies, `fault` finds what a script raised. `library`, `redis_library` and `libraries` are the functions
//! that a script can call, `random` has their random numbers. A build without the feature `scripts` has `no_luau` in its place.

mod convert;
mod fault;
mod libraries;
mod library;
mod random;
mod redis_call;
mod redis_library;
mod vm;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mlua::Value;

use crate::caller::Caller;
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::{Keyspace, KeyspaceRules};
use crate::reply::{Reply, ReplyBudget, ReplyTooLarge};
use crate::script::cache::{Sha, text_of_sha};
use crate::script::failure::NO_SCRIPT;
use crate::script::invocation::{LogLine, ScriptArguments, Seeds};
use crate::script::limits::{Budget, ScriptLimit};
use crate::script::luau::fault::{RootCause, cause_of, fault_text, raised_reply};
use crate::script::luau::libraries::JsonSettings;
use crate::script::luau::random::ScriptRandom;
use crate::script::luau::redis_call::{RunningScript, ScriptState};
use crate::script::luau::vm::Vm;
use crate::time::Moment;

pub(super) use mlua::Function;
pub(super) use vm::Compiled;

/// Whether there is an interpreter in this build.
pub const HAS_INTERPRETER: bool = true;

/// The text that is tried natively in the place of this one.
pub(super) fn native_form(text: &[u8]) -> &[u8] {
    text
}

/// The interpreter, once a script has needed it, and what its functions share.
#[derive(Debug)]
pub(super) struct Interpreter {
    shared: Rc<ScriptState>,
    vm: Option<Vm>,
}

impl Interpreter {
    pub(super) fn new(budget: &Rc<Budget>, seed: u64) -> Interpreter {
        let running = RunningScript {
            keyspace: Keyspace::placeholder(seed, NO_RULES),
            effects: Effects::default(),
            now: Moment::default(),
            caller: Caller::default(),
            is_read_only: false,
            journal_bytes_before: 0,
        };
        let shared = ScriptState {
            budget: Rc::clone(budget),
            running: RefCell::new(running),
            random: Rc::new(ScriptRandom::new(Box::new(|| Some(0)))),
            log: RefCell::new(Vec::new()),
            json: Rc::default(),
        };
        Interpreter {
            shared: Rc::new(shared),
            vm: None,
        }
    }

    pub(super) fn set_seeds(&self, seeds: Seeds) {
        self.shared.random.set_seeds(seeds);
    }

    pub(super) fn used_memory(&self) -> usize {
        self.vm.as_ref().map_or(0, Vm::used_memory)
    }

    /// What scripts have logged since it was last asked for.
    pub(super) fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut *self.shared.log.borrow_mut())
    }

    /// Gives back all memory. No function that was compiled may be run any more.
    pub(super) fn discard(&mut self) {
        self.vm = None;
    }

    /// Whether a text may become a script. A build without an interpreter takes those alone that run natively.
    pub(super) fn check(&mut self, text: &[u8], _is_native: bool) -> Result<(), ErrorReply> {
        self.vm()?.check(text).map_err(compile_error)
    }

    /// Whether a text that was checked becomes a function. What that takes is not kept.
    pub(super) fn check_size(&mut self, text: &[u8]) -> Result<(), ErrorReply> {
        self.vm()?.check_size(text).map_err(compile_error)
    }

    /// Compiles a text that was checked.
    pub(super) fn compile(&mut self, text: &[u8]) -> Result<Compiled, ErrorReply> {
        // Making the function takes a few steps of its own.
        self.shared.budget.begin();
        self.vm()?.compile(text).map_err(compile_error)
    }

    /// How many scripts this interpreter has compiled.
    #[cfg(test)]
    pub(super) fn compilations(&self) -> u64 {
        self.vm.as_ref().map_or(0, Vm::compilations)
    }

    fn vm(&mut self) -> Result<&mut Vm, ErrorReply> {
        match &mut self.vm {
            Some(vm) => Ok(vm),
            none => {
                let vm = Vm::new(&self.shared).map_err(|error| {
                    ErrorReply::new(format!("ERR the interpreter could not be set up: {error}"))
                })?;
                Ok(none.insert(vm))
            }
        }
    }

    /// Runs what was compiled. Limits are noted in the budget.
    pub(super) fn run(
        &mut self,
        context: &mut CommandContext<'_>,
        function: &Function,
        call: ScriptArguments<'_>,
        sha: &Sha,
    ) -> Result<Reply, ReplyTooLarge> {
        let Some(vm) = &self.vm else {
            return Ok(Reply::Error(NO_SCRIPT));
        };
        let budget = &self.shared.budget;
        self.shared.random.begin();
        self.shared.json.set(JsonSettings::default());
        self.shared
            .running
            .borrow_mut()
            .enter(context, call.is_read_only);
        let result = vm.run(function, call.keys, call.rest, budget);
        let is_resp3 = self.shared.is_resp3();
        self.shared.running.borrow_mut().leave(context);
        context.effects.reply = context.keyspace.reply_budget();
        let room = &mut context.effects.reply;
        reply_of(vm, budget, is_resp3, result, sha, room)
    }

    /// Gives back the memory of the script that has run. False where the interpreter was discarded for it.
    pub(super) fn clean(&mut self) -> bool {
        let is_forced = self.shared.budget.ended() == Some(ScriptLimit::Memory);
        let is_clean = self.vm.as_mut().is_none_or(|vm| vm.clean(is_forced));
        if !is_clean {
            self.discard();
        }
        is_clean
    }
}

/// The reply to a script that came to its end, one way or another. Limits are noted in the budget.
fn reply_of(
    vm: &Vm,
    budget: &Budget,
    is_resp3: bool,
    result: mlua::Result<Value>,
    sha: &Sha,
    room: &mut ReplyBudget,
) -> Result<Reply, ReplyTooLarge> {
    let error = match result {
        Ok(value) => return vm.names.reply_of(value, is_resp3, room),
        Err(error) => error,
    };
    let end = match cause_of(&error) {
        RootCause::Ended(end) => end,
        RootCause::OutOfMemory => ScriptLimit::Memory,
        RootCause::Raised(_) | RootCause::Fault(_) => {
            return Ok(Reply::Error(raised_reply(&error, &text_of_sha(sha))));
        }
    };
    budget.end(end);
    Ok(Reply::Nil)
}

fn compile_error(error: mlua::Error) -> ErrorReply {
    let text = match cause_of(&error) {
        RootCause::Fault(text) => fault_text(text.as_bytes()),
        _ => b"not enough memory".to_vec(),
    };
    ErrorReply::new([&b"ERR Error compiling script (new function): "[..], &text].concat())
}

/// The placeholder's; nothing is ever written there.
pub(super) const NO_RULES: KeyspaceRules = KeyspaceRules {
    restart_delay_max: Duration::ZERO,
    require_ttl: false,
    databases: 0,
    key_bytes_max: 0,
    value_bytes_max: 0,
    collection_bytes_max: 0,
    journal_bytes_max: 0,
    reply_bytes_max: 0,
    memory_max: 0,
};
