//! A command that a script calls: whether it may, what it answers, and whether a limit is reached behind it.
//!
//! Native scripts and those of the interpreter call commands here, so that both get the same replies, counts and limits.

use crate::caller::{Caller, Protocol};
use crate::command;
use crate::command::spec::{Flags, Handler, KeysFunction, Spec};
use crate::context::CommandContext;
use crate::effects::Effects;
use crate::error::{ErrorReply, OUT_OF_MEMORY};
use crate::reply::{ELEMENT_BYTES, Reply};
use crate::script::limits::{Budget, ScriptLimit};

/// Runs and counts a command of the engine: the reply, and whether it may have taken long.
pub(super) fn execute(
    context: &mut CommandContext<'_>,
    is_read_only: bool,
    (number, spec): (usize, &Spec),
    arguments: &[&[u8]],
    budget: &Budget,
) -> Result<(Reply, bool), ErrorReply> {
    let function = allowed(is_read_only, spec, arguments.len()).and_then(|function| {
        context.effects.check_script_command(arguments)?;
        match context.effects.denies_growth && spec.flags.contains(Flags::DENY_OOM) {
            true => Err(OUT_OF_MEMORY),
            false => Ok(function),
        }
    });
    let function = match function {
        Ok(function) => function,
        Err(refusal) => {
            let rejected = &mut context.effects.script_counts.of(number).rejected;
            *rejected = rejected.saturating_add(1);
            return Err(refusal);
        }
    };
    let journal_bytes = context.effects.journal.len();
    let is_long = is_long(spec, arguments.len());
    if is_long {
        budget.start_time_once();
    }
    let reply = command::call::call(context, spec, function, arguments);
    // As in Redis: what has begun to write may go on.
    context.effects.denies_growth &= context.effects.journal.len() == journal_bytes;
    let count = context.effects.script_counts.of(number);
    count.note(reply.is_err());
    Ok((reply?, is_long))
}

/// The function of a command, if scripts may call it like this.
fn allowed(is_read_only: bool, spec: &Spec, arguments: usize) -> Result<KeysFunction, ErrorReply> {
    if !spec.accepts(arguments) {
        return Err(WRONG_ARITY);
    }
    let function = match spec.handler {
        Handler::Keys(function) | Handler::KeysAndNode(function, ..)
            if !spec.flags.contains(Flags::NO_SCRIPT) =>
        {
            function
        }
        _ => return Err(NOT_ALLOWED),
    };
    // What is published goes to replicas as well, in Redis.
    if is_read_only && spec.flags.may_write() {
        return Err(READ_ONLY);
    }
    Ok(function)
}

/// Whether the work of a command grows with more than a few arguments. Reading the clock after each
/// of the others would cost the usual lock script some percent.
fn is_long(spec: &Spec, arguments: usize) -> bool {
    let is_short = spec.flags.contains(Flags::FAST) || spec.flags.contains(Flags::BRIEF);
    !is_short || arguments > INLINE_ARGUMENTS
}

/// Whether what a script has written, or the time after a command that may have taken long, has reached a limit.
pub(super) fn check_limits(
    effects: &Effects,
    journal_bytes_before: usize,
    is_long: bool,
    budget: &Budget,
) -> Result<(), ScriptLimit> {
    if effects.ran_out_of_room {
        // Half of a script must not stay: a lock without its TTL, say.
        return Err(budget.end(ScriptLimit::Room));
    }
    let journal_bytes = effects.journal.len().saturating_sub(journal_bytes_before);
    if journal_bytes > budget.limits().journal_bytes {
        return Err(budget.end(ScriptLimit::Journal));
    }
    if is_long {
        // Such a command is one step, but can take as long as thousands.
        budget.check()?;
    }
    Ok(())
}

/// A script asks for what it wants in RESP3.
pub(super) fn of_script(caller: Caller) -> Caller {
    Caller {
        protocol: Protocol::Resp2,
        is_in_script: true,
        ..caller
    }
}

/// Lua's numbers have 53 bits, in Redis as well.
#[allow(
    clippy::cast_precision_loss,
    reason = "that is Redis's rule for scripts"
)]
pub(super) fn rounded(number: i64) -> f64 {
    number as f64
}

/// What a table takes of a reply: as some values.
pub(super) const TABLE_BYTES: usize = 8 * ELEMENT_BYTES;

pub(crate) const WRONG_ARGUMENT: ErrorReply =
    ErrorReply::fixed("ERR Lua redis lib command arguments must be strings or integers");
pub(super) const WRONG_ARITY: ErrorReply =
    ErrorReply::fixed("ERR Wrong number of args calling Redis command from script");
pub(super) const NOT_ALLOWED: ErrorReply =
    ErrorReply::fixed("ERR This Redis command is not allowed from script");
const READ_ONLY: ErrorReply =
    ErrorReply::fixed("ERR Write commands are not allowed from read-only scripts.");

/// Lock scripts pass up to six arguments to a command.
pub(super) const INLINE_ARGUMENTS: usize = 8;
