//! `redis`, the table of functions through which a script meets the node.

use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};
use sha1_smol::Sha1;

use crate::caller::Protocol;
use crate::number::truncated;
use crate::script::call::WRONG_ARGUMENT;
use crate::script::invocation::{LogLine, REDIS_VERSION};
use crate::script::luau::convert::{Names, c_text, text_of};
use crate::script::luau::fault::Raised;
use crate::script::luau::redis_call::{NO_ARGUMENT, OnError, ScriptState, call, is_command};

pub(crate) fn redis(lua: &Lua, shared: &Rc<ScriptState>, names: &Rc<Names>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    for (name, on_error) in [("call", OnError::Raise), ("pcall", OnError::Return)] {
        let (shared, names) = (Rc::clone(shared), Rc::clone(names));
        let function = lua.create_function(move |lua, arguments: MultiValue| {
            call(lua, &shared, &names, &arguments, on_error)
        })?;
        redis.raw_set(name, function)?;
    }
    let known = Rc::clone(names);
    let error_reply = lua.create_function(move |lua, arguments: MultiValue| {
        let text = match single_text(&arguments) {
            Some(text) => error_reply_text(&text.as_bytes()),
            None => WRONG_KIND.to_vec(),
        };
        known.error_table(lua, &text)
    })?;
    redis.raw_set("error_reply", error_reply)?;
    let known = Rc::clone(names);
    let status_reply = lua.create_function(move |lua, arguments: MultiValue| match single_text(
        &arguments,
    ) {
        Some(text) => known.status_table(lua, &text.as_bytes()),
        None => known.error_table(lua, WRONG_KIND),
    })?;
    redis.raw_set("status_reply", status_reply)?;
    redis.raw_set(
        "sha1hex",
        lua.create_function(|_, values| sha1hex(&values))?,
    )?;
    let logged = Rc::clone(shared);
    let log = lua.create_function(move |lua, values| log(lua, &logged, &values))?;
    redis.raw_set("log", log)?;
    let chosen = Rc::clone(shared);
    let setresp = lua.create_function(move |lua, values| setresp(lua, &chosen, &values))?;
    redis.raw_set("setresp", setresp)?;
    redis.raw_set(
        "set_repl",
        lua.create_function(|lua, values| set_repl(lua, &values))?,
    )?;
    let checked = Rc::clone(shared);
    let check = lua.create_function(move |_, values| acl_check_cmd(&checked, &values))?;
    redis.raw_set("acl_check_cmd", check)?;
    redis.raw_set(
        "replicate_commands",
        lua.create_function(|_, _: MultiValue| Ok(true))?,
    )?;
    // There is no debugger, as for a script of Redis that is not being debugged.
    redis.raw_set(
        "breakpoint",
        lua.create_function(|_, _: MultiValue| Ok(false))?,
    )?;
    redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    redis.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", version_number(REDIS_VERSION))?;
    for (name, number) in CONSTANTS {
        redis.raw_set(*name, *number)?;
    }
    Ok(redis)
}

fn single_text(arguments: &MultiValue) -> Option<LuaString> {
    match (arguments.len(), arguments.front()) {
        (1, Some(Value::String(text))) => Some(text.clone()),
        _ => None,
    }
}

/// An error needs a code: a text of one word gets the general one.
fn error_reply_text(text: &[u8]) -> Vec<u8> {
    let text = c_text(text.to_vec());
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    let space = text.iter().position(|&byte| byte == b' ');
    let (code, rest) = space.map_or((&b"ERR"[..], text), |space| {
        let (code, rest) = text.split_at(space);
        (code, &rest[1..])
    });
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = rest.iter().take_while(|byte| is_line_end(byte)).count();
    let rest = &rest[start..];
    let after = rest.iter().rev().take_while(|byte| is_line_end(byte));
    let end = rest.len().saturating_sub(after.count());
    [code, b" ", &rest[..end]].concat()
}

