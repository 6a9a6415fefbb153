//! Doubles as C's `strtod` reads them, decimal and hexadecimal, rounded to the nearest number.
//!
//! What is no number, "nan", is not read.

use crate::binary::{Binary, split_sign};

/// Reads a text to its end, without spaces before it. Too large a number is an infinity, and too small
/// a one is zero.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let (is_negative, digits) = split_sign(text);
    let number = match digits {
        // The library would take a second sign.
        [b'-' | b'+', ..] => return None,
        [b'0', b'x' | b'X', rest @ ..] => Binary::hexadecimal(rest)?.to_double(),
        _ => std::str::from_utf8(digits).ok()?.parse().ok()?,
    };
    let number: f64 = if is_negative { -number } else { number };
    (!number.is_nan()).then_some(number)
}

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
            let (whole, exponent) = if biased == 0 { (0, -1022) } else { (1, biased - 1023) };
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
