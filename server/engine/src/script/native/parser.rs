//! From the words of a script to its tree, if it is made of nothing else than such a tree can hold.
//!
//! The interpreter has accepted the text before: what is read here as a script is one.

use crate::command::{Flags, numbered_spec};
use crate::script::native::lexer::{PlacedWord, Word, words};
use crate::script::native::{Block, Call, Expression, NativeScript, Statement};

/// The tree of a script; `None` for one that needs the interpreter.
pub(in crate::script) fn parse(body: &[u8]) -> Option<NativeScript> {
    if body.len() > BYTES_MAX {
        return None;
    }
    let mut parser = NativeParser {
        words: words(body)?,
        next: 0,
        scope: Vec::new(),
        locals: 0,
        depth: 0,
        is_in_loop: false,
    };
    let block = parser.block()?;
    parser.is_at_end().then(|| NativeScript {
        block,
        locals: parser.locals,
        bytes: body
            .len()
            .saturating_add(parser.words.len().saturating_mul(WORD_BYTES)),
    })
}

struct NativeParser<'a> {
    words: Vec<PlacedWord<'a>>,
    next: usize,
    /// The names of the locals that can be seen, the newest at the end.
    scope: Vec<&'a [u8]>,
    locals: usize,
    depth: usize,
    is_in_loop: bool,
}

