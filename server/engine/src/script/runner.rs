//! One script from its text to its reply: found or compiled, run within its limits, kept or undone.
//!
//! A script is one group of effects. A script that raises an error keeps them, as in Redis; one
//! that reaches a limit leaves none.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use mlua::{Function, Value};

use crate::caller::{Caller, Protocol};
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::{Keyspace, Rules};
use crate::reply::{Reply, ReplyBudget, ReplyTooLarge};
use crate::script::cache::{Cache, Sha, text_of_sha};
use crate::script::call::{LogLine, Running, Shared};
use crate::script::failure::{Cause, cause_of, ended_reply, fault_text, raised_reply};
use crate::script::limits::{Budget, End, ScriptClock, ScriptLimits};
use crate::script::random::Random;
use crate::script::shebang;
use crate::script::vm::Vm;
use crate::time::Moment;
use crate::turn::Turn;

/// The cache, the interpreter and what its functions share.
#[derive(Debug)]
pub(crate) struct Runner {
    cache: Cache,
    shared: Rc<Shared>,
    vm: Option<Vm>,
}

/// What a script is called with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invocation<'a> {
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) rest: &'a [&'a [u8]],
    pub(crate) is_read_only: bool,
}

impl Runner {
    pub(crate) fn new(limits: ScriptLimits, clock: ScriptClock, seed: u64) -> Runner {
        let running = Running {
            keyspace: Keyspace::placeholder(seed, NO_RULES),
            effects: Effects::default(),
            now: Moment::default(),
            caller: Caller::default(),
            is_read_only: false,
        };
        let shared = Shared {
            budget: Budget::new(limits, clock),
            running: RefCell::new(running),
            random: Cell::new(Random::default()),
            log: RefCell::new(Vec::new()),
        };
        Runner {
            cache: Cache::new(seed),
            shared: Rc::new(shared),
            vm: None,
        }
    }

    pub(crate) fn set_clock(&mut self, clock: ScriptClock) {
        self.shared.budget.set_clock(clock);
    }

    pub(crate) fn set_limits(&mut self, limits: ScriptLimits) {
        self.shared.budget.set_limits(limits);
    }

    pub(crate) fn scripts(&self) -> usize {
        self.cache.len()
    }

    pub(crate) fn used_memory(&self) -> usize {
        self.vm.as_ref().map_or(0, Vm::used_memory)
    }

