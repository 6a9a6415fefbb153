//! `cjson.encode`: a value of Lua as JSON.

use mlua::{LuaString, Table, Value};

use crate::script::luau::libraries::json_number::general;
use crate::script::luau::libraries::json_settings::{InvalidNumbers, JsonSettings};
use crate::script::luau::libraries::native::{
    BoundedOutput, NativeCall, STACK_SLOTS, number_of, type_name,
};

pub(super) fn encode(call: &NativeCall<'_>, settings: JsonSettings) -> mlua::Result<LuaString> {
    if call.count() != 1 {
        return Err(call.refuse(1, "expected 1 argument"));
    }
    let mut encoder = Encoder {
        call,
        settings,
        output: BoundedOutput::new(call),
        open: Vec::new(),
        slots: 1,
    };
    encoder.value(call.value(1).unwrap_or(&Value::Nil))?;
    while encoder.go_on()? {}
    encoder.output.finish()
}

struct Encoder<'a> {
    call: &'a NativeCall<'a>,
    settings: JsonSettings,
    output: BoundedOutput<'a>,
    open: Vec<Open>,
    /// What Lua would have on its stack.
    slots: usize,
}

/// A table of which a part is written.
enum Open {
    /// So many values of it are written.
    List {
        table: Table,
        written: usize,
        length: usize,
    },
    /// This key was the last; nil before the first.
    Object { table: Table, key: Value },
}

impl Encoder<'_> {
    /// Writes the next value of the innermost table. False when nothing is left.
    fn go_on(&mut self) -> mlua::Result<bool> {
        let value = match self.open.last_mut() {
            None => return Ok(false),
            Some(Open::List {
                table,
                written,
                length,
            }) => {
                if written == length {
                    self.open.pop();
                    self.slots = self.slots.saturating_sub(1);
                    self.output.byte(b']')?;
                    return Ok(true);
                }
                if *written > 0 {
                    self.output.byte(b',')?;
                }
                *written = written.saturating_add(1);
                table.raw_get::<Value>(*written)?
            }
            Some(Open::Object { table, key }) => {
                let is_first = key.is_nil();
                let Some((next, value)) = self.call.entry_after(table, key.clone())? else {
                    self.open.pop();
                    self.slots = self.slots.saturating_sub(2);
                    self.output.byte(b'}')?;
                    return Ok(true);
                };
                *key = next.clone();
                if !is_first {
                    self.output.byte(b',')?;
                }
                self.key(&next)?;
                value
            }
        };
        self.value(&value)?;
        Ok(true)
    }

    fn key(&mut self, key: &Value) -> mlua::Result<()> {
        match (key, number_of(key)) {
            (Value::String(text), _) => self.text(text)?,
            (_, Some(number)) => {
                self.output.byte(b'"')?;
                self.number(number, key)?;
                self.output.byte(b'"')?;
            }
            _ => return Err(self.refuse(key, "table key must be a number or string")),
        }
        self.output.byte(b':')
    }

    /// Writes a value, or opens it.
    fn value(&mut self, value: &Value) -> mlua::Result<()> {
        self.call.step()?;
        match value {
            Value::String(text) => self.text(text),
            Value::Boolean(true) => self.output.extend(b"true"),
            Value::Boolean(false) => self.output.extend(b"false"),
            Value::Nil => self.output.extend(b"null"),
            Value::LightUserData(_) if value.is_null() => self.output.extend(b"null"),
            Value::Table(table) => self.begin(table, value),
            other => match number_of(other) {
                Some(number) => self.number(number, other),
                None => Err(self.refuse(other, "type not supported")),
            },
        }
    }

    fn begin(&mut self, table: &Table, value: &Value) -> mlua::Result<()> {
        let depth = self.open.len().saturating_add(1);
        let depth_max = usize::try_from(self.settings.encode_depth_max).expect("it is at least 1");
        if depth > depth_max || self.slots.saturating_add(3) > STACK_SLOTS {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(self.call.fault(&text));
        }
        let table = table.clone();
        match self.list_length(&table, value)? {
            Some(length) => {
                self.output.byte(b'[')?;
                self.slots = self.slots.saturating_add(1);
                self.open.push(Open::List {
                    table,
                    written: 0,
                    length,
                });
            }
            None => {
                self.output.byte(b'{')?;
                self.slots = self.slots.saturating_add(2);
                let key = Value::Nil;
                self.open.push(Open::Object { table, key });
            }
        }
        Ok(())
    }

    /// The length of a list; `None` for what becomes an object, as the empty table does.
    fn list_length(&self, table: &Table, value: &Value) -> mlua::Result<Option<usize>> {
        let (mut length, mut items) = (0_i32, 0_i64);
        for entry in table.pairs::<Value, Value>() {
            self.call.step()?;
            let (key, _) = entry?;
            match number_of(&key).filter(|key| *key >= 1.0 && key.fract() == 0.0) {
                Some(key) if key > f64::from(length) => length = int(key),
                Some(_) => {}
                None => return Ok(None),
            }
            items = items.saturating_add(1);
        }
        let settings = &self.settings;
        let dense = items.saturating_mul(i64::from(settings.sparse_ratio));
        let is_sparse =
            settings.sparse_ratio > 0 && i64::from(length) > dense && length > settings.sparse_safe;
        if is_sparse && !settings.converts_sparse {
            return Err(self.refuse(value, "excessively sparse array"));
        }
        let length = if is_sparse { 0 } else { length };
        Ok(usize::try_from(length).ok().filter(|&length| length > 0))
    }

    fn number(&mut self, number: f64, value: &Value) -> mlua::Result<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                InvalidNumbers::Refused => {
                    return Err(self.refuse(value, "must not be NaN or Inf"));
                }
                InvalidNumbers::Written => {}
                InvalidNumbers::Null => return self.output.extend(b"null"),
            }
        }
        let precision = usize::try_from(self.settings.precision).expect("it is 1 to 14");
        self.output.extend(general(number, precision).as_bytes())
    }

    fn text(&mut self, text: &LuaString) -> mlua::Result<()> {
        self.output.byte(b'"')?;
        let bytes = text.as_bytes();
        let mut rest: &[u8] = &bytes;
        while let Some(end) = rest.iter().position(|&byte| is_escaped(byte)) {
            self.output.extend(&rest[..end])?;
            match rest[end] {
                byte @ (b'"' | b'\\' | b'/') => self.output.extend(&[b'\\', byte])?,
                b'\x08' => self.output.extend(b"\\b")?,
                b'\t' => self.output.extend(b"\\t")?,
                b'\n' => self.output.extend(b"\\n")?,
                b'\x0c' => self.output.extend(b"\\f")?,
                b'\r' => self.output.extend(b"\\r")?,
                byte => self.output.extend(format!("\\u{byte:04x}").as_bytes())?,
            }
            rest = rest.get(end.saturating_add(1)..).unwrap_or_default();
        }
        self.output.extend(rest)?;
        self.output.byte(b'"')
    }

    fn refuse(&self, value: &Value, reason: &str) -> mlua::Error {
        let kind = type_name(value);
        self.call
            .fault(&format!("Cannot serialise {kind}: {reason}"))
    }
}

fn is_escaped(byte: u8) -> bool {
    byte < b' ' || matches!(byte, b'"' | b'\\' | b'/' | 0x7f)
}

/// A number as C's `int`; what does not fit becomes the lowest one.
fn int(number: f64) -> i32 {
    let whole = i32::try_from(crate::number::truncated(number)).ok();
    whole.unwrap_or(i32::MIN)
}
