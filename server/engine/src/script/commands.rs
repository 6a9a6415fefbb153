//! EVAL and its variants, and SCRIPT: from the request to the script's runner.

use crate::command::spec::ScriptCommand;
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::script::cache::sha_of_text;
use crate::script::failure::NO_SCRIPT;
use crate::script::invocation::ScriptArguments;
use crate::script::runner::Runner;
use crate::script::shebang;

type Arguments<'a> = &'a [&'a [u8]];

/// Runs a command whose arguments, the name first, are right in number.
pub(crate) fn execute(
    runner: &mut Runner,
    command: ScriptCommand,
    context: &mut CommandContext<'_>,
    arguments: Arguments<'_>,
) -> Result<Reply, ErrorReply> {
    match command {
        ScriptCommand::Eval { is_read_only } => {
            let call = invocation(arguments, is_read_only)?;
            Ok(runner.eval(context, arguments[1], call))
        }
        ScriptCommand::EvalSha { is_read_only } => {
            let call = invocation(arguments, is_read_only)?;
            let sha = sha_of_text(arguments[1]).ok_or(NO_SCRIPT)?;
            runner.evalsha(context, &sha, call).ok_or(NO_SCRIPT)
        }
        ScriptCommand::Manage => manage(runner, context, arguments),
    }
}

/// Whether the script that a request names, by its text or by its SHA-1, declares that it writes nothing.
pub(crate) fn declares_no_writes(runner: &Runner, command: ScriptCommand, named: &[u8]) -> bool {
    match command {
        ScriptCommand::Eval { .. } => shebang::read(named).is_ok_and(|head| head.is_read_only),
        ScriptCommand::EvalSha { .. } => {
            sha_of_text(named).is_some_and(|sha| runner.is_read_only(&sha))
        }
        ScriptCommand::Manage => false,
    }
}

fn invocation(
    arguments: Arguments<'_>,
    is_read_only: bool,
) -> Result<ScriptArguments<'_>, ErrorReply> {
    let count = parse_integer(arguments[2]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let rest = &arguments[3..];
    if count < 0 {
        return Err(NEGATIVE_KEYS);
    }
    let count = usize::try_from(count)
        .ok()
        .filter(|&count| count <= rest.len());
    let (keys, rest) = rest.split_at(count.ok_or(TOO_MANY_KEYS)?);
    Ok(ScriptArguments {
        keys,
        rest,
        is_read_only,
    })
}

fn manage(
    runner: &mut Runner,
    context: &mut CommandContext<'_>,
    arguments: Arguments<'_>,
) -> Result<Reply, ErrorReply> {
    let rest = &arguments[2..];
    let subcommand = arguments[1].to_ascii_lowercase();
    match (&*subcommand, rest) {
        (b"load", [body]) => runner.load(body).map(Reply::bulk),
        (b"exists", [_, ..]) => {
            let known = |text: &[u8]| sha_of_text(text).is_some_and(|sha| runner.contains(&sha));
            let mut flags = Vec::new();
            for text in rest {
                context.effects.charge(0)?;
                flags.push(Reply::flag(known(text)));
            }
            Ok(Reply::Array(flags))
        }
        (b"flush", []) => {
            runner.flush();
            Ok(Reply::Ok)
        }
        (b"flush", [mode]) if is_flush_mode(mode) => {
            runner.flush();
            Ok(Reply::Ok)
        }
        (b"flush", _) => Err(FLUSH_MODE),
        (b"kill", []) => Err(NOT_BUSY),
        (b"help", []) => Ok(Reply::help("SCRIPT", HELP)),
        (b"load", _) => Err(ErrorReply::wrong_arity("script|load")),
        (b"exists", _) => Err(ErrorReply::wrong_arity("script|exists")),
        (b"help", _) => Err(ErrorReply::wrong_arity("script|help")),
        (b"kill", _) => Err(ErrorReply::wrong_arity("script|kill")),
        _ => Err(ErrorReply::unknown_subcommand("script", arguments[1])),
    }
}

fn is_flush_mode(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"sync") || text.eq_ignore_ascii_case(b"async")
}

const NEGATIVE_KEYS: ErrorReply = ErrorReply::fixed("ERR Number of keys can't be negative");
const TOO_MANY_KEYS: ErrorReply =
    ErrorReply::fixed("ERR Number of keys can't be greater than number of args");
const FLUSH_MODE: ErrorReply = ErrorReply::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option");

/// A script runs to its end while the engine is locked, so that KILL never meets one.
const NOT_BUSY: ErrorReply = ErrorReply::fixed("NOTBUSY No scripts in execution right now.");

const HELP: &[&str] = &[
    "EXISTS <sha1> [<sha1> ...]",
    "    Tells which of the scripts the node knows.",
    "FLUSH [ASYNC|SYNC]",
    "    Forgets all scripts.",
    "KILL",
    "    Nothing to do here: a script that takes too long is ended and undone.",
    "LOAD <script>",
    "    Compiles a script and keeps it for EVALSHA.",
];
