//! The grammar of Lua 5.1, read as Redis's `lparser.c` reads it: what is refused, and in which words.
//!
//! Nothing is built but the edits of the lexer and those for `arg`. What is nested counts against Lua's own limit of
//! 200 levels, so that no text takes much of the stack.

use std::borrow::Cow;

use crate::script::syntax::lexer::{Edit, Lexeme, Refusal};
use crate::script::syntax::reader::{Parsed, Reader, byte, fixed};

/// The edits that a script needs, in no order.
pub(super) fn parse(source: &[u8]) -> Result<Vec<Edit>, Refusal> {
    let mut parser = Parser {
        reader: Reader::new(source)?,
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

struct Parser<'a> {
    reader: Reader<'a>,
    levels: usize,
    /// The functions that are being read, the innermost at the end.
    functions: Vec<Function>,
}

struct Function {
    /// Where it begins; 0 is the script itself.
    line: u32,
    is_vararg: bool,
    uses_varargs: bool,
    /// The loops around what is being read.
    loops: usize,
}

/// What an expression is for a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
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

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
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
            "while" => {
                self.reader.next()?;
                self.expression()?;
                self.reader.expect(fixed("do"))?;
                self.loop_body()?;
                self.reader.expect_end(fixed("end"), word, line)?;
            }
            "do" => {
                self.reader.next()?;
                self.chunk()?;
                self.reader.expect_end(fixed("end"), word, line)?;
            }
            "for" => self.for_loop(line)?,
            "repeat" => {
                self.reader.next()?;
                self.loop_body()?;
                self.reader.expect_end(fixed("until"), word, line)?;
                self.expression()?;
            }
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
        while matches!(self.reader.now, Lexeme::Fixed("if" | "elseif")) {
            self.reader.next()?;
            self.expression()?;
            self.reader.expect(fixed("then"))?;
            self.chunk()?;
        }
        if self.reader.takes(fixed("else"))? {
            self.chunk()?;
        }
        self.reader.expect_end(fixed("end"), "if", line)
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
                self.reader.next()?;
                self.expression()?;
                self.reader.expect(byte(b','))?;
                self.expression()?;
                if self.reader.takes(byte(b','))? {
                    self.expression()?;
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
    fn function(&mut self, line: u32) -> Parsed {
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
        self.chunk()?;
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

    fn expressions(&mut self) -> Parsed {
        self.expression()?;
        while self.reader.takes(byte(b','))? {
            self.expression()?;
        }
        Ok(())
    }

    fn expression(&mut self) -> Parsed {
        self.operation(0)
    }

    /// Operations that bind more strongly than the limit says.
    fn operation(&mut self, limit: u8) -> Parsed {
        self.nested(|parser| {
            if matches!(
                parser.reader.now,
                Lexeme::Fixed("not") | Lexeme::Byte(b'-' | b'#')
            ) {
                parser.reader.next()?;
                parser.operation(UNARY)?;
            } else {
                parser.simple()?;
            }
            while let Some((_, right)) =
                priorities(parser.reader.now).filter(|&(left, _)| left > limit)
            {
                parser.reader.next()?;
                parser.operation(right)?;
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

    fn primary(&mut self) -> Parsed<Kind> {
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
                    self.reader.expect(Lexeme::Name)?;
                    Kind::Variable
                }
                Lexeme::Byte(b'[') => {
                    self.index()?;
                    Kind::Variable
                }
                Lexeme::Byte(b':') => {
                    self.reader.next()?;
                    self.reader.expect(Lexeme::Name)?;
                    self.arguments()?;
                    Kind::Call
                }
                Lexeme::Byte(b'(' | b'{') | Lexeme::Text => {
                    self.arguments()?;
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

/// `LUAI_MAXCCALLS` of Lua.
const LEVELS_MAX: usize = 200;

const UNARY: u8 = 8;

/// The `arg` of a function with `...` that does not use `...` itself. Strings have no such field, but for their metatable
/// in `sandbox.luau`; no local of a script stands before it, as one might before a function's name.
const ARG_TABLE: &[u8] = b" local arg=(\"\")[\"(arg)\"](...); ";
const ARG_NIL: &[u8] = b" local arg; ";
