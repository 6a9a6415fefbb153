//! The lexemes of a script one after the other, and what is said where another one was expected.

use crate::script::syntax::lexer::{Lexeme, Lexer, Refusal};

pub(super) struct LexemeReader<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) now: Lexeme,
    /// Where it begins and ends.
    pub(super) span: (usize, usize),
    ahead: Option<Lexeme>,
    /// Where the lexeme before ends.
    pub(super) end_before: usize,
    /// The line of the lexeme before.
    pub(super) line_before: u32,
}

pub(super) type Parsed<T = ()> = Result<T, Refusal>;

pub(super) const fn byte(byte: u8) -> Lexeme {
    Lexeme::Byte(byte)
}

pub(super) const fn fixed(word: &'static str) -> Lexeme {
    Lexeme::Fixed(word)
}

impl<'a> LexemeReader<'a> {
    pub(super) fn new(source: &'a [u8]) -> Parsed<LexemeReader<'a>> {
        let mut lexer = Lexer::new(source);
        let now = lexer.next()?;
        let span = (lexer.start, lexer.at);
        Ok(LexemeReader {
            lexer,
            now,
            span,
            ahead: None,
            end_before: 0,
            line_before: 1,
        })
    }

    pub(super) fn next(&mut self) -> Parsed {
        self.line_before = self.lexer.line;
        self.end_before = self.span.1;
        self.now = match self.ahead.take() {
            Some(lexeme) => lexeme,
            None => self.lexer.next()?,
        };
        // One that was looked at ahead is the last that was read as well.
        self.span = (self.lexer.start, self.lexer.at);
        Ok(())
    }

    pub(super) fn takes(&mut self, lexeme: Lexeme) -> Parsed<bool> {
        let is_next = self.now == lexeme;
        if is_next {
            self.next()?;
        }
        Ok(is_next)
    }

    pub(super) fn check(&self, lexeme: Lexeme) -> Parsed {
        if self.now == lexeme {
            return Ok(());
        }
        Err(self.refuse(&format!("'{}' expected", name_of(lexeme))))
    }

    pub(super) fn expect(&mut self, lexeme: Lexeme) -> Parsed {
        self.check(lexeme)?;
        self.next()
    }

    /// The end of what was opened in this line.
    pub(super) fn expect_end(&mut self, end: Lexeme, start: &str, line: u32) -> Parsed {
        if self.now != end && line != self.lexer.line {
            let end = name_of(end);
            let message = format!("'{end}' expected (to close '{start}' at line {line})");
            return Err(self.refuse(&message));
        }
        self.expect(end)
    }

    pub(super) fn refuse(&self, message: &str) -> Refusal {
        self.lexer.refuse(message, self.now)
    }

    pub(super) fn look_ahead(&mut self) -> Parsed<Lexeme> {
        let lexeme = self.lexer.next()?;
        self.ahead = Some(lexeme);
        Ok(lexeme)
    }
}

/// An expected lexeme, as errors call it.
fn name_of(lexeme: Lexeme) -> String {
    match lexeme {
        Lexeme::Byte(byte) => char::from(byte).to_string(),
        Lexeme::Fixed(word) => word.to_owned(),
        Lexeme::End => "<eof>".to_owned(),
        Lexeme::Name => "<name>".to_owned(),
        Lexeme::Number => "<number>".to_owned(),
        Lexeme::Text => "<string>".to_owned(),
    }
}
