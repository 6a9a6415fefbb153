//! The grammar of Lua 5.1, read as Redis's `lparser.c` reads it: what is refused, and in which words.
//!
//! Nothing is built but the edits of the lexer and those for `arg`. What is nested counts against Lua's own limit of
//! 200 levels, so that no text takes much of the stack.

use std::borrow::Cow;

use crate::script::syntax::lexer::{Edit, Lexeme, Refusal};
use crate::script::syntax::pace::Pace;
use crate::script::syntax::reader::{LexemeReader, Parsed, byte, fixed};

/// The edits that a script needs, in no order.
pub(super) fn parse(source: &[u8]) -> Result<Vec<Edit>, Refusal> {
    let mut parser = Parser {
        reader: LexemeReader::new(source)?,
        pace: Pace::of(source),
        levels: 0,
        functions: vec![Function {
            line: 0,
            // Redis calls a script with no arguments, and as all of Lua 5.1 it has no `arg`.
            is_vararg: true,
            uses_varargs: true,
            loops: 0,
        }],
    };
    parser.chunk()?;
    parser.reader.check(Lexeme::End)?;
    Ok(parser.reader.lexer.edits)
}

pub(super) struct Parser<'a> {
    pub(super) reader: LexemeReader<'a>,
    pub(super) pace: Pace,
    levels: usize,
    /// The functions that are being read, the innermost at the end.
    pub(super) functions: Vec<Function>,
}

pub(super) struct Function {
    /// Where it begins; 0 is the script itself.
    line: u32,
    pub(super) is_vararg: bool,
    pub(super) uses_varargs: bool,
    /// The loops around what is being read.
    loops: usize,
}

/// What an expression is for a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Variable,
    Call,
    Value,
}

