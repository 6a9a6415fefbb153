//! Between Lua's values and the engine's: Redis's rules for arguments and replies.
//!
//! A script's result is turned into a reply without recursion and within a bound, so that neither
//! a table that contains itself nor one that names a long string a thousand times can hurt.

use std::ffi::c_void;
use std::sync::Arc;

use mlua::{Lua, LuaString, Table, Value};

use crate::error::ErrorReply;
use crate::number::{argument_text, double_text, truncated};
use crate::reply::{Reply, ReplyBudget, ReplyTooLarge, SHARED_BYTES_MIN};
use crate::script::call::{TABLE_BYTES, rounded};
use crate::script::limits::Budget;

/// The names of the fields with a meaning, made once so that a lookup makes no string.
#[derive(Debug)]
pub(crate) struct Names {
    err: LuaString,
    ok: LuaString,
    double: LuaString,
    map: LuaString,
    set: LuaString,
    big_number: LuaString,
    verbatim: LuaString,
    string: LuaString,
    format: LuaString,
    is_counted: LuaString,
    /// What a command that answers OK returns: one shared table that cannot be changed.
    ok_table: Table,
}

impl Names {
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Names> {
        let ok_table = lua.create_table_with_capacity(0, 1)?;
        ok_table.raw_set("ok", "OK")?;
        ok_table.set_readonly(true);
        Ok(Names {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            big_number: lua.create_string("big_number")?,
            verbatim: lua.create_string("verbatim_string")?,
            string: lua.create_string("string")?,
            format: lua.create_string("format")?,
            is_counted: lua.create_string("ignore_error_stats_update")?,
            ok_table,
        })
    }

    /// A table with one field, as error and status replies are made of.
    pub(crate) fn error_table(&self, lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
        field_table(lua, &self.err, lua.create_string(text)?)
    }

    /// The error of a command, which Redis marks, because its statistics know of it already.
    pub(crate) fn command_error_table(&self, lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
        let table = self.error_table(lua, text)?;
        table.raw_set(&self.is_counted, true)?;
        Ok(table)
    }

    pub(crate) fn status_table(&self, lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
        field_table(lua, &self.ok, lua.create_string(text)?)
    }

    /// What an error table says, a text or a number; `None` for other tables.
    pub(crate) fn error_value(&self, table: &Table) -> Option<Value> {
        let value = table.raw_get::<Value>(&self.err).ok()?;
        let is_text = matches!(
            value,
            Value::String(_) | Value::Integer(_) | Value::Number(_)
        );
        is_text.then_some(value)
    }

