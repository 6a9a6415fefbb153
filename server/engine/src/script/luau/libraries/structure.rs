//! `struct`: values to and from the bytes of a C structure, in the machine's sizes of 64 bits.
//!
//! Integers may take up to 32 bytes and have 64 bits. What Redis does with the bytes beyond the
//! eighth of a signed one, and with numbers that fit no integer, follows from the machine's
//! instructions; it is done here as they do it.

use mlua::{IntoLua, Table, Value};

use crate::number::truncated;
use crate::script::call::rounded;
use crate::script::luau::libraries::native::{BoundedOutput, Library, NativeCall, STACK_SLOTS};
use crate::script::luau::libraries::structure_format::{Item, StructureFormat};

pub(super) fn table(library: &Library<'_>) -> mlua::Result<Table> {
    let table = library.lua.create_table()?;
    library.add(&table, "pack", pack)?;
    library.add(&table, "unpack", unpack)?;
    library.add(&table, "size", size)?;
    Ok(table)
}

fn pack(call: &NativeCall<'_>) -> mlua::Result<mlua::LuaString> {
    let text = call.text(1)?;
    let text = text.as_bytes();
    let mut format = StructureFormat::new(call, &text);
    let mut output = BoundedOutput::new(call);
    let mut index: usize = 2;
    while let Some(item) = format.next()? {
        for _ in 0..format.padding(item, output.bytes.len()) {
            output.byte(0)?;
        }
        match item.option {
            b'x' => {
                output.byte(0)?;
                continue;
            }
            option if is_integer(option) => {
                let bits = bits_of(required_number(call, index)?);
                put_integer(&mut output, bits, item.size, format.is_big_endian)?;
            }
            b'f' => {
                let number = single(required_number(call, index)?);
                let (big, little) = (number.to_be_bytes(), number.to_le_bytes());
                output.extend(if format.is_big_endian { &big } else { &little })?;
            }
            b'd' => {
                let number = required_number(call, index)?;
                let (big, little) = (number.to_be_bytes(), number.to_le_bytes());
                output.extend(if format.is_big_endian { &big } else { &little })?;
            }
            b'c' | b's' => put_text(&mut output, call, index, item)?,
            option => {
                format.apply(option)?;
                continue;
            }
        }
        index = index.saturating_add(1);
    }
    output.finish()
}

/// Behind the last argument Lua finds a nil of `pack`'s own, and so says nil and not "no value".
fn required_number(call: &NativeCall<'_>, index: usize) -> mlua::Result<f64> {
    if index > call.count() {
        return Err(call.refuse(index, "number expected, got nil"));
    }
    call.number(index)
}

fn put_text(
    output: &mut BoundedOutput<'_>,
    call: &NativeCall<'_>,
    index: usize,
    item: Item,
) -> mlua::Result<()> {
    if index > call.count() {
        return Err(call.refuse(index, "string expected, got nil"));
    }
    let text = call.text(index)?;
    let bytes = text.as_bytes();
    let size = if item.size == 0 {
        bytes.len()
    } else {
        item.size
    };
    let Some(bytes) = bytes.get(..size) else {
        return Err(call.refuse(index.saturating_add(1), "string too short"));
    };
    output.extend(bytes)?;
    if item.option == b's' {
        output.byte(0)?;
    }
    Ok(())
}

fn put_integer(
    output: &mut BoundedOutput<'_>,
    bits: u64,
    size: usize,
    is_big: bool,
) -> mlua::Result<()> {
    let byte = |position: usize| {
        let bits = u32::try_from(position.saturating_mul(8))
            .ok()
            .and_then(|shift| bits.checked_shr(shift));
        bits.unwrap_or(0).to_le_bytes()[0]
    };
    for position in 0..size {
        let last = size.saturating_sub(1);
        output.byte(byte(if is_big {
            last.saturating_sub(position)
        } else {
            position
        }))?;
    }
    Ok(())
}

