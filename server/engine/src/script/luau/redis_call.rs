//! `redis.call` and `redis.pcall`: from a script's arguments to a command and back.
//!
//! The arguments are read where Lua keeps them and go to the same function that serves a client;
//! no protocol bytes are made. All calls of a script share one group of effects and one moment.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{BorrowedBytes, Lua, MultiValue, Value};
use smallvec::SmallVec;

use crate::caller::{Caller, Protocol};
use crate::command::spec::{Flags, NodeCommand, Spec};
use crate::command::{database_index, numbered_spec};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::ErrorReply;
use crate::keyspace::DATABASES;
use crate::keyspace::Keyspace;
use crate::number::argument_text;
use crate::reply::Reply;
use crate::script::call::{
    INLINE_ARGUMENTS, NOT_ALLOWED, WRONG_ARGUMENT, WRONG_ARITY, check_limits, execute, of_script,
};
use crate::script::invocation::LogLine;
use crate::script::limits::{Budget, ScriptLimit};
use crate::script::luau::convert::Names;
use crate::script::luau::fault::Raised;
use crate::script::luau::libraries::JsonSettings;
use crate::script::luau::random::ScriptRandom;
use crate::time::Moment;

/// What the functions of `redis` share with the runner. Everything is empty between scripts.
#[derive(Debug)]
pub(crate) struct ScriptState {
    pub(crate) budget: Rc<Budget>,
    pub(crate) running: RefCell<RunningScript>,
    pub(crate) random: Rc<ScriptRandom>,
    pub(crate) log: RefCell<Vec<LogLine>>,
    /// What the script has set of `cjson`.
    pub(crate) json: Rc<Cell<JsonSettings>>,
}

impl ScriptState {
    pub(super) fn is_resp3(&self) -> bool {
        self.running.borrow().caller.protocol == Protocol::Resp3
    }
}

/// What the running script works on: moved in when it begins and out when it ends.
#[derive(Debug)]
pub(crate) struct RunningScript {
    pub(crate) keyspace: Keyspace,
    pub(crate) effects: Effects,
    pub(crate) now: Moment,
    /// With the script's own database and dialect.
    pub(crate) caller: Caller,
    pub(crate) is_read_only: bool,
    /// What earlier commands of the same transaction have written.
    pub(crate) journal_bytes_before: usize,
}

impl RunningScript {
    /// Takes over what the script works on.
    pub(super) fn enter(&mut self, context: &mut CommandContext<'_>, is_read_only: bool) {
        std::mem::swap(&mut self.keyspace, context.keyspace);
        std::mem::swap(&mut self.effects, context.effects);
        self.now = context.now;
        self.caller = of_script(context.caller);
        self.is_read_only = is_read_only;
        self.journal_bytes_before = self.effects.journal.len();
    }

    /// Gives it back.
    pub(super) fn leave(&mut self, context: &mut CommandContext<'_>) {
        std::mem::swap(&mut self.keyspace, context.keyspace);
        std::mem::swap(&mut self.effects, context.effects);
    }
}

/// What happens when the command answers an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnError {
    /// `call`: the script raises it.
    Raise,
    /// `pcall`: the script gets it as a table.
    Return,
}

/// Runs one command for the script.
pub(crate) fn call(
    lua: &Lua,
    shared: &ScriptState,
    names: &Names,
    arguments: &MultiValue,
    on_error: OnError,
) -> mlua::Result<Value> {
    let (reply, is_resp3) = {
        let mut running = shared.running.borrow_mut();
        // Each reply goes into the interpreter, whose memory has a limit of its own.
        running.effects.reply = running.keyspace.reply_budget();
        let ran = run(&mut running, arguments, &shared.budget);
        let is_long = matches!(ran, Ok((_, true)));
        let reply = ran.map_or_else(Reply::Error, |(reply, _)| reply);
        let before = running.journal_bytes_before;
        check_limits(&running.effects, before, is_long, &shared.budget)
            .map_err(mlua::Error::external)?;
        (reply, running.caller.protocol == Protocol::Resp3)
    };
    match reply {
        Reply::Error(error) if on_error == OnError::Raise => {
            Err(Raised::by_command(error.as_bytes()).into())
        }
        Reply::Error(error) if error == NO_ARGUMENT || error == WRONG_ARGUMENT => {
            // No command was called.
            names.error_table(lua, error.as_bytes()).map(Value::Table)
        }
        Reply::Bulk(bytes) if bytes.len() <= SMALL_BYTES => small_text(lua, shared, &bytes),
        Reply::Shared(bytes) if bytes.len() <= SMALL_BYTES => small_text(lua, shared, &bytes),
        reply => names.value_of(lua, reply, is_resp3, &shared.budget),
    }
}

