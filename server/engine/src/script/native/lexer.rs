//! The words of a script. A text with a word that is not known here is left to the interpreter.

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// A name or a keyword.
    Name(&'a [u8]),
    /// A text without escapes.
    Text(&'a [u8]),
    /// A whole number below 10^15.
    Number(u64),
    Symbol(&'static str),
}

/// A word and its line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedWord<'a> {
    pub(super) word: Word<'a>,
    pub(super) line: u32,
}

/// All words of a text, at most [`WORDS_MAX`].
pub(super) fn words(mut text: &[u8]) -> Option<Vec<PlacedWord<'_>>> {
    let mut words = Vec::new();
    let mut line: u32 = 1;
    while let Some(first) = text.first() {
        if let Some(comment) = text.strip_prefix(b"--") {
            if comment.starts_with(b"[") {
                return None;
            }
            let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
            let end = comment.iter().position(is_end);
            text = &comment[end.unwrap_or(comment.len())..];
            continue;
        }
        if matches!(first, b' ' | b'\t' | b'\r' | b'\n') {
            line = line.saturating_add(u32::from(*first == b'\n'));
            text = &text[1..];
            continue;
        }
        let (word, rest) = next(text)?;
        words.push(PlacedWord { word, line });
        if words.len() > WORDS_MAX {
            return None;
        }
        text = rest;
    }
    Some(words)
}

fn next(text: &[u8]) -> Option<(Word<'_>, &[u8])> {
    let first = *text.first()?;
    let while_in = |is_part: fn(&u8) -> bool| {
        let end = text.iter().position(|byte| !is_part(byte));
        text.split_at(end.unwrap_or(text.len()))
    };
    if first.is_ascii_alphabetic() || first == b'_' {
        let (name, rest) = while_in(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        return Some((Word::Name(name), rest));
    }
    if first.is_ascii_digit() {
        return number(while_in(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')
        }));
    }
    if matches!(first, b'"' | b'\'') {
        return quoted(first, &text[1..]);
    }
    let symbol = SYMBOLS
        .iter()
        .find(|symbol| text.starts_with(symbol.as_bytes()))?;
    Some((Word::Symbol(symbol), &text[symbol.len()..]))
}

fn number<'a>((digits, rest): (&'a [u8], &'a [u8])) -> Option<(Word<'a>, &'a [u8])> {
    let is_plain = digits.len() <= DIGITS_MAX && digits.iter().all(u8::is_ascii_digit);
    let digits = is_plain.then(|| std::str::from_utf8(digits).ok())??;
    Some((Word::Number(digits.parse().ok()?), rest))
}

fn quoted(quote: u8, text: &[u8]) -> Option<(Word<'_>, &[u8])> {
    let is_special = |byte: &u8| *byte == quote || *byte == b'\\' || byte.is_ascii_control();
    let end = text.iter().position(is_special)?;
    (text[end] == quote).then(|| (Word::Text(&text[..end]), &text[end.saturating_add(1)..]))
}

/// Longer ones before those they begin with. One that Lua reads as a part of a longer word is not among them.
const SYMBOLS: &[&str] = &["==", "~=", "=", "(", ")", "[", "]", ",", ";", ".", "-"];

/// The largest script of those that lock libraries send and that are read here has about a hundred.
const WORDS_MAX: usize = 256;

/// Each such number is a double.
const DIGITS_MAX: usize = 15;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn words_have_lines() {
        let text = b"if a== 'b'then -- no\n--\treturn\r\n\"c d\" 12~=-[.";
        let found = words(text).unwrap();
        let on = |line| {
            let found = found.iter().filter(move |placed| placed.line == line);
            found.map(|placed| placed.word).collect::<Vec<_>>()
        };
        let symbol = Word::Symbol;
        let name = Word::Name;
        let first = [
            name(b"if"),
            name(b"a"),
            symbol("=="),
            Word::Text(b"b"),
            name(b"then"),
        ];
        assert_eq!(on(1), first);
        assert!(on(2).is_empty());
        let last = ["~=", "-", "[", "."].map(symbol);
        assert_eq!(
            on(3),
            [vec![Word::Text(b"c d"), Word::Number(12)], last.into()].concat()
        );
    }

    #[test]
    fn what_is_not_known_is_left_alone() {
        for text in [
            "\"a\\n\"",
            "'a",
            "'a\nb'",
            "--[[ a ]]",
            "[[a]] ~",
            "1.5",
            "0x1f",
            "1e3",
            "1_000",
            "a + b",
            "#a",
            "`a`",
            "a..b<c",
            "{}",
            "1234567890123456",
            "a\u{e4}",
            "a > b",
            "\0",
        ] {
            assert_eq!(words(text.as_bytes()), None, "{text}");
        }
        let many = "a ".repeat(WORDS_MAX);
        assert!(words(many.as_bytes()).is_some());
        assert!(words(format!("{many} a").as_bytes()).is_none());
    }
}
