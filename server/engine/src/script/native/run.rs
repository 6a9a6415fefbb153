//! A tree is run: what each part of it comes to, and what calls do.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::number::{argument_text, truncated};
use crate::reply::{Reply, ReplyBudget, ReplyTooLarge, SHARED_BYTES_MIN};
use crate::script::call::{TABLE_BYTES, WRONG_ARGUMENT, check_limits, execute, rounded};
use crate::script::invocation::ScriptArguments;
use crate::script::limits::Budget;
use crate::script::native::{Block, Call, Expression, NativeScript, Statement};

/// What an expression comes to.
#[derive(Clone, Debug)]
pub(in crate::script) enum Value<'a> {
    Nil,
    Boolean(bool),
    Number(f64),
    /// Of the script's text or its arguments.
    Given(&'a [u8]),
    /// Of a reply.
    Made(Vec<u8>),
    Shared(Arc<[u8]>),
    /// The table that stands for OK.
    Ok,
}

/// Why a script has not come to its end.
#[derive(Debug)]
pub(in crate::script) enum Failed {
    /// A command's error, and its line.
    Raised(ErrorReply, u32),
    /// A limit, which the budget knows.
    Ended,
}

/// Runs a script; what it returns. Its calls share the context's moment and effects.
pub(in crate::script) fn run<'a>(
    program: &'a NativeScript,
    context: &mut CommandContext<'_>,
    invocation: ScriptArguments<'a>,
    budget: &Budget,
) -> Result<Value<'a>, Failed> {
    let mut run = Run {
        journal_bytes_before: context.effects.journal.len(),
        context,
        invocation,
        budget,
        locals: SmallVec::from_elem(Value::Nil, program.locals),
    };
    let returned = run.block(&program.block)?;
    Ok(returned.unwrap_or(Value::Nil))
}

struct Run<'a, 'c, 'e> {
    context: &'c mut CommandContext<'e>,
    invocation: ScriptArguments<'a>,
    budget: &'c Budget,
    journal_bytes_before: usize,
    locals: SmallVec<[Value<'a>; LOCALS_INLINE]>,
}

impl<'a> Run<'a, '_, '_> {
    /// What it returns, if it does.
    fn block(&mut self, block: &'a Block) -> Result<Option<Value<'a>>, Failed> {
        for statement in block {
            match statement {
                Statement::Local(place, value) => self.locals[*place] = self.value(value)?,
                Statement::Call(call) => drop(self.call(call)?),
                Statement::Return(value) => return self.value(value).map(Some),
                Statement::If {
                    branches,
                    otherwise,
                } => {
                    let block = self.chosen(branches, otherwise)?;
                    if let Some(returned) = self.block(block)? {
                        return Ok(Some(returned));
                    }
                }
                Statement::ForKeys { index, key, block } => {
                    if let Some(returned) = self.for_keys(*index, *key, block)? {
                        return Ok(Some(returned));
                    }
                }
            }
        }
        Ok(None)
    }

    fn for_keys(
        &mut self,
        index: usize,
        key: usize,
        block: &'a Block,
    ) -> Result<Option<Value<'a>>, Failed> {
        let mut number = 0.0;
        for given in self.invocation.keys {
            self.budget.step().map_err(|_| Failed::Ended)?;
            number += 1.0;
            self.locals[index] = Value::Number(number);
            self.locals[key] = Value::Given(given);
            if let Some(returned) = self.block(block)? {
                return Ok(Some(returned));
            }
        }
        Ok(None)
    }