    /// What a command's reply is to the script that called it.
    ///
    /// The depth of a command's own reply is a constant of that command, hence the recursion.
    /// A long one obeys the time limit.
    pub(crate) fn value_of(
        &self,
        lua: &Lua,
        reply: Reply,
        is_resp3: bool,
        budget: &Budget,
    ) -> mlua::Result<Value> {
        Ok(match reply {
            Reply::Ok => Value::Table(self.ok_table.clone()),
            Reply::Status(text) => Value::Table(self.status_table(lua, &text)?),
            Reply::Error(error) => Value::Table(self.command_error_table(lua, error.as_bytes())?),
            Reply::Nil | Reply::NilArray if is_resp3 => Value::Nil,
            Reply::Nil | Reply::NilArray => Value::Boolean(false),
            Reply::Integer(number) => Value::Number(rounded(number)),
            Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
            Reply::Shared(bytes) => Value::String(lua.create_string(&*bytes)?),
            Reply::Boolean(yes) if is_resp3 => Value::Boolean(yes),
            Reply::Boolean(yes) => Value::Number(if yes { 1.0 } else { 0.0 }),
            Reply::Double(number) if is_resp3 => {
                Value::Table(field_table(lua, &self.double, number)?)
            }
            Reply::Double(number) => Value::String(lua.create_string(double_text(number))?),
            Reply::BigNumber(digits) if is_resp3 => {
                let digits = lua.create_string(digits)?;
                Value::Table(field_table(lua, &self.big_number, digits)?)
            }
            Reply::BigNumber(digits) => Value::String(lua.create_string(digits)?),
            Reply::Array(items) | Reply::Push(items) => {
                self.list_of(lua, items, is_resp3, budget)?
            }
            Reply::Set(items) if is_resp3 => {
                let members = lua.create_table()?;
                for (index, item) in items.into_iter().enumerate() {
                    look_at_clock(budget, index)?;
                    members.raw_set(self.value_of(lua, item, is_resp3, budget)?, true)?;
                }
                Value::Table(field_table(lua, &self.set, members)?)
            }
            Reply::Set(items) => self.list_of(lua, items, is_resp3, budget)?,
            Reply::Map(pairs) if is_resp3 => {
                let entries = lua.create_table()?;
                for (index, (key, value)) in pairs.into_iter().enumerate() {
                    look_at_clock(budget, index)?;
                    let key = self.value_of(lua, key, is_resp3, budget)?;
                    entries.raw_set(key, self.value_of(lua, value, is_resp3, budget)?)?;
                }
                Value::Table(field_table(lua, &self.map, entries)?)
            }
            Reply::Map(pairs) => {
                let items = pairs
                    .into_iter()
                    .flat_map(|(key, value)| [key, value])
                    .collect();
                self.list_of(lua, items, is_resp3, budget)?
            }
            Reply::Verbatim(format, bytes) if is_resp3 => {
                let inner = lua.create_table()?;
                inner.raw_set(&self.format, lua.create_string(format)?)?;
                inner.raw_set(&self.string, lua.create_string(bytes)?)?;
                Value::Table(field_table(lua, &self.verbatim, inner)?)
            }
            Reply::Verbatim(_, bytes) => Value::String(lua.create_string(bytes)?),
        })
    }

    fn list_of(
        &self,
        lua: &Lua,
        items: Vec<Reply>,
        is_resp3: bool,
        budget: &Budget,
    ) -> mlua::Result<Value> {
        let list = lua.create_table_with_capacity(items.len(), 0)?;
        for (index, item) in items.into_iter().enumerate() {
            look_at_clock(budget, index)?;
            let value = self.value_of(lua, item, is_resp3, budget)?;
            list.raw_set(index.saturating_add(1), value)?;
        }
        Ok(Value::Table(list))
    }

    /// The reply that a script's result stands for.
    pub(crate) fn reply_of(
        &self,
        value: Value,
        is_resp3: bool,
        budget: &mut ReplyBudget,
    ) -> Result<Reply, ReplyTooLarge> {
        let mut room = Room {
            budget,
            last_long: None,
        };
        let mut open: Vec<Open> = Vec::new();
        let mut next = Some(value);
        loop {
            let finished = match next.take() {
                Some(value) => match self.begin(value, is_resp3, open.len(), &mut room)? {
                    Conversion::Finished(reply) => reply,
                    Conversion::Open(list) => {
                        open.push(list);
                        next = open.last_mut().and_then(Open::next);
                        if next.is_some() {
                            continue;
                        }
                        open.pop().map_or(Reply::Nil, Open::finish)
                    }
                },
                None => open.pop().map_or(Reply::Nil, Open::finish),
            };
            let Some(parent) = open.last_mut() else {
                return Ok(finished);
            };
            parent.items.push(finished);
            next = parent.next();
        }
    }

