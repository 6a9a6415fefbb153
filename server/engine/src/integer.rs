//! Integers as Redis reads them in commands and in protocol headers (`string2ll`): strict, one
//! spelling per number.

/// Reads a decimal integer: no sign `+`, no leading zeros, no spaces, nothing but digits.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() < DIGITS_SAFE => {
            let first = i64::from(text[0] & 15);
            rest.iter().try_fold(first, |value, digit| match digit {
                b'0'..=b'9' => Some(value.wrapping_mul(10).wrapping_add(i64::from(*digit & 15))),
                _ => None,
            })
        }
        [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// That many digits after the first one cannot overflow an i64.
const DIGITS_SAFE: usize = 18;

#[cfg(test)]
mod tests {
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
}
