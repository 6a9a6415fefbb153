//! `cjson`: JSON as Lua CJSON 2.1.0 reads and writes it, with the settings that scripts know.
//!
//! In Redis what a script sets stays set for all scripts after it. Here it ends with the script.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Table, Value};

use crate::script::luau::libraries::json_decode::decode;
use crate::script::luau::libraries::json_encode::encode;
use crate::script::luau::libraries::json_settings::{JsonSettings, SETTERS, encode_sparse_array};
use crate::script::luau::libraries::native::Library;

pub(super) fn table(library: &Library<'_>, shared: &Rc<Cell<JsonSettings>>) -> mlua::Result<Table> {
    let table = library.lua.create_table()?;
    let settings = Rc::clone(shared);
    library.add(&table, "encode", move |call| encode(call, settings.get()))?;
    let settings = Rc::clone(shared);
    library.add(&table, "decode", move |call| decode(call, settings.get()))?;
    for (name, setter) in SETTERS {
        let settings = Rc::clone(shared);
        library.add(&table, name, move |call| setter(call, &settings))?;
    }
    let settings = Rc::clone(shared);
    library.add(&table, "encode_sparse_array", move |call| {
        encode_sparse_array(call, &settings)
    })?;
    library.add(&table, "new", |call| {
        self::table(&call.library(), &Rc::default())
    })?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}
