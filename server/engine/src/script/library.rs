//! The functions of Lua that are written in Rust: errors, random numbers, and what the sandbox needs.
//!
//! None of them keeps anything that outlives the script, and none can reach out of the engine.

use std::rc::Rc;

use mlua::{Error, Lua, Table, Value};

use crate::number::truncated;
use crate::script::call::ScriptState;
use crate::script::convert::{Names, text_of};
use crate::script::failure::{Cause, Raised, cause_of, fault_text, located};
use crate::script::libraries::{self, Host};
use crate::script::limits::End;
use crate::script::random::Random;
use crate::script::redis_library::redis;

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
    let (budget, known) = (Rc::clone(shared), Rc::clone(names));
    let handled = lua.create_function(move |lua, value| handled(lua, &budget, &known, value))?;
    natives.raw_set("handled", handled)?;
    random(lua, shared, &natives)?;
    Ok(natives)
}

fn random(lua: &Lua, shared: &Rc<ScriptState>, natives: &Table) -> mlua::Result<()> {
    let source = Rc::clone(shared);
    let random = lua.create_function(move |_, (low, high): (Option<f64>, Option<f64>)| {
        let number = match (low, high) {
            (None, _) => source.random.draw(Random::fraction),
            (Some(high), None) => source.random.draw(between(1.0, high)?),
            (Some(low), Some(high)) => source.random.draw(between(low, high)?),
        };
        number.ok_or_else(|| Raised::by_function(NO_SEED).into())
    })?;
    natives.raw_set("random", random)?;
    let source = Rc::clone(shared);
    let randomseed = lua.create_function(move |_, seed: f64| {
        let low_bits = truncated(seed) & i64::from(u32::MAX);
        let seed = u32::try_from(low_bits).expect("masked to 32 bits");
        source.random.seed(seed);
        Ok(())
    })?;
    natives.raw_set("randomseed", randomseed)
}

/// Draws one of the whole numbers from `low` to `high`.
fn between(low: f64, high: f64) -> mlua::Result<impl FnOnce(&mut Random) -> f64> {
    let (low, high) = (low.trunc(), high.trunc());
    if low.is_nan() || high.is_nan() || low > high {
        return Err(Raised::by_function("bad argument to 'random' (interval is empty)").into());
    }
    Ok(move |generator: &mut Random| generator.between(low, high))
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
            Cause::Ended(end) => Err(Error::external(shared.budget.end(end))),
            Cause::OutOfMemory => Err(Error::external(shared.budget.end(End::Memory))),
            Cause::Raised(raised) => match &raised.value {
                Some(value) => Ok(value.clone()),
                None if raised.is_by_command => names
                    .command_error_table(lua, &raised.text)
                    .map(Value::Table),
                None => names.error_table(lua, &raised.text).map(Value::Table),
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

const NO_SEED: &str = "the system gives no random numbers: what the script makes of them might not be unique. Its writes \
                       until here stay";
const OUT_OF_MEMORY: &[u8] = b"not enough memory";
