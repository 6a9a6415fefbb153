//! Floating point numbers of 80 bits, as INCRBYFLOAT of Redis has them on x86-64: read, added, printed.
//!
//! Redis computes in C's `long double` and prints 17 digits after the point, so that 0.1 and 0.2 make
//! 0.3. A number here is a sign, 64 bits and a power of two, the same on every machine. Every step is
//! exact, and then rounded to the nearest number, the even one of two.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "limbs of 32 bits in 64; exponents are bounded by the length of a text"
)]

use std::cmp::Ordering;

use crate::binary::exponent;

/// A finite number: `mantissa` times 2^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtendedNumber {
    is_negative: bool,
    mantissa: u64,
    exponent: i32,
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
        mantissa: 0,
        exponent: 0,
    };

    /// Reads what C's `strtold` reads to its end. `None` for anything else, for "nan", and for what is
    /// too large or too small.
    pub(crate) fn parse(text: &[u8]) -> Option<ParsedNumber> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(ParsedNumber::Infinite);
        }
        let number = match digits {
            [b'0', b'x' | b'X', rest @ ..] => hexadecimal(rest)?,
            _ => decimal(digits)?,
        };
        Some(ParsedNumber::Finite(ExtendedNumber {
            is_negative,
            ..number
        }))
    }

    /// The sum; `None` if it is too large.
    pub(crate) fn plus(self, other: ExtendedNumber) -> Option<ExtendedNumber> {
        let exponent = self.exponent.min(other.exponent);
        let aligned = |number: ExtendedNumber| {
            let mut big = Big::of(number.mantissa);
            big.shift_left(number.exponent.abs_diff(exponent));
            big
        };
        let (mut one, mut two) = (aligned(self), aligned(other));
        let mut is_negative = self.is_negative;
        if self.is_negative == other.is_negative {
            one.add(&two);
        } else if one.compare(&two) == Ordering::Less {
            two.subtract(&one);
            (one, is_negative) = (two, other.is_negative);
        } else {
            one.subtract(&two);
        }
        let sum = rounded(&one, exponent, false)?;
        Some(ExtendedNumber { is_negative, ..sum })
    }

    /// The nearest double.
    #[allow(clippy::cast_precision_loss, reason = "the nearest is what is wanted")]
    pub(crate) fn to_double(self) -> f64 {
        let double = self.mantissa as f64 * 2_f64.powi(self.exponent);
        if self.is_negative { -double } else { double }
    }

    /// The number with up to 17 digits after the point, and without an exponent.
    pub(crate) fn text(self) -> String {
        let mut big = Big::of(self.mantissa);
        big.multiply_by_ten_to(DECIMALS as u32);
        match u32::try_from(self.exponent) {
            Ok(shift) => big.shift_left(shift),
            Err(_) => big = big.shifted_right(self.exponent.unsigned_abs(), false),
        }
        let mut digits = big.decimal_digits();
        if digits.len() <= DECIMALS {
            digits.insert_str(0, &"0".repeat(DECIMALS + 1 - digits.len()));
        }
        digits.insert(digits.len() - DECIMALS, '.');
        let text = digits.trim_end_matches('0').trim_end_matches('.');
        let sign = if self.is_negative && text != "0" {
            "-"
        } else {
            ""
        };
        format!("{sign}{text}")
    }
}

/// Digits, a point among them, and an exponent.
struct Numeral {
    digits: Vec<u8>,
    exponent: i32,
}

/// Splits a text without a sign. `None` where it does not end with the number.
fn numeral(text: &[u8], is_digit: fn(&u8) -> bool, mark: u8, point_step: i32) -> Option<Numeral> {
    let count = text.iter().take_while(|byte| is_digit(byte)).count();
    let (whole, rest) = text.split_at(count);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => rest.split_at(rest.iter().take_while(|byte| is_digit(byte)).count()),
        _ => (&[][..], rest),
    };
    let digits = [whole, fraction].concat();
    if digits.is_empty() {
        return None;
    }
    let given = match rest {
        [] => 0,
        [first, rest @ ..] if first.eq_ignore_ascii_case(&mark) => bounded(exponent(rest)?),
        _ => return None,
    };
    let exponent = given - point_step * i32::try_from(fraction.len()).ok()?;
    Some(Numeral { digits, exponent })
}

