//! Doubles as C's `strtod` reads them, decimal and hexadecimal, rounded to the nearest number.
//!
//! What is no number, "nan", is not read.

/// Reads a text to its end, without spaces before it. Too large a number is an infinity, and too small
/// a one is zero.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let number = match digits {
        // The library would take a second sign.
        [b'-' | b'+', ..] => return None,
        [b'0', b'x' | b'X', rest @ ..] => hexadecimal(rest)?,
        _ => std::str::from_utf8(digits).ok()?.parse().ok()?,
    };
    let number: f64 = if is_negative { -number } else { number };
    (!number.is_nan()).then_some(number)
}

/// Digits with a point among them, and the power of two behind `p`.
pub(crate) fn hexadecimal(text: &[u8]) -> Option<f64> {
    let mark = text.iter().position(|byte| matches!(byte, b'p' | b'P'));
    let (digits, exponent) = match mark {
        None => (text, 0),
        Some(mark) => (&text[..mark], exponent(&text[mark..][1..])?),
    };
    let mut mantissa = Mantissa::default();
    let (mut has_digit, mut has_point) = (false, false);
    let mut shift: i64 = 0;
    for byte in digits {
        if *byte == b'.' && !has_point {
            has_point = true;
            continue;
        }
        let digit = char::from(*byte).to_digit(16)?;
        has_digit = true;
        let is_kept = mantissa.push(digit);
        let step = match (is_kept, has_point) {
            (true, true) => -4,
            (false, false) => 4,
            _ => 0,
        };
        shift = shift.saturating_add(step);
    }
    has_digit.then(|| mantissa.times_two_to(exponent.saturating_add(shift)))
}

/// A whole number with or without a sign.
pub(crate) fn exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_i64, |number, digit| {
        let digit = i64::from(digit & 0x0f);
        number.saturating_mul(10).saturating_add(digit)
    });
    Some(if is_negative {
        number.saturating_neg()
    } else {
        number
    })
}

/// The first hexadecimal digits, and whether there is anything but zeros after them.
#[derive(Debug, Default)]
struct Mantissa {
    kept: u64,
    has_more: bool,
}

impl Mantissa {
    /// False where there is no room for the digit.
    fn push(&mut self, digit: u32) -> bool {
        if self.kept >> 60 != 0 {
            self.has_more |= digit != 0;
            return false;
        }
        self.kept = (self.kept << 4) | u64::from(digit);
        true
    }

    /// The nearest double, the even one of two.
    fn times_two_to(self, exponent: i64) -> f64 {
        if self.kept == 0 {
            return 0.0;
        }
        let bits = i64::from(u64::BITS.saturating_sub(self.kept.leading_zeros()));
        if exponent.saturating_add(bits) > EXPONENT_MAX {
            return f64::INFINITY;
        }
        // The power of two of the lowest bit that the double has.
        let least = exponent
            .saturating_add(bits)
            .saturating_sub(i64::from(f64::MANTISSA_DIGITS));
        let lowest = least.max(exponent).max(EXPONENT_LEAST);
        let Ok(dropped @ 0..=64) = u32::try_from(lowest.saturating_sub(exponent)) else {
            return 0.0;
        };
        // One bit more, so that what comes after it can be told from nothing.
        let whole = (u128::from(self.kept) << 1) | u128::from(self.has_more);
        let dropped = dropped.saturating_add(1);
        let (kept, half) = (whole >> dropped, (1_u128 << dropped) >> 1);
        let rest = whole & (1_u128 << dropped).wrapping_sub(1);
        let is_up = rest > half || (rest == half && kept & 1 == 1);
        let kept = u64::try_from(kept).expect("it has 53 bits at most");
        let rounded = kept.saturating_add(u64::from(is_up));
        exact(rounded) * two_to(lowest)
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "it has 53 bits at most, or is the power of two above them"
)]
fn exact(number: u64) -> f64 {
    number as f64
}

/// A power of two that a double has.
fn two_to(exponent: i64) -> f64 {
    let bits = match u64::try_from(exponent.saturating_add(BIAS)) {
        Ok(biased @ 1..) => biased << (f64::MANTISSA_DIGITS.saturating_sub(1)),
        _ => {
            let place = exponent.saturating_sub(EXPONENT_LEAST);
            1 << u32::try_from(place).expect("it is not below the least")
        }
    };
    f64::from_bits(bits)
}

/// A double is below 2 to this power.
const EXPONENT_MAX: i64 = 1024;
/// The power of two of the least double.
const EXPONENT_LEAST: i64 = -1074;
const BIAS: i64 = 1023;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_read_to_their_end_or_not_at_all() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("5.", Some(5.0)),
            (".5", Some(0.5)),
            ("+1e2", Some(100.0)),
            ("-0", Some(-0.0)),
            ("INF", Some(f64::INFINITY)),
            ("-infinity", Some(f64::NEG_INFINITY)),
            ("1e400", Some(f64::INFINITY)),
            ("0x10", Some(16.0)),
            ("0X.8", Some(0.5)),
            ("0x1.8P+1", Some(3.0)),
            ("-0x0", Some(-0.0)),
            ("0x1p-1074", Some(5e-324)),
            ("0x1p-1075", Some(0.0)),
            ("0x1.00001p-1075", Some(5e-324)),
            ("0x1p1024", Some(f64::INFINITY)),
            ("0x1.fffffffffffff8p1023", Some(f64::INFINITY)),
            ("0x1p99999999999999999999", Some(f64::INFINITY)),
            ("0x1p-99999999999999999999", Some(0.0)),
            ("0x20000000000001", Some(9_007_199_254_740_992.0)),
            ("0x20000000000003", Some(9_007_199_254_740_996.0)),
            // Half way to the next number, and beyond it by the last digit.
            ("0x20000000000001000000000000", Some(2f64.powi(101))),
            (
                "0x20000000000001000000000001",
                Some(2f64.powi(101) + 2f64.powi(49)),
            ),
            ("", None),
            (".", None),
            ("-", None),
            ("+-1", None),
            ("1e", None),
            ("1_0", None),
            ("0x", None),
            ("0x.", None),
            ("0x1p", None),
            ("0x1.2.3", None),
            ("0x1g", None),
            ("nan", None),
            ("-NaN", None),
            ("nan(1)", None),
            (" 1", None),
            ("1 ", None),
        ] {
            let read = parse_double(text.as_bytes());
            assert_eq!(
                read.map(f64::to_bits),
                expected.map(f64::to_bits),
                "{text:?}: {read:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_hexadecimal_number_reads_back(value in any::<f64>(), shift in -3..4_i64) {
            prop_assume!(value.is_finite());
            let bits = value.abs().to_bits();
            let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52).cast_signed());
            let (whole, exponent) = if biased == 0 { (0, -1022) } else { (1, biased - BIAS) };
            let mantissa = fraction | (whole << 52);
            let sign = if value.is_sign_negative() { "-" } else { "" };
            for text in [
                format!("{sign}0x{whole}.{fraction:013x}p{exponent}"),
                format!("{sign}0x{mantissa:x}p{}", exponent - 52),
                format!("{sign}0x{mantissa:x}00000000000p{}", exponent - 52 - 44),
                format!("{sign}0x{:x}p{}", u128::from(mantissa) << (shift + 3), exponent - 55 - shift),
            ] {
                let read = parse_double(text.as_bytes()).map(f64::to_bits);
                prop_assert_eq!(read, Some(value.to_bits()), "{}", text);
            }
        }
    }
}