impl Parser<'_> {
    fn refuse_limit(&self, limit: usize, what: &str) -> Refusal {
        let function = match self.functions.last().map_or(0, |function| function.line) {
            0 => "main function".to_owned(),
            line => format!("function at line {line}"),
        };
        let message = format!("{function} has more than {limit} {what}");
        self.reader.lexer.refuse(&message, byte(0))
    }

    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.levels = self.levels.saturating_add(1);
        if self.levels > LEVELS_MAX {
            let message = "chunk has too many syntax levels";
            return Err(self.reader.lexer.refuse(message, byte(0)));
        }
        let found = read(self)?;
        self.levels = self.levels.saturating_sub(1);
        Ok(found)
    }

    fn chunk(&mut self) -> Parsed {
        self.nested(|parser| {
            let mut is_last = false;
            while !is_last && !parser.is_at_end_of_block() {
                is_last = parser.statement()?;
                parser.reader.takes(byte(b';'))?;
            }
            Ok(())
        })
    }

    fn is_at_end_of_block(&self) -> bool {
        matches!(
            self.reader.now,
            Lexeme::Fixed("else" | "elseif" | "end" | "until") | Lexeme::End
        )
    }

    /// True for a statement that must be the last of its block.
    fn statement(&mut self) -> Parsed<bool> {
        let line = self.reader.lexer.line;
        let Lexeme::Fixed(word) = self.reader.now else {
            return self.expression_statement().map(|()| false);
        };
        match word {
            "if" => self.condition(line)?,
            "while" => self.looped(|parser| {
                parser.reader.next()?;
                parser.expression()?;
                parser.reader.expect(fixed("do"))?;
                parser.loop_body()?;
                parser.reader.expect_end(fixed("end"), word, line)
            })?,
            "do" => {
                self.reader.next()?;
                self.chunk()?;
                self.reader.expect_end(fixed("end"), word, line)?;
            }
            "for" => self.looped(|parser| parser.for_loop(line))?,
            "repeat" => self.looped(|parser| {
                parser.reader.next()?;
                parser.loop_body()?;
                parser.reader.expect_end(fixed("until"), word, line)?;
                parser.expression()
            })?,
            "function" => self.named_function(line)?,
            "local" => self.local()?,
            "return" => {
                self.reader.next()?;
                if !self.is_at_end_of_block() && self.reader.now != byte(b';') {
                    self.expressions()?;
                }
                return Ok(true);
            }
            "break" => {
                self.reader.next()?;
                if self.functions.last().is_none_or(|it| it.loops == 0) {
                    return Err(self.reader.refuse("no loop to break"));
                }
                return Ok(true);
            }
            _ => self.expression_statement()?,
        }
        Ok(false)
    }

    fn condition(&mut self, line: u32) -> Parsed {
        self.reader.next()?;
        self.expression()?;
        self.in_part(|parser| {
            parser.reader.expect(fixed("then"))?;
            parser.chunk()?;
            while parser.reader.takes(fixed("elseif"))? {
                parser.expression()?;
                parser.reader.expect(fixed("then"))?;
                parser.chunk()?;
            }
            if parser.reader.takes(fixed("else"))? {
                parser.chunk()?;
            }
            Ok(())
        })?;
        self.reader.expect_end(fixed("end"), "if", line)
    }

    /// What may be left out.
    pub(super) fn in_part(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        let part = self.pace.begin_part();
        read(self)?;
        self.pace.end_part(&part);
        Ok(())
    }

    fn looped(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        let (part, from) = (self.pace.begin_loop(), self.reader.span.0);
        read(self)?;
        let step = self.pace.end_loop(&part, from);
        self.reader.lexer.edits.extend(step);
        Ok(())
    }

    fn loop_body(&mut self) -> Parsed {
        self.count_loop(|loops| loops.saturating_add(1));
        self.chunk()?;
        self.count_loop(|loops| loops.saturating_sub(1));
        Ok(())
    }

    fn count_loop(&mut self, count: impl FnOnce(usize) -> usize) {
        if let Some(function) = self.functions.last_mut() {
            function.loops = count(function.loops);
        }
    }

    fn for_loop(&mut self, line: u32) -> Parsed {
        self.reader.next()?;
        self.reader.expect(Lexeme::Name)?;
        match self.reader.now {
            Lexeme::Byte(b'=') => {
                let sign = self.reader.now;
                self.reader.next()?;
                self.operand(sign, Self::expression)?;
                self.reader.expect(byte(b','))?;
                self.operand(sign, Self::expression)?;
                if self.reader.takes(byte(b','))? {
                    self.operand(sign, Self::expression)?;
                }
            }
            Lexeme::Byte(b',') | Lexeme::Fixed("in") => {
                while self.reader.takes(byte(b','))? {
                    self.reader.expect(Lexeme::Name)?;
                }
                self.reader.expect(fixed("in"))?;
                self.expressions()?;
            }
            _ => return Err(self.reader.refuse("'=' or 'in' expected")),
        }
        self.reader.expect(fixed("do"))?;
        self.loop_body()?;
        self.reader.expect_end(fixed("end"), "for", line)
    }

    fn named_function(&mut self, line: u32) -> Parsed {
        self.reader.next()?;
        self.reader.expect(Lexeme::Name)?;
        while self.reader.takes(byte(b'.'))? {
            self.reader.expect(Lexeme::Name)?;
        }
        if self.reader.takes(byte(b':'))? {
            self.reader.expect(Lexeme::Name)?;
        }
        self.function(line)
    }

    fn local(&mut self) -> Parsed {
        self.reader.next()?;
        if self.reader.takes(fixed("function"))? {
            self.reader.expect(Lexeme::Name)?;
            return self.function(self.reader.lexer.line);
        }
        self.reader.expect(Lexeme::Name)?;
        while self.reader.takes(byte(b','))? {
            self.reader.expect(Lexeme::Name)?;
        }
        if self.reader.takes(byte(b'='))? {
            self.expressions()?;
        }
        Ok(())
    }

    fn expression_statement(&mut self) -> Parsed {
        let mut kind = self.primary()?;
        if kind == Kind::Call {
            return Ok(());
        }
        // Each variable counts as a level of its own.
        let variables_max = LEVELS_MAX.saturating_sub(self.levels);
        let mut variables: usize = 1;
        loop {
            if kind != Kind::Variable {
                return Err(self.reader.refuse("syntax error"));
            }
            if !self.reader.takes(byte(b','))? {
                break;
            }
            kind = self.primary()?;
            if variables > variables_max {
                return Err(self.refuse_limit(variables_max, "variables in assignment"));
            }
            variables = variables.saturating_add(1);
        }
        self.reader.expect(byte(b'='))?;
        self.expressions()
    }

    /// From the parameters of a function to its `end`.
    pub(super) fn function(&mut self, line: u32) -> Parsed {
        self.functions.push(Function {
            line,
            is_vararg: false,
            uses_varargs: false,
            loops: 0,
        });
        self.reader.expect(byte(b'('))?;
        let is_vararg = self.parameters()?;
        if let Some(function) = self.functions.last_mut() {
            function.is_vararg = is_vararg;
        }
        self.reader.check(byte(b')'))?;
        let (start, arg_names) = (self.reader.lexer.at, self.reader.lexer.arg_names);
        self.reader.next()?;
        let part = self.pace.begin_function();
        self.chunk()?;
        self.pace.end_function(&part);
        let uses_arg = self.reader.lexer.arg_names > arg_names;
        self.reader.expect_end(fixed("end"), "function", line)?;
        let function = self.functions.pop();
        if is_vararg && uses_arg {
            let is_table = function.is_some_and(|function| !function.uses_varargs);
            self.reader.lexer.edits.push(Edit {
                from: start,
                to: start,
                text: Cow::Borrowed(if is_table { ARG_TABLE } else { ARG_NIL }),
            });
        }
        Ok(())
    }

    /// True if any number of arguments may follow.
    fn parameters(&mut self) -> Parsed<bool> {
        if self.reader.now == byte(b')') {
            return Ok(false);
        }
        loop {
            match self.reader.now {
                Lexeme::Name => self.reader.next()?,
                Lexeme::Fixed("...") => return self.reader.next().map(|()| true),
                _ => return Err(self.reader.refuse("<name> or '...' expected")),
            }
            if !self.reader.takes(byte(b','))? {
                return Ok(false);
            }
        }
    }
}

/// `LUAI_MAXCCALLS` of Lua.
const LEVELS_MAX: usize = 200;

/// The `arg` of a function with `...` that does not use `...` itself. Strings have no such field, but for their metatable
/// in `sandbox.luau`; no local of a script stands before it, as one might before a function's name.
const ARG_TABLE: &[u8] = b" local arg=(\"\")[\"(arg)\"](...); ";
const ARG_NIL: &[u8] = b" local arg; ";
