//! Strings as rows of bits: SETBIT, GETBIT, BITCOUNT, BITPOS and BITOP.
//!
//! Bit 0 is the highest bit of the first byte, as in Redis. A change of one bit is logged as the whole string it makes, so
//! these are for short strings.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option};
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::keyspace::KeySlot;
use crate::notifications::Class;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::time::Deadline;

pub(super) const FAMILY: Family = &[&SETBIT, &GETBIT, &BITCOUNT, &BITPOS, &BITOP];

const SETBIT: Spec = Spec::on_key("setbit", 4, setbit)
    .flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::BITMAP, &[KeyAccess::CHANGE]);

fn setbit(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, offset) = (arguments[1], bit_offset(arguments[2])?);
    let on = match parse_integer(arguments[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(NOT_A_BIT),
    };
    let found = context.peek(key);
    context.reveal(&found);
    let old = context.string(&found)?.unwrap_or_default();
    let was_on = bit_at(old, offset);
    if offset / 8 < old.len() && was_on == on {
        return Ok(Reply::flag(was_on));
    }
    let mut value = with_room_for(context, old, offset)?;
    let mask = 0x80 >> (offset % 8);
    match on {
        true => value[offset / 8] |= mask,
        false => value[offset / 8] &= !mask,
    }
    let deadline = context.deadline(&found);
    context.put_string(&found, key, &value, deadline)?;
    context.notify(Class::String, "setbit", key);
    Ok(Reply::flag(was_on))
}

/// A string, made so long that it has this bit.
pub(super) fn with_room_for(
    context: &CommandContext<'_>,
    old: &[u8],
    bit: usize,
) -> Result<Vec<u8>, ErrorReply> {
    let length = old.len().max((bit / 8).saturating_add(1));
    context.admit_value(length)?;
    let mut value = Vec::with_capacity(length);
    value.extend_from_slice(old);
    value.resize(length, 0);
    Ok(value)
}

/// Where a bit is. How long a string may be is another matter.
pub(super) fn bit_offset(argument: &[u8]) -> Result<usize, ErrorReply> {
    let offset = parse_integer(argument).and_then(|offset| usize::try_from(offset).ok());
    offset
        .filter(|&offset| offset < BITS_MAX)
        .ok_or(NOT_AN_OFFSET)
}

/// Bits behind the end are zeros.
fn bit_at(bytes: &[u8], offset: usize) -> bool {
    let byte = bytes.get(offset / 8).copied().unwrap_or_default();
    byte & (0x80 >> (offset % 8)) != 0
}

const GETBIT: Spec = Spec::on_key("getbit", 3, getbit)
    .flags(Flags::READ_KEYS.with(Flags::FAST))
    .about(Categories::BITMAP, &[KeyAccess::READ]);

fn getbit(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let offset = bit_offset(arguments[2])?;
    let found = context.lookup(arguments[1]);
    let bytes = context.string(&found)?.unwrap_or_default();
    Ok(Reply::flag(bit_at(bytes, offset)))
}

const BITCOUNT: Spec = Spec::on_key("bitcount", -2, bitcount)
    .flags(Flags::READ_KEYS)
    .about(Categories::BITMAP, &[KeyAccess::READ]);

