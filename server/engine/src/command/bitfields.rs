//! Numbers of any width within a string: BITFIELD and BITFIELD_RO.
//!
//! All operations of one command make one change: they are read before the first is carried out, and the string is
//! written once.

use crate::command::about::{Categories, KeyAccess};
use crate::command::arguments::{integer, is_option};
use crate::command::bitmaps::{BITS_MAX, NOT_AN_OFFSET, with_room_for};
use crate::command::spec::{Family, Flags, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::notifications::Class;
use crate::number::parse_integer;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&BITFIELD, &BITFIELD_RO];

const BITFIELD: Spec = Spec::on_key("bitfield", -2, bitfield)
    .flags(Flags::GROW_KEYS.with(Flags::WHOLE_VALUE))
    .about(Categories::BITMAP, &[KeyAccess::CHANGE]);

const BITFIELD_RO: Spec = BITFIELD
    .variant("bitfield_ro", bitfield_ro)
    .flags(Flags::READ_KEYS.with(Flags::FAST))
    .about(Categories::BITMAP, &[KeyAccess::READ]);

fn bitfield(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let operations = operations(&arguments[2..])?;
    match operations
        .iter()
        .filter_map(BitfieldOperation::last_bit)
        .max()
    {
        None => read(context, arguments[1], &operations),
        Some(last_bit) => write(context, arguments[1], &operations, last_bit),
    }
}

fn bitfield_ro(context: &mut CommandContext<'_>, arguments: &[&[u8]]) -> Result<Reply, ErrorReply> {
    let operations = operations(&arguments[2..])?;
    if operations.iter().any(|one| one.last_bit().is_some()) {
        return Err(ErrorReply::fixed(
            "ERR BITFIELD_RO only supports the GET subcommand",
        ));
    }
    read(context, arguments[1], &operations)
}

fn read(
    context: &mut CommandContext<'_>,
    key: &[u8],
    operations: &[BitfieldOperation],
) -> Result<Reply, ErrorReply> {
    let found = context.lookup(key);
    context.string(&found)?;
    charge(context, operations)?;
    let bytes = context.string(&found)?.unwrap_or_default();
    let numbers = operations.iter().map(|one| one.field.read(bytes));
    Ok(Reply::Array(numbers.map(Reply::Integer).collect()))
}

fn write(
    context: &mut CommandContext<'_>,
    key: &[u8],
    operations: &[BitfieldOperation],
    last_bit: usize,
) -> Result<Reply, ErrorReply> {
    let found = context.peek(key);
    context.reveal(&found);
    context.string(&found)?;
    charge(context, operations)?;
    let old = context.string(&found)?.unwrap_or_default();
    let mut value = with_room_for(context, old, last_bit)?;
    let is_longer = value.len() > old.len();
    let mut is_changed = false;
    let mut replies = Vec::with_capacity(operations.len());
    for operation in operations {
        let before = operation.field.read(&value);
        let Some((number, reply)) = operation.outcome(before) else {
            replies.push(Reply::Nil);
            continue;
        };
        if operation.write.is_some() {
            operation.field.write(&mut value, number);
            is_changed |= is_longer || number != before;
        }
        replies.push(Reply::Integer(reply));
    }
    if is_changed || is_longer {
        let deadline = context.deadline(&found);
        context.put_string(&found, key, &value, deadline)?;
    }
    if is_changed {
        // As in Redis a string that was only made longer is not told of.
        context.notify(Class::String, "setbit", key);
    }
    Ok(Reply::Array(replies))
}

fn charge(
    context: &mut CommandContext<'_>,
    operations: &[BitfieldOperation],
) -> Result<(), ErrorReply> {
    let mut each = operations.iter();
    each.try_for_each(|_| context.effects.charge(0))
}

/// One of the operations of a command.
struct BitfieldOperation {
    field: Field,
    /// `None` where it only reads.
    write: Option<Write>,
}