    pub(crate) fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut *self.shared.log.borrow_mut())
    }

    pub(crate) fn flush(&mut self) {
        self.cache.clear();
        self.vm = None;
    }

    pub(crate) fn contains(&self, sha: &Sha) -> bool {
        self.cache.find_sha(sha).is_some()
    }

    /// Compiles a script and keeps it until it is flushed.
    pub(crate) fn load(&mut self, body: &[u8]) -> Result<String, ErrorReply> {
        let number = self.number_of(body)?;
        self.cache.keep(number)?;
        let script = self.cache.get_mut(number);
        Ok(script.map_or_else(String::new, |script| text_of_sha(&script.sha)))
    }

    /// Runs the script with this text.
    pub(crate) fn eval(&mut self, turn: &mut Turn<'_>, body: &[u8], call: Invocation<'_>) -> Reply {
        match self.number_of(body) {
            Ok(number) => self.run(turn, number, call),
            Err(error) => Reply::Error(error),
        }
    }

    /// Runs the script with this SHA-1; `None` if there is none.
    pub(crate) fn evalsha(
        &mut self,
        turn: &mut Turn<'_>,
        sha: &Sha,
        call: Invocation<'_>,
    ) -> Option<Reply> {
        let number = self.cache.find_sha(sha)?;
        Some(self.run(turn, number, call))
    }

    fn number_of(&mut self, body: &[u8]) -> Result<u64, ErrorReply> {
        if let Some(number) = self.cache.find(body) {
            return Ok(number);
        }
        if body.len() > BODY_BYTES_MAX {
            let text = format!("ERR script is longer than {BODY_BYTES_MAX} bytes");
            return Err(ErrorReply::new(text));
        }
        let head = shebang::read(body)?;
        let shared = Rc::clone(&self.shared);
        let function = compile(self.interpreter()?, &shared.budget, &body[head.bytes..])?;
        Ok(self.cache.insert(body, function, head.is_read_only))
    }

    fn interpreter(&mut self) -> Result<&mut Vm, ErrorReply> {
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

    fn function_of(&mut self, number: u64) -> Result<(Function, Sha, bool), ErrorReply> {
        self.interpreter()?;
        let (Some(vm), Some(script)) = (&self.vm, self.cache.get_mut(number)) else {
            return Err(NO_SCRIPT);
        };
        let function = match &script.function {
            Some(function) => function.clone(),
            none => {
                debug_assert!(
                    none.is_none(),
                    "compiled anew after the interpreter was replaced"
                );
                let head = shebang::read(&script.body)?;
                let function = compile(vm, &self.shared.budget, &script.body[head.bytes..])?;
                script.function.insert(function).clone()
            }
        };
        Ok((function, script.sha, script.is_read_only))
    }

    fn run(&mut self, turn: &mut Turn<'_>, number: u64, call: Invocation<'_>) -> Reply {
        let (function, sha, is_read_only) = match self.function_of(number) {
            Ok(found) => found,
            Err(error) => return Reply::Error(error),
        };
        let Some(vm) = &mut self.vm else {
            return Reply::Error(NO_SCRIPT);
        };
        let budget = &self.shared.budget;
        budget.begin();
        self.shared.random.set(Random::default());
        let mark = turn.begin_undo();
        self.shared
            .running
            .borrow_mut()
            .enter(turn, call.is_read_only || is_read_only);
        let result = vm.run(
            &function,
            call.keys,
            call.rest,
            budget.limits().memory_bytes,
        );
        let is_resp3 = self.shared.is_resp3();
        self.shared.running.borrow_mut().leave(turn);
        turn.effects.reply = turn.keyspace.reply_budget();
        let reply = reply_of(vm, budget, is_resp3, result, &sha, &mut turn.effects.reply);
        let ended = budget.ended();
        if !vm.clean(ended == Some(End::Memory)) {
            self.vm = None;
            self.cache.forget_functions();
        }
        if let Some(end) = ended {
            turn.rollback(mark);
            return Reply::Error(ended_reply(end, &budget.limits()));
        }
        if let Err(error) = turn.commit_undo(mark) {
            return Reply::Error(error);
        }
        // What a script returns decides nothing: as in Redis its writes stay.
        reply
            .unwrap_or_else(|error| Reply::Error(error.of_script(!turn.effects.journal.is_empty())))
    }
}

impl Running {
    /// Takes over what the script works on.
    fn enter(&mut self, turn: &mut Turn<'_>, is_read_only: bool) {
        std::mem::swap(&mut self.keyspace, turn.keyspace);
        std::mem::swap(&mut self.effects, turn.effects);
        self.now = turn.now;
        self.caller = Caller {
            protocol: Protocol::Resp2,
            ..turn.caller
        };
        self.is_read_only = is_read_only;
    }

    /// Gives it back.
    fn leave(&mut self, turn: &mut Turn<'_>) {
        std::mem::swap(&mut self.keyspace, turn.keyspace);
        std::mem::swap(&mut self.effects, turn.effects);
    }
}

impl Shared {
    fn is_resp3(&self) -> bool {
        self.running.borrow().caller.protocol == Protocol::Resp3
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
        Cause::Ended(end) => end,
        Cause::OutOfMemory => End::Memory,
        Cause::Raised(_) | Cause::Fault(_) => {
            return Ok(Reply::Error(raised_reply(&error, &text_of_sha(sha))));
        }
    };
    budget.end(end);
    Ok(Reply::Nil)
}

fn compile(vm: &Vm, budget: &Budget, body: &[u8]) -> Result<Function, ErrorReply> {
    // Making the function takes a few steps of its own.
    budget.begin();
    vm.compile(body).map_err(|error| {
        let text = match cause_of(&error) {
            Cause::Fault(text) => fault_text(&text),
            _ => "not enough memory".to_owned(),
        };
        ErrorReply::new(format!("ERR Error compiling script (new function): {text}"))
    })
}

pub(crate) const NO_SCRIPT: ErrorReply =
    ErrorReply::fixed("NOSCRIPT No matching script. Please use EVAL.");

/// The placeholder's; nothing is ever written there.
const NO_RULES: Rules = Rules {
    restart_delay_max: Duration::ZERO,
    require_ttl: false,
    key_bytes_max: 0,
    value_bytes_max: 0,
    journal_bytes_max: 0,
    reply_bytes_max: 0,
};

/// The largest known lock script has five thousand bytes. Compiling cannot be interrupted.
const BODY_BYTES_MAX: usize = 256 << 10;
