//! The lexemes of Lua 5.1, and the edits that make Luau read the same from them.
//!
//! Follows Redis's `llex.c` step by step, so that a text is refused with the same words. Every byte is read once or twice,
//! whatever the text holds.

use std::borrow::Cow;

use crate::script::syntax::literals::{quoted, value_of_number};

/// One lexeme. The text of names, numbers and strings is in [`Lexer::buffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lexeme {
    Name,
    Number,
    Text,
    /// A keyword or a symbol of several characters.
    Fixed(&'static str),
    Byte(u8),
    End,
}

/// Why a text is no script.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::script) struct Refusal {
    pub(in crate::script) line: u32,
    /// What is wrong and near what, as Redis words it.
    pub(in crate::script) message: Vec<u8>,
}

/// Bytes of the text that are replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) text: Cow<'static, [u8]>,
}

pub(super) struct Lexer<'a> {
    source: &'a [u8],
    /// Where the last lexeme begins.
    pub(super) start: usize,
    /// Behind the last lexeme.
    pub(super) at: usize,
    pub(super) line: u32,
    /// The last lexeme as errors show it: strings with their quotes and without their escapes.
    buffer: Vec<u8>,
    pub(super) edits: Vec<Edit>,
    /// How often the name `arg` was read.
    pub(super) arg_names: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a [u8]) -> Lexer<'a> {
        Lexer {
            source,
            start: 0,
            at: 0,
            line: 1,
            buffer: Vec::new(),
            edits: Vec::new(),
            arg_names: 0,
        }
    }

    /// The next lexeme, and [`Lexeme::End`] whenever nothing is left.
    pub(super) fn next(&mut self) -> Result<Lexeme, Refusal> {
        self.buffer.clear();
        loop {
            let start = self.at;
            self.start = start;
            let Some(first) = self.peek() else {
                return Ok(Lexeme::End);
            };
            match first {
                b'\n' | b'\r' => self.skip_line_end(true),
                b' ' | b'\t' | 0x0B | 0x0C => self.skip(1),
                b'-' if self.peek_at(1) == Some(b'-') => self.comment()?,
                b'[' => match self.bracket_level() {
                    Some(level) => return self.long_text(level, true).map(|()| Lexeme::Text),
                    None if self.peek_at(1) == Some(b'=') => {
                        while self.peek_at(1) == Some(b'=') {
                            self.skip(1);
                        }
                        self.skip(1);
                        self.buffer.extend(&self.source[start..self.at]);
                        return Err(self.refuse("invalid long string delimiter", Lexeme::Text));
                    }
                    None => return Ok(self.byte(first)),
                },
                b'"' | b'\'' => return self.text(first),
                b'0'..=b'9' => return self.number(),
                b'.' if self.peek_at(1).is_some_and(|byte| byte.is_ascii_digit()) => {
                    return self.number();
                }
                _ if first.is_ascii_alphabetic() || first == b'_' => return Ok(self.name()),
                _ => return Ok(self.symbol(first)),
            }
        }
    }

    /// An error at the line where reading has come to.
    pub(super) fn refuse(&self, message: &str, near: Lexeme) -> Refusal {
        let mut message = message.as_bytes().to_vec();
        // A NUL is the end of C's texts, and as a lexeme it is none.
        let near = match near {
            Lexeme::Byte(0) => None,
            Lexeme::Byte(byte) if byte.is_ascii_control() => {
                Some(format!("char({byte})").into_bytes())
            }
            Lexeme::Byte(byte) => Some(vec![byte]),
            Lexeme::Fixed(word) => Some(word.as_bytes().to_vec()),
            Lexeme::End => Some(b"<eof>".to_vec()),
            Lexeme::Name | Lexeme::Number | Lexeme::Text => {
                let end = self.buffer.iter().position(|&byte| byte == 0);
                Some(self.buffer[..end.unwrap_or(self.buffer.len())].to_vec())
            }
        };
        if let Some(near) = near {
            message.extend([b" near '", &*near, b"'"].concat());
        }
        let line = self.line;
        Refusal { line, message }
    }

    /// Whether the last lexeme is a name that is no library's, but of what calls commands.
    pub(super) fn is_name_of_call(&self) -> bool {
        matches!(&*self.buffer, b"call" | b"pcall")
    }

    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn peek_at(&self, distance: usize) -> Option<u8> {
        self.source.get(self.at.saturating_add(distance)).copied()
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    fn take(&mut self) {
        self.buffer.extend(self.peek());
        self.skip(1);
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_part) {
            self.take();
        }
    }

    /// A line ends with CR, LF or both. Luau counts LF alone.
    fn skip_line_end(&mut self, is_counted_by_luau: bool) {
        let first = self.peek();
        let second = self.peek_at(1);
        let is_pair = matches!(second, Some(b'\n' | b'\r')) && second != first;
        if is_counted_by_luau && first == Some(b'\r') && !is_pair {
            self.replace(self.at, self.at.saturating_add(1), &b"\n"[..]);
        }
        self.skip(if is_pair { 2 } else { 1 });
        self.line = self.line.saturating_add(1);
    }

    fn replace(&mut self, from: usize, to: usize, text: impl Into<Cow<'static, [u8]>>) {
        let text = text.into();
        self.edits.push(Edit { from, to, text });
    }

    /// Where a long string or comment begins, the number of its `=`.
    fn bracket_level(&self) -> Option<usize> {
        let rest = self.source.get(self.at..)?.strip_prefix(b"[")?;
        let level = rest.iter().take_while(|&&byte| byte == b'=').count();
        (rest.get(level) == Some(&b'[')).then_some(level)
    }

    fn comment(&mut self) -> Result<(), Refusal> {
        self.skip(2);
        if let Some(level) = self.bracket_level() {
            self.long_text(level, false)?;
            self.buffer.clear();
            return Ok(());
        }
        while let Some(byte) = self.peek().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
            if byte == 0 {
                // Luau ends a comment here.
                self.replace(self.at, self.at.saturating_add(1), &b" "[..]);
            }
            self.skip(1);
        }
        Ok(())
    }

    fn long_text(&mut self, level: usize, is_text: bool) -> Result<(), Refusal> {
        let (start, delimiter) = (self.at, level.saturating_add(2));
        let first_line = self.line;
        self.buffer
            .extend(&self.source[start..start.saturating_add(delimiter)]);
        self.skip(delimiter);
        if matches!(self.peek(), Some(b'\n' | b'\r')) {
            self.skip_line_end(false);
        }
        let mut is_alike = true;
        loop {
            let Some(byte) = self.peek() else {
                let message = match is_text {
                    true => "unfinished long string",
                    false => "unfinished long comment",
                };
                return Err(self.refuse(message, Lexeme::End));
            };
            match byte {
                b']' => {
                    let level_here = self.closing_level();
                    if level_here == Some(level) {
                        break;
                    }
                    // The next bracket may be the first of the right end.
                    self.take();
                }
                b'\n' | b'\r' => {
                    is_alike &= byte == b'\n' && self.peek_at(1) != Some(b'\r');
                    self.skip_line_end(false);
                    self.buffer.push(b'\n');
                }
                _ => {
                    is_alike &= byte != 0;
                    self.take();
                }
            }
        }
        let value_end = self.buffer.len();
        self.buffer
            .extend(&self.source[self.at..self.at.saturating_add(delimiter)]);
        self.skip(delimiter);
        // Of a comment its two dashes belong to it.
        let start = if is_text {
            start
        } else {
            start.saturating_sub(2)
        };
        let raw = &self.source[start..self.at];
        if !is_alike || raw.contains(&b'\r') || raw.contains(&0) {
            let lines = self.line.saturating_sub(first_line);
            let text = match is_text {
                true => quoted(&self.buffer[delimiter..value_end], lines),
                false => std::iter::once(b' ')
                    .chain((0..lines).map(|_| b'\n'))
                    .collect(),
            };
            self.replace(start, self.at, text);
        }
        Ok(())
    }

    /// Where a bracket closes, the number of the `=` between it and the second one.
    fn closing_level(&self) -> Option<usize> {
        let rest = self.source.get(self.at..)?.strip_prefix(b"]")?;
        let level = rest.iter().take_while(|&&byte| byte == b'=').count();
        (rest.get(level) == Some(&b']')).then_some(level)
    }

    fn text(&mut self, quote: u8) -> Result<Lexeme, Refusal> {
        let (start, first_line) = (self.at, self.line);
        let mut is_alike = true;
        self.take();
        loop {
            match self.peek() {
                None => return Err(self.refuse("unfinished string", Lexeme::End)),
                Some(b'\n' | b'\r') => {
                    return Err(self.refuse("unfinished string", Lexeme::Text));
                }
                Some(b'\\') => {
                    self.skip(1);
                    is_alike &= self.escape()?;
                }
                Some(byte) if byte == quote => break,
                Some(byte) => {
                    is_alike &= byte != 0;
                    self.take();
                }
            }
        }
        self.take();
        if !is_alike {
            let value = 1..self.buffer.len().saturating_sub(1);
            let text = quoted(&self.buffer[value], self.line.saturating_sub(first_line));
            self.replace(start, self.at, text);
        }
        Ok(Lexeme::Text)
    }

    /// What follows a backslash. False where Luau reads something else from it.
    fn escape(&mut self) -> Result<bool, Refusal> {
        let Some(byte) = self.peek() else {
            return Ok(true);
        };
        match byte {
            b'\n' | b'\r' => {
                let is_alike = byte == b'\n' && self.peek_at(1) != Some(b'\r');
                self.skip_line_end(false);
                self.buffer.push(b'\n');
                return Ok(is_alike);
            }
            b'0'..=b'9' => {
                let mut code: u32 = 0;
                for _ in 0..3 {
                    let digit = self.peek().and_then(|byte| char::from(byte).to_digit(10));
                    let Some(digit) = digit else {
                        break;
                    };
                    code = code.saturating_mul(10).saturating_add(digit);
                    self.skip(1);
                }
                let Ok(code) = u8::try_from(code) else {
                    return Err(self.refuse("escape sequence too large", Lexeme::Text));
                };
                self.buffer.push(code);
                return Ok(true);
            }
            _ => {}
        }
        self.skip(1);
        self.buffer.push(match byte {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0B,
            other => other,
        });
        Ok(!matches!(byte, b'x' | b'u' | b'z' | 0))
    }

    fn number(&mut self) -> Result<Lexeme, Refusal> {
        let start = self.at;
        self.take_while(|byte| byte.is_ascii_digit() || byte == b'.');
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.take();
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.take();
            }
        }
        self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let Some(value) = value_of_number(&self.buffer) else {
            return Err(self.refuse("malformed number", Lexeme::Number));
        };
        if value.is_hexadecimal {
            self.replace(start, self.at, value.decimal().into_bytes());
        }
        Ok(Lexeme::Number)
    }

    fn name(&mut self) -> Lexeme {
        self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if let Some(keyword) = KEYWORDS.iter().find(|it| it.as_bytes() == self.buffer) {
            return Lexeme::Fixed(keyword);
        }
        self.arg_names = self
            .arg_names
            .saturating_add(usize::from(self.buffer == b"arg"));
        Lexeme::Name
    }

    fn symbol(&mut self, first: u8) -> Lexeme {
        let rest = &self.source[self.at..];
        let found = SYMBOLS.iter().find(|it| rest.starts_with(it.as_bytes()));
        let Some(symbol) = found else {
            return self.byte(first);
        };
        self.skip(symbol.len());
        Lexeme::Fixed(symbol)
    }

    fn byte(&mut self, byte: u8) -> Lexeme {
        self.skip(1);
        Lexeme::Byte(byte)
    }
}

const KEYWORDS: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Longer ones before those they begin with.
const SYMBOLS: [&str; 6] = ["...", "..", "==", ">=", "<=", "~="];