    fn chosen(
        &mut self,
        branches: &'a [(Expression, Block)],
        otherwise: &'a Block,
    ) -> Result<&'a Block, Failed> {
        for (condition, block) in branches {
            if self.value(condition)?.is_true() {
                return Ok(block);
            }
        }
        Ok(otherwise)
    }

    fn value(&mut self, expression: &'a Expression) -> Result<Value<'a>, Failed> {
        let given = |texts: &[&'a [u8]], place: usize| {
            texts
                .get(place)
                .map_or(Value::Nil, |text| Value::Given(text))
        };
        Ok(match expression {
            Expression::Nil => Value::Nil,
            Expression::Boolean(yes) => Value::Boolean(*yes),
            Expression::Number(number) => Value::Number(*number),
            Expression::Text(text) => Value::Given(text),
            Expression::Key(place) => given(self.invocation.keys, *place),
            Expression::Argument(place) => given(self.invocation.rest, *place),
            Expression::Local(place) => self.locals[*place].clone(),
            Expression::Call(call) => self.call(call)?,
            Expression::Not(of) => Value::Boolean(!self.value(of)?.is_true()),
            Expression::And(both) => match self.value(&both[0])? {
                left if left.is_true() => self.value(&both[1])?,
                left => left,
            },
            Expression::Or(both) => match self.value(&both[0])? {
                left if left.is_true() => left,
                _ => self.value(&both[1])?,
            },
            Expression::Equal(both) => Value::Boolean(self.are_equal(both)?),
            Expression::Unequal(both) => Value::Boolean(!self.are_equal(both)?),
        })
    }

    fn are_equal(&mut self, both: &'a [Expression; 2]) -> Result<bool, Failed> {
        let (left, right) = (self.value(&both[0])?, self.value(&both[1])?);
        Ok(left.is_equal(&right))
    }

    fn call(&mut self, call: &'a Call) -> Result<Value<'a>, Failed> {
        let mut values: SmallVec<[Value<'a>; ARGUMENTS_INLINE]> = SmallVec::new();
        for argument in &call.arguments {
            values.push(self.value(argument)?);
        }
        self.budget.step().map_err(|_| Failed::Ended)?;
        let texts: Option<SmallVec<[Cow<'_, [u8]>; ARGUMENTS_INLINE]>> =
            values.iter().map(Value::argument).collect();
        let raised = |error| Failed::Raised(error, call.line);
        let texts = texts.ok_or(raised(WRONG_ARGUMENT))?;
        let arguments: SmallVec<[&[u8]; ARGUMENTS_INLINE]> =
            texts.iter().map(AsRef::as_ref).collect();
        self.context.effects.reply = self.context.keyspace.reply_budget();
        let is_read_only = self.invocation.is_read_only;
        let executed = execute(
            self.context,
            is_read_only,
            (call.number, call.spec),
            &arguments,
            self.budget,
        );
        let is_long = matches!(executed, Ok((_, true)));
        check_limits(
            self.context.effects,
            self.journal_bytes_before,
            is_long,
            self.budget,
        )
        .map_err(|_| Failed::Ended)?;
        let (reply, _) = executed.map_err(raised)?;
        Ok(Self::value_of(reply))
    }

    /// What a command's reply is to the script, as the interpreter has it. A long text is not copied: memory is no limit.
    fn value_of(reply: Reply) -> Value<'a> {
        match reply {
            Reply::Integer(number) => Value::Number(rounded(number)),
            Reply::Bulk(bytes) if bytes.len() >= SHARED_BYTES_MIN => Value::Shared(bytes.into()),
            Reply::Bulk(bytes) => Value::Made(bytes),
            Reply::Shared(bytes) => Value::Shared(bytes),
            Reply::Ok => Value::Ok,
            other => {
                debug_assert!(matches!(other, Reply::Nil), "{other:?} is not simple");
                Value::Boolean(false)
            }
        }
    }
}

impl Value<'_> {
    fn is_true(&self) -> bool {
        !matches!(self, Value::Nil | Value::Boolean(false))
    }

    fn text(&self) -> Option<&[u8]> {
        match self {
            Value::Given(text) => Some(text),
            Value::Made(text) => Some(text),
            Value::Shared(text) => Some(text),
            _ => None,
        }
    }

    #[allow(clippy::float_cmp, reason = "as Lua compares")]
    fn is_equal(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Nil, Value::Nil) | (Value::Ok, Value::Ok) => true,
            (Value::Boolean(one), Value::Boolean(other)) => one == other,
            (Value::Number(one), Value::Number(other)) => one == other,
            _ => self.text().is_some_and(|text| other.text() == Some(text)),
        }
    }

    /// As an argument of a command: a text, or a number as one.
    fn argument(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Value::Number(number) => Some(Cow::Owned(argument_text(*number).into_bytes())),
            _ => self.text().map(Cow::Borrowed),
        }
    }

    /// The reply to a script that returns it, charged before it is made.
    pub(in crate::script) fn into_reply(
        self,
        room: &mut ReplyBudget,
    ) -> Result<Reply, ReplyTooLarge> {
        room.charge(0)?;
        if matches!(self, Value::Ok) {
            room.charge_memory(TABLE_BYTES)?;
            room.charge_memory(2)?;
        }
        room.charge_memory(self.text().map_or(0, <[u8]>::len))?;
        Ok(match self {
            Value::Nil | Value::Boolean(false) => Reply::Nil,
            Value::Boolean(true) => Reply::Integer(1),
            Value::Number(number) => Reply::Integer(truncated(number)),
            Value::Given(text) if text.len() >= SHARED_BYTES_MIN => Reply::Shared(text.into()),
            Value::Given(text) => Reply::bulk(text),
            Value::Made(text) => Reply::Bulk(text),
            Value::Shared(text) => Reply::Shared(text),
            Value::Ok => Reply::status("OK"),
        })
    }
}

/// Of what lock scripts have.
const LOCALS_INLINE: usize = 4;
const ARGUMENTS_INLINE: usize = 8;
