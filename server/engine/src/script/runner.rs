//! One script from its text to its reply: found or compiled, run within its limits, kept or undone.
//!
//! A script is one group of effects. A script that raises an error keeps them, as in Redis; one
//! that reaches a limit leaves none.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::{Reply, ReplyTooLarge};
use crate::script::cache::{Cache, Full, Sha, text_of_sha};
use crate::script::call::of_script;
use crate::script::counted::Counted;
use crate::script::failure::{NO_SCRIPT, ended_reply, refused_reply, reply_with_place};
use crate::script::invocation::{LogLine, ScriptArguments, Seeds};
use crate::script::limits::{Budget, ScriptClock, ScriptLimits};
use crate::script::luau::{self, Compiled, Function, Interpreter};
use crate::script::native::{self, Failed, NativeScript};
use crate::script::recency::Slot;
use crate::script::shebang::{self, Head};
use crate::script::syntax;

/// The cache, the interpreter and the budget of the script that runs.
#[derive(Debug)]
pub(crate) struct Runner {
    cache: Cache<Rc<Executable>>,
    budget: Rc<Budget>,
    interpreter: Interpreter,
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

/// A text whose syntax is that of a script.
struct Parsed<'a> {
    head: Head,
    /// As the interpreter has to read it.
    text: Cow<'a, [u8]>,
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
        let budget = Rc::new(Budget::new(limits, clock));
        Runner {
            cache: Cache::new(seed),
            interpreter: Interpreter::new(&budget, seed),
            budget,
            runs_natively,
        }
    }

    pub(crate) fn limits(&self) -> ScriptLimits {
        self.budget.limits()
    }

    /// What scripts may use, and how they run, from the next one on.
    pub(crate) fn set_limits(&mut self, limits: ScriptLimits, runs_natively: bool) {
        self.budget.set_limits(limits);
        self.runs_natively = runs_natively;
    }

    pub(crate) fn set_clock(&mut self, clock: ScriptClock) {
        self.budget.set_clock(clock);
    }

    pub(crate) fn set_seeds(&self, seeds: Seeds) {
        self.interpreter.set_seeds(seeds);
    }

    pub(crate) fn runs_natively(&self) -> bool {
        self.runs_natively
    }

    pub(crate) fn scripts(&self) -> usize {
        self.cache.len()
    }

    /// The memory of the interpreter and of the texts.
    pub(crate) fn used_memory(&self) -> usize {
        let interpreter = self.interpreter.used_memory();
        interpreter.saturating_add(self.cache.bytes())
    }

    pub(crate) fn take_measured(&self) -> Option<Duration> {
        self.budget.take_measured()
    }

    pub(crate) fn take_log(&mut self) -> Vec<LogLine> {
        self.interpreter.take_log()
    }

    /// The scripts until [`Runner::end_transaction`] share the limits on time and steps of one; the time
    /// is also that of the commands between them.
    pub(crate) fn begin_transaction(&mut self) {
        self.budget.begin();
        self.budget.start_time();
        self.budget.share(true);
    }

    /// Why a transaction may not go on, once its time is used up.
    pub(crate) fn refuses_next(&self) -> Option<ErrorReply> {
        let limit_ms = self.budget.limits().time.as_millis();
        self.budget.is_time_up().then(|| {
            ErrorReply::new(format!(
                "ERR its commands together took longer than script-time-limit ({limit_ms} ms), during which \
                 nobody else is served. Nothing of it was executed: no lock was taken, extended or \
                 released by it. Divide it, ask for less at a time (SCAN for KEYS), or raise \
                 script-time-limit"
            ))
        })
    }

    pub(crate) fn end_transaction(&mut self) {
        self.budget.share(false);
        // What comes next may be no script.
        let _ = self.budget.take_measured();
    }

    pub(crate) fn flush(&mut self) {
        self.cache.clear();
        self.interpreter.discard();
    }

    pub(crate) fn contains(&self, sha: &Sha) -> bool {
        self.cache.find_sha(sha).is_some()
    }

    /// Keeps a script until it is flushed. It is compiled when it is first called.
    pub(crate) fn load(&mut self, body: &[u8]) -> Result<String, ErrorReply> {
        let bytes_max = self.budget.limits().loaded_bytes;
        let slot = match self.cache.find(body) {
            Some(slot) => self.cache.keep(slot, bytes_max).map(|()| slot),
            None => {
                let parsed = self.check(body)?;
                self.interpreter.check_size(&parsed.text)?;
                let is_read_only = parsed.head.is_read_only;
                self.cache.insert_loaded(body, is_read_only, bytes_max)
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
        let parsed = self.check(body)?;
        let compiled = self.interpreter.compile(&parsed.text)?;
        let slot = self.cache.insert(body, parsed.head.is_read_only);
        self.keep(slot, parsed.program, compiled);
        Ok(slot)
    }

    /// Keeps what a script was compiled into.
    fn keep(
        &mut self,
        slot: Slot,
        program: Option<NativeScript>,
        compiled: Compiled,
    ) -> Rc<Executable> {
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

    /// A text that may become a script.
    fn check<'a>(&mut self, body: &'a [u8]) -> Result<Parsed<'a>, ErrorReply> {
        let limit = self.budget.limits().body_bytes;
        if body.len() > limit {
            return Err(ErrorReply::new(format!(
                "ERR script of {} bytes is longer than script-size-limit ({limit} bytes)",
                body.len()
            )));
        }
        let parsed = self.parse(body)?;
        let is_native = parsed.program.is_some();
        self.interpreter.check(&parsed.text, is_native)?;
        Ok(parsed)
    }

    fn parse<'a>(&self, body: &'a [u8]) -> Result<Parsed<'a>, ErrorReply> {
        let head = shebang::read(body)?;
        let text = syntax::translated(&body[head.bytes..]).map_err(refused_reply)?;
        let is_tried = self.runs_natively && head.bytes == 0;
        let program = is_tried
            .then(|| native::parse(luau::native_form(&text)))
            .flatten();
        Ok(Parsed {
            head,
            text,
            program,
        })
    }

    fn executable_of(&mut self, slot: Slot) -> Result<Runnable, ErrorReply> {
        let executable = self.cache.function(slot);
        let Some(script) = self.cache.get(slot) else {
            return Err(NO_SCRIPT);
        };
        let (sha, is_read_only) = (script.sha, script.is_read_only);
        let declares_writes = !is_read_only && script.body.starts_with(b"#!");
        let executable = match executable {
            Some(executable) => executable,
            None => {
                let body = script.body.clone();
                let parsed = self.parse(&body)?;
                let compiled = self.interpreter.compile(&parsed.text)?;
                self.keep(slot, parsed.program, compiled)
            }
        };
        Ok(Runnable {
            executable,
            sha,
            is_read_only,
            declares_writes,
        })
    }

    /// What a script may do where keys take too much.
    #[cold]
    fn growth_of(&self, slot: Slot) -> Growth {
        let script = self.cache.get(slot);
        let body = script.map_or(&b""[..], |script| &script.body);
        match shebang::read(body) {
            Ok(head) if head.bytes == 0 => Growth::Checked,
            Ok(head) if head.may_grow() => Growth::Allowed,
            _ => Growth::Refused,
        }
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
        context.effects.denies_growth = context.keyspace.is_out_of_memory();
        if context.effects.denies_growth {
            match self.growth_of(slot) {
                Growth::Refused => return Reply::Error(MAY_NOT_GROW),
                growth => context.effects.denies_growth = growth == Growth::Checked,
            }
        }
        self.budget.begin();
        let mark = context.begin_undo();
        // Where no segment of the log is ahead. Outside transactions nothing is counted yet, and the copy costs nothing.
        let counted = context
            .effects
            .room
            .is_retried
            .then(|| Counted::of(context));
        let reply = match &script.executable.program {
            Some(program) => self.run_natively(context, program, call, &script.sha),
            None => self.interpret(context, &script.executable.function, call, &script.sha),
        };
        if let Some(counted) = counted.filter(|_| context.effects.ran_out_of_room) {
            context.rollback(mark);
            counted.put_back(context);
            return Reply::Error(context.effects.no_room());
        }
        let budget = &self.budget;
        budget.finish();
        let ended = budget.ended();
        if let Some(end) = ended {
            context.rollback(mark);
            return Reply::Error(ended_reply(
                end,
                &budget.limits(),
                context.effects.room.lacks_files,
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
            native::run(program, &mut of_script, call, &self.budget)
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
        let reply = self.interpreter.run(context, function, call, sha);
        if !self.interpreter.clean() {
            self.cache.forget_functions();
        }
        reply
    }
}

/// A script that is ready to run.
struct Runnable {
    executable: Rc<Executable>,
    sha: Sha,
    is_read_only: bool,
    /// Its first line has flags, and not the one for reading only.
    declares_writes: bool,
}

/// What a script may do where keys take more than `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// Its first line allows it to add to them, or it writes nothing.
    Allowed,
    /// It runs, and is refused what adds to them.
    Checked,
    /// It does not run: its first line has flags, and not the one for that.
    Refused,
}

const MAY_NOT_GROW: ErrorReply = ErrorReply::fixed(
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
);

fn full_reply(full: Full, bytes_max: usize) -> ErrorReply {
    let Full { scripts, bytes } = full;
    ErrorReply::new(format!(
        "ERR {scripts} loaded scripts take {bytes} bytes; another one is more than script-load-limit \
         ({bytes_max} bytes). SCRIPT FLUSH forgets them all, and clients load theirs again"
    ))
}

const WRITING_SCRIPT: ErrorReply =
    ErrorReply::fixed("ERR Can not execute a script with write flag using *_ro command.");

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