    fn begin(
        &self,
        value: Value,
        is_resp3: bool,
        depth: usize,
        room: &mut Room<'_>,
    ) -> Result<Conversion, ReplyTooLarge> {
        room.take_value()?;
        Ok(Conversion::Finished(match value {
            Value::String(text) => room.bulk(&text)?,
            Value::Integer(number) => Reply::Integer(number),
            Value::Number(number) => Reply::Integer(truncated(number)),
            Value::Boolean(yes) if is_resp3 => Reply::Boolean(yes),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Table(_) if depth >= REPLY_DEPTH_MAX => {
                Reply::Error(ErrorReply::fixed("ERR reached lua stack limit"))
            }
            Value::Table(table) => {
                room.take_table()?;
                return self.begin_table(table, room);
            }
            _ => Reply::Nil,
        }))
    }

    fn begin_table(&self, table: Table, room: &mut Room<'_>) -> Result<Conversion, ReplyTooLarge> {
        if let Some(text) = text_field(&table, &self.err) {
            let mut text = c_text(room.bytes(&text)?);
            while let [.., b'\r' | b'\n'] = *text {
                text.pop();
            }
            return Ok(Conversion::Finished(Reply::Error(ErrorReply::new(text))));
        }
        if let Some(text) = text_field(&table, &self.ok) {
            let text = c_text(room.bytes(&text)?);
            return Ok(Conversion::Finished(Reply::Status(text.into())));
        }
        match table.raw_get(&self.double) {
            Ok(Value::Number(number)) => return Ok(Conversion::Finished(Reply::Double(number))),
            Ok(Value::Integer(number)) => {
                return Ok(Conversion::Finished(Reply::Double(rounded(number))));
            }
            _ => {}
        }
        if let Some(text) = text_field(&table, &self.big_number) {
            let mut digits = room.bytes(&text)?;
            for byte in &mut digits {
                if matches!(byte, b'\r' | b'\n') {
                    *byte = b' ';
                }
            }
            return Ok(Conversion::Finished(Reply::BigNumber(digits)));
        }
        if let Ok(Value::Table(inner)) = table.raw_get(&self.verbatim) {
            let fields = (
                text_field(&inner, &self.format),
                text_field(&inner, &self.string),
            );
            if let (Some(format), Some(text)) = fields {
                let format = verbatim_format(&format.as_bytes());
                let text = room.bytes(&text)?;
                return Ok(Conversion::Finished(Reply::Verbatim(format, text)));
            }
        }
        if let Ok(Value::Table(entries)) = table.raw_get(&self.map) {
            let pairs = entries.pairs::<Value, Value>().filter_map(Result::ok);
            return Ok(Conversion::Open(Open::listed(
                ReplyShape::Map,
                pairs.flat_map(|(k, v)| [k, v]),
                room,
            )?));
        }
        if let Ok(Value::Table(members)) = table.raw_get(&self.set) {
            let keys = members
                .pairs::<Value, Value>()
                .filter_map(Result::ok)
                .map(|(key, _)| key);
            return Ok(Conversion::Open(Open::listed(ReplyShape::Set, keys, room)?));
        }
        Ok(Conversion::Open(Open::indexed(table)))
    }
}

/// Between values that are converted, once in some ten microseconds.
fn look_at_clock(budget: &Budget, index: usize) -> mlua::Result<()> {
    if index % VALUES_PER_CLOCK_READING == VALUES_PER_CLOCK_READING.saturating_sub(1) {
        budget.check().map_err(mlua::Error::external)?;
    }
    Ok(())
}

fn field_table(lua: &Lua, name: &LuaString, value: impl mlua::IntoLua) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(table)
}

/// A field that is a text; a number is none.
fn text_field(table: &Table, name: &LuaString) -> Option<LuaString> {
    match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// A text, or a number as one.
pub(crate) fn text_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(argument_text(*number).into_bytes()),
        _ => None,
    }
}

/// A text up to its first zero, where Redis takes it for one of C.
pub(crate) fn c_text(mut text: Vec<u8>) -> Vec<u8> {
    if let Some(end) = text.iter().position(|&byte| byte == 0) {
        text.truncate(end);
    }
    text
}

