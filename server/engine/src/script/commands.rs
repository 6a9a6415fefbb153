//! EVAL and its kin, and SCRIPT.

use crate::command::{Action, Family, Flags, KeyPositions, Spec};
use crate::error::ErrorReply;
use crate::reply::Reply;
use crate::script::Scripts;
use crate::script::cache::sha_of_text;
use crate::script::runner::{Invocation, NO_SCRIPT};
use crate::turn::Turn;

pub(crate) const FAMILY: Family = &[&EVAL, &EVALSHA, &EVAL_RO, &EVALSHA_RO, &SCRIPT];

const RUNS: Flags = Flags::SCRIPT
    .with(Flags::NO_SCRIPT)
    .with(Flags::TOUCHES_KEYS);

const EVAL: Spec = Spec {
    name: "eval",
    arity: -3,
    flags: RUNS.with(Flags::WRITE),
    keys: KeyPositions::NONE,
    summary: "Runs a Lua script",
    action: Action::Script(eval),
};

const EVALSHA: Spec = Spec {
    name: "evalsha",
    summary: "Runs a Lua script that the node knows, named by its SHA-1",
    action: Action::Script(evalsha),
    ..EVAL
};

const EVAL_RO: Spec = Spec {
    name: "eval_ro",
    flags: RUNS.with(Flags::READ),
    summary: "Runs a Lua script that may not write",
    action: Action::Script(eval_ro),
    ..EVAL
};

const EVALSHA_RO: Spec = Spec {
    name: "evalsha_ro",
    flags: RUNS.with(Flags::READ),
    summary: "Runs a Lua script that the node knows and that may not write",
    action: Action::Script(evalsha_ro),
    ..EVAL
};

const SCRIPT: Spec = Spec {
    name: "script",
    arity: -2,
    flags: Flags::NO_SCRIPT,
    keys: KeyPositions::NONE,
    summary: "Loads, finds and forgets Lua scripts",
    action: Action::Script(script),
};

type Arguments<'a> = &'a [&'a [u8]];

fn eval(scripts: &mut Scripts, turn: &mut Turn<'_>, arguments: Arguments<'_>) -> Reply {
    by_body(scripts, turn, arguments, false).unwrap_or_else(Reply::Error)
}

fn eval_ro(scripts: &mut Scripts, turn: &mut Turn<'_>, arguments: Arguments<'_>) -> Reply {
    by_body(scripts, turn, arguments, true).unwrap_or_else(Reply::Error)
}

fn evalsha(scripts: &mut Scripts, turn: &mut Turn<'_>, arguments: Arguments<'_>) -> Reply {
    by_sha(scripts, turn, arguments, false).unwrap_or_else(Reply::Error)
}

fn evalsha_ro(scripts: &mut Scripts, turn: &mut Turn<'_>, arguments: Arguments<'_>) -> Reply {
    by_sha(scripts, turn, arguments, true).unwrap_or_else(Reply::Error)
}

fn by_body(
    scripts: &mut Scripts,
    turn: &mut Turn<'_>,
    arguments: Arguments<'_>,
    is_read_only: bool,
) -> Result<Reply, ErrorReply> {
    let call = invocation(arguments, is_read_only)?;
    Ok(scripts.runner().eval(turn, arguments[1], call))
}

fn by_sha(
    scripts: &mut Scripts,
    turn: &mut Turn<'_>,
    arguments: Arguments<'_>,
    is_read_only: bool,
) -> Result<Reply, ErrorReply> {
    let call = invocation(arguments, is_read_only)?;
    let sha = sha_of_text(arguments[1]).ok_or(NO_SCRIPT)?;
    scripts.runner().evalsha(turn, &sha, call).ok_or(NO_SCRIPT)
}

fn invocation(arguments: Arguments<'_>, is_read_only: bool) -> Result<Invocation<'_>, ErrorReply> {
    let count = std::str::from_utf8(arguments[2])
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    let rest = &arguments[3..];
    let count = count.ok_or(ErrorReply::NOT_AN_INTEGER)?;
    if count < 0 {
        return Err(NEGATIVE_KEYS);
    }
    let count = usize::try_from(count)
        .ok()
        .filter(|&count| count <= rest.len());
    let (keys, rest) = rest.split_at(count.ok_or(TOO_MANY_KEYS)?);
    Ok(Invocation {
        keys,
        rest,
        is_read_only,
    })
}

fn script(scripts: &mut Scripts, turn: &mut Turn<'_>, arguments: Arguments<'_>) -> Reply {
    let rest = &arguments[2..];
    let subcommand = arguments[1].to_ascii_lowercase();
    match (&*subcommand, rest) {
        (b"load", [body]) => match scripts.runner().load(body) {
            Ok(sha) => Reply::bulk(sha),
            Err(error) => Reply::Error(error),
        },
        (b"exists", [_, ..]) => {
            let runner = scripts.runner();
            let known = |text: &&[u8]| sha_of_text(text).is_some_and(|sha| runner.contains(&sha));
            let mut flags = Vec::new();
            for text in rest {
                if let Err(error) = turn.effects.charge(0) {
                    return Reply::Error(error);
                }
                flags.push(Reply::flag(known(text)));
            }
            Reply::Array(flags)
        }
        (b"flush", [] | [_]) => {
            let mode = rest.first().map(|mode| mode.to_ascii_lowercase());
            match mode.as_deref() {
                None | Some(b"sync" | b"async") => {
                    scripts.runner().flush();
                    Reply::Ok
                }
                Some(_) => Reply::Error(FLUSH_MODE),
            }
        }
        (b"kill", []) => Reply::Error(NOT_BUSY),
        (b"help", []) => Reply::Array(HELP.iter().map(|&line| Reply::status(line)).collect()),
        (b"load", _) => Reply::Error(ErrorReply::wrong_arity("script|load")),
        (b"exists", _) => Reply::Error(ErrorReply::wrong_arity("script|exists")),
        (b"flush", _) => Reply::Error(ErrorReply::wrong_arity("script|flush")),
        (b"kill", _) => Reply::Error(ErrorReply::wrong_arity("script|kill")),
        _ => Reply::Error(ErrorReply::unknown_subcommand("script", arguments[1])),
    }
}

const NEGATIVE_KEYS: ErrorReply = ErrorReply::fixed("ERR Number of keys can't be negative");
const TOO_MANY_KEYS: ErrorReply =
    ErrorReply::fixed("ERR Number of keys can't be greater than number of args");
const FLUSH_MODE: ErrorReply = ErrorReply::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option");

/// Nobody ever has to wait for a script: one that takes too long is ended and undone.
const NOT_BUSY: ErrorReply = ErrorReply::fixed("NOTBUSY No scripts in execution right now.");

const HELP: &[&str] = &[
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "EXISTS <sha1> [<sha1> ...]",
    "    Tells which of the scripts the node knows.",
    "FLUSH [ASYNC|SYNC]",
    "    Forgets all scripts.",
    "KILL",
    "    Nothing to do here: a script that takes too long is ended and undone.",
    "LOAD <script>",
    "    Compiles a script and keeps it for EVALSHA.",
];
