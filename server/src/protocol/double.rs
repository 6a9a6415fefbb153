//! Floating point numbers as Redis 7.2 prints them (`d2string` with `fpconv_dtoa`).
//!
//! The text is the shortest that reads back as the same number.

use std::fmt::Write;

/// The text of `value`: integers without a point, `inf`, `-inf` and `nan` in words.
pub(super) fn format(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value.fract() == 0.0 && value.abs() < INTEGERS_EXACT_BELOW {
        return format!("{value:.0}");
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("scientific notation has an exponent");
    let exponent: i32 = exponent.parse().expect("it is below 400");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let mut text = sign.to_owned();
    write_digits(&mut text, &digits, exponent);
    text
}

/// The first digit stands for 10^exponent. The bounds between the three notations are fpconv's.
fn write_digits(text: &mut String, digits: &str, exponent: i32) {
    let count = i32::try_from(digits.len()).expect("a double has at most 17 digits");
    // The number is the digits, read as an integer, times 10^scale.
    let scale = exponent - (count - 1);
    let zeros = |text: &mut String, count: i32| text.extend((0..count).map(|_| '0'));
    if scale >= 0 && exponent.abs() < count + 7 {
        text.push_str(digits);
        zeros(text, scale);
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        match usize::try_from(count + scale) {
            Ok(whole @ 1..) => {
                text.push_str(&digits[..whole]);
                text.push('.');
                text.push_str(&digits[whole..]);
            }
            _ => {
                text.push_str("0.");
                zeros(text, -(count + scale));
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

/// 2^52: below it a double without fraction is shown as the integer it is.
const INTEGERS_EXACT_BELOW: f64 = 4_503_599_627_370_496.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            assert_eq!(format(value), text);
        }
    }

    proptest! {
        #[test]
        fn every_number_reads_back(value in any::<f64>()) {
            prop_assume!(!value.is_nan());
            prop_assert_eq!(format(value).parse::<f64>(), Ok(value));
        }
    }
}