#[derive(Clone, Copy)]
struct Write {
    number: i64,
    is_increment: bool,
    overflow: Overflow,
}

/// What becomes of a number that its field cannot hold.
#[derive(Clone, Copy, PartialEq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

fn operations(mut arguments: &[&[u8]]) -> Result<Vec<BitfieldOperation>, ErrorReply> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    loop {
        let (count, operation) = match *arguments {
            [] => return Ok(operations),
            [word, encoding, offset, ..] if is_option(word, "get") => {
                let field = Field::of(encoding, offset)?;
                (3, BitfieldOperation { field, write: None })
            }
            [word, encoding, offset, number, ..]
                if is_option(word, "set") || is_option(word, "incrby") =>
            {
                let field = Field::of(encoding, offset)?;
                let write = Write {
                    number: integer(number)?,
                    is_increment: is_option(word, "incrby"),
                    overflow,
                };
                let write = Some(write);
                (4, BitfieldOperation { field, write })
            }
            [word, kind, ref rest @ ..] if is_option(word, "overflow") => {
                overflow = Overflow::named(kind)?;
                arguments = rest;
                continue;
            }
            _ => return Err(ErrorReply::SYNTAX),
        };
        operations.push(operation);
        arguments = &arguments[count..];
    }
}

impl Overflow {
    fn named(word: &[u8]) -> Result<Overflow, ErrorReply> {
        let all = [
            ("wrap", Overflow::Wrap),
            ("sat", Overflow::Saturate),
            ("fail", Overflow::Fail),
        ];
        let found = all.into_iter().find(|(name, _)| is_option(word, name));
        found
            .map(|(_, kind)| kind)
            .ok_or(ErrorReply::fixed("ERR Invalid OVERFLOW type specified"))
    }
}

impl BitfieldOperation {
    /// The last bit that it writes, if it writes.
    fn last_bit(&self) -> Option<usize> {
        let last = self.field.offset.saturating_add(self.field.bits as usize);
        self.write.map(|_| last.saturating_sub(1))
    }

    /// What the field holds after it, and the reply; `None` where the number does not fit and that is a failure.
    fn outcome(&self, before: i64) -> Option<(i64, i64)> {
        let Some(write) = self.write else {
            return Some((before, before));
        };
        let (value, increment) = match write.is_increment {
            true => (before, write.number),
            false => (write.number, 0),
        };
        let limit = match self.field.is_signed {
            true => self.field.signed_limit(value, increment),
            false => self.field.unsigned_limit(value, increment),
        };
        let number = match (limit, write.overflow) {
            (None, _) => value.wrapping_add(increment),
            (Some(_), Overflow::Wrap) => self.field.wrapped(value.wrapping_add(increment)),
            (Some(limit), Overflow::Saturate) => limit,
            (Some(_), Overflow::Fail) => return None,
        };
        Some((number, if write.is_increment { number } else { before }))
    }
}

/// A number of 1 to 64 bits, or of 1 to 63 where it has no sign.
#[derive(Clone, Copy)]
struct Field {
    is_signed: bool,
    bits: u32,
    offset: usize,
}

impl Field {
    /// `i8 100`, or `i8 #100` for the hundredth one after the first.
    fn of(encoding: &[u8], offset: &[u8]) -> Result<Field, ErrorReply> {
        let (is_signed, width) = match encoding {
            [b'i', width @ ..] => (true, width),
            [b'u', width @ ..] => (false, width),
            _ => return Err(NO_SUCH_TYPE),
        };
        let bits_max = if is_signed { 64 } else { 63 };
        let bits = parse_integer(width).and_then(|bits| u32::try_from(bits).ok());
        let bits = bits.filter(|bits| (1..=bits_max).contains(bits));
        let bits = bits.ok_or(NO_SUCH_TYPE)?;
        let (number, unit) = match offset {
            [b'#', number @ ..] => (number, bits),
            number => (number, 1),
        };
        let offset = parse_integer(number).and_then(|number| number.checked_mul(unit.into()));
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        let offset = offset
            .filter(|&offset| offset < BITS_MAX)
            .ok_or(NOT_AN_OFFSET)?;
        Ok(Field {
            is_signed,
            bits,
            offset,
        })
    }

