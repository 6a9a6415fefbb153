//! The functions written in Rust that a script can call: `redis`, errors, random numbers.
//!
//! None of them keeps anything that outlives the script, and none can reach out of the engine.

use std::rc::Rc;

use mlua::{Error, Lua, LuaString, MultiValue, Table, Value};
use sha1_smol::Sha1;

use crate::context::Protocol;
use crate::number::{argument_text, truncated};
use crate::script::call::{LogLine, OnError, ScriptState, call};
use crate::script::convert::Names;
use crate::script::failure::{Cause, Raised, cause_of, fault_text, located};
use crate::script::libraries::{self, Host};
use crate::script::limits::End;
use crate::script::random::Random;

/// Everything the sandbox is built from.
pub(crate) fn natives(
    lua: &Lua,
    shared: &Rc<ScriptState>,
    names: &Rc<Names>,
) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    natives.raw_set("globals", lua.globals())?;
    natives.raw_set("redis", redis(lua, shared, names)?)?;
    let host = Host {
        budget: Rc::clone(&shared.budget),
        json: Rc::clone(&shared.json),
    };
    libraries::add_to(lua, &host, &natives)?;
    let budget = Rc::clone(shared);
    let check = lua.create_function(move |_, ()| budget.budget.check().map_err(Error::external))?;
    natives.raw_set("check", check)?;
    let known = Rc::clone(names);
    let error = lua.create_function(move |lua, (value, level): (Value, Option<f64>)| {
        Err::<(), Error>(raise(lua, &known, value, level))
    })?;
    natives.raw_set("error", error)?;
    let (budget, known) = (Rc::clone(shared), Rc::clone(names));
    let caught = lua.create_function(move |lua, value| caught(lua, &budget, &known, value))?;
    natives.raw_set("caught", caught)?;
    random(lua, shared, &natives)?;
    Ok(natives)
}

fn redis(lua: &Lua, shared: &Rc<ScriptState>, names: &Rc<Names>) -> mlua::Result<Table> {
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
    let log = lua.create_function(move |_, values| log(&logged, &values))?;
    redis.raw_set("log", log)?;
    let chosen = Rc::clone(shared);
    let setresp = lua.create_function(move |_, values| setresp(&chosen, &values))?;
    redis.raw_set("setresp", setresp)?;
    redis.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    redis.raw_set("set_repl", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    for (name, number) in CONSTANTS {
        redis.raw_set(*name, *number)?;
    }
    Ok(redis)
}

fn random(lua: &Lua, shared: &Rc<ScriptState>, natives: &Table) -> mlua::Result<()> {
    let source = Rc::clone(shared);
    let random = lua.create_function(move |_, (low, high): (Option<f64>, Option<f64>)| {
        let mut generator = source.random.get();
        let (low, high) = match (low, high) {
            (None, _) => {
                let fraction = generator.fraction();
                source.random.set(generator);
                return Ok(fraction);
            }
            (Some(high), None) => (1.0, high.trunc()),
            (Some(low), Some(high)) => (low.trunc(), high.trunc()),
        };
        if low.is_nan() || high.is_nan() || low > high {
            return Err(Raised::by_function("bad argument to 'random' (interval is empty)").into());
        }
        let number = generator.between(low, high);
        source.random.set(generator);
        Ok(number)
    })?;
    natives.raw_set("random", random)?;
    let source = Rc::clone(shared);
    let randomseed = lua.create_function(move |_, seed: f64| {
        let low_bits = truncated(seed) & i64::from(u32::MAX);
        source.random.set(Random::new(
            u32::try_from(low_bits).expect("masked to 32 bits"),
        ));
        Ok(())
    })?;
    natives.raw_set("randomseed", randomseed)
}

/// `error`: texts get the location of the fault in front, tables stay what they are.
fn raise(lua: &Lua, names: &Names, value: Value, level: Option<f64>) -> Error {
    let text = match &value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => argument_text(*number).into_bytes(),
        Value::Table(table) => {
            let text = names.error_text(table);
            let text = text.unwrap_or_else(|| b"ERR the script raised a table".to_vec());
            return Raised {
                text,
                value: Some(value),
            }
            .into();
        }
        Value::Nil => {
            return Raised {
                text: b"ERR nil".to_vec(),
                value: Some(value),
            }
            .into();
        }
        other => {
            let text = format!("ERR {}", other.type_name()).into_bytes();
            return Raised {
                text,
                value: Some(value),
            }
            .into();
        }
    };
    located(lua, level.unwrap_or(1.0), &text)
}

