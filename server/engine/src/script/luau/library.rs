//! The functions of Lua that are written in Rust: errors, and what the sandbox needs.
//!
//! None of them keeps anything that outlives the script, and none can reach out of the engine.

use std::rc::Rc;

use mlua::{Error, Function, Lua, LuaString, Table, Value};

use crate::script::limits::ScriptLimit;
use crate::script::luau::convert::{Names, text_of};
use crate::script::luau::fault::{
    Raised, RootCause, cause_of, fault_text, located, moved_to_caller,
};
use crate::script::luau::libraries::{self, Host};
use crate::script::luau::redis_call::ScriptState;
use crate::script::luau::redis_library::redis;

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
        random: Rc::clone(&shared.random),
    };
    libraries::add_to(lua, &host, &natives)?;
    natives.raw_set("memory_bytes_max", shared.budget.limits().memory_bytes)?;
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
    let (budget, known) = (Rc::clone(shared), Rc::clone(names));
    let handled = lua.create_function(move |lua, value| handled(lua, &budget, &known, value))?;
    natives.raw_set("handled", handled)?;
    let is_native = lua.create_function(|_, function: Function| Ok(function.info().what == "C"))?;
    natives.raw_set("is_native", is_native)?;
    let moved = lua.create_function(|lua, text: LuaString| {
        let moved = moved_to_caller(lua, &text.as_bytes());
        moved.map_or(Ok(text), |moved| lua.create_string(moved))
    })?;
    natives.raw_set("moved_to_caller", moved)?;
    Ok(natives)
}

/// `error`: texts get the location of the fault in front, tables stay what they are.
fn raise(lua: &Lua, names: &Names, value: Value, level: Option<f64>) -> Error {
    let text = match &value {
        Value::Table(table) => match names.error_value(table) {
            Some(text) => text_of(&text).unwrap_or_default(),
            None => b"ERR the script raised a table".to_vec(),
        },
        Value::Nil => b"ERR nil".to_vec(),
        Value::Boolean(yes) => format!("ERR {yes}").into_bytes(),
        // Without a place in front of it a number stays one.
        Value::Integer(_) | Value::Number(_) if level.is_some_and(|level| level < 1.0) => {
            [&b"ERR "[..], &text_of(&value).unwrap_or_default()].concat()
        }
        other => match text_of(other) {
            Some(text) => return located(lua, level.unwrap_or(1.0), &text),
            None => format!("ERR {}", other.type_name()).into_bytes(),
        },
    };
    Raised::value(&text, Some(value)).into()
}

/// What `pcall` hands to the script: of an error table only what it says. The end of a script cannot
/// be caught.
fn caught(lua: &Lua, shared: &ScriptState, names: &Names, value: Value) -> mlua::Result<Value> {
    let value = handled(lua, shared, names, value)?;
    Ok(match &value {
        Value::Table(table) => names.error_value(table).unwrap_or(value),
        _ => value,
    })
}

/// What `xpcall` hands to the script's handler.
fn handled(lua: &Lua, shared: &ScriptState, names: &Names, value: Value) -> mlua::Result<Value> {
    match &value {
        Value::Error(error) => match cause_of(error) {
            RootCause::Ended(end) => Err(Error::external(shared.budget.end(end))),
            RootCause::OutOfMemory => Err(Error::external(shared.budget.end(ScriptLimit::Memory))),
            RootCause::Raised(raised) => match &raised.value {
                Some(value) => Ok(value.clone()),
                None if raised.is_by_command => names
                    .command_error_table(lua, &raised.text)
                    .map(Value::Table),
                None => names.error_table(lua, &raised.text).map(Value::Table),
            },
            RootCause::Fault(text) => {
                let text = fault_text(text.as_bytes());
                Ok(Value::String(lua.create_string(text)?))
            }
        },
        Value::String(text) if &*text.as_bytes() == OUT_OF_MEMORY => {
            Err(Error::external(shared.budget.end(ScriptLimit::Memory)))
        }
        Value::String(text) => {
            let text = fault_text(&text.as_bytes());
            Ok(Value::String(lua.create_string(text)?))
        }
        _ => Ok(value),
    }
}

const OUT_OF_MEMORY: &[u8] = b"not enough memory";