/// In Redis's order: without a key the range is not looked at.
fn bitcount(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let found = context.lookup(arguments[1]);
    let Some(bytes) = context.string(&found)? else {
        return Ok(Reply::Integer(0));
    };
    let range = match arguments[2..] {
        [] => bits_between(0, -1, Unit::Byte, bytes.len()),
        [start, end, ref unit @ ..] if unit.len() < 2 => {
            let (start, end) = (integer(start)?, integer(end)?);
            if start < 0 && end < 0 && start > end {
                return Ok(Reply::Integer(0));
            }
            bits_between(start, end, Unit::of(unit)?, bytes.len())
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    Ok(Reply::count(
        range.map_or(0, |(first, last)| set_bits(bytes, first, last)),
    ))
}

/// What offsets count.
#[derive(Clone, Copy)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    /// Of the argument that may be left out.
    fn of(argument: &[&[u8]]) -> Result<Unit, ErrorReply> {
        match argument {
            [] => Ok(Unit::Byte),
            [word] if is_option(word, "byte") => Ok(Unit::Byte),
            [word] if is_option(word, "bit") => Ok(Unit::Bit),
            _ => Err(ErrorReply::SYNTAX),
        }
    }
}

/// The first and the last bit between two offsets, both included and counted from the end where negative. `None`
/// where nothing is between them.
fn bits_between(start: i64, end: i64, unit: Unit, bytes: usize) -> Option<(usize, usize)> {
    let width = match unit {
        Unit::Byte => 8,
        Unit::Bit => 1,
    };
    let length = bytes.saturating_mul(8).checked_div(width)?;
    let signed = i64::try_from(length).expect("a string is in memory");
    let from_front = |offset: i64| match offset < 0 {
        true => offset.saturating_add(signed).max(0),
        false => offset,
    };
    let (start, end) = (
        from_front(start),
        from_front(end).min(signed.checked_sub(1)?),
    );
    if start > end {
        return None;
    }
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    let last = end.saturating_add(1).saturating_mul(width);
    Some((start.saturating_mul(width), last.saturating_sub(1)))
}

fn set_bits(bytes: &[u8], first: usize, last: usize) -> usize {
    let ones = |byte: u8| byte.count_ones() as usize;
    let whole = bytes[first / 8..=last / 8].iter();
    let all = whole.fold(0_usize, |sum, &byte| sum.saturating_add(ones(byte)));
    let before = ones(bytes[first / 8] & !from_bit(first));
    let behind = ones(bytes[last / 8] & !to_bit(last));
    all.saturating_sub(before.saturating_add(behind))
}

/// The bits of a byte from this one on.
fn from_bit(offset: usize) -> u8 {
    0xff >> (offset % 8)
}

/// The bits of a byte up to this one.
fn to_bit(offset: usize) -> u8 {
    !(0x7f >> (offset % 8))
}

const BITPOS: Spec = Spec::on_key("bitpos", -3, bitpos)
    .flags(Flags::READ_KEYS)
    .about(Categories::BITMAP, &[KeyAccess::READ]);

fn bitpos(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let bit = match integer(arguments[2])? {
        0 => false,
        1 => true,
        _ => return Err(ErrorReply::fixed("ERR The bit argument must be 1 or 0.")),
    };
    let found = context.lookup(arguments[1]);
    let Some(bytes) = context.string(&found)? else {
        // Without a key all is zeros.
        return Ok(Reply::Integer(if bit { -1 } else { 0 }));
    };
    let (range, is_open) = match arguments[3..] {
        [] => (bits_between(0, -1, Unit::Byte, bytes.len()), true),
        [start] => (
            bits_between(integer(start)?, -1, Unit::Byte, bytes.len()),
            true,
        ),
        [start, end, ref unit @ ..] if unit.len() < 2 => {
            let (start, unit, end) = (integer(start)?, Unit::of(unit)?, integer(end)?);
            (bits_between(start, end, unit, bytes.len()), false)
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    let position = range.and_then(|(first, last)| {
        let at = first_bit(bytes, bit, first, last);
        // Where no end is given there are zeros behind the string.
        at.or_else(|| (is_open && !bit).then(|| bytes.len().saturating_mul(8)))
    });
    Ok(position.map_or(Reply::Integer(-1), Reply::count))
}

/// The first bit of this kind between two bits.
fn first_bit(bytes: &[u8], bit: bool, first: usize, last: usize) -> Option<usize> {
    let (front, back) = (first / 8, last / 8);
    (front..=back).find_map(|offset| {
        let mut wanted = if bit { bytes[offset] } else { !bytes[offset] };
        if offset == front {
            wanted &= from_bit(first);
        }
        if offset == back {
            wanted &= to_bit(last);
        }
        let before = wanted.leading_zeros() as usize;
        (wanted != 0).then(|| offset.saturating_mul(8).saturating_add(before))
    })
}

const BITOP: Spec = Spec::on_keys("bitop", -4, bitop)
    .keys(KeyPositions::new(2, -1, 1))
    .flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::BITMAP, KeyAccess::STORE);

fn bitop(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let (key, sources) = (arguments[2], &arguments[3..]);
    let operation = BitOperation::named(arguments[1])?;
    if matches!(operation, BitOperation::Not) && sources.len() > 1 {
        return Err(ErrorReply::fixed(
            "ERR BITOP NOT must be called with a single source key.",
        ));
    }
    let mut found = Vec::with_capacity(sources.len());
    let (mut longest, mut bytes) = (0, 0_usize);
    for source in sources {
        let one = context.lookup(source);
        let length = context.string(&one)?.map_or(0, <[u8]>::len);
        (longest, bytes) = (length.max(longest), bytes.saturating_add(length));
        found.push(one);
    }
    if bytes > BYTES_MAX {
        return Err(ErrorReply::new(format!(
            "ERR the strings of this command take more than {BYTES_MAX} bytes together, so nothing was done. \
             Name fewer or shorter strings in one command"
        )));
    }
    let result = operation.result(context, &found, longest)?;
    if longest > 0 {
        let to = context.peek(key);
        context.put_string(&to, key, &result, Deadline::NEVER)?;
        context.notify(Class::String, "set", key);
    } else {
        context.delete_all(&[key])?;
    }
    Ok(Reply::count(longest))
}

#[derive(Clone, Copy)]
enum BitOperation {
    And,
    Or,
    Xor,
    Not,
}

impl BitOperation {
    fn named(word: &[u8]) -> Result<BitOperation, ErrorReply> {
        let all = [
            ("and", BitOperation::And),
            ("or", BitOperation::Or),
            ("xor", BitOperation::Xor),
            ("not", BitOperation::Not),
        ];
        let found = all.into_iter().find(|(name, _)| is_option(word, name));
        found
            .map(|(_, operation)| operation)
            .ok_or(ErrorReply::SYNTAX)
    }

    /// What becomes of strings that are filled up with zeros to the length of the longest.
    fn result(
        self,
        context: &CommandContext<'_>,
        found: &[KeySlot],
        longest: usize,
    ) -> Result<Vec<u8>, ErrorReply> {
        let mut result = vec![0_u8; longest];
        for (number, source) in found.iter().enumerate() {
            let bytes = context.string(source)?.unwrap_or_default();
            let (front, rest) = result.split_at_mut(bytes.len());
            let pairs = front.iter_mut().zip(bytes);
            match self {
                BitOperation::Not => pairs.for_each(|(byte, &other)| *byte = !other),
                BitOperation::And if number > 0 => {
                    pairs.for_each(|(byte, &other)| *byte &= other);
                    rest.fill(0);
                }
                // Of the first one all is taken.
                BitOperation::And | BitOperation::Or => {
                    pairs.for_each(|(byte, &other)| *byte |= other)
                }
                BitOperation::Xor => pairs.for_each(|(byte, &other)| *byte ^= other),
            }
        }
        Ok(result)
    }
}

/// Redis's longest string has so many bits. A longer offset is no offset, also where nothing is written.
pub(super) const BITS_MAX: usize = 1 << 32;
/// What one BITOP takes together.
const BYTES_MAX: usize = 64 << 20;

pub(super) const NOT_AN_OFFSET: ErrorReply =
    ErrorReply::fixed("ERR bit offset is not an integer or out of range");
const NOT_A_BIT: ErrorReply = ErrorReply::fixed("ERR bit is not an integer or out of range");
