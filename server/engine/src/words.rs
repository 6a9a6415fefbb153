//! Splits a line into words the way Redis does (`sdssplitargs`): spaces separate, quotes hold together.
//!
//! One tokenizer serves inline commands, the configuration file, `--directive value` and the first line of scripts, so that a
//! value is quoted in the same way everywhere. Invariant: a word is never longer than the text it was
//! written as, so words are unescaped in place and nothing is allocated.
//! Unlike Redis, a NUL byte is an ordinary byte; it does not cut the line off silently.

use std::ops::Range;

/// A quote was opened and not closed, or text follows a closing quote without a space between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// Calls `word` with the range of each word of `line`, after unescaping the words in place.
///
/// Inside double quotes `\xHH`, `\n`, `\r`, `\t`, `\b` and `\a` mean what they mean in C and any other
/// escaped byte means itself; inside single quotes only `\'` is an escape.
pub fn split(line: &mut [u8], mut word: impl FnMut(Range<usize>)) -> Result<(), UnbalancedQuotes> {
    let mut read = 0;
    loop {
        while line.get(read).is_some_and(|byte| is_space(*byte)) {
            read = read.saturating_add(1);
        }
        if read >= line.len() {
            return Ok(());
        }
        let start = read;
        let mut write = read;
        loop {
            match line.get(read).copied() {
                None | Some(b' ' | b'\n' | b'\r' | b'\t') => break,
                Some(quote @ (b'"' | b'\'')) => {
                    Unquoted { read, write } = unquote(line, quote, read.saturating_add(1), write)?;
                    break;
                }
                Some(byte) => {
                    line[write] = byte;
                    write = write.saturating_add(1);
                    read = read.saturating_add(1);
                }
            }
        }
        word(start..write);
    }
}

/// The words of `line` as owned bytes, for callers to which speed does not matter.
pub fn split_owned(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut line = line.to_vec();
    let mut ranges = Vec::new();
    split(&mut line, |range| ranges.push(range))?;
    Ok(ranges
        .into_iter()
        .map(|range| line[range].to_vec())
        .collect())
}

/// Appends `word` to `out`, quoted so that `split` gives it back unchanged.
pub fn quote(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b'"');
    for byte in word {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            _ => {
                let hex = |digit: u8| b"0123456789abcdef"[usize::from(digit & 15)];
                out.extend_from_slice(&[b'\\', b'x', hex(byte >> 4), hex(*byte)]);
            }
        }
    }
    out.push(b'"');
}

/// Where a line stands behind a quoted text.
struct Unquoted {
    /// The next byte to read.
    read: usize,
    /// Where the next byte of the word goes.
    write: usize,
}

/// Copies the quoted text that begins at `read` to `write`.
fn unquote(
    line: &mut [u8],
    quote: u8,
    mut read: usize,
    mut write: usize,
) -> Result<Unquoted, UnbalancedQuotes> {
    loop {
        let Unescaped { byte, length } = match line.get(read..) {
            None | Some([]) => return Err(UnbalancedQuotes),
            Some([end, rest @ ..]) if *end == quote => {
                return match rest.first() {
                    Some(after) if !is_space(*after) => Err(UnbalancedQuotes),
                    _ => Ok(Unquoted {
                        read: read.saturating_add(1),
                        write,
                    }),
                };
            }
            Some([b'\\', b'\'', ..]) if quote == b'\'' => Unescaped::from(b'\'', 2),
            Some([b'\\', escaped, rest @ ..]) if quote == b'"' => escape(*escaped, rest),
            Some([byte, ..]) => Unescaped::from(*byte, 1),
        };
        line[write] = byte;
        write = write.saturating_add(1);
        read = read.saturating_add(length);
    }
}

/// A byte, and how many bytes it was written as.
struct Unescaped {
    byte: u8,
    length: usize,
}

impl Unescaped {
    fn from(byte: u8, length: usize) -> Self {
        Self { byte, length }
    }
}

/// What an escape inside double quotes stands for.
fn escape(escaped: u8, rest: &[u8]) -> Unescaped {
    let (byte, length) = match (escaped, rest) {
        (b'x', [high, low, ..]) => match (hex_value(*high), hex_value(*low)) {
            (Some(high), Some(low)) => (high << 4 | low, 4),
            _ => (b'x', 2),
        },
        (b'n', _) => (b'\n', 2),
        (b'r', _) => (b'\r', 2),
        (b't', _) => (b'\t', 2),
        (b'b', _) => (8, 2),
        (b'a', _) => (7, 2),
        (other, _) => (other, 2),
    };
    Unescaped { byte, length }
}

fn hex_value(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// C's `isspace`, which is what Redis skips between words.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Result<Vec<String>, UnbalancedQuotes> {
        let words = split_owned(line.as_bytes())?;
        Ok(words
            .into_iter()
            .map(|word| String::from_utf8(word).unwrap())
            .collect())
    }

    #[test]
    fn words_are_split_as_redis_splits_them() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  \t ", &[]),
            ("set a b", &["set", "a", "b"]),
            ("  set   a\tb  ", &["set", "a", "b"]),
            (r#"set a "b c""#, &["set", "a", "b c"]),
            (r#"set a """#, &["set", "a", ""]),
            (r#"set a '' "#, &["set", "a", ""]),
            (r#"a"b c" d"#, &["ab c", "d"]),
            (
                r#""\x41\x4a\n\r\t\b\a\"\\\q""#,
                &["AJ\n\r\t\u{8}\u{7}\"\\q"],
            ),
            (r#""\x4" "\xg0""#, &["x4", "xg0"]),
            (r"'it\'s' 'a\nb'", &["it's", r"a\nb"]),
            (r"back\slash", &[r"back\slash"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), *expected, "{line}");
        }
    }

    #[test]
    fn quotes_that_do_not_match_are_an_error() {
        for line in [
            r#"""#,
            "'",
            r#"a "b"#,
            r#"a "b"c"#,
            r"'a'b",
            r#""a\"#,
            r#""a\""#,
            r#""a""b""#,
        ] {
            assert_eq!(words(line), Err(UnbalancedQuotes), "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_word_comes_back_unchanged(list in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6)) {
            let mut line = Vec::new();
            for word in &list {
                quote(&mut line, word);
                line.push(b' ');
            }
            prop_assert_eq!(split_owned(&line).unwrap(), list);
        }

        #[test]
        fn any_bytes_split_without_panic(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = split_owned(&line);
        }
    }
}