/// An exponent that is beyond the range anyway if it is any larger.
fn bounded(exponent: i64) -> i32 {
    let exponent = exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX);
    i32::try_from(exponent).expect("the bound is far below 2^31")
}

fn decimal(text: &[u8]) -> Option<ExtendedNumber> {
    let Numeral { digits, exponent } = numeral(text, u8::is_ascii_digit, b'e', 1)?;
    let mut big = Big::of_digits(&digits, 10);
    if big.is_zero() {
        return Some(ExtendedNumber::ZERO);
    }
    // Far beyond both ends of the range, and short enough to be computed.
    let magnitude = exponent + i32::try_from(digits.len()).ok()?;
    if !(-2 * DECIMAL_EXPONENT_MAX..=2 * DECIMAL_EXPONENT_MAX).contains(&magnitude) {
        return None;
    }
    if let Ok(power) = u32::try_from(exponent) {
        big.multiply_by_ten_to(power);
        return nonzero(&big, 0, false);
    }
    let mut divisor = Big::of(1);
    divisor.multiply_by_ten_to(exponent.unsigned_abs());
    // So that the quotient has two bits more than are kept.
    let shift = (divisor.bits() + QUOTIENT_BITS).saturating_sub(big.bits());
    big.shift_left(shift);
    let quotient = big.divide(&divisor);
    nonzero(&quotient, -shift.cast_signed(), !big.is_zero())
}

fn hexadecimal(text: &[u8]) -> Option<ExtendedNumber> {
    let Numeral { digits, exponent } = numeral(text, u8::is_ascii_hexdigit, b'p', 4)?;
    let big = Big::of_digits(&digits, 16);
    if big.is_zero() {
        return Some(ExtendedNumber::ZERO);
    }
    nonzero(&big, exponent, false)
}

/// A number that is not zero must not become it.
fn nonzero(big: &Big, exponent: i32, has_more: bool) -> Option<ExtendedNumber> {
    rounded(big, exponent, has_more).filter(|number| number.mantissa != 0)
}

/// `big` times 2^`exponent`, and something below the lowest bit if `has_more`. `None` if it is too large.
fn rounded(big: &Big, exponent: i32, has_more: bool) -> Option<ExtendedNumber> {
    let bits = i32::try_from(big.bits()).ok()?;
    let dropped = (bits - MANTISSA_BITS).max(EXPONENT_LEAST - exponent).max(0);
    let kept = big.shifted_right(dropped.unsigned_abs(), has_more);
    if i32::try_from(kept.bits()).ok()? + exponent + dropped > BITS_MAX {
        return None;
    }
    // Rounding up may have made one bit more, and then all others are zero.
    let carry = kept.bits().saturating_sub(MANTISSA_BITS.unsigned_abs());
    Some(ExtendedNumber {
        is_negative: false,
        mantissa: kept.shifted_right(carry, false).lowest_64(),
        exponent: exponent + dropped + carry.cast_signed(),
    })
}

/// A natural number of any size: its lowest 32 bits first, and no zeros at its end.
#[derive(Clone, Debug)]
struct Big(Vec<u32>);

impl Big {
    fn of(number: u64) -> Big {
        let mut big = Big(vec![number as u32, (number >> 32) as u32]);
        big.trim();
        big
    }

    fn of_digits(digits: &[u8], radix: u32) -> Big {
        let mut big = Big::of(0);
        // As many at once as 32 bits hold.
        for part in digits.chunks(7) {
            let number = part.iter().fold((1, 0), |(factor, number), &digit| {
                let digit = char::from(digit).to_digit(radix).unwrap_or_default();
                (factor * radix, number * radix + digit)
            });
            big.multiply_add(number.0, number.1);
        }
        big
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> u32 {
        let Some(last) = self.0.last() else { return 0 };
        self.0.len() as u32 * LIMB_BITS - last.leading_zeros()
    }

    fn bit(&self, number: u32) -> bool {
        let limb = self.0.get((number / LIMB_BITS) as usize);
        limb.is_some_and(|limb| (limb >> (number % LIMB_BITS)) & 1 == 1)
    }

    fn lowest_64(&self) -> u64 {
        let limb = |index: usize| u64::from(self.0.get(index).copied().unwrap_or_default());
        limb(0) | (limb(1) << LIMB_BITS)
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= LIMB_BITS;
        }
        self.0.push(carry as u32);
        self.trim();
    }