impl<'a> NativeParser<'a> {
    fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).map(|placed| placed.word)
    }

    fn take(&mut self) -> Option<PlacedWord<'a>> {
        let placed = *self.words.get(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(placed)
    }

    fn is_at_end(&self) -> bool {
        self.next == self.words.len()
    }

    /// Takes this word, if it is the next.
    fn takes(&mut self, word: Word<'_>) -> bool {
        let is_next = self.peek() == Some(word);
        self.next = self.next.saturating_add(usize::from(is_next));
        is_next
    }

    fn takes_name(&mut self, name: &str) -> bool {
        self.takes(Word::Name(name.as_bytes()))
    }

    fn expect(&mut self, symbol: &'static str) -> Option<()> {
        self.takes(Word::Symbol(symbol)).then_some(())
    }

    /// What may be inside another of its kind, up to a bound.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH_MAX {
            return None;
        }
        let found = read(self);
        self.depth = self.depth.saturating_sub(1);
        found
    }

    /// Statements up to a word that ends them.
    fn block(&mut self) -> Option<Block> {
        self.nested(|parser| {
            let visible = parser.scope.len();
            let mut block = Vec::new();
            while !parser.is_at_end() && !parser.is_at_end_of_block() {
                if parser.takes(Word::Symbol(";")) {
                    continue;
                }
                block.push(parser.statement()?);
            }
            parser.scope.truncate(visible);
            Some(block)
        })
    }

    fn is_at_end_of_block(&self) -> bool {
        let ends: [&[u8]; 3] = [b"end", b"else", b"elseif"];
        matches!(self.peek(), Some(Word::Name(name)) if ends.contains(&name))
    }

    fn statement(&mut self) -> Option<Statement> {
        if self.takes_name("local") {
            return self.local();
        }
        if self.takes_name("if") {
            return self.condition();
        }
        if self.takes_name("return") {
            let is_empty = self.is_at_end()
                || self.is_at_end_of_block()
                || self.peek() == Some(Word::Symbol(";"));
            return Some(Statement::Return(match is_empty {
                true => Expression::Nil,
                false => self.expression()?,
            }));
        }
        if self.takes_name("for") {
            return self.loop_over_keys();
        }
        let placed = self.take()?;
        if let Word::Name(name) = placed.word
            && self.takes(Word::Symbol("="))
        {
            let place = self.scope.iter().rposition(|seen| *seen == name)?;
            return Some(Statement::Local(place, self.expression()?));
        }
        // Nothing else begins a statement. In brackets it would be a call of what stands before them.
        let is_call = matches!(placed.word, Word::Name(b"redis" | b"server"));
        is_call.then(|| self.call(placed.line).map(Statement::Call))?
    }

    fn local(&mut self) -> Option<Statement> {
        let name = self.new_name()?;
        self.expect("=")?;
        let value = self.expression()?;
        // It is not seen by its own value.
        Some(Statement::Local(self.declare(name), value))
    }

    /// What may be the name of a local.
    fn new_name(&mut self) -> Option<&'a [u8]> {
        let Word::Name(name) = self.take()?.word else {
            return None;
        };
        (!WITH_A_MEANING.contains(&name)).then_some(name)
    }

    /// The place of a local that can be seen from now on.
    fn declare(&mut self, name: &'a [u8]) -> usize {
        let place = self.scope.len();
        self.scope.push(name);
        self.locals = self.locals.max(self.scope.len());
        place
    }

    /// `index, key in ipairs(KEYS) do ... end`, outside of other loops.
    fn loop_over_keys(&mut self) -> Option<Statement> {
        let index = self.new_name()?;
        self.expect(",")?;
        let key = self.new_name()?;
        (self.takes_name("in") && self.takes_name("ipairs")).then_some(())?;
        self.expect("(")?;
        self.takes_name("KEYS").then_some(())?;
        self.expect(")")?;
        let begins = self.takes_name("do") && !self.is_in_loop;
        begins.then_some(())?;
        self.is_in_loop = true;
        let visible = self.scope.len();
        let (index, key) = (self.declare(index), self.declare(key));
        let block = self.block()?;
        self.scope.truncate(visible);
        self.is_in_loop = false;
        self.takes_name("end")
            .then_some(Statement::ForKeys { index, key, block })
    }

    fn condition(&mut self) -> Option<Statement> {
        let mut branches = Vec::new();
        loop {
            let condition = self.expression()?;
            self.takes_name("then").then_some(())?;
            branches.push((condition, self.block()?));
            if !self.takes_name("elseif") {
                break;
            }
        }
        let otherwise = match self.takes_name("else") {
            true => self.block()?,
            false => Vec::new(),
        };
        self.takes_name("end").then_some(Statement::If {
            branches,
            otherwise,
        })
    }

    fn expression(&mut self) -> Option<Expression> {
        self.nested(|parser| {
            let mut left = parser.conjunction()?;
            while parser.takes_name("or") {
                left = Expression::Or(Box::new([left, parser.conjunction()?]));
            }
            Some(left)
        })
    }

    fn conjunction(&mut self) -> Option<Expression> {
        let mut left = self.comparison()?;
        while self.takes_name("and") {
            left = Expression::And(Box::new([left, self.comparison()?]));
        }
        Some(left)
    }

    fn comparison(&mut self) -> Option<Expression> {
        let mut left = self.unary()?;
        loop {
            if self.takes(Word::Symbol("==")) {
                left = Expression::Equal(Box::new([left, self.unary()?]));
            } else if self.takes(Word::Symbol("~=")) {
                left = Expression::Unequal(Box::new([left, self.unary()?]));
            } else {
                return Some(left);
            }
        }
    }

    fn unary(&mut self) -> Option<Expression> {
        if self.takes_name("not") {
            return self.nested(|parser| Some(Expression::Not(Box::new(parser.unary()?))));
        }
        if self.takes(Word::Symbol("-")) {
            let Word::Number(number) = self.take()?.word else {
                return None;
            };
            return Some(Expression::Number(-double(number)));
        }
        self.primary()
    }

    fn primary(&mut self) -> Option<Expression> {
        let placed = self.take()?;
        match placed.word {
            Word::Text(text) => Some(Expression::Text(text.into())),
            Word::Number(number) => Some(Expression::Number(double(number))),
            Word::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Some(inner)
            }
            Word::Symbol(_) => None,
            Word::Name(name) => match name {
                b"nil" => Some(Expression::Nil),
                b"true" => Some(Expression::Boolean(true)),
                b"false" => Some(Expression::Boolean(false)),
                b"KEYS" => self.index().map(Expression::Key),
                b"ARGV" => self.index().map(Expression::Argument),
                b"redis" | b"server" => self.call(placed.line).map(Expression::Call),
                _ => {
                    let found = self.scope.iter().rposition(|seen| *seen == name);
                    found.map(Expression::Local)
                }
            },
        }
    }

    /// `[n]`, from 1, as a place from 0. There is nothing at 0.
    fn index(&mut self) -> Option<usize> {
        self.expect("[")?;
        let Word::Number(number) = self.take()?.word else {
            return None;
        };
        self.expect("]")?;
        usize::try_from(number.checked_sub(1)?).ok()
    }

    /// `.call('name', ...)`, all of it in one line: which line of several an error is in is the interpreter's to say.
    fn call(&mut self, line: u32) -> Option<Call> {
        self.expect(".")?;
        self.takes_name("call").then_some(())?;
        self.expect("(")?;
        let mut arguments = Vec::new();
        loop {
            arguments.push(self.expression()?);
            if !self.takes(Word::Symbol(",")) {
                break;
            }
        }
        let Some(Expression::Text(name)) = arguments.first() else {
            return None;
        };
        let (number, spec) = numbered_spec(name)?;
        spec.flags.contains(Flags::SIMPLE).then_some(())?;
        let end = self.take()?;
        let is_whole = end.word == Word::Symbol(")") && end.line == line;
        is_whole.then_some(Call {
            number,
            spec,
            arguments,
            line,
        })
    }
}

/// It has at most fifteen digits.
fn double(number: u64) -> f64 {
    number as f64
}

/// No word makes more than one part of a tree.
const WORD_BYTES: usize = 2 * size_of::<Statement>();

/// Longer than the scripts of lock libraries.
const BYTES_MAX: usize = 2048;

/// Of blocks and expressions inside each other.
const DEPTH_MAX: usize = 24;

/// Names that are read as something else than a local, and the words of the language.
const WITH_A_MEANING: &[&[u8]] = &[
    b"KEYS",
    b"ARGV",
    b"redis",
    b"server",
    b"ipairs",
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];