/// What `pcall` and `xpcall` hand to the script. The end of a script cannot be caught.
fn caught(lua: &Lua, shared: &ScriptState, names: &Names, value: Value) -> mlua::Result<Value> {
    match &value {
        Value::Error(error) => match cause_of(error) {
            Cause::Ended(end) => Err(Error::external(shared.budget.end(end))),
            Cause::OutOfMemory => Err(Error::external(shared.budget.end(End::Memory))),
            Cause::Raised(raised) => match &raised.value {
                Some(Value::Table(table)) => match names.error_text(table) {
                    Some(text) => Ok(Value::String(lua.create_string(text)?)),
                    None => Ok(Value::Table(table.clone())),
                },
                Some(value) => Ok(value.clone()),
                None => Ok(Value::String(lua.create_string(&raised.text)?)),
            },
            Cause::Fault(text) => Ok(Value::String(lua.create_string(fault_text(&text))?)),
        },
        Value::String(text) if &*text.as_bytes() == OUT_OF_MEMORY => {
            Err(Error::external(shared.budget.end(End::Memory)))
        }
        Value::String(text) => {
            let text = fault_text(&text.to_string_lossy());
            Ok(Value::String(lua.create_string(text)?))
        }
        _ => Ok(value),
    }
}

fn single_text(arguments: &MultiValue) -> Option<LuaString> {
    match (arguments.len(), arguments.front()) {
        (1, Some(Value::String(text))) => Some(text.clone()),
        _ => None,
    }
}

/// An error needs a code: a text of one word gets the general one.
fn error_reply_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    if text.contains(&b' ') {
        return text.to_vec();
    }
    [b"ERR ", text].concat()
}

fn sha1hex(arguments: &MultiValue) -> mlua::Result<String> {
    let text = match (arguments.len(), arguments.front()) {
        (1, Some(Value::String(text))) => text.as_bytes().to_vec(),
        (1, Some(Value::Number(number))) => argument_text(*number).into_bytes(),
        (1, Some(Value::Integer(number))) => number.to_string().into_bytes(),
        (1, Some(_)) => Vec::new(),
        _ => return Err(Raised::by_function("wrong number of arguments").into()),
    };
    Ok(Sha1::from(text).digest().to_string())
}

fn log(shared: &ScriptState, arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() < 2 {
        let text = "redis.log() requires two arguments or more.";
        return Err(Raised::by_function(text).into());
    }
    let level = match arguments.front() {
        Some(Value::Integer(level)) => *level,
        Some(Value::Number(level)) => truncated(*level),
        _ => {
            let text = "First argument must be a number (log level).";
            return Err(Raised::by_function(text).into());
        }
    };
    let Some(level) = u8::try_from(level).ok().filter(|&level| level <= 3) else {
        return Err(Raised::by_function("Invalid debug level.").into());
    };
    let mut text = Vec::new();
    for value in arguments.iter().skip(1) {
        let part = match value {
            Value::String(part) => part.as_bytes().to_vec(),
            Value::Integer(number) => number.to_string().into_bytes(),
            Value::Number(number) => argument_text(*number).into_bytes(),
            _ => continue,
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

fn setresp(shared: &ScriptState, arguments: &MultiValue) -> mlua::Result<()> {
    let version = match (arguments.len(), arguments.front()) {
        (1, Some(Value::Integer(version))) => *version,
        (1, Some(Value::Number(version))) => truncated(*version),
        (1, _) => 0,
        _ => {
            let text = "redis.setresp() requires one argument.";
            return Err(Raised::by_function(text).into());
        }
    };
    shared.running.borrow_mut().caller.protocol = match version {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return Err(Raised::by_function("RESP version must be 2 or 3.").into()),
    };
    Ok(())
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
const OUT_OF_MEMORY: &[u8] = b"not enough memory";
const LOG_LINES_MAX: usize = 64;
const LOG_BYTES_MAX: usize = 1024;
