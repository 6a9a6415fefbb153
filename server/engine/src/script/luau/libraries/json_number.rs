//! Numbers in JSON: written with so many digits, read as C's `strtod` reads them.

use crate::binary::{Binary, split_sign};

/// A number as C's `%.Ng` writes it.
pub(super) fn general(number: f64, precision: usize) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let decimals = precision.saturating_sub(1);
    let text = format!("{number:.decimals$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().expect("it is below 400");
    if exponent < -4 || usize::try_from(exponent).is_ok_and(|exponent| exponent >= precision) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!(
            "{}e{sign}{:02}",
            without_zeros(mantissa),
            exponent.unsigned_abs()
        );
    }
    // From -4 to below the precision, so that it is decimals and at most four more.
    let decimals = decimals.saturating_add_signed(exponent.saturating_neg() as isize);
    without_zeros(&format!("{number:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

/// The number at the start of a text, and how many bytes it takes; `None` if there is none.
pub(super) fn read(text: &[u8]) -> Option<(f64, usize)> {
    let (is_negative, unsigned) = split_sign(text);
    let (number, length) = match unsigned {
        [b'0', b'x' | b'X', digits @ ..] => match hexadecimal(digits) {
            Some((number, length)) => (number, length.saturating_add(2)),
            None => (0.0, 1),
        },
        _ => named(unsigned).or_else(|| decimal(unsigned))?,
    };
    let sign_bytes = text.len().saturating_sub(unsigned.len());
    let number = if is_negative { -number } else { number };
    Some((number, length.saturating_add(sign_bytes)))
}

fn named(text: &[u8]) -> Option<(f64, usize)> {
    let starts = |name: &[u8]| {
        let start = text.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    if starts(b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts(b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if !starts(b"nan") {
        return None;
    }
    // A payload in parentheses belongs to it.
    let payload = text.get(3..).and_then(|rest| rest.strip_prefix(b"("));
    let length = payload.and_then(|payload| {
        let end = payload
            .iter()
            .position(|&byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))?;
        (payload[end] == b')').then(|| end.saturating_add(5))
    });
    Some((f64::NAN, length.unwrap_or(3)))
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let length = numeral_bytes(text, u8::is_ascii_digit, b'e')?;
    let number = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    Some((number, length))
}

fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let length = numeral_bytes(text, u8::is_ascii_hexdigit, b'p')?;
    let number = Binary::hexadecimal(&text[..length])?;
    Some((number.to_double(), length))
}

/// The length of digits with at most one point among them, and of the exponent behind them, if it is one.
fn numeral_bytes(text: &[u8], is_digit: fn(&u8) -> bool, letter: u8) -> Option<usize> {
    let mut has_point = false;
    let is_part =
        |byte: &&u8| is_digit(byte) || (**byte == b'.' && !std::mem::replace(&mut has_point, true));
    let length = text.iter().take_while(is_part).count();
    let (mantissa, rest) = text.split_at(length);
    if !mantissa.iter().any(is_digit) {
        return None;
    }
    let [first, rest @ ..] = rest else {
        return Some(length);
    };
    let sign = usize::from(matches!(rest, [b'+' | b'-', ..]));
    let digits = rest[sign..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(match digits.count() {
        1.. if !first.eq_ignore_ascii_case(&letter) => length,
        0 => length,
        count => length
            .saturating_add(1)
            .saturating_add(sign)
            .saturating_add(count),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (number, precision, text) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (0.1, 14, "0.1"),
            (1e20, 14, "1e+20"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (12_345_678_901_234.5, 14, "12345678901234"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (99.99, 3, "100"),
            (999.9, 3, "1e+03"),
            (2.5, 1, "2"),
            (f64::INFINITY, 14, "inf"),
        ] {
            assert_eq!(general(number, precision), text);
        }
    }

    /// A text, and the number that it begins with.
    type Case = (&'static [u8], Option<(f64, usize)>);

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let cases: [Case; 16] = [
            (b"12]", Some((12.0, 2))),
            (b"-1.5e3x", Some((-1500.0, 6))),
            (b"1e", Some((1.0, 1))),
            (b"1e+", Some((1.0, 1))),
            (b"5.", Some((5.0, 2))),
            (b".", None),
            (b"-", None),
            (b"+x", None),
            (b"0x", Some((0.0, 1))),
            (b"0x.p1", Some((0.0, 1))),
            (b"0x1.8p1", Some((3.0, 7))),
            (
                b"0x10000000000000001",
                Some((18_446_744_073_709_551_616.0, 19)),
            ),
            (b"-Infinity", Some((f64::NEG_INFINITY, 9))),
            (b"1e999", Some((f64::INFINITY, 5))),
            (b"0x1p99999999999", Some((f64::INFINITY, 15))),
            (b"0x1p-99999999999", Some((0.0, 16))),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{}", String::from_utf8_lossy(text));
        }
        assert!(read(b"nan(x_1)z").is_some_and(|(number, length)| number.is_nan() && length == 8));
        assert!(read(b"NaN(x-1)").is_some_and(|(_, length)| length == 3));
    }
}
