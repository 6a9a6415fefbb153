//! One script from its text to its reply: found or compiled, run within its limits, kept or undone.
//!
//! A script is one group of effects. A script that raises an error keeps them, as in Redis; one
//! that reaches a limit leaves none.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mlua::{Function, Value};

use crate::caller::{Caller, Protocol};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::{Keyspace, KeyspaceRules};
use crate::reply::{Reply, ReplyBudget, ReplyTooLarge};
use crate::script::cache::{Cache, Full, Sha, text_of_sha};
use crate::script::call::{LogLine, Running, ScriptState};
use crate::script::counted::Counted;
use crate::script::failure::{
    Cause, cause_of, ended_reply, fault_text, raised_reply, refused_reply, reply_with_place,
};
use crate::script::libraries::JsonSettings;
use crate::script::limits::{Budget, End, ScriptClock, ScriptLimits};
use crate::script::native::{self, Failed, NativeScript};
use crate::script::random::{ScriptRandom, Seeds};
use crate::script::recency::Slot;
use crate::script::script_arguments::ScriptArguments;
use crate::script::shebang::{self, Head};
use crate::script::syntax;
use crate::script::vm::{Compiled, Vm};
use crate::time::Moment;

/// The cache, the interpreter and what its functions share.
#[derive(Debug)]
pub(crate) struct Runner {
    cache: Cache<Rc<Executable>>,
    shared: Rc<ScriptState>,
    vm: Option<Vm>,
    /// Whether scripts that need no interpreter run without it.
    runs_natively: bool,
}

/// What is kept of a script that was compiled.
#[derive(Debug)]
struct Executable {
    function: Function,
    /// For a script that needs no interpreter.
    program: Option<NativeScript>,
}

impl Runner {
    pub(crate) fn new(
        limits: ScriptLimits,
        clock: ScriptClock,
        seed: u64,
        runs_natively: bool,
    ) -> Runner {
        let running = Running {
            keyspace: Keyspace::placeholder(seed, NO_RULES),
            effects: Effects::default(),
            now: Moment::default(),
            caller: Caller::default(),
            is_read_only: false,
            journal_bytes_before: 0,
        };
        let shared = ScriptState {
            budget: Rc::new(Budget::new(limits, clock)),
            running: RefCell::new(running),
            random: Rc::new(ScriptRandom::new(Box::new(|| Some(0)))),
            log: RefCell::new(Vec::new()),
            json: Rc::default(),
        };
        Runner {
            cache: Cache::new(seed),
            shared: Rc::new(shared),
            vm: None,
            runs_natively,
        }
    }

    pub(crate) fn set_clock(&mut self, clock: ScriptClock) {
        self.shared.budget.set_clock(clock);
    }

    pub(crate) fn set_seeds(&self, seeds: Seeds) {
        self.shared.random.set_seeds(seeds);
    }

    pub(crate) fn runs_natively(&self) -> bool {
        self.runs_natively
    }

    pub(crate) fn scripts(&self) -> usize {
        self.cache.len()
    }

    /// The memory of the interpreter and of the texts.
    pub(crate) fn used_memory(&self) -> usize {
        let interpreter = self.vm.as_ref().map_or(0, Vm::used_memory);
        interpreter.saturating_add(self.cache.bytes())
    }

