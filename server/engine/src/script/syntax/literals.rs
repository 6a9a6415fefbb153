//! The values of literals of Lua 5.1, and how they are written for Luau.

use crate::binary::Binary;

/// A number that is written in Lua 5.1's way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    value: f64,
    pub(super) is_hexadecimal: bool,
}

impl Number {
    /// All of its digits, as Luau reads them whatever their number.
    pub(super) fn decimal(self) -> String {
        match self.value.is_finite() {
            true => format!("{:e}", self.value),
            false => "1e999".to_owned(),
        }
    }
}

/// What `strtod` of C reads from a text that begins with a digit or a dot, if it reads all of it.
pub(super) fn value_of_number(text: &[u8]) -> Option<Number> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = match digits {
        Some(digits) => hexadecimal(digits)?,
        // Rust's words for infinity begin with no digit.
        None => text.parse().ok()?,
    };
    let is_hexadecimal = digits.is_some();
    Some(Number {
        value,
        is_hexadecimal,
    })
}

/// Digits without a fraction, which Lua's lexemes of this form do not have, and an exponent of two.
fn hexadecimal(text: &str) -> Option<f64> {
    let number = Binary::hexadecimal(text.as_bytes())?;
    let is_whole = !text.contains(['.', '+', '-']);
    is_whole.then(|| number.to_double())
}

/// A string with this value that spans as many lines as its literal did.
pub(super) fn quoted(value: &[u8], lines: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len().saturating_add(2));
    let mut breaks: u32 = 0;
    text.push(b'"');
    for &byte in value {
        match byte {
            b'\n' if breaks < lines => {
                breaks = breaks.saturating_add(1);
                text.extend(b"\\\n");
            }
            b'"' | b'\\' => text.extend([b'\\', byte]),
            b' '..=b'~' => text.push(byte),
            _ => text.extend(format!("\\{byte:03}").bytes()),
        }
    }
    text.push(b'"');
    // In front, since brackets on a line of their own would call nothing.
    let before: Vec<u8> = (breaks..lines).map(|_| b'\n').collect();
    [before, text].concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn hexadecimal_numbers_are_those_of_strtod() {
        for (text, value) in [
            ("0x10", 16.0),
            ("0XfF", 255.0),
            ("0x1p4", 16.0),
            ("0x0p9999999999", 0.0),
            ("0x1p9999999999", f64::INFINITY),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            ("0x20000000000003", 9_007_199_254_740_996.0),
            (
                "0x200000000000010000001",
                2_417_851_639_229_258_886_283_264.0,
            ),
            ("0xffffffffffffffff", 18_446_744_073_709_551_616.0),
        ] {
            assert_eq!(
                value_of_number(text.as_bytes()).unwrap().value,
                value,
                "{text}"
            );
        }
        for text in [
            "0x", "0xg", "0x1p", "0x.8", "1e", "1_0", "0b1", "1.2.3", ".",
        ] {
            assert_eq!(value_of_number(text.as_bytes()), None, "{text}");
        }
        let infinite = value_of_number(b"0x1p2000").unwrap();
        assert_eq!(infinite.decimal(), "1e999");
    }
}