fn sha1hex(arguments: &MultiValue) -> mlua::Result<String> {
    match (arguments.len(), arguments.front()) {
        (1, Some(value)) => {
            let text = text_of(value).unwrap_or_default();
            Ok(Sha1::from(text).digest().to_string())
        }
        _ => Err(Raised::by_function("wrong number of arguments").into()),
    }
}

/// A number, or a text that reads as one.
fn number_of(lua: &Lua, value: Option<&Value>) -> mlua::Result<Option<f64>> {
    value.map_or(Ok(None), |value| lua.coerce_number(value.clone()))
}

fn log(lua: &Lua, shared: &ScriptState, arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() < 2 {
        let text = "redis.log() requires two arguments or more.";
        return Err(Raised::by_function(text).into());
    }
    let Some(level) = number_of(lua, arguments.front())? else {
        let text = "First argument must be a number (log level).";
        return Err(Raised::by_function(text).into());
    };
    let level = truncated(level);
    let Some(level) = u8::try_from(level).ok().filter(|&level| level <= 3) else {
        return Err(Raised::by_function("Invalid debug level.").into());
    };
    let mut text = Vec::new();
    for value in arguments.iter().skip(1) {
        let Some(part) = text_of(value) else {
            continue;
        };
        if !text.is_empty() {
            text.push(b' ');
        }
        text.extend_from_slice(&part[..part.len().min(LOG_BYTES_MAX)]);
    }
    text.truncate(LOG_BYTES_MAX);
    let mut lines = shared.log.borrow_mut();
    if lines.len() < LOG_LINES_MAX {
        lines.push(LogLine { level, text });
    }
    Ok(())
}

fn setresp(lua: &Lua, shared: &ScriptState, arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() != 1 {
        let text = "redis.setresp() requires one argument.";
        return Err(Raised::by_function(text).into());
    }
    let version = number_of(lua, arguments.front())?.map_or(0, truncated);
    shared.running.borrow_mut().caller.protocol = match version {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return Err(Raised::by_function("RESP version must be 2 or 3.").into()),
    };
    Ok(())
}

/// There are no replicas and one log: only what is not a choice at all is refused.
fn set_repl(lua: &Lua, arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() != 1 {
        let text = "redis.set_repl() requires two arguments.";
        return Err(Raised::by_function(text).into());
    }
    let flags = number_of(lua, arguments.front())?.map_or(0, truncated);
    if flags & !REPL_ALL != 0 {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(Raised::by_function(text).into());
    }
    Ok(())
}

/// Whether the user of the script may use a command.
fn acl_check_cmd(shared: &ScriptState, arguments: &MultiValue) -> mlua::Result<bool> {
    if arguments.is_empty() {
        return Err(Raised::value(NO_ARGUMENT.as_bytes(), None).into());
    }
    let texts: Option<Vec<Vec<u8>>> = arguments.iter().map(text_of).collect();
    let Some(texts) = texts else {
        return Err(Raised::value(WRONG_ARGUMENT.as_bytes(), None).into());
    };
    if !is_command(&texts[0]) {
        let text = "Invalid command passed to redis.acl_check_cmd()";
        return Err(Raised::by_function(text).into());
    }
    let words: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let running = shared.running.borrow();
    let guard = running.effects.script_guard.as_ref();
    Ok(guard.is_none_or(|guard| guard.allows(&words)))
}

/// `7.2.4` as 0x00070204.
fn version_number(version: &str) -> u32 {
    let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |number, part: u32| (number << 8) | part)
}

/// The REPL constants have no effect here; scripts that use them must continue to work.
const CONSTANTS: &[(&str, u8)] = &[
    ("LOG_DEBUG", 0),
    ("LOG_VERBOSE", 1),
    ("LOG_NOTICE", 2),
    ("LOG_WARNING", 3),
    ("REPL_NONE", 0),
    ("REPL_AOF", 1),
    ("REPL_SLAVE", 2),
    ("REPL_REPLICA", 2),
    ("REPL_ALL", 3),
];

const WRONG_KIND: &[u8] = b"ERR wrong number or type of arguments";
const REPL_ALL: i64 = 3;
const LOG_LINES_MAX: usize = 64;
const LOG_BYTES_MAX: usize = 1024;
