//! `bit`: operations on the lower 32 bits of numbers, as Lua BitOp 1.0.2 has them.

use mlua::Table;

use crate::script::luau::libraries::native::{Library, NativeCall};

pub(super) fn table(library: &Library<'_>) -> mlua::Result<Table> {
    let table = library.lua.create_table()?;
    library.add(&table, "tobit", |call| Ok(signed(argument(call, 1)?)))?;
    library.add(&table, "bnot", |call| Ok(signed(!argument(call, 1)?)))?;
    library.add(&table, "bswap", |call| {
        Ok(signed(argument(call, 1)?.swap_bytes()))
    })?;
    library.add(&table, "tohex", hexadecimal)?;
    let folds: [(&'static str, Operation); 3] = [
        ("band", |a, b| a & b),
        ("bor", |a, b| a | b),
        ("bxor", |a, b| a ^ b),
    ];
    for (name, operation) in folds {
        library.add(&table, name, move |call| {
            // The first argument is looked at first, then the last, as there.
            let first = argument(call, 1)?;
            let rest = (2..=call.count()).rev();
            let bits = rest
                .map(|index| argument(call, index))
                .try_fold(first, |bits, other| {
                    other.map(|other| operation(bits, other))
                });
            bits.map(signed)
        })?;
    }
    let shifts: [(&'static str, Operation); 5] = [
        ("lshift", |bits, by| bits << by),
        ("rshift", |bits, by| bits >> by),
        ("arshift", |bits, by| {
            (bits.cast_signed() >> by).cast_unsigned()
        }),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, operation) in shifts {
        library.add(&table, name, move |call| {
            let (bits, by) = (argument(call, 1)?, argument(call, 2)?);
            Ok(signed(operation(bits, by & 31)))
        })?;
    }
    Ok(table)
}

type Operation = fn(u32, u32) -> u32;

fn hexadecimal(call: &NativeCall<'_>) -> mlua::Result<String> {
    let bits = argument(call, 1)?;
    let digits = if call.count() < 2 {
        8
    } else {
        argument(call, 2)?.cast_signed()
    };
    let count = digits.unsigned_abs().min(8);
    let text = if digits < 0 {
        format!("{bits:08X}")
    } else {
        format!("{bits:08x}")
    };
    let hidden = 8_usize.saturating_sub(count as usize);
    Ok(text[hidden..].to_owned())
}

/// The lower 32 bits of a number, rounded to the nearest whole one.
///
/// The sum has no room for a fraction, so that its lowest bits are the number's own: the trick of
/// Lua BitOp, whose answers for numbers beyond 2^51 follow from it.
#[allow(
    clippy::cast_possible_truncation,
    reason = "only the lower half is wanted"
)]
fn argument(call: &NativeCall<'_>, index: usize) -> mlua::Result<u32> {
    call.step()?;
    let number = call.number(index)?;
    Ok((number + TWO_52_AND_TWO_51).to_bits() as u32)
}

fn signed(bits: u32) -> i32 {
    bits.cast_signed()
}

const TWO_52_AND_TWO_51: f64 = 6_755_399_441_055_744.0;
