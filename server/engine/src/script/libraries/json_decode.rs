//! `cjson.decode`: JSON as a value of Lua.

use mlua::{IntoLua, LuaString, Table, Value};

use crate::script::libraries::json_scanner::{Scanner, Token};
use crate::script::libraries::json_settings::Settings;
use crate::script::libraries::native::{NativeCall, STACK_SLOTS};

pub(super) fn decode(call: &NativeCall<'_>, settings: Settings) -> mlua::Result<Value> {
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
        depth_max: usize::try_from(settings.decode_depth_max).unwrap_or(0),
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
enum Placed {
    /// Another value, which begins with this token.
    Next(Token),
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
                Token::ObjectBegin => match self.begin_object()? {
                    Begun::Empty(value) => value,
                    Begun::First(first) => {
                        token = first;
                        continue;
                    }
                },
                Token::ListBegin => match self.begin_list()? {
                    Begun::Empty(value) => value,
                    Begun::First(first) => {
                        token = first;
                        continue;
                    }
                },
                Token::String => {
                    let text = self.call.lua.create_string(&self.scanner.string)?;
                    text.into_lua(self.call.lua)?
                }
                Token::Number(number) => Value::Number(number),
                Token::Boolean(yes) => Value::Boolean(yes),
                Token::Null => Value::NULL,
                other => return Err(self.expected("value", other)),
            };
            loop {
                match self.place(value)? {
                    Placed::Finished(list) => value = list,
                    Placed::Document(value) => return Ok(value),
                    Placed::Next(first) => {
                        token = first;
                        break;
                    }
                }
            }
        }
    }

    fn begin_object(&mut self) -> mlua::Result<Begun> {
        self.descend(3)?;
        let table = self.call.lua.create_table()?;
        match self.scanner.next() {
            Token::ObjectEnd => Ok(Begun::Empty(Value::Table(table))),
            first => {
                let key = self.key(first)?;
                self.slots = self.slots.saturating_add(2);
                self.open.push(Open::Object { table, key });
                Ok(Begun::First(self.scanner.next()))
            }
        }
    }

    fn begin_list(&mut self) -> mlua::Result<Begun> {
        self.descend(2)?;
        let table = self.call.lua.create_table()?;
        match self.scanner.next() {
            Token::ListEnd => Ok(Begun::Empty(Value::Table(table))),
            first => {
                self.slots = self.slots.saturating_add(1);
                self.open.push(Open::List { table, length: 0 });
                Ok(Begun::First(first))
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
    fn key(&mut self, token: Token) -> mlua::Result<LuaString> {
        if !matches!(token, Token::String) {
            return Err(self.expected("object key string", token));
        }
        let key = self.call.lua.create_string(&self.scanner.string)?;
        match self.scanner.next() {
            Token::Colon => Ok(key),
            other => Err(self.expected("colon", other)),
        }
    }

    /// Puts a value into the innermost list or object, and reads on.
    fn place(&mut self, value: Value) -> mlua::Result<Placed> {
        let (finished, slots) = match self.open.last_mut() {
            None => {
                return match self.scanner.next() {
                    Token::End => Ok(Placed::Document(value)),
                    other => Err(self.expected("the end", other)),
                };
            }
            Some(Open::List { table, length }) => {
                *length = length.saturating_add(1);
                table.raw_set(*length, value)?;
                match self.scanner.next() {
                    Token::Comma => return Ok(Placed::Next(self.scanner.next())),
                    Token::ListEnd => (table.clone(), 1),
                    other => return Err(self.expected("comma or array end", other)),
                }
            }
            Some(Open::Object { table, key }) => {
                table.raw_set(&*key, value)?;
                match self.scanner.next() {
                    Token::Comma => {
                        let first = self.scanner.next();
                        let next = self.key(first)?;
                        if let Some(Open::Object { key, .. }) = self.open.last_mut() {
                            *key = next;
                        }
                        return Ok(Placed::Next(self.scanner.next()));
                    }
                    Token::ObjectEnd => (table.clone(), 2),
                    other => return Err(self.expected("comma or object end", other)),
                }
            }
        };
        self.open.pop();
        self.slots = self.slots.saturating_sub(slots);
        Ok(Placed::Finished(Value::Table(finished)))
    }

    fn expected(&self, expected: &str, found: Token) -> mlua::Error {
        let found = found.name();
        let character = self.scanner.token_at.saturating_add(1);
        self.call.fault(&format!(
            "Expected {expected} but found {found} at character {character}"
        ))
    }
}

/// A list or an object that has begun.
enum Begun {
    Empty(Value),
    /// The token of its first value.
    First(Token),
}
