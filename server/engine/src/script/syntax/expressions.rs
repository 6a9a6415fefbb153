//! The expressions of Lua 5.1, for the statements in `parser.rs`.

use crate::script::syntax::lexer::Lexeme;
use crate::script::syntax::pace::Operand;
use crate::script::syntax::parser::{Kind, Parser};
use crate::script::syntax::reader::{Parsed, byte};

impl Parser<'_> {
    pub(super) fn expressions(&mut self) -> Parsed {
        self.expression()?;
        while self.reader.takes(byte(b','))? {
            self.expression()?;
        }
        Ok(())
    }

    pub(super) fn expression(&mut self) -> Parsed {
        self.operation(0)
    }

    /// Operations that bind more strongly than the limit says.
    fn operation(&mut self, limit: u8) -> Parsed {
        self.nested(|parser| {
            if matches!(
                parser.reader.now,
                Lexeme::Fixed("not") | Lexeme::Byte(b'-' | b'#')
            ) {
                let operator = parser.reader.now;
                parser.reader.next()?;
                match operator {
                    // With nothing to its left it is as a bound of a loop.
                    Lexeme::Byte(b'-') => parser.operand(byte(b'='), |it| it.operation(UNARY))?,
                    _ => parser.operation(UNARY)?,
                }
            } else {
                parser.simple()?;
            }
            while let Some((_, right)) =
                priorities(parser.reader.now).filter(|&(left, _)| left > limit)
            {
                let operator = parser.reader.now;
                parser.reader.next()?;
                match operator {
                    Lexeme::Fixed("and" | "or") => parser.in_part(|it| it.operation(right))?,
                    // Each text is kept once, and compared by where that is.
                    Lexeme::Fixed("==" | "~=") => parser.operation(right)?,
                    _ => parser.operand(operator, |it| it.operation(right))?,
                }
            }
            Ok(())
        })
    }

    fn simple(&mut self) -> Parsed {
        match self.reader.now {
            Lexeme::Number | Lexeme::Text | Lexeme::Fixed("nil" | "true" | "false") => {
                self.reader.next()
            }
            Lexeme::Fixed("...") => {
                let function = self.functions.last_mut();
                match function.filter(|function| function.is_vararg) {
                    Some(function) => function.uses_varargs = true,
                    None => {
                        let message = "cannot use '...' outside a vararg function";
                        return Err(self.reader.refuse(message));
                    }
                }
                self.reader.next()
            }
            Lexeme::Byte(b'{') => self.table(),
            Lexeme::Fixed("function") => {
                self.reader.next()?;
                self.function(self.reader.lexer.line)
            }
            _ => self.primary().map(drop),
        }
    }

    pub(super) fn primary(&mut self) -> Parsed<Kind> {
        // Whether a call is one to the interpreter as well, whatever the names stand for.
        let mut is_step = false;
        let mut kind = match self.reader.now {
            Lexeme::Name => {
                self.reader.next()?;
                Kind::Variable
            }
            Lexeme::Byte(b'(') => {
                let line = self.reader.lexer.line;
                self.reader.next()?;
                self.expression()?;
                self.reader.expect_end(byte(b')'), "(", line)?;
                Kind::Value
            }
            _ => return Err(self.reader.refuse("unexpected symbol")),
        };
        loop {
            kind = match self.reader.now {
                Lexeme::Byte(b'.') => {
                    self.reader.next()?;
                    is_step = self.reader.lexer.is_name_of_call();
                    self.reader.expect(Lexeme::Name)?;
                    Kind::Variable
                }
                Lexeme::Byte(b'[') => {
                    self.index()?;
                    is_step = false;
                    Kind::Variable
                }
                Lexeme::Byte(b':') => {
                    self.reader.next()?;
                    self.reader.expect(Lexeme::Name)?;
                    self.arguments()?;
                    self.pace.call(true);
                    Kind::Call
                }
                Lexeme::Byte(b'(' | b'{') | Lexeme::Text => {
                    self.arguments()?;
                    self.pace.call(is_step);
                    is_step = false;
                    Kind::Call
                }
                _ => return Ok(kind),
            };
        }
    }

    fn index(&mut self) -> Parsed {
        self.reader.next()?;
        self.expression()?;
        self.reader.expect(byte(b']'))
    }

    fn arguments(&mut self) -> Parsed {
        let line = self.reader.lexer.line;
        match self.reader.now {
            Lexeme::Text => self.reader.next(),
            Lexeme::Byte(b'{') => self.table(),
            Lexeme::Byte(b'(') => {
                if line != self.reader.line_before {
                    let message = "ambiguous syntax (function call x new statement)";
                    return Err(self.reader.refuse(message));
                }
                self.reader.next()?;
                if self.reader.now != byte(b')') {
                    self.expressions()?;
                }
                self.reader.expect_end(byte(b')'), "(", line)
            }
            _ => Err(self.reader.refuse("function arguments expected")),
        }
    }

    fn table(&mut self) -> Parsed {
        let line = self.reader.lexer.line;
        self.reader.next()?;
        while self.reader.now != byte(b'}') {
            let is_named =
                self.reader.now == Lexeme::Name && self.reader.look_ahead()? == byte(b'=');
            if is_named {
                self.reader.next()?;
                self.reader.expect(byte(b'='))?;
            } else if self.reader.now == byte(b'[') {
                self.index()?;
                self.reader.expect(byte(b'='))?;
            }
            self.expression()?;
            if !self.reader.takes(byte(b','))? && !self.reader.takes(byte(b';'))? {
                break;
            }
        }
        self.reader.expect_end(byte(b'}'), "{", line)
    }

    /// An operand of the operator, or a bound of a loop, which is read as a number.
    pub(super) fn operand(
        &mut self,
        operator: Lexeme,
        read: impl FnOnce(&mut Self) -> Parsed,
    ) -> Parsed {
        let ((from, first_ends), first) = (self.reader.span, self.reader.now);
        let operators_before = self.pace.operators;
        read(self)?;
        let is_number = first == Lexeme::Number && self.reader.end_before == first_ends;
        if is_number && is_of_like(operator) {
            return Ok(());
        }
        let operand = Operand {
            from,
            to: self.reader.end_before,
            operators_before,
        };
        let marks = self.pace.operator(operator, operand);
        self.reader.lexer.edits.extend(marks.into_iter().flatten());
        Ok(())
    }
}

/// How strongly an operator binds to its left and to its right.
fn priorities(operator: Lexeme) -> Option<(u8, u8)> {
    Some(match operator {
        Lexeme::Byte(b'+' | b'-') => (6, 6),
        Lexeme::Byte(b'*' | b'/' | b'%') => (7, 7),
        Lexeme::Byte(b'^') => (10, 9),
        Lexeme::Fixed("..") => (5, 4),
        Lexeme::Fixed("~=" | "==" | "<=" | ">=") | Lexeme::Byte(b'<' | b'>') => (3, 3),
        Lexeme::Fixed("and") => (2, 2),
        Lexeme::Fixed("or") => (1, 1),
        _ => return None,
    })
}

/// Whether an operator takes two numbers or two texts: with a number that is written out nothing long is read.
fn is_of_like(operator: Lexeme) -> bool {
    matches!(
        operator,
        Lexeme::Byte(b'<' | b'>' | b'=') | Lexeme::Fixed("<=" | ">=")
    )
}

const UNARY: u8 = 8;