/// Three letters, whatever a script calls the format.
fn verbatim_format(name: &[u8]) -> [u8; 3] {
    let mut format = [b' '; 3];
    let letters = name.iter().take_while(|&&byte| byte != 0);
    for (place, letter) in format.iter_mut().zip(letters) {
        *place = *letter;
    }
    format
}

/// A list whose values are being converted.
struct Open {
    shape: ReplyShape,
    source: Source,
    items: Vec<Reply>,
}

#[derive(Clone, Copy)]
enum ReplyShape {
    Array,
    Map,
    Set,
}

enum Source {
    /// The values 1, 2, 3 ... up to the first that is nil.
    Indexed {
        table: Table,
        index: usize,
    },
    Listed(std::vec::IntoIter<Value>),
}

enum Conversion {
    Finished(Reply),
    Open(Open),
}

impl Open {
    fn indexed(table: Table) -> Open {
        let source = Source::Indexed { table, index: 0 };
        Open {
            shape: ReplyShape::Array,
            source,
            items: Vec::new(),
        }
    }

    fn listed(
        shape: ReplyShape,
        values: impl Iterator<Item = Value>,
        room: &mut Room<'_>,
    ) -> Result<Open, ReplyTooLarge> {
        let mut list = Vec::new();
        for value in values {
            room.take_value()?;
            list.push(value);
        }
        Ok(Open {
            shape,
            source: Source::Listed(list.into_iter()),
            items: Vec::new(),
        })
    }

    fn next(&mut self) -> Option<Value> {
        match &mut self.source {
            Source::Listed(values) => values.next(),
            Source::Indexed { table, index } => {
                *index = index.saturating_add(1);
                table
                    .raw_get::<Value>(*index)
                    .ok()
                    .filter(|value| !value.is_nil())
            }
        }
    }

    fn finish(self) -> Reply {
        match self.shape {
            ReplyShape::Array => Reply::Array(self.items),
            ReplyShape::Set => Reply::Set(self.items),
            ReplyShape::Map => {
                let mut pairs = Vec::with_capacity(self.items.len() / 2);
                let mut items = self.items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Reply::Map(pairs)
            }
        }
    }
}

/// What the reply may still grow by, and what it can use twice.
struct Room<'a> {
    budget: &'a mut ReplyBudget,
    /// The last long text, by its address in the interpreter: a list that names one text many
    /// times holds it once. The script's result keeps the text alive meanwhile.
    last_long: Option<(*const c_void, Arc<[u8]>)>,
}

impl Room<'_> {
    fn take_value(&mut self) -> Result<(), ReplyTooLarge> {
        self.budget.charge(0)
    }

    /// Finding out what a table stands for takes as long as some values.
    fn take_table(&mut self) -> Result<(), ReplyTooLarge> {
        self.budget.charge_memory(TABLE_BYTES)
    }

    fn bytes(&mut self, text: &LuaString) -> Result<Vec<u8>, ReplyTooLarge> {
        let bytes = text.as_bytes();
        self.budget.charge_memory(bytes.len())?;
        Ok(bytes.to_vec())
    }

    fn bulk(&mut self, text: &LuaString) -> Result<Reply, ReplyTooLarge> {
        if text.as_bytes().len() < SHARED_BYTES_MIN {
            return self.bytes(text).map(Reply::Bulk);
        }
        let (address, bytes) = (text.to_pointer(), text.as_bytes());
        self.budget.charge_memory(bytes.len())?;
        Ok(Reply::Shared(match &self.last_long {
            Some((last, shared)) if *last == address => Arc::clone(shared),
            _ => {
                let shared: Arc<[u8]> = Arc::from(&*bytes);
                self.last_long = Some((address, Arc::clone(&shared)));
                shared
            }
        }))
    }
}

const VALUES_PER_CLOCK_READING: usize = 256;
/// Deeper tables are replaced by an error, as in Redis. Clients give up far earlier.
const REPLY_DEPTH_MAX: usize = 128;
