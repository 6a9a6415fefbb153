//! The libraries that Redis gives its scripts besides Lua's own, `bit`, `cjson`, `cmsgpack`, `struct`, and what Luau's own
//! do not have as Lua 5.1's do.
//!
//! They answer what Redis 7.0 answers, error texts included. No function calls itself for what is
//! nested, and each counts its work against the script's limits, so that neither a deep nor a long
//! argument takes more of the stack, of memory or of time than a loop of the script could.

mod bit;
mod json;
mod json_decode;
mod json_encode;
mod json_number;
mod json_scanner;
mod json_settings;
mod messagepack_pack;
mod messagepack_unpack;
mod native;
mod standard;
mod structure;
mod structure_format;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, Table};

pub(crate) use json_settings::JsonSettings;

use crate::script::limits::Budget;
use crate::script::luau::libraries::native::Library;
use crate::script::luau::random::ScriptRandom;

/// What the libraries need of the interpreter they run in.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) budget: Rc<Budget>,
    /// What a script has set of `cjson`; the next script begins with the defaults.
    pub(crate) json: Rc<Cell<JsonSettings>>,
    pub(crate) random: Rc<ScriptRandom>,
}

/// Adds the libraries to a table, each under its name.
pub(crate) fn add_to(lua: &Lua, host: &Host, table: &Table) -> mlua::Result<()> {
    let library = Library::new(lua, &host.budget)?;
    table.raw_set("bit", bit::table(&library)?)?;
    table.raw_set("cjson", json::table(&library, &host.json)?)?;
    table.raw_set("cmsgpack", messagepack(&library)?)?;
    table.raw_set("struct", structure::table(&library)?)?;
    table.raw_set("math", standard::math(&library, &host.random)?)?;
    table.raw_set("string", standard::string(&library)?)?;
    table.raw_set("table", standard::table(&library)?)
}

fn messagepack(library: &Library<'_>) -> mlua::Result<Table> {
    let table = library.lua.create_table()?;
    for (field, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        table.raw_set(field, text)?;
    }
    messagepack_pack::add_to(library, &table)?;
    messagepack_unpack::add_to(library, &table)?;
    Ok(table)
}
