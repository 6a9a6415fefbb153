//! The tokens of a JSON text, and the words for those that are wrong.
//!
//! The text ends at its first zero, as a text of C does.

use crate::script::luau::libraries::json_number::read;

/// Reads one token after the other.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    /// Where the next token is looked for.
    pub(super) at: usize,
    /// Where the last token began, or where it was found to be wrong.
    pub(super) token_at: usize,
    /// What the last [`JsonToken::String`] says.
    pub(super) string: Vec<u8>,
    decodes_invalid: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum JsonToken {
    ObjectBegin,
    ObjectEnd,
    ListBegin,
    ListEnd,
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl JsonToken {
    /// As errors name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            JsonToken::ObjectBegin => "T_OBJ_BEGIN",
            JsonToken::ObjectEnd => "T_OBJ_END",
            JsonToken::ListBegin => "T_ARR_BEGIN",
            JsonToken::ListEnd => "T_ARR_END",
            JsonToken::String => "T_STRING",
            JsonToken::Number(_) => "T_NUMBER",
            JsonToken::Boolean(_) => "T_BOOLEAN",
            JsonToken::Null => "T_NULL",
            JsonToken::Colon => "T_COLON",
            JsonToken::Comma => "T_COMMA",
            JsonToken::End => "T_END",
            JsonToken::Wrong(text) => text,
        }
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8], decodes_invalid: bool) -> Scanner<'a> {
        let end = text.iter().position(|&byte| byte == 0);
        Scanner {
            text: &text[..end.unwrap_or(text.len())],
            at: 0,
            token_at: 0,
            string: Vec::new(),
            decodes_invalid,
        }
    }

    pub(super) fn next(&mut self) -> JsonToken {
        let rest = self.rest();
        let spaces = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at = self.at.saturating_add(spaces.count());
        self.token_at = self.at;
        let rest = self.rest();
        let Some(&first) = rest.first() else {
            return JsonToken::End;
        };
        let (token, length) = match first {
            b'{' => (JsonToken::ObjectBegin, 1),
            b'}' => (JsonToken::ObjectEnd, 1),
            b'[' => (JsonToken::ListBegin, 1),
            b']' => (JsonToken::ListEnd, 1),
            b',' => (JsonToken::Comma, 1),
            b':' => (JsonToken::Colon, 1),
            b'"' => return self.text(),
            b'-' | b'0'..=b'9' if !self.decodes_invalid && is_invalid_number(rest) => {
                (JsonToken::Wrong(INVALID_NUMBER), 0)
            }
            b'-' | b'0'..=b'9' => number(rest),
            _ if rest.starts_with(b"true") => (JsonToken::Boolean(true), 4),
            _ if rest.starts_with(b"false") => (JsonToken::Boolean(false), 5),
            _ if rest.starts_with(b"null") => (JsonToken::Null, 4),
            b'+' | b'i' | b'I' | b'n' | b'N' if self.decodes_invalid && is_invalid_number(rest) => {
                number(rest)
            }
            _ => (JsonToken::Wrong("invalid token"), 0),
        };
        self.at = self.at.saturating_add(length);
        token
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn text(&mut self) -> JsonToken {
        self.string.clear();
        self.at = self.at.saturating_add(1);
        loop {
            let rest = self.rest();
            let plain = rest
                .iter()
                .take_while(|&&byte| byte != b'"' && byte != b'\\');
            let (plain, rest) = rest.split_at(plain.count());
            self.string.extend_from_slice(plain);
            self.at = self.at.saturating_add(plain.len());
            let escaped = match rest {
                [b'"', ..] => {
                    self.at = self.at.saturating_add(1);
                    return JsonToken::String;
                }
                [_, escaped, ..] => *escaped,
                [_] => return self.wrong("invalid escape code"),
                [] => return self.wrong("unexpected end of string"),
            };
            let length = match escaped {
                b'"' | b'\\' | b'/' => self.push(escaped),
                b'b' => self.push(b'\x08'),
                b't' => self.push(b'\t'),
                b'n' => self.push(b'\n'),
                b'f' => self.push(b'\x0c'),
                b'r' => self.push(b'\r'),
                b'u' => match code_point(rest) {
                    Some((letter, length)) => {
                        let mut bytes = [0; 4];
                        let bytes = letter.encode_utf8(&mut bytes).as_bytes();
                        self.string.extend_from_slice(bytes);
                        length
                    }
                    None => return self.wrong("invalid unicode escape code"),
                },
                _ => return self.wrong("invalid escape code"),
            };
            self.at = self.at.saturating_add(length);
        }
    }

    /// What a backslash and a letter stand for.
    fn push(&mut self, byte: u8) -> usize {
        self.string.push(byte);
        2
    }

    fn wrong(&mut self, text: &'static str) -> JsonToken {
        self.token_at = self.at;
        JsonToken::Wrong(text)
    }
}

/// The character of `\uXXXX`, or of two of them for one beyond the first 65536, and its length.
fn code_point(text: &[u8]) -> Option<(char, usize)> {
    let unit = |text: &[u8]| {
        let digits = text.get(2..6).filter(|_| text.starts_with(b"\\u"))?;
        digits.iter().try_fold(0, |value, &digit| {
            let digit = char::from(digit).to_digit(16)?;
            Some((value << 4) | digit)
        })
    };
    let first: u32 = unit(text)?;
    if let Some(letter) = char::from_u32(first) {
        return Some((letter, 6));
    }
    let second = unit(text.get(6..)?)?;
    if first & SURROGATE_MASK != HIGH_SURROGATE || second & SURROGATE_MASK != LOW_SURROGATE {
        return None;
    }
    let bits = ((first & SURROGATE_BITS) << 10) | (second & SURROGATE_BITS);
    char::from_u32(bits.saturating_add(0x1_0000)).map(|letter| (letter, 12))
}

fn number(text: &[u8]) -> (JsonToken, usize) {
    match read(text) {
        Some((number, length)) => (JsonToken::Number(number), length),
        None => (JsonToken::Wrong(INVALID_NUMBER), 0),
    }
}

/// Whether C reads a number that JSON does not have: `+1`, `012`, `0x1`, `inf`, `nan`.
fn is_invalid_number(text: &[u8]) -> bool {
    let unsigned = match text {
        [b'+', ..] => return true,
        [b'-', rest @ ..] => rest,
        _ => text,
    };
    match unsigned {
        [b'0', next, ..] => matches!(next, b'x' | b'X' | b'0'..=b'9'),
        [first, ..] if *first <= b'9' => false,
        _ => {
            let name = unsigned.get(..3).unwrap_or_default();
            name.eq_ignore_ascii_case(b"inf") || name.eq_ignore_ascii_case(b"nan")
        }
    }
}

const INVALID_NUMBER: &str = "invalid number";

const SURROGATE_MASK: u32 = 0xFC00;
const HIGH_SURROGATE: u32 = 0xD800;
const LOW_SURROGATE: u32 = 0xDC00;
const SURROGATE_BITS: u32 = 0x03FF;
