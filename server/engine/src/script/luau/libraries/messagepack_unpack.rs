//! `cmsgpack.unpack`, `unpack_one` and `unpack_limit`: MessagePack as values of Lua.
//!
//! What is nested is kept in a list and not on the stack. A length that the data does not have costs
//! nothing: values are made as they come.

use mlua::{Error, IntoLua, MultiValue, Table, Value};
use rmp::Marker;

use crate::script::call::rounded;
use crate::script::luau::fault::located;
use crate::script::luau::libraries::native::{Library, NativeCall, STACK_SLOTS, low_half};

pub(super) fn add_to(library: &Library<'_>, table: &Table) -> mlua::Result<()> {
    library.add(table, "unpack", |call| unpack(call, 0, 0))?;
    library.add(table, "unpack_one", |call| {
        unpack(call, 1, call.integer_or(2, 0)?)
    })?;
    library.add(table, "unpack_limit", |call| {
        unpack(call, call.integer(2)?, call.integer_or(3, 0)?)
    })
}

/// Without limit and offset all values; else first where to go on, or -1 at the end.
fn unpack(call: &NativeCall<'_>, limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let text = call.text(1)?;
    let data = text.as_bytes();
    let length = data.len();
    if offset < 0 || limit < 0 {
        // The second number is the length, in Redis as well.
        let (offset, length) = (low_half(offset), length);
        return Err(call.fault(&format!(
            "Invalid request to unpack with offset of {offset} and limit of {length}."
        )));
    }
    let start = usize::try_from(offset).ok();
    let Some(rest) = start.and_then(|start| data.get(start..)) else {
        let offset = low_half(offset);
        return Err(call.fault(&format!(
            "Start offset {offset} greater than input length {length}."
        )));
    };
    let is_all = limit == 0 && offset == 0;
    let limit = if is_all { i64::from(i32::MAX) } else { limit };
    let mut unpacker = Unpacker {
        call,
        rest,
        open: Vec::new(),
        slots: 1,
    };
    let mut values: Vec<Value> = Vec::new();
    if !is_all {
        values.push(Value::Nil);
    }
    let mut count: i64 = 0;
    while !unpacker.rest.is_empty() && count < limit {
        values.push(unpacker.value()?);
        unpacker.slots = unpacker.slots.saturating_add(1);
        count = count.saturating_add(1);
    }
    if !is_all {
        let next = length.saturating_sub(unpacker.rest.len());
        let next = if unpacker.rest.is_empty() {
            -1
        } else {
            i64::try_from(next).expect("it is a place in memory")
        };
        values[0] = Value::Integer(next);
    }
    Ok(values.into_iter().collect())
}

struct Unpacker<'a> {
    call: &'a NativeCall<'a>,
    rest: &'a [u8],
    open: Vec<Open>,
    /// What Lua would have on its stack.
    slots: usize,
}

/// A list or a map of which so many values are missing.
enum Open {
    List {
        table: Table,
        length: usize,
        missing: usize,
    },
    Map {
        table: Table,
        key: Option<Value>,
        missing: usize,
    },
}

