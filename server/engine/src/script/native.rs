//! Scripts that run without the interpreter: those made of conditions and calls alone, as most lock libraries send them.
//!
//! A small part of Lua is read into a tree: `if`, `local`, `return`, calls of commands with simple replies, comparisons for
//! equality, and loops over the keys that are not in each other. Such a script makes no tables and no texts of its own, and
//! can fail in a command only, so that what the interpreter would do is known to the last byte: replies, effects, counts and the line of an error. A
//! test runs both on the same scripts. A text with anything else in it is left to the interpreter, which has checked all
//! of them before.

mod lexer;
mod parser;
#[cfg(test)]
mod random_tests;
mod run;
#[cfg(test)]
mod tests;

use crate::command::spec::Spec;

pub(super) use parser::parse;
pub(super) use run::{Failed, run};

/// A script as a tree.
#[derive(Debug)]
pub(super) struct NativeScript {
    block: Block,
    /// How many locals are in scope at most.
    locals: usize,
    /// The memory that all this takes at most.
    pub(super) bytes: usize,
}

type Block = Vec<Statement>;

#[derive(Debug)]
enum Statement {
    /// A local's value, the first or another one.
    Local(usize, Expression),
    /// A call whose value nobody wants.
    Call(Call),
    If {
        /// `if` and each `elseif`.
        branches: Vec<(Expression, Block)>,
        otherwise: Block,
    },
    /// `for index, key in ipairs(KEYS)`, with two locals.
    ForKeys {
        index: usize,
        key: usize,
        block: Block,
    },
    Return(Expression),
}

#[derive(Debug)]
enum Expression {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Box<[u8]>),
    /// `KEYS[n]`, counted from 0.
    Key(usize),
    /// `ARGV[n]`, counted from 0.
    Argument(usize),
    Local(usize),
    Call(Call),
    Not(Box<Expression>),
    And(Box<[Expression; 2]>),
    Or(Box<[Expression; 2]>),
    Equal(Box<[Expression; 2]>),
    Unequal(Box<[Expression; 2]>),
}

/// `redis.call` with the name of a command written out.
#[derive(Debug)]
struct Call {
    number: usize,
    spec: &'static Spec,
    /// The name first.
    arguments: Vec<Expression>,
    /// Where an error of it is said to be.
    line: u32,
}