    pub(crate) fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut *self.shared.log.borrow_mut())
    }

    /// The scripts until [`Runner::end_transaction`] share the limits on time and steps of one; the time
    /// is also that of the commands between them.
    pub(crate) fn begin_transaction(&mut self) {
        self.shared.budget.begin();
        self.shared.budget.start_time();
        self.shared.budget.share(true);
    }

    /// Why a transaction may not go on, once its time is used up.
    pub(crate) fn refuses_next(&self) -> Option<ErrorReply> {
        let limit_ms = self.shared.budget.limits().time.as_millis();
        self.shared.budget.is_time_up().then(|| {
            ErrorReply::new(format!(
                "ERR its commands together took longer than script-time-limit ({limit_ms} ms), during which \
                 nobody else is served. Nothing of it was executed: no lock was taken, extended or \
                 released by it. Divide it, ask for less at a time (SCAN for KEYS), or raise \
                 script-time-limit"
            ))
        })
    }

    pub(crate) fn end_transaction(&mut self) {
        self.shared.budget.share(false);
    }

    pub(crate) fn flush(&mut self) {
        self.cache.clear();
        self.vm = None;
    }

    pub(crate) fn contains(&self, sha: &Sha) -> bool {
        self.cache.find_sha(sha).is_some()
    }

    /// Keeps a script until it is flushed. It is compiled when it is first called.
    pub(crate) fn load(&mut self, body: &[u8]) -> Result<String, ErrorReply> {
        let bytes_max = self.shared.budget.limits().loaded_bytes;
        let slot = match self.cache.find(body) {
            Some(slot) => self.cache.keep(slot, bytes_max).map(|()| slot),
            None => {
                let (head, text) = self.check(body)?;
                let vm = self.interpreter()?;
                vm.check_size(&text).map_err(compile_error)?;
                self.cache.insert_loaded(body, head.is_read_only, bytes_max)
            }
        };
        let slot = slot.map_err(|full| full_reply(full, bytes_max))?;
        let script = self.cache.get(slot).ok_or(NO_SCRIPT)?;
        Ok(text_of_sha(&script.sha))
    }

    /// Runs the script with this text.
    pub(crate) fn eval(
        &mut self,
        context: &mut CommandContext<'_>,
        body: &[u8],
        call: ScriptArguments<'_>,
    ) -> Reply {
        let slot = match self.cache.find(body) {
            Some(slot) => Ok(slot),
            None => self.add(body),
        };
        match slot {
            Ok(slot) => self.run(context, slot, call),
            Err(error) => Reply::Error(error),
        }
    }

    /// Runs the script with this SHA-1; `None` if there is none.
    pub(crate) fn evalsha(
        &mut self,
        context: &mut CommandContext<'_>,
        sha: &Sha,
        call: ScriptArguments<'_>,
    ) -> Option<Reply> {
        let slot = self.cache.find_sha(sha)?;
        Some(self.run(context, slot, call))
    }

    /// Adds a script that came with EVAL.
    fn add(&mut self, body: &[u8]) -> Result<Slot, ErrorReply> {
        let (head, text) = self.check(body)?;
        let shared = Rc::clone(&self.shared);
        let vm = self.interpreter()?;
        let compiled = compile(vm, &shared.budget, &text)?;
        let slot = self.cache.insert(body, head.is_read_only);
        self.keep(slot, &text, head, compiled);
        Ok(slot)
    }

    /// Keeps what a script was compiled into.
    fn keep(&mut self, slot: Slot, text: &[u8], head: Head, compiled: Compiled) -> Rc<Executable> {
        let is_tried = self.runs_natively && head.bytes == 0;
        let program = is_tried.then(|| native::parse(text)).flatten();
        let program_bytes = program.as_ref().map_or(0, |program| program.bytes);
        let bytes = compiled.bytes.saturating_add(program_bytes);
        let executable = Rc::new(Executable {
            function: compiled.function,
            program,
        });
        let kept = Rc::clone(&executable);
        self.cache.set_function(slot, kept, bytes);
        executable
    }

    /// Whether the script of this SHA-1 is here and declares that it writes nothing.
    pub(crate) fn is_read_only(&self, sha: &Sha) -> bool {
        let script = self
            .cache
            .find_sha(sha)
            .and_then(|slot| self.cache.get(slot));
        script.is_some_and(|script| script.is_read_only)
    }

    /// Whether a text may become a script, and how the interpreter has to read it.
    fn check<'a>(&mut self, body: &'a [u8]) -> Result<(Head, Cow<'a, [u8]>), ErrorReply> {
        let limit = self.shared.budget.limits().body_bytes;
        if body.len() > limit {
            return Err(ErrorReply::new(format!(
                "ERR script of {} bytes is longer than script-size-limit ({limit} bytes)",
                body.len()
            )));
        }
        let head = shebang::read(body)?;
        let text = syntax::translated(&body[head.bytes..]).map_err(refused_reply)?;
        let vm = self.interpreter()?;
        vm.check(&text).map_err(compile_error)?;
        Ok((head, text))
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

    fn executable_of(&mut self, slot: Slot) -> Result<Runnable, ErrorReply> {
        self.interpreter()?;
        let executable = self.cache.function(slot);
        let (Some(vm), Some(script)) = (&self.vm, self.cache.get(slot)) else {
            return Err(NO_SCRIPT);
        };
        let (sha, is_read_only) = (script.sha, script.is_read_only);
        let declares_writes = !is_read_only && script.body.starts_with(b"#!");
        let executable = match executable {
            Some(executable) => executable,
            None => {
                let body = script.body.clone();
                let head = shebang::read(&body)?;
                let text = syntax::translated(&body[head.bytes..]).map_err(refused_reply)?;
                let compiled = compile(vm, &self.shared.budget, &text)?;
                self.keep(slot, &text, head, compiled)
            }
        };
        Ok(Runnable {
            executable,
            sha,
            is_read_only,
            declares_writes,
        })
    }

    fn run(
        &mut self,
        context: &mut CommandContext<'_>,
        slot: Slot,
        call: ScriptArguments<'_>,
    ) -> Reply {
        let script = match self.executable_of(slot) {
            Ok(found) => found,
            Err(error) => return Reply::Error(error),
        };
        if call.is_read_only && script.declares_writes {
            return Reply::Error(WRITING_SCRIPT);
        }
        let call = ScriptArguments {
            is_read_only: call.is_read_only || script.is_read_only,
            ..call
        };
        self.shared.budget.begin();
        let mark = context.begin_undo();
        // Where no segment of the log is ahead. Outside transactions nothing is counted yet, and the copy costs nothing.
        let counted = context.effects.is_retried.then(|| Counted::of(context));
        let reply = match &script.executable.program {
            Some(program) => self.run_natively(context, program, call, &script.sha),
            None => self.interpret(context, &script.executable.function, call, &script.sha),
        };
        if let Some(counted) = counted.filter(|_| context.effects.ran_out_of_room) {
            context.rollback(mark);
            counted.put_back(context);
            return Reply::Error(context.effects.no_room());
        }
        let budget = &self.shared.budget;
        budget.finish();
        let ended = budget.ended();
        if let Some(end) = ended {
            context.rollback(mark);
            return Reply::Error(ended_reply(
                end,
                &budget.limits(),
                context.effects.lacks_files,
            ));
        }
        if let Err(error) = context.commit_undo(mark) {
            return Reply::Error(error);
        }
        // What a script returns decides nothing: as in Redis its writes stay.
        let has_written = context.has_written_since(mark);
        reply.unwrap_or_else(|error| Reply::Error(error.of_script(has_written)))
    }

    /// Runs a script that needs no interpreter. Limits are noted in the budget.
    fn run_natively(
        &self,
        context: &mut CommandContext<'_>,
        program: &NativeScript,
        call: ScriptArguments<'_>,
        sha: &Sha,
    ) -> Result<Reply, ReplyTooLarge> {
        let result = {
            let mut of_script = CommandContext {
                keyspace: context.keyspace,
                now: context.now,
                caller: of_script(context.caller),
                effects: context.effects,
            };
            native::run(program, &mut of_script, call, &self.shared.budget)
        };
        context.effects.reply = context.keyspace.reply_budget();
        match result {
            Ok(value) => value.into_reply(&mut context.effects.reply),
            Err(Failed::Raised(error, line)) => {
                let text = error.as_bytes().to_vec();
                let reply = reply_with_place(text, &text_of_sha(sha), Some(line));
                Ok(Reply::Error(reply))
            }
            Err(Failed::Ended) => Ok(Reply::Nil),
        }
    }

    /// Runs a script in the interpreter. Limits are noted in the budget.
    fn interpret(
        &mut self,
        context: &mut CommandContext<'_>,
        function: &Function,
        call: ScriptArguments<'_>,
        sha: &Sha,
    ) -> Result<Reply, ReplyTooLarge> {
        let Some(vm) = &mut self.vm else {
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
        let reply = reply_of(vm, budget, is_resp3, result, sha, room);
        if !vm.clean(budget.ended() == Some(End::Memory)) {
            self.vm = None;
            self.cache.forget_functions();
        }
        reply
    }
}

impl Running {
    /// Takes over what the script works on.
    fn enter(&mut self, context: &mut CommandContext<'_>, is_read_only: bool) {
        std::mem::swap(&mut self.keyspace, context.keyspace);
        std::mem::swap(&mut self.effects, context.effects);
        self.now = context.now;
        self.caller = of_script(context.caller);
        self.is_read_only = is_read_only;
        self.journal_bytes_before = self.effects.journal.len();
    }

    /// Gives it back.
    fn leave(&mut self, context: &mut CommandContext<'_>) {
        std::mem::swap(&mut self.keyspace, context.keyspace);
        std::mem::swap(&mut self.effects, context.effects);
    }
}

/// A script asks for what it wants in RESP3.
fn of_script(caller: Caller) -> Caller {
    Caller {
        protocol: Protocol::Resp2,
        is_in_script: true,
        ..caller
    }
}

impl ScriptState {
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

/// A script that is ready to run.
struct Runnable {
    executable: Rc<Executable>,
    sha: Sha,
    is_read_only: bool,
    /// Its first line has flags, and not the one for reading only.
    declares_writes: bool,
}

fn compile(vm: &Vm, budget: &Budget, body: &[u8]) -> Result<Compiled, ErrorReply> {
    // Making the function takes a few steps of its own.
    budget.begin();
    vm.compile(body).map_err(compile_error)
}

fn compile_error(error: mlua::Error) -> ErrorReply {
    let text = match cause_of(&error) {
        Cause::Fault(text) => fault_text(text.as_bytes()),
        _ => b"not enough memory".to_vec(),
    };
    ErrorReply::new([&b"ERR Error compiling script (new function): "[..], &text].concat())
}

fn full_reply(full: Full, bytes_max: usize) -> ErrorReply {
    let Full { scripts, bytes } = full;
    ErrorReply::new(format!(
        "ERR {scripts} loaded scripts take {bytes} bytes; another one is more than script-load-limit \
         ({bytes_max} bytes). SCRIPT FLUSH forgets them all, and clients load theirs again"
    ))
}

pub(crate) const NO_SCRIPT: ErrorReply =
    ErrorReply::fixed("NOSCRIPT No matching script. Please use EVAL.");

const WRITING_SCRIPT: ErrorReply =
    ErrorReply::fixed("ERR Can not execute a script with write flag using *_ro command.");

/// The placeholder's; nothing is ever written there.
const NO_RULES: KeyspaceRules = KeyspaceRules {
    restart_delay_max: Duration::ZERO,
    require_ttl: false,
    databases: 0,
    key_bytes_max: 0,
    value_bytes_max: 0,
    collection_bytes_max: 0,
    journal_bytes_max: 0,
    reply_bytes_max: 0,
};

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