    /// Behind the end of the string there are zeros.
    fn read(self, bytes: &[u8]) -> i64 {
        let (front, shift) = (self.offset / 8, self.shift());
        let window = (front..).take(WINDOW_BYTES).fold(0_u128, |window, offset| {
            let byte = bytes.get(offset).copied().unwrap_or_default();
            (window << 8) | u128::from(byte)
        });
        self.wrapped(low_bits(window >> shift).cast_signed())
    }

    /// Writes a number that fits into a string that is long enough.
    fn write(self, bytes: &mut [u8], number: i64) {
        let (front, shift) = (self.offset / 8, self.shift());
        let mask = u128::from(self.mask()) << shift;
        let window = (u128::from(number.cast_unsigned()) << shift) & mask;
        for (place, offset) in (0..WINDOW_BYTES).rev().zip(front..) {
            let by = place.saturating_mul(8);
            let (clear, set) = (low_byte(mask >> by), low_byte(window >> by));
            if let Some(byte) = bytes.get_mut(offset) {
                *byte = (*byte & !clear) | set;
            }
        }
    }

    /// The bits behind the field in the bytes that may hold a part of it.
    fn shift(self) -> u32 {
        let before = u32::try_from(self.offset % 8).expect("it is below 8");
        WINDOW_BITS.saturating_sub(before.saturating_add(self.bits))
    }

    /// The lowest bits that a field of this width has.
    fn mask(self) -> u64 {
        u64::MAX >> 64_u32.saturating_sub(self.bits)
    }

    /// The number that is left of one when only the field's bits are kept.
    fn wrapped(self, number: i64) -> i64 {
        let beyond = 64_u32.saturating_sub(self.bits);
        match self.is_signed {
            true => number.wrapping_shl(beyond).wrapping_shr(beyond),
            false => (number.cast_unsigned() & self.mask()).cast_signed(),
        }
    }

    /// The number that comes next to a sum that the field cannot hold; `None` if it can. The sums wrap as
    /// Redis's do, whose answers for values far outside follow from that.
    fn signed_limit(self, value: i64, increment: i64) -> Option<i64> {
        let is_narrow = self.bits < 64;
        let max = (self.mask() >> 1).cast_signed();
        let min = max.wrapping_neg().wrapping_sub(1);
        let (most, least) = (max.wrapping_sub(value), min.wrapping_sub(value));
        let is_above = increment > most && (is_narrow || (value >= 0 && increment > 0));
        let is_below = increment < least && (is_narrow || (value < 0 && increment < 0));
        match (value > max || is_above, value < min || is_below) {
            (true, _) => Some(max),
            (false, true) => Some(min),
            (false, false) => None,
        }
    }

    fn unsigned_limit(self, value: i64, increment: i64) -> Option<i64> {
        let max = self.mask().cast_signed();
        let is_above = value < 0 || value > max;
        let is_above = is_above || (increment > 0 && increment > max.wrapping_sub(value));
        let is_below = increment < 0 && increment < value.wrapping_neg();
        match (is_above, is_below) {
            (true, _) => Some(max),
            (false, true) => Some(0),
            (false, false) => None,
        }
    }
}

fn low_bits(window: u128) -> u64 {
    u64::try_from(window & u128::from(u64::MAX)).expect("just cut")
}

fn low_byte(window: u128) -> u8 {
    window.to_le_bytes()[0]
}

/// So many bytes hold a part of a field of 64 bits at most.
const WINDOW_BYTES: usize = 9;
const WINDOW_BITS: u32 = 72;

const NO_SUCH_TYPE: ErrorReply = ErrorReply::fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
