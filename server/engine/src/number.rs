//! Numbers as text: integers read and floating point numbers printed as Redis does.
//!
//! A number that is printed here reads back as the same number. Redis prints differently for clients
//! and for scripts, hence two functions.

use std::fmt::Write;

/// Reads a decimal integer as strictly as Redis does (`string2ll`): one spelling per number, so no
/// sign `+`, no leading zeros, no spaces.
#[inline]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() < DIGITS_SAFE => {
            let first = i64::from(text[0] & DIGIT_MASK);
            rest.iter().try_fold(first, |value, digit| match digit {
                b'0'..=b'9' => Some(
                    value
                        .wrapping_mul(10)
                        .wrapping_add(i64::from(digit & DIGIT_MASK)),
                ),
                _ => None,
            })
        }
        [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A number as clients see it, the way Redis 7.2 prints it (`d2string` with `fpconv_dtoa`).
pub fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return infinity(value);
    }
    if value.fract() == 0.0 && value.abs() < INTEGERS_EXACT_BELOW {
        return format!("{value:.0}");
    }
    let (mantissa, exponent) = scientific(value);
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let mut text = sign.to_owned();
    write_digits(&mut text, &digits, exponent);
    text
}

/// The first digit stands for 10^exponent. The bounds between the three notations are fpconv's.
fn write_digits(text: &mut String, digits: &str, exponent: i32) {
    let count = i32::try_from(digits.len()).expect("a double has at most 17 digits");
    // The number is the digits, read as an integer, times 10^scale.
    let scale = exponent.saturating_sub(count.saturating_sub(1));
    let zeros = |text: &mut String, count: i32| text.extend((0..count).map(|_| '0'));
    if scale >= 0 && exponent.abs() < count.saturating_add(7) {
        text.push_str(digits);
        zeros(text, scale);
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        let whole = count.saturating_add(scale);
        match usize::try_from(whole) {
            Ok(whole @ 1..) => {
                text.push_str(&digits[..whole]);
                text.push('.');
                text.push_str(&digits[whole..]);
            }
            _ => {
                text.push_str("0.");
                zeros(text, whole.saturating_neg());
                text.push_str(digits);
            }
        }
    } else {
        let (first, rest) = digits.split_at(digits.len().min(1));
        text.push_str(first);
        if !rest.is_empty() {
            text.push('.');
            text.push_str(rest);
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "e{exponent:+}");
    }
}

/// A script's number as an argument of a command: whole numbers without a fraction or an exponent,
/// others as C's `%.17g` would, but with as few digits as read back as the same number.
pub(crate) fn argument_text(number: f64) -> String {
    if number.is_nan() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        return format!("{sign}nan");
    }
    if number.is_infinite() {
        return infinity(number);
    }
    if number.trunc() == number && (-WHOLE_MAX..WHOLE_MAX).contains(&number) {
        if number == 0.0 && number.is_sign_negative() {
            return "-0".to_owned();
        }
        return itoa::Buffer::new().format(truncated(number)).to_owned();
    }
    let (digits, exponent) = scientific(number);
    if (-4..=16).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Towards zero; what does not fit becomes the lowest number, as the C conversion of Redis does.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the range is checked on the same line"
)]
pub(crate) fn truncated(number: f64) -> i64 {
    if number > -WHOLE_MAX && number < WHOLE_MAX {
        number as i64
    } else {
        i64::MIN
    }
}

fn infinity(number: f64) -> String {
    if number > 0.0 { "inf" } else { "-inf" }.to_owned()
}

/// The shortest mantissa that reads back, and its power of ten.
fn scientific(number: f64) -> (String, i32) {
    let text = format!("{number:e}");
    let (mantissa, exponent) = text
        .split_once('e')
        .expect("scientific notation has an exponent");
    let exponent = exponent.parse().expect("it is below 400");
    (mantissa.to_owned(), exponent)
}

/// That many digits after the first one cannot overflow an i64.
const DIGITS_SAFE: usize = 18;

/// The value of an ASCII digit is in its lower four bits.
const DIGIT_MASK: u8 = 0x0f;

/// 2^52: below it a double without fraction is shown as the integer it is.
const INTEGERS_EXACT_BELOW: f64 = 4_503_599_627_370_496.0;

/// 2^63, the first number beyond the integers.
const WHOLE_MAX: f64 = 9_223_372_036_854_775_808.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        let valid: [(&str, i64); 8] = [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("1048576", 1_048_576),
            ("999999999999999999", 999_999_999_999_999_999),
            ("1234567890123456789", 1_234_567_890_123_456_789),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ];
        for (text, value) in valid {
            assert_eq!(parse_integer(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x1",
            "1a",
            "$",
            "--1",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999",
            "1234567890123456789x",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn numbers_look_like_redis_s() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (2.145_926_535_897_93, "2.14592653589793"),
            (1.5, "1.5"),
            (1e8, "100000000"),
            (1e20, "1e+20"),
            (1.5e300, "1.5e+300"),
            (1e-5, "0.00001"),
            (1e-7, "1e-7"),
            (-2.5e-9, "-2.5e-9"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(double_text(value), text);
        }
    }

    proptest! {
        #[test]
        fn every_number_reads_back(value in any::<f64>()) {
            prop_assume!(!value.is_nan());
            prop_assert_eq!(double_text(value).parse::<f64>(), Ok(value));
        }
    }

    #[test]
    fn numbers_become_the_shortest_text_that_reads_back() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-30_000.0, "-30000"),
            (1e15, "1000000000000000"),
            (1e18, "1000000000000000000"),
            (0.1, "0.1"),
            (1.5, "1.5"),
            (-2.25, "-2.25"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e300, "1.5e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, text) in cases {
            assert_eq!(argument_text(number), text);
        }
    }

    #[test]
    fn numbers_are_cut_towards_zero() {
        assert_eq!(truncated(3.99), 3);
        assert_eq!(truncated(-3.99), -3);
        assert_eq!(truncated(1e20), i64::MIN);
        assert_eq!(truncated(f64::NAN), i64::MIN);
    }
}
