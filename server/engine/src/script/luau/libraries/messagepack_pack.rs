//! `cmsgpack.pack`: values of Lua as MessagePack, one after the other.
//!
//! Tables deeper than sixteen levels become nil, as in Redis; that ends a table in itself as well.

use mlua::{LuaString, Table, Value};
use rmp::encode;

use crate::number::truncated;
use crate::script::luau::libraries::native::{BoundedOutput, Library, NativeCall, number_of};

pub(super) fn add_to(library: &Library<'_>, table: &Table) -> mlua::Result<()> {
    library.add(table, "pack", pack)
}

fn pack(call: &NativeCall<'_>) -> mlua::Result<LuaString> {
    if call.count() == 0 {
        return Err(call.refuse(0, "MessagePack pack needs input."));
    }
    let mut packer = Packer {
        call,
        output: BoundedOutput::new(call),
    };
    for value in &call.values {
        packer.value(value, 0)?;
    }
    packer.output.finish()
}

struct Packer<'a> {
    call: &'a NativeCall<'a>,
    output: BoundedOutput<'a>,
}

impl Packer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.call.step()?;
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                let length = text.len();
                self.head(|bytes| encode::write_str_len(bytes, count(length)).map(drop))?;
                self.output.extend(&text)
            }
            Value::Boolean(yes) => self.head(|bytes| encode::write_bool(bytes, *yes)),
            Value::Table(table) if depth < DEPTH_MAX => match self.list_length(table)? {
                Some(length) => self.list(table, length, depth),
                None => self.map(table, depth),
            },
            other => match number_of(other) {
                Some(number) => self.number(number),
                None => self.head(encode::write_nil),
            },
        }
    }

    fn list(&mut self, table: &Table, length: usize, depth: usize) -> mlua::Result<()> {
        self.head(|bytes| encode::write_array_len(bytes, count(length)).map(drop))?;
        for index in 1..=length {
            let value = table.raw_get::<Value>(index)?;
            self.value(&value, depth.saturating_add(1))?;
        }
        Ok(())
    }

    fn map(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let mut length: usize = 0;
        for entry in table.pairs::<Value, Value>() {
            self.call.step()?;
            entry?;
            length = length.saturating_add(1);
        }
        self.head(|bytes| encode::write_map_len(bytes, count(length)).map(drop))?;
        for entry in table.pairs::<Value, Value>() {
            let (key, value) = entry?;
            self.value(&key, depth.saturating_add(1))?;
            self.value(&value, depth.saturating_add(1))?;
        }
        Ok(())
    }

    /// The length of a table whose keys are the numbers from 1 to it.
    fn list_length(&self, table: &Table) -> mlua::Result<Option<usize>> {
        let (mut length, mut last) = (0_usize, 0_i32);
        for entry in table.pairs::<Value, Value>() {
            self.call.step()?;
            let key = match entry? {
                (Value::Integer(key), _) => i32::try_from(key).ok(),
                _ => None,
            };
            let Some(key) = key.filter(|&key| key > 0) else {
                return Ok(None);
            };
            last = last.max(key);
            length = length.saturating_add(1);
        }
        Ok((usize::try_from(last) == Ok(length)).then_some(length))
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        let whole = truncated(number);
        if is_equal(whole, number) {
            return self.head(|bytes| encode::write_sint(bytes, whole).map(drop));
        }
        match as_single(number) {
            Some(number) => self.head(|bytes| encode::write_f32(bytes, number)),
            None => self.head(|bytes| encode::write_f64(bytes, number)),
        }
    }

    /// A few bytes, made by the crate that knows the format.
    fn head<E>(
        &mut self,
        write: impl FnOnce(&mut encode::ByteBuf) -> Result<(), E>,
    ) -> mlua::Result<()> {
        let mut bytes = encode::ByteBuf::new();
        // Writing to memory cannot fail.
        let _ = write(&mut bytes);
        self.output.extend(bytes.as_slice())
    }
}

/// A length as the format has it.
fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a script's memory is smaller")
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a lossy conversion is not equal"
)]
fn is_equal(whole: i64, number: f64) -> bool {
    number < TWO_63 && whole as f64 == number
}

#[allow(clippy::cast_possible_truncation, reason = "compared with the number")]
fn as_single(number: f64) -> Option<f32> {
    let single = number as f32;
    (f64::from(single) == number).then_some(single)
}

const DEPTH_MAX: usize = 16;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;