fn unpack(call: &NativeCall<'_>) -> mlua::Result<mlua::MultiValue> {
    let (text, data) = (call.text(1)?, call.text(2)?);
    let position = call.integer_or(3, 1)?;
    if position == 0 {
        return Err(call.refuse(3, "offset must be 1 or greater"));
    }
    let (text, data) = (text.as_bytes(), data.as_bytes());
    let mut format = StructureFormat::new(call, &text);
    let mut position = as_size(position.wrapping_sub(1).cast_unsigned());
    let mut values: Vec<Value> = Vec::new();
    while let Some(item) = format.next()? {
        position = position.wrapping_add(format.padding(item, position));
        let mut bytes = slice(call, &data, position, item.size)?;
        // The format, the data, this value and the next position.
        if values.len().saturating_add(4) > STACK_SLOTS {
            return Err(call.fault("stack overflow (too many results)"));
        }
        match item.option {
            b'x' => {}
            option if is_integer(option) => {
                let number = integer(bytes, format.is_big_endian, option.is_ascii_lowercase());
                values.push(Value::Number(number));
            }
            b'f' | b'd' => values.push(Value::Number(fraction(bytes, format.is_big_endian))),
            b'c' => {
                if item.size == 0 {
                    let size = previous_size(call, &mut values)?;
                    bytes = slice(call, &data, position, size)?;
                }
                values.push(call.lua.create_string(bytes)?.into_lua(call.lua)?);
            }
            b's' => {
                let rest = data.get(position..).unwrap_or_default();
                let Some(end) = rest.iter().position(|&byte| byte == 0) else {
                    return Err(call.fault("unfinished string in data"));
                };
                values.push(call.lua.create_string(&rest[..end])?.into_lua(call.lua)?);
                bytes = &rest[..end.saturating_add(1)];
            }
            option => format.apply(option)?,
        }
        position = position.wrapping_add(bytes.len());
    }
    values.push(Value::Integer(as_integer(position.wrapping_add(1))));
    Ok(values.into_iter().collect())
}

fn slice<'a>(
    call: &NativeCall<'_>,
    data: &'a [u8],
    position: usize,
    size: usize,
) -> mlua::Result<&'a [u8]> {
    let end = position.checked_add(size);
    end.and_then(|end| data.get(position..end))
        .ok_or_else(|| call.refuse(2, "data string too short"))
}

/// The number that was read last is the length of this text.
fn previous_size(call: &NativeCall<'_>, values: &mut Vec<Value>) -> mlua::Result<usize> {
    let number = match values.pop() {
        Some(value) => call.lua.coerce_number(value)?,
        None => None,
    };
    match number {
        Some(number) => Ok(as_size(bits_of(number))),
        None => Err(call.fault("format 'c0' needs a previous size")),
    }
}

fn size(call: &NativeCall<'_>) -> mlua::Result<i64> {
    let text = call.text(1)?;
    let text = text.as_bytes();
    let mut format = StructureFormat::new(call, &text);
    let mut position: usize = 0;
    while let Some(item) = format.next()? {
        position = position.wrapping_add(format.padding(item, position));
        if item.option == b's' {
            return Err(call.refuse(1, "option 's' has no fixed size"));
        }
        if item.option == b'c' && item.size == 0 {
            return Err(call.refuse(1, "option 'c0' has no fixed size"));
        }
        if !item.option.is_ascii_alphanumeric() {
            format.apply(item.option)?;
        }
        position = position.wrapping_add(item.size);
    }
    Ok(as_integer(position))
}

fn is_integer(option: u8) -> bool {
    b"bBhHlLTiI".contains(&option)
}

fn integer(bytes: &[u8], is_big: bool, is_signed: bool) -> f64 {
    let add = |bits: u64, &byte: &u8| (bits << 8) | u64::from(byte);
    let bits = if is_big {
        bytes.iter().fold(0, add)
    } else {
        bytes.iter().rev().fold(0, add)
    };
    if !is_signed {
        return unsigned_number(bits);
    }
    // A shift by more than 63 starts again at 0, on the machine as well.
    let sign = u32::try_from(bytes.len().wrapping_mul(8).wrapping_sub(1) & 63);
    let mask = u64::MAX.wrapping_shl(sign.unwrap_or(63));
    let bits = if bits & mask == 0 { bits } else { bits | mask };
    rounded(bits.cast_signed())
}

fn fraction(bytes: &[u8], is_big: bool) -> f64 {
    if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
        return if is_big {
            f64::from_be_bytes(bytes)
        } else {
            f64::from_le_bytes(bytes)
        };
    }
    let bytes = <[u8; 4]>::try_from(bytes).expect("the option takes four");
    f64::from(if is_big {
        f32::from_be_bytes(bytes)
    } else {
        f32::from_le_bytes(bytes)
    })
}

/// A number as 64 bits, as the conversions of C on this machine make them.
fn bits_of(number: f64) -> u64 {
    if number < TWO_63 || number.is_nan() {
        return truncated(number).cast_unsigned();
    }
    truncated(number - TWO_63).cast_unsigned() ^ (1 << 63)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "that is what the option asks for"
)]
fn single(number: f64) -> f32 {
    number as f32
}

#[allow(clippy::cast_precision_loss, reason = "Lua's numbers have 53 bits")]
fn unsigned_number(bits: u64) -> f64 {
    bits as f64
}

fn as_size(bits: u64) -> usize {
    usize::try_from(bits).expect("a size has 64 bits")
}

fn as_integer(size: usize) -> i64 {
    (size as u64).cast_signed()
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;
