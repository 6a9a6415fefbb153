//! A list of locks in pages: where the next page begins, and which names match.
//!
//! Invariant: a cursor is `0`, or the last name that was looked at, as hexadecimal digits. So no page is longer than a system makes it, and
//! a walk over all pages misses no lock that is held as long as it takes.

use bytes::Bytes;

/// The cursor of the page behind this name, or of none.
pub(crate) fn cursor(next: Option<&[u8]>) -> Vec<u8> {
    match next {
        None => END.to_vec(),
        Some(name) => {
            let digits = name.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<String>().into_bytes()
        }
    }
}

/// The name behind which a page begins; empty for the first one.
pub(crate) fn name_of(cursor: &[u8]) -> Option<Bytes> {
    if cursor == END {
        return Some(Bytes::new());
    }
    let digit = |digit: &u8| {
        let value = char::from(*digit).to_digit(16)?;
        u8::try_from(value).ok()
    };
    let bytes = cursor.chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(high)? << 4) | digit(low)?),
        _ => None,
    });
    bytes.collect::<Option<Vec<u8>>>().map(Bytes::from)
}

/// Whether a name matches a pattern of `*`, `?` and `\`.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of_name) = (0, 0);
    // Where the last star stands, and how much of the name it takes.
    let mut star: Option<(usize, usize)> = None;
    while of_name < name.len() || at < pattern.len() {
        let one = match (pattern.get(at), name.get(of_name)) {
            (Some(b'*'), _) => {
                star = Some((at, of_name));
                at += 1;
                continue;
            }
            (Some(b'?'), Some(_)) => Some(1),
            (Some(b'\\'), Some(byte)) if pattern.get(at + 1) == Some(byte) => Some(2),
            (Some(other), Some(byte)) if other == byte && *other != b'\\' => Some(1),
            _ => None,
        };
        match (one, star) {
            (Some(length), _) => {
                at += length;
                of_name += 1;
            }
            (None, Some((place, taken))) if taken < name.len() => {
                star = Some((place, taken + 1));
                (at, of_name) = (place + 1, taken + 1);
            }
            _ => return false,
        }
    }
    true
}

/// The cursor of the first page, and the one behind the last.
const END: &[u8] = b"0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_name_of_any_bytes() {
        for name in [&b"0"[..], b"job", b"\0\xff", &[7; 2048]] {
            assert_eq!(name_of(&cursor(Some(name))).as_deref(), Some(name));
        }
        assert_eq!(cursor(None), b"0");
        assert_eq!(name_of(b"0").as_deref(), Some(&b""[..]));
        for none in [&b"1"[..], b"0g", b"+f", b"636", b"\xc3\xa4"] {
            assert_eq!(name_of(none), None, "{}", none.escape_ascii());
        }
    }

    #[test]
    fn patterns_match_as_on_a_node() {
        for (pattern, name, is_match) in [
            ("*", "", true),
            ("*", "job", true),
            ("job:*", "job:1", true),
            ("job:*", "jo", false),
            ("*b*b", "abab", true),
            ("*b*b", "aba", false),
            ("j?b", "job", true),
            ("j?b", "jb", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                is_match,
                "{pattern} {name}"
            );
        }
    }
}
