//! `cjson.decode`: JSON as a value of Lua.

use mlua::{IntoLua, LuaString, Table, Value};

use crate::script::luau::libraries::json_scanner::{JsonToken, Scanner};
use crate::script::luau::libraries::json_settings::JsonSettings;
use crate::script::luau::libraries::native::{NativeCall, STACK_SLOTS};

pub(super) fn decode(call: &NativeCall<'_>, settings: JsonSettings) -> mlua::Result<Value> {
    if call.count() != 1 {
        return Err(call.refuse(1, "expected 1 argument"));
    }
    let text = call.text(1)?;
    let text = text.as_bytes();
    if let [0, _, ..] | [_, 0, ..] = *text {
        return Err(call.fault("JSON parser does not support UTF-16 or UTF-32"));
    }
    call.admit(text.len())?;
    let scanner = Scanner::new(&text, settings.decodes_invalid);
    let mut decoder = Decoder {
        call,
        depth_max: usize::try_from(settings.decode_depth_max).expect("it is at least 1"),
        scanner,
        open: Vec::new(),
        slots: 1,
    };
    decoder.document()
}

struct Decoder<'a> {
    call: &'a NativeCall<'a>,
    depth_max: usize,
    scanner: Scanner<'a>,
    open: Vec<Open>,
    /// What Lua would have on its stack.
    slots: usize,
}

/// A list or an object that has not ended.
enum Open {
    List { table: Table, length: usize },
    Object { table: Table, key: LuaString },
}

/// What follows a value that was put where it belongs.
enum Placement {
    /// Another value, which begins with this token.
    Next(JsonToken),
    /// It was the last of a list or an object, which is now a value itself.
    Finished(Value),
    /// It was the document.
    Document(Value),
}

impl Decoder<'_> {
    fn document(&mut self) -> mlua::Result<Value> {
        let mut token = self.scanner.next();
        loop {
            self.call.step()?;
            let mut value = match token {
                JsonToken::ObjectBegin => match self.begin_object()? {
                    OpenedPart::Empty(value) => value,
                    OpenedPart::First(first) => {
                        token = first;
                        continue;
                    }
                },
                JsonToken::ListBegin => match self.begin_list()? {
                    OpenedPart::Empty(value) => value,
                    OpenedPart::First(first) => {
                        token = first;
                        continue;
                    }
                },
                JsonToken::String => {
                    let text = self.call.lua.create_string(&self.scanner.string)?;
                    text.into_lua(self.call.lua)?
                }
                JsonToken::Number(number) => Value::Number(number),
                JsonToken::Boolean(yes) => Value::Boolean(yes),
                JsonToken::Null => Value::NULL,
                other => return Err(self.expected("value", other)),
            };
            loop {
                match self.place(value)? {
                    Placement::Finished(list) => value = list,
                    Placement::Document(value) => return Ok(value),
                    Placement::Next(first) => {
                        token = first;
                        break;
                    }
                }
            }
        }
    }

    fn begin_object(&mut self) -> mlua::Result<OpenedPart> {
        self.descend(3)?;
        let table = self.call.lua.create_table()?;
        match self.scanner.next() {
            JsonToken::ObjectEnd => Ok(OpenedPart::Empty(Value::Table(table))),
            first => {
                let key = self.key(first)?;
                self.slots = self.slots.saturating_add(2);
                self.open.push(Open::Object { table, key });
                Ok(OpenedPart::First(self.scanner.next()))
            }
        }
    }

    fn begin_list(&mut self) -> mlua::Result<OpenedPart> {
        self.descend(2)?;
        let table = self.call.lua.create_table()?;
        match self.scanner.next() {
            JsonToken::ListEnd => Ok(OpenedPart::Empty(Value::Table(table))),
            first => {
                self.slots = self.slots.saturating_add(1);
                self.open.push(Open::List { table, length: 0 });
                Ok(OpenedPart::First(first))
            }
        }
    }

    /// Another level, which needs so many slots.
    fn descend(&self, slots: usize) -> mlua::Result<()> {
        let depth = self.open.len().saturating_add(1);
        if depth > self.depth_max || self.slots.saturating_add(slots) > STACK_SLOTS {
            return Err(self.call.fault(&format!(
                "Found too many nested data structures ({depth}) at character {}",
                self.scanner.at
            )));
        }
        Ok(())
    }

    /// A key and its colon.
    fn key(&mut self, token: JsonToken) -> mlua::Result<LuaString> {
        if !matches!(token, JsonToken::String) {
            return Err(self.expected("object key string", token));
        }
        let key = self.call.lua.create_string(&self.scanner.string)?;
        match self.scanner.next() {
            JsonToken::Colon => Ok(key),
            other => Err(self.expected("colon", other)),
        }
    }

    /// Puts a value into the innermost list or object, and reads on.
    fn place(&mut self, value: Value) -> mlua::Result<Placement> {
        let (finished, slots) = match self.open.last_mut() {
            None => {
                return match self.scanner.next() {
                    JsonToken::End => Ok(Placement::Document(value)),
                    other => Err(self.expected("the end", other)),
                };
            }
            Some(Open::List { table, length }) => {
                *length = length.saturating_add(1);
                table.raw_set(*length, value)?;
                match self.scanner.next() {
                    JsonToken::Comma => return Ok(Placement::Next(self.scanner.next())),
                    JsonToken::ListEnd => (table.clone(), 1),
                    other => return Err(self.expected("comma or array end", other)),
                }
            }
            Some(Open::Object { table, key }) => {
                table.raw_set(&*key, value)?;
                match self.scanner.next() {
                    JsonToken::Comma => {
                        let first = self.scanner.next();
                        let next = self.key(first)?;
                        if let Some(Open::Object { key, .. }) = self.open.last_mut() {
                            *key = next;
                        }
                        return Ok(Placement::Next(self.scanner.next()));
                    }
                    JsonToken::ObjectEnd => (table.clone(), 2),
                    other => return Err(self.expected("comma or object end", other)),
                }
            }
        };
        self.open.pop();
        self.slots = self.slots.saturating_sub(slots);
        Ok(Placement::Finished(Value::Table(finished)))
    }

    fn expected(&self, expected: &str, found: JsonToken) -> mlua::Error {
        let found = found.name();
        let character = self.scanner.token_at.saturating_add(1);
        self.call.fault(&format!(
            "Expected {expected} but found {found} at character {character}"
        ))
    }
}

/// A list or an object that has begun.
enum OpenedPart {
    Empty(Value),
    /// The token of its first value.
    First(JsonToken),
}
