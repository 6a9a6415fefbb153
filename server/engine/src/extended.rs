//! Floating point numbers of 80 bits, as INCRBYFLOAT of Redis has them on x86-64: read, added, printed.
//!
//! Redis computes in C's `long double` and prints 17 digits after the point, so that 0.1 and 0.2 make
//! 0.3. A number here is a sign, 64 bits and a power of two, the same on every machine. Every step is
//! exact, and then rounded to the nearest number, the even one of two.

#![allow(
    clippy::arithmetic_side_effects,
    reason = "numbers have room in their types, and powers are bounded by the range"
)]

use crate::binary::{Binary, Format, Numeral, split_sign};

/// A finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtendedNumber {
    is_negative: bool,
    /// Rounded to the format.
    magnitude: Binary,
}

/// What a text stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParsedNumber {
    /// A number.
    Finite(ExtendedNumber),
    /// Written as such: a number that is too large is none.
    Infinite,
}

impl ExtendedNumber {
    pub(crate) const ZERO: ExtendedNumber = ExtendedNumber {
        is_negative: false,
        magnitude: Binary {
            exponent: FORMAT.exponent_least,
            bits: 0,
        },
    };

    /// Reads what C's `strtold` reads to its end. `None` for anything else, for "nan", and for what is
    /// too large or too small.
    pub(crate) fn parse(text: &[u8]) -> Option<ParsedNumber> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, digits) = split_sign(text);
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(ParsedNumber::Infinite);
        }
        let number = match digits {
            [b'0', b'x' | b'X', rest @ ..] => Binary::hexadecimal(rest)?,
            _ => decimal(digits)?,
        };
        let magnitude = number.rounded(FORMAT)?;
        if magnitude.bits == 0 && number.bits != 0 {
            return None;
        }
        Some(ParsedNumber::Finite(ExtendedNumber {
            is_negative,
            magnitude,
        }))
    }

    /// The sum; `None` if it is too large.
    pub(crate) fn plus(self, other: ExtendedNumber) -> Option<ExtendedNumber> {
        let (small, large) = match self.magnitude < other.magnitude {
            true => (self, other),
            false => (other, self),
        };
        let distance = large.magnitude.exponent - small.magnitude.exponent;
        let shift = distance.min(SUM_SHIFT_MAX);
        // Of what is further down, the lowest bit that is kept says whether there is anything.
        let dropped = (distance - shift).min(i64::from(FORMAT.mantissa_bits));
        let kept = small.magnitude.bits >> dropped;
        let summand = kept | u128::from(kept << dropped != small.magnitude.bits);
        let bits = large.magnitude.bits << shift;
        let sum = Binary {
            exponent: large.magnitude.exponent - shift,
            bits: match small.is_negative == large.is_negative {
                true => bits + summand,
                false => bits - summand,
            },
        };
        Some(ExtendedNumber {
            is_negative: large.is_negative,
            magnitude: sum.rounded(FORMAT)?,
        })
    }

    /// The nearest double.
    pub(crate) fn to_double(self) -> f64 {
        let double = self.magnitude.to_double();
        if self.is_negative { -double } else { double }
    }

    /// The number with up to 17 digits after the point, and without an exponent.
    pub(crate) fn text(self) -> String {
        let Binary { exponent, bits } = self.magnitude;
        let text = if exponent > 0 {
            let mut number = Decimal::of(bits.to_string().as_bytes());
            for _ in 0..exponent / STEP_BITS {
                number.shift_left(STEP_BITS);
            }
            number.shift_left(exponent % STEP_BITS);
            number.text()
        } else {
            let bits = bits * DECIMALS_UNIT;
            let units = Binary { exponent, bits }.in_units_of(0);
            let (whole, fraction) = (units / DECIMALS_UNIT, units % DECIMALS_UNIT);
            let text = format!("{whole}.{fraction:017}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        let has_sign = self.is_negative && text != "0";
        format!("{}{text}", if has_sign { "-" } else { "" })
    }
}

/// Reads digits with at most one point among them, and the power of ten behind `e`. The lowest bit is 1
/// if there is anything below it.
fn decimal(text: &[u8]) -> Option<Binary> {
    let numeral = Numeral::parse(text, u8::is_ascii_digit, b'e')?;
    let digits = numeral.whole.iter().chain(numeral.fraction).copied();
    let mut digits: Vec<u8> = digits.skip_while(|&digit| digit == b'0').collect();
    if digits.is_empty() {
        return Some(ExtendedNumber::ZERO.magnitude);
    }
    let power = numeral.exponent - i64::try_from(numeral.fraction.len()).ok()?;
    let magnitude = power + i64::try_from(digits.len()).ok()?;
    if magnitude.abs() > DECIMAL_EXPONENT_MAX {
        return None;
    }
    // With zeros at the end the point is between two limbs.
    let power = isize::try_from(power).ok()?;
    let fraction_limbs = power.min(0).unsigned_abs().div_ceil(LIMB_DIGITS);
    let length = digits.len() + fraction_limbs * LIMB_DIGITS;
    digits.resize(length.checked_add_signed(power)?, b'0');
    let mut number = Decimal::of(&digits);
    let mut exponent = 0;
    while number.0.len() < fraction_limbs + LIMBS_KEPT {
        number.shift_left(STEP_BITS);
        exponent -= STEP_BITS;
    }
    let mut has_more = number.0.drain(..fraction_limbs).any(|limb| limb != 0);
    while number.0.len() > LIMBS_KEPT {
        has_more |= number.shift_right();
        exponent += STEP_BITS;
    }
    let add = |bits, &limb: &u64| bits * u128::from(LIMB) + u128::from(limb);
    let bits = number.0.iter().rev().fold(0, add);
    Some(Binary {
        exponent,
        bits: bits | u128::from(has_more),
    })
}

/// A natural number of any size: nine decimal digits in each limb, the lowest first, and no zeros at its end.
struct Decimal(Vec<u64>);

impl Decimal {
    /// Digits that do not begin with 0.
    fn of(digits: &[u8]) -> Decimal {
        let add = |number, digit: &u8| number * 10 + u64::from(digit & 0x0f);
        let limbs = digits.rchunks(LIMB_DIGITS);
        Decimal(limbs.map(|limb| limb.iter().fold(0, add)).collect())
    }

    /// By [`STEP_BITS`] at most, so that there is one more limb at most.
    fn shift_left(&mut self, bits: i64) {
        let mut carry = 0;
        for limb in &mut self.0 {
            carry += *limb << bits;
            *limb = carry % LIMB;
            carry /= LIMB;
        }
        self.0.extend((carry != 0).then_some(carry));
    }

    /// By [`STEP_BITS`]; whether there was anything below the lowest bit that is left.
    fn shift_right(&mut self) -> bool {
        let mut rest = 0;
        for limb in self.0.iter_mut().rev() {
            rest = rest * LIMB + *limb;
            *limb = rest >> STEP_BITS;
            rest %= 1 << STEP_BITS;
        }
        self.0.pop_if(|limb| *limb == 0);
        rest != 0
    }

    fn text(&self) -> String {
        let limbs = self.0.iter().rev();
        let text: String = limbs.map(|limb| format!("{limb:09}")).collect();
        text.trim_start_matches('0').to_owned()
    }
}

const FORMAT: Format = Format {
    mantissa_bits: 64,
    exponent_least: -16_445,
    exponent_most: 16_320,
};
/// Bits below those of the larger summand, so many that those further down can only break a tie.
const SUM_SHIFT_MAX: i64 = 60;
/// No number has more digits before the point, nor zeros after it.
const DECIMAL_EXPONENT_MAX: i64 = 5_000;
const LIMB: u64 = 1_000_000_000;
const LIMB_DIGITS: usize = 9;
/// The bits that a number is shifted by at once: 2 to this is less than a limb.
const STEP_BITS: i64 = 29;
/// At least 89 bits, which is more than the format keeps, and at most 120.
const LIMBS_KEPT: usize = 4;
/// Of which 17 digits are printed after the point.
const DECIMALS_UNIT: u128 = 100_000_000_000_000_000;
/// Redis reads no longer ones.
const TEXT_BYTES_MAX: usize = 5 * 1024;

#[cfg(test)]
#[path = "extended_tests.rs"]
mod tests;
