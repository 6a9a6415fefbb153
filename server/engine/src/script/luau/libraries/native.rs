//! One call of a library's function: its arguments, its errors, and what it uses up.
//!
//! Errors read as Lua's do: the place in the script in front, `bad argument #1 to 'encode' (...)`.

use std::rc::Rc;

use mlua::{Error, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use crate::number::truncated;
use crate::script::call::rounded;
use crate::script::limits::{Budget, ScriptLimit};
use crate::script::luau::fault::{located, location_of};

/// What the functions of a library are made with.
pub(super) struct Library<'a> {
    pub(super) lua: &'a Lua,
    budget: Rc<Budget>,
    next: Function,
}

impl Library<'_> {
    pub(super) fn new<'a>(lua: &'a Lua, budget: &Rc<Budget>) -> mlua::Result<Library<'a>> {
        Ok(Library {
            lua,
            budget: Rc::clone(budget),
            next: lua.globals().raw_get("next")?,
        })
    }

    /// Adds a function to a library's table.
    pub(super) fn add<R: IntoLuaMulti>(
        &self,
        table: &Table,
        name: &'static str,
        function: impl Fn(&NativeCall<'_>) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<()> {
        let (budget, next) = (Rc::clone(&self.budget), self.next.clone());
        let function = self.lua.create_function(move |lua, values: MultiValue| {
            function(&NativeCall {
                lua,
                budget: &budget,
                next: &next,
                name,
                values,
            })
        })?;
        table.raw_set(name, function)
    }
}

/// One call. Arguments are counted from 1.
pub(super) struct NativeCall<'a> {
    pub(super) lua: &'a Lua,
    budget: &'a Rc<Budget>,
    next: &'a Function,
    name: &'static str,
    pub(super) values: MultiValue,
}

impl NativeCall<'_> {
    /// To make another library with.
    pub(super) fn library(&self) -> Library<'_> {
        Library {
            lua: self.lua,
            budget: Rc::clone(self.budget),
            next: self.next.clone(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    pub(super) fn value(&self, index: usize) -> Option<&Value> {
        self.values.get(index.checked_sub(1)?)
    }

    /// Whether the argument is missing or nil.
    pub(super) fn is_nil(&self, index: usize) -> bool {
        self.value(index).is_none_or(Value::is_nil)
    }

    /// A number, or a text that reads as one.
    pub(super) fn number(&self, index: usize) -> mlua::Result<f64> {
        let number = match self.value(index) {
            Some(Value::Number(number)) => Some(*number),
            Some(value) => {
                if let Value::String(text) = value
                    && text.as_bytes().len() > SLOW_NUMBER_BYTES
                {
                    self.budget.check().map_err(Error::external)?;
                }
                self.lua.coerce_number(value.clone())?
            }
            None => None,
        };
        number.ok_or_else(|| self.wrong_type(index, "number"))
    }

    /// A number without its fraction.
    pub(super) fn integer(&self, index: usize) -> mlua::Result<i64> {
        self.number(index).map(truncated)
    }

    pub(super) fn integer_or(&self, index: usize, default: i64) -> mlua::Result<i64> {
        if self.is_nil(index) {
            return Ok(default);
        }
        self.integer(index)
    }

    /// A text, or a number as text.
    pub(super) fn text(&self, index: usize) -> mlua::Result<LuaString> {
        let text = match self.value(index) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(value @ (Value::Integer(_) | Value::Number(_))) => {
                self.lua.coerce_string(value.clone())?
            }
            _ => None,
        };
        text.ok_or_else(|| self.wrong_type(index, "string"))
    }

    pub(super) fn wrong_type(&self, index: usize, expected: &str) -> Error {
        let found = self.value(index).map_or("no value", type_name);
        self.refuse(index, &format!("{expected} expected, got {found}"))
    }

    /// An error about one argument.
    pub(super) fn refuse(&self, index: usize, reason: &str) -> Error {
        // A function that another native function calls (`pcall`) has no name to Lua.
        let is_by_script = !location_of(self.lua, 1.0).is_empty();
        let name = if is_by_script { self.name } else { "?" };
        self.fault(&format!("bad argument #{index} to '{name}' ({reason})"))
    }

    /// An error, with its place in the script.
    pub(super) fn fault(&self, text: &str) -> Error {
        located(self.lua, 1.0, text.as_bytes())
    }

    /// Counts a step of the work, as small as one of the interpreter's.
    pub(super) fn step(&self) -> mlua::Result<()> {
        self.budget.step().map_err(Error::external)
    }

    /// To be called before so many bytes are taken outside of the interpreter's memory.
    pub(super) fn admit(&self, bytes: usize) -> mlua::Result<()> {
        self.budget.check().map_err(Error::external)?;
        let used = self.lua.used_memory().saturating_add(bytes);
        if used > self.budget.memory_end() {
            return Err(Error::external(self.budget.end(ScriptLimit::Memory)));
        }
        Ok(())
    }

    /// The entry of a table that follows the one with this key.
    pub(super) fn entry_after(
        &self,
        table: &Table,
        key: Value,
    ) -> mlua::Result<Option<(Value, Value)>> {
        self.step()?;
        let (key, value): (Value, Value) = self.next.call((table, key))?;
        Ok((!key.is_nil()).then_some((key, value)))
    }
}

/// Bytes that a function makes. They may grow only as far as the script's memory reaches.
pub(super) struct BoundedOutput<'a> {
    call: &'a NativeCall<'a>,
    pub(super) bytes: Vec<u8>,
    admitted: usize,
}

impl<'a> BoundedOutput<'a> {
    pub(super) fn new(call: &'a NativeCall<'a>) -> BoundedOutput<'a> {
        BoundedOutput {
            call,
            bytes: Vec::new(),
            admitted: ADMITTED_BYTES,
        }
    }

    pub(super) fn byte(&mut self, byte: u8) -> mlua::Result<()> {
        self.extend(&[byte])
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) -> mlua::Result<()> {
        let length = self.bytes.len().saturating_add(bytes.len());
        if length > self.admitted {
            // Twice: here, and as the text that the script gets.
            self.call.admit(length.saturating_mul(2))?;
            self.admitted = length.saturating_add(ADMITTED_BYTES);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The text that the script gets.
    pub(super) fn finish(self) -> mlua::Result<LuaString> {
        self.call.lua.create_string(&self.bytes)
    }
}

/// A number as Lua has it; the interpreter's interface tells whole ones apart.
pub(super) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(rounded(*number)),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "C's int has the lower half, as there"
)]
pub(super) fn low_half(number: i64) -> i32 {
    number as i32
}

/// The type's name as Lua 5.1 says it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// So many slots has the stack of Lua 5.1; what is nested deeper is refused as there.
pub(super) const STACK_SLOTS: usize = 8000;

/// To read a longer text as a number may take a millisecond, or tens of them.
const SLOW_NUMBER_BYTES: usize = 64 << 10;

/// Output grows by so much between two looks at the limits.
const ADMITTED_BYTES: usize = 64 << 10;