impl Unpacker<'_> {
    /// Reads one value, whatever is nested in it.
    fn value(&mut self) -> mlua::Result<Value> {
        loop {
            self.call.step()?;
            let Some(mut value) = self.begin()? else {
                continue;
            };
            loop {
                if self.open.is_empty() {
                    return Ok(value);
                }
                match self.place(value)? {
                    Some(table) => value = Value::Table(table),
                    None => break,
                }
            }
        }
    }

    /// Reads a value; `None` if it is a list or a map that is not empty.
    fn begin(&mut self) -> mlua::Result<Option<Value>> {
        let (&first, _) = self.rest.split_first().ok_or_else(|| self.too_short())?;
        self.grow(
            0,
            "too many return values at once; use unpack_one or unpack_limit instead.",
        )?;
        let marker = Marker::from_u8(first);
        let value = match marker {
            Marker::FixPos(number) => self.small(f64::from(number)),
            Marker::FixNeg(number) => self.small(f64::from(number)),
            Marker::Null => self.simple(Value::Nil),
            Marker::True => self.simple(Value::Boolean(true)),
            Marker::False => self.simple(Value::Boolean(false)),
            Marker::U8 => Value::Number(f64::from(u8::from_be_bytes(self.fixed()?))),
            Marker::U16 => Value::Number(f64::from(u16::from_be_bytes(self.fixed()?))),
            Marker::U32 => Value::Number(f64::from(u32::from_be_bytes(self.fixed()?))),
            Marker::I8 => Value::Number(f64::from(i8::from_be_bytes(self.fixed()?))),
            Marker::I16 => Value::Number(f64::from(i16::from_be_bytes(self.fixed()?))),
            Marker::I32 => Value::Number(f64::from(i32::from_be_bytes(self.fixed()?))),
            // Above 2^63 a number without sign becomes negative, in Redis as well.
            Marker::U64 | Marker::I64 => Value::Number(rounded(i64::from_be_bytes(self.fixed()?))),
            Marker::F32 => Value::Number(f64::from(f32::from_be_bytes(self.fixed()?))),
            Marker::F64 => Value::Number(f64::from_be_bytes(self.fixed()?)),
            Marker::FixStr(length) => {
                let _: [u8; 0] = self.fixed()?;
                self.text(usize::from(length))?
            }
            Marker::Str8 => {
                let length = u8::from_be_bytes(self.fixed()?);
                self.text(usize::from(length))?
            }
            Marker::Str16 => {
                let length = u16::from_be_bytes(self.fixed()?);
                self.text(usize::from(length))?
            }
            Marker::Str32 => {
                let length = u32::from_be_bytes(self.fixed()?);
                self.text(size(length))?
            }
            _ => return self.begin_table(marker),
        };
        Ok(Some(value))
    }

    fn begin_table(&mut self, marker: Marker) -> mlua::Result<Option<Value>> {
        let (length, is_map) = match marker {
            Marker::FixArray(length) => (self.short(length), false),
            Marker::FixMap(length) => (self.short(length), true),
            Marker::Array16 => (usize::from(u16::from_be_bytes(self.fixed()?)), false),
            Marker::Map16 => (usize::from(u16::from_be_bytes(self.fixed()?)), true),
            Marker::Array32 => (size(u32::from_be_bytes(self.fixed()?)), false),
            Marker::Map32 => (size(u32::from_be_bytes(self.fixed()?)), true),
            _ => return Err(self.call.fault("Bad data format in input.")),
        };
        let table = self.call.lua.create_table()?;
        if !is_map {
            self.grow(1, "in function mp_decode_to_lua_array")?;
        }
        if length == 0 {
            return Ok(Some(Value::Table(table)));
        }
        self.slots = self.slots.saturating_add(if is_map { 1 } else { 2 });
        self.open.push(if is_map {
            Open::Map {
                table,
                key: None,
                missing: length,
            }
        } else {
            Open::List {
                table,
                length: 0,
                missing: length,
            }
        });
        Ok(None)
    }

    /// Puts a value into the innermost table; returns that if it is complete.
    fn place(&mut self, value: Value) -> mlua::Result<Option<Table>> {
        let (table, missing, slots) = match self.open.last_mut() {
            None => return Ok(None),
            Some(Open::List {
                table,
                length,
                missing,
            }) => {
                *length = length.saturating_add(1);
                table.raw_set(*length, value)?;
                (table, missing, 2)
            }
            Some(Open::Map {
                table,
                key,
                missing,
            }) => match key.take() {
                None => {
                    *key = Some(value);
                    self.slots = self.slots.saturating_add(1);
                    return Ok(None);
                }
                Some(Value::Nil) => return Err(self.key_error("table index is nil")),
                Some(Value::Number(number)) if number.is_nan() => {
                    return Err(self.key_error("table index is NaN"));
                }
                Some(key) => {
                    table.raw_set(key, value)?;
                    self.slots = self.slots.saturating_sub(1);
                    (table, missing, 1)
                }
            },
        };
        *missing = missing.saturating_sub(1);
        if *missing > 0 {
            return Ok(None);
        }
        let table = table.clone();
        self.open.pop();
        self.slots = self.slots.saturating_sub(slots);
        Ok(Some(table))
    }

    /// Whether Lua's stack would have room for one more value than so many.
    fn grow(&self, more: usize, reason: &str) -> mlua::Result<()> {
        let slots = self.slots.saturating_add(more).saturating_add(1);
        if slots > STACK_SLOTS {
            return Err(self.call.fault(&format!("stack overflow ({reason})")));
        }
        Ok(())
    }

    /// The bytes behind the marker.
    fn fixed<const N: usize>(&mut self) -> mlua::Result<[u8; N]> {
        let rest = self.rest.get(1..).unwrap_or_default();
        let Some((bytes, rest)) = rest.split_first_chunk() else {
            return Err(self.too_short());
        };
        self.rest = rest;
        Ok(*bytes)
    }

    fn text(&mut self, length: usize) -> mlua::Result<Value> {
        let Some((text, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.too_short());
        };
        self.rest = rest;
        self.call.lua.create_string(text)?.into_lua(self.call.lua)
    }

    fn small(&mut self, number: f64) -> Value {
        self.simple(Value::Number(number))
    }

    /// A value that is its marker.
    fn simple(&mut self, value: Value) -> Value {
        self.rest = self.rest.get(1..).unwrap_or_default();
        value
    }

    fn short(&mut self, length: u8) -> usize {
        self.rest = self.rest.get(1..).unwrap_or_default();
        usize::from(length)
    }

    fn too_short(&self) -> Error {
        self.call.fault("Missing bytes in input.")
    }

    /// In Redis the interpreter itself refuses such a key, and does not say where.
    fn key_error(&self, text: &str) -> Error {
        located(self.call.lua, 0.0, text.as_bytes())
    }
}

fn size(length: u32) -> usize {
    usize::try_from(length).expect("a size has 64 bits")
}