    fn multiply_by_ten_to(&mut self, power: u32) {
        for _ in 0..power / 9 {
            self.multiply_add(1_000_000_000, 0);
        }
        for _ in 0..power % 9 {
            self.multiply_add(10, 0);
        }
    }

    fn shift_left(&mut self, bits: u32) {
        if !bits.is_multiple_of(LIMB_BITS) {
            self.multiply_add(1 << (bits % LIMB_BITS), 0);
        }
        let zeros = vec![
            0;
            if self.is_zero() {
                0
            } else {
                (bits / LIMB_BITS) as usize
            }
        ];
        self.0.splice(0..0, zeros);
    }

    /// Rounded to the nearest, to the even one of two; `has_more` is something below the lowest bit.
    fn shifted_right(&self, bits: u32, has_more: bool) -> Big {
        let (limbs, shift) = ((bits / LIMB_BITS) as usize, bits % LIMB_BITS);
        let limb = |index: usize| u64::from(self.0.get(index).copied().unwrap_or_default());
        let shifted = (limbs..self.0.len().max(limbs))
            .map(|index| ((limb(index) | (limb(index + 1) << LIMB_BITS)) >> shift) as u32);
        let mut result = Big(shifted.collect());
        result.trim();
        let Some(half) = bits.checked_sub(1) else {
            return result;
        };
        let is_above_half = has_more || (0..half).any(|number| self.bit(number));
        if self.bit(half) && (is_above_half || result.bit(0)) {
            result.add(&Big::of(1));
        }
        result
    }

    fn compare(&self, other: &Big) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn add(&mut self, other: &Big) {
        self.0.resize(self.0.len().max(other.0.len()) + 1, 0);
        let mut carry = 0;
        for (index, limb) in self.0.iter_mut().enumerate() {
            carry += u64::from(*limb) + u64::from(other.0.get(index).copied().unwrap_or_default());
            *limb = carry as u32;
            carry >>= LIMB_BITS;
        }
        self.trim();
    }

    /// Takes away what is not larger.
    fn subtract(&mut self, other: &Big) {
        let mut borrow = 0;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let taken = u64::from(other.0.get(index).copied().unwrap_or_default()) + borrow;
            borrow = u64::from(u64::from(*limb) < taken);
            *limb = u64::from(*limb).wrapping_sub(taken) as u32;
        }
        self.trim();
    }

    /// Divides by a number that is about 2^[`QUOTIENT_BITS`] times smaller, or larger than this; leaves the rest.
    fn divide(&mut self, divisor: &Big) -> Big {
        let mut quotient = Big::of(0);
        let steps = (self.bits() + 1).saturating_sub(divisor.bits());
        for step in (0..=steps).rev() {
            let mut part = divisor.clone();
            part.shift_left(step);
            let fits = part.compare(self) != Ordering::Greater;
            if fits {
                self.subtract(&part);
            }
            quotient.multiply_add(2, u32::from(fits));
        }
        quotient
    }

    fn decimal_digits(mut self) -> String {
        let mut parts = Vec::new();
        while !self.is_zero() {
            let mut rest = 0;
            for limb in self.0.iter_mut().rev() {
                rest = (rest << LIMB_BITS) | u64::from(*limb);
                *limb = (rest / 1_000_000_000) as u32;
                rest %= 1_000_000_000;
            }
            self.trim();
            parts.push(rest);
        }
        let mut text = String::new();
        for part in parts.iter().rev() {
            text.push_str(&format!("{part:09}"));
        }
        text.trim_start_matches('0').to_owned()
    }
}

const LIMB_BITS: u32 = 32;
const MANTISSA_BITS: i32 = 64;
/// The least power of two of a mantissa, also of a small one with fewer bits.
const EXPONENT_LEAST: i32 = -16_445;
/// Every number is below 2 to this.
const BITS_MAX: i32 = 16_384;
/// No number has more digits before the point, nor zeros after it.
const DECIMAL_EXPONENT_MAX: i32 = 5_000;
/// Two bits more than are kept.
const QUOTIENT_BITS: u32 = 66;
/// An exponent beyond this is as good as this one.
const EXPONENT_MAX: i64 = 1_000_000;
/// Digits after the point that are printed.
const DECIMALS: usize = 17;
/// Redis reads no longer ones.
const TEXT_BYTES_MAX: usize = 5 * 1024;

#[cfg(test)]
#[path = "extended_tests.rs"]
mod tests;
