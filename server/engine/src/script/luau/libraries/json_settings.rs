//! What a script can set of `cjson`: limits, and what becomes of numbers that JSON does not have.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{IntoLua, Value};

use crate::script::luau::libraries::native::{NativeCall, low_half};

/// The settings of one `cjson`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonSettings {
    pub(super) converts_sparse: bool,
    pub(super) sparse_ratio: i32,
    pub(super) sparse_safe: i32,
    pub(super) encode_depth_max: i32,
    pub(super) decode_depth_max: i32,
    pub(super) encode_invalid: InvalidNumbers,
    pub(super) decodes_invalid: bool,
    /// Digits of a number.
    pub(super) precision: i32,
    /// Has no effect: a buffer lives as long as its call.
    keeps_buffer: bool,
}

/// How infinity and what is not a number are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidNumbers {
    Refused,
    Written,
    Null,
}

impl Default for JsonSettings {
    fn default() -> JsonSettings {
        JsonSettings {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            encode_invalid: InvalidNumbers::Refused,
            decodes_invalid: true,
            precision: 14,
            keeps_buffer: true,
        }
    }
}

type Shared = Rc<Cell<JsonSettings>>;

/// The functions that show and change the settings, by name.
pub(super) type Setter = fn(&NativeCall<'_>, &Cell<JsonSettings>) -> mlua::Result<Value>;

pub(super) const SETTERS: [(&str, Setter); 6] = [
    ("encode_max_depth", |call, shared| {
        number(
            call,
            shared,
            |settings| &mut settings.encode_depth_max,
            i32::MAX,
        )
    }),
    ("decode_max_depth", |call, shared| {
        number(
            call,
            shared,
            |settings| &mut settings.decode_depth_max,
            i32::MAX,
        )
    }),
    ("encode_number_precision", |call, shared| {
        number(call, shared, |settings| &mut settings.precision, 14)
    }),
    ("encode_keep_buffer", |call, shared| {
        flag(call, shared, |settings| &mut settings.keeps_buffer)
    }),
    ("decode_invalid_numbers", |call, shared| {
        flag(call, shared, |settings| &mut settings.decodes_invalid)
    }),
    ("encode_invalid_numbers", encode_invalid_numbers),
];

fn number(
    call: &NativeCall<'_>,
    shared: &Cell<JsonSettings>,
    field: fn(&mut JsonSettings) -> &mut i32,
    high: i32,
) -> mlua::Result<Value> {
    arguments_max(call, 1)?;
    let mut settings = shared.get();
    let value = set_number(call, 1, field(&mut settings), 1, high)?;
    shared.set(settings);
    Ok(value)
}

fn flag(
    call: &NativeCall<'_>,
    shared: &Cell<JsonSettings>,
    field: fn(&mut JsonSettings) -> &mut bool,
) -> mlua::Result<Value> {
    arguments_max(call, 1)?;
    let mut settings = shared.get();
    let value = set_flag(call, field(&mut settings))?;
    shared.set(settings);
    Ok(value)
}

/// `encode_sparse_array(convert, ratio, safe)`. What was set before a wrong argument stays set.
pub(super) fn encode_sparse_array(
    call: &NativeCall<'_>,
    shared: &Shared,
) -> mlua::Result<(Value, Value, Value)> {
    arguments_max(call, 3)?;
    let mut settings = shared.get();
    let convert = set_flag(call, &mut settings.converts_sparse)?;
    shared.set(settings);
    let ratio = set_number(call, 2, &mut settings.sparse_ratio, 0, i32::MAX)?;
    shared.set(settings);
    let safe = set_number(call, 3, &mut settings.sparse_safe, 0, i32::MAX)?;
    shared.set(settings);
    Ok((convert, ratio, safe))
}

fn encode_invalid_numbers(
    call: &NativeCall<'_>,
    shared: &Cell<JsonSettings>,
) -> mlua::Result<Value> {
    arguments_max(call, 1)?;
    let mut settings = shared.get();
    if !call.is_nil(1) {
        settings.encode_invalid = match call.value(1) {
            Some(Value::Boolean(false)) => InvalidNumbers::Refused,
            Some(Value::Boolean(true)) => InvalidNumbers::Written,
            _ => match choice(call, &["off", "on", "null"])? {
                0 => InvalidNumbers::Refused,
                1 => InvalidNumbers::Written,
                _ => InvalidNumbers::Null,
            },
        };
        shared.set(settings);
    }
    match settings.encode_invalid {
        InvalidNumbers::Refused => Ok(Value::Boolean(false)),
        InvalidNumbers::Written => Ok(Value::Boolean(true)),
        InvalidNumbers::Null => "null".into_lua(call.lua),
    }
}

fn arguments_max(call: &NativeCall<'_>, count: usize) -> mlua::Result<()> {
    if call.count() > count {
        return Err(call.refuse(count.saturating_add(1), "found too many arguments"));
    }
    Ok(())
}

/// Reports a number out of range as the first argument, as there.
fn set_number(
    call: &NativeCall<'_>,
    index: usize,
    setting: &mut i32,
    low: i32,
    high: i32,
) -> mlua::Result<Value> {
    if !call.is_nil(index) {
        let value = low_half(call.integer(index)?);
        if value < low || value > high {
            let reason = format!("expected integer between {low} and {high}");
            return Err(call.refuse(1, &reason));
        }
        *setting = value;
    }
    Ok(Value::Integer(i64::from(*setting)))
}

fn set_flag(call: &NativeCall<'_>, setting: &mut bool) -> mlua::Result<Value> {
    if !call.is_nil(1) {
        *setting = match call.value(1) {
            Some(Value::Boolean(yes)) => *yes,
            _ => choice(call, &["off", "on"])? == 1,
        };
    }
    Ok(Value::Boolean(*setting))
}

fn choice(call: &NativeCall<'_>, options: &[&str]) -> mlua::Result<usize> {
    let text = call.text(1)?;
    let text = text.to_string_lossy();
    let found = options.iter().position(|option| *option == text);
    found.ok_or_else(|| call.refuse(1, &format!("invalid option '{text}'")))
}
