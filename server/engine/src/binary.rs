//! Binary numbers on their way from a text to a floating point format: numerals as C reads them, and rounding.
//!
//! Every step is exact but the last, which takes the nearest number of the format, the even one of two.

#![allow(
    clippy::arithmetic_side_effects,
    reason = "`bits` leaves three bits free; exponents are bounded, and no text is long enough to change that"
)]

/// A number that is not negative: `bits`, which are below 2^125, times 2^`exponent`.
///
/// Numbers that were rounded to the same format are ordered by their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binary {
    pub(crate) exponent: i64,
    pub(crate) bits: u128,
}

/// What a floating point number consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub(crate) mantissa_bits: u32,
    /// Of a mantissa as a whole number; small numbers, whose mantissas have fewer bits, have the least.
    pub(crate) exponent_least: i64,
    pub(crate) exponent_most: i64,
}

impl Binary {
    /// Reads digits with at most one point among them, and the power of two behind `p`. Where not all
    /// digits are kept, the lowest bit is 1 if any other than 0 is missing; rounding needs no more.
    pub(crate) fn hexadecimal(text: &[u8]) -> Option<Binary> {
        let numeral = Numeral::parse(text, u8::is_ascii_hexdigit, b'p')?;
        let mut bits = 0_u128;
        let mut exponent = numeral.exponent;
        for &digit in numeral.whole.iter().chain(numeral.fraction) {
            let digit = u128::from(char::from(digit).to_digit(16)?);
            if bits >> 120 == 0 {
                bits = (bits << 4) | digit;
            } else {
                bits |= u128::from(digit != 0);
                exponent += 4;
            }
        }
        exponent -= 4 * i64::try_from(numeral.fraction.len()).ok()?;
        Some(Binary { exponent, bits })
    }

    /// The nearest number of a format; `None` if it is too large.
    pub(crate) fn rounded(self, format: Format) -> Option<Binary> {
        let exponent_least = format.exponent_least;
        if self.bits == 0 {
            return Some(Binary {
                exponent: exponent_least,
                bits: 0,
            });
        }
        let surplus =
            i64::from(u128::BITS - self.bits.leading_zeros()) - i64::from(format.mantissa_bits);
        let exponent = exponent_least.max(self.exponent + surplus);
        let bits = self.in_units_of(exponent);
        // Rounding up may have made one bit more, and then all others are zero.
        let carry = u8::from(bits >> format.mantissa_bits != 0);
        let exponent = exponent + i64::from(carry);
        (exponent <= format.exponent_most).then_some(Binary {
            exponent,
            bits: bits >> carry,
        })
    }

    /// How many times 2^`exponent` it is, rounded to the nearest, the even one of two.
    pub(crate) fn in_units_of(self, exponent: i64) -> u128 {
        // All bits are below half of 2^126.
        let dropped = (exponent - self.exponent).min(126);
        if dropped <= 0 {
            return self.bits << -dropped;
        }
        let (kept, half) = (self.bits >> dropped, 1_u128 << (dropped - 1));
        let rest = self.bits - (kept << dropped);
        let is_up = rest > half || (rest == half && kept & 1 == 1);
        kept + u128::from(is_up)
    }

    /// The nearest double; infinity if it is too large.
    pub(crate) fn to_double(self) -> f64 {
        let Some(Binary { exponent, bits }) = self.rounded(DOUBLE) else {
            return f64::INFINITY;
        };
        // The highest bit of a whole mantissa is not stored: here it counts up the exponent.
        let stored =
            (exponent - DOUBLE.exponent_least).cast_unsigned() << (DOUBLE.mantissa_bits - 1);
        f64::from_bits(stored + u64::try_from(bits).expect("it has 53 bits at most"))
    }
}

/// A number as it is written, without a sign: digits, a point among them, and an exponent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numeral<'a> {
    pub(crate) whole: &'a [u8],
    pub(crate) fraction: &'a [u8],
    pub(crate) exponent: i64,
}

impl Numeral<'_> {
    /// Splits a text. `mark` is the letter before the exponent, in lower case. `None` where the text does
    /// not end with the number.
    pub(crate) fn parse(text: &[u8], is_digit: fn(&u8) -> bool, mark: u8) -> Option<Numeral<'_>> {
        let mut parts = text.splitn(2, |byte| byte.eq_ignore_ascii_case(&mark));
        let mut digits = parts.next()?.splitn(2, |&byte| byte == b'.');
        let whole = digits.next()?;
        let fraction = digits.next().unwrap_or_default();
        let has_digits = !(whole.is_empty() && fraction.is_empty());
        if !has_digits || !whole.iter().chain(fraction).all(is_digit) {
            return None;
        }
        Some(Numeral {
            whole,
            fraction,
            exponent: parts.next().map_or(Some(0), exponent)?,
        })
    }
}

/// A whole number with or without a sign.
fn exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| {
        EXPONENT_MAX.min(number * 10 + i64::from(digit & 0x0f))
    });
    Some(if is_negative { -number } else { number })
}

/// Whether a number is negative, and what is behind its sign, if it has one.
pub(crate) fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

const DOUBLE: Format = Format {
    mantissa_bits: 53,
    exponent_least: -1074,
    exponent_most: 971,
};
/// No text has so many digits that an exponent beyond this could be made up for.
const EXPONENT_MAX: i64 = 1 << 50;