/// The usual replies are small. Without a limit the interpreter need not guard each of its
/// allocations, and what they have taken is counted right afterwards.
fn small_text(lua: &Lua, shared: &ScriptState, bytes: &[u8]) -> mlua::Result<Value> {
    let limit = lua.set_memory_limit(0)?;
    let text = lua.create_string(bytes)?;
    lua.set_memory_limit(limit)?;
    if limit != 0 && lua.used_memory() > limit {
        return Err(mlua::Error::external(
            shared.budget.end(ScriptLimit::Memory),
        ));
    }
    Ok(Value::String(text))
}

/// The reply, and whether the command may have taken long.
fn run(
    running: &mut RunningScript,
    values: &MultiValue,
    budget: &Budget,
) -> Result<(Reply, bool), ErrorReply> {
    if values.is_empty() {
        return Err(NO_ARGUMENT);
    }
    let mut texts: SmallVec<[Text; INLINE_ARGUMENTS]> = SmallVec::with_capacity(values.len());
    for value in values {
        texts.push(Text::of(value).ok_or(WRONG_ARGUMENT)?);
    }
    let arguments: SmallVec<[&[u8]; INLINE_ARGUMENTS]> = texts.iter().map(Text::bytes).collect();
    let lengths = arguments.iter().map(|argument| argument.len());
    if lengths.fold(0, usize::saturating_add) > ARGUMENT_BYTES_MAX {
        return Err(ARGUMENTS_TOO_LONG);
    }
    let numbered = numbered_spec(arguments[0]).ok_or(UNKNOWN)?;
    if !numbered.1.is_of_engine() {
        return run_other(running, numbered.1, &arguments).map(|reply| (reply, false));
    }
    let mut context = CommandContext {
        keyspace: &mut running.keyspace,
        now: running.now,
        caller: running.caller,
        effects: &mut running.effects,
    };
    execute(
        &mut context,
        running.is_read_only,
        numbered,
        &arguments,
        budget,
    )
}

/// Whether scripts or clients know a command of this name.
pub(crate) fn is_command(name: &[u8]) -> bool {
    numbered_spec(name).is_some_and(|(_, spec)| !spec.flags.contains(Flags::UNKNOWN_TO_SCRIPTS))
}

/// Commands that are not the engine's: some make sense to a script.
fn run_other(
    running: &mut RunningScript,
    spec: &Spec,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    use NodeCommand::{Echo, Ping, Select};
    if let Some(Select | Ping | Echo) = spec.node_command()
        && spec.accepts(arguments.len())
    {
        running.effects.check_script_command(arguments)?;
    }
    match (spec.node_command(), arguments) {
        (Some(Select), [_, index]) => {
            running.caller.database = database_index(index, DATABASES)?;
            Ok(Reply::Ok)
        }
        (Some(Ping), [_]) => Ok(Reply::status("PONG")),
        (Some(Ping | Echo), [_, text]) => Ok(Reply::bulk(text)),
        (Some(Select | Ping | Echo), _) => Err(WRONG_ARITY),
        _ if spec.flags.contains(Flags::UNKNOWN_TO_SCRIPTS) => Err(UNKNOWN),
        _ => Err(NOT_ALLOWED),
    }
}

/// An argument as text.
enum Text {
    String(BorrowedBytes),
    Number(String),
}

impl Text {
    fn of(value: &Value) -> Option<Text> {
        match value {
            Value::String(text) => Some(Text::String(text.as_bytes())),
            Value::Integer(number) => Some(Text::Number(number.to_string())),
            Value::Number(number) => Some(Text::Number(argument_text(*number))),
            _ => None,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Text::String(bytes) => bytes,
            Text::Number(text) => text.as_bytes(),
        }
    }
}

/// What the arguments of one call have together at most. One long text that is named thousands of times costs its length
/// each time.
const ARGUMENT_BYTES_MAX: usize = 64 << 20;

const ARGUMENTS_TOO_LONG: ErrorReply =
    ErrorReply::fixed("ERR the arguments of this command are longer than 64 MiB together");

pub(crate) const NO_ARGUMENT: ErrorReply =
    ErrorReply::fixed("ERR Please specify at least one argument for this redis lib call");
const UNKNOWN: ErrorReply = ErrorReply::fixed("ERR Unknown Redis command called from script");

const SMALL_BYTES: usize = 4096;
