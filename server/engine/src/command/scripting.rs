//! The rows of EVAL and its variants, and of SCRIPT. What runs them is in `script`.

use crate::command::about::{Categories, Description, KeyAccess, help, part};
use crate::command::spec::{Family, Flags, Handler, ScriptCommand, Spec};

pub(super) const FAMILY: Family = &[&EVAL, &EVALSHA, &EVAL_RO, &EVALSHA_RO, &SCRIPT];

const RUNS: Flags = Flags::SCRIPT
    .with(Flags::NO_SCRIPT)
    .with(Flags::TOUCHES_KEYS)
    .with(Flags::STALE)
    .with(Flags::SKIP_MONITOR)
    .with(Flags::NO_MANDATORY_KEYS)
    .with(Flags::MOVABLE_KEYS);

const EVAL: Spec = runs(
    "eval",
    ScriptCommand::Eval {
        is_read_only: false,
    },
)
.about("2.6.0", Categories::SCRIPTING, &[KeyAccess::CHANGE])
.counted_at(2)
.summary("Runs a Lua script")
.syntax("script numkeys [key [key ...]] [arg [arg ...]]");

const EVALSHA: Spec = runs(
    "evalsha",
    ScriptCommand::EvalSha {
        is_read_only: false,
    },
)
.about("2.6.0", Categories::SCRIPTING, &[KeyAccess::CHANGE])
.counted_at(2)
.summary("Runs a Lua script that the node knows, named by its SHA-1")
.syntax("sha1 numkeys [key [key ...]] [arg [arg ...]]");

const EVAL_RO: Spec = runs("eval_ro", ScriptCommand::Eval { is_read_only: true })
    .flags(RUNS.with(Flags::READ))
    .about("7.0.0", Categories::SCRIPTING, &[KeyAccess::READ])
    .counted_at(2)
    .summary("Runs a Lua script that may not write")
    .syntax("script numkeys [key [key ...]] [arg [arg ...]]");

const EVALSHA_RO: Spec = runs("evalsha_ro", ScriptCommand::EvalSha { is_read_only: true })
    .flags(RUNS.with(Flags::READ))
    .about("7.0.0", Categories::SCRIPTING, &[KeyAccess::READ])
    .counted_at(2)
    .summary("Runs a Lua script that the node knows and that may not write")
    .syntax("sha1 numkeys [key [key ...]] [arg [arg ...]]");

const fn runs(name: &'static str, command: ScriptCommand) -> Spec {
    Spec::new(name, -3, Handler::Script(command)).flags(RUNS.with(Flags::MAY_REPLICATE))
}

const SCRIPT: Spec = Spec::new("script", -2, Handler::Script(ScriptCommand::Manage))
    .flags(Flags::NO_SCRIPT)
    .about("2.6.0", Categories::NONE, &[])
    .subcommands(PARTS)
    .summary("Loads, finds and forgets Lua scripts");

const PARTS: &[Description] = &[
    part("exists", -3, Flags::NO_SCRIPT)
        .documented(
            "2.6.0",
            Categories::SCRIPTING,
            "Tells which scripts the node knows",
        )
        .syntax("sha1 [sha1 ...]"),
    part("flush", -2, Flags::NO_SCRIPT)
        .documented("2.6.0", Categories::SCRIPTING, "Forgets all scripts")
        .syntax("[async: ASYNC|SYNC]"),
    help("5.0.0", Categories::SCRIPTING),
    part("kill", 2, Flags::NO_SCRIPT.with(Flags::ALLOW_BUSY)).documented(
        "2.6.0",
        Categories::SCRIPTING,
        "Answers that no script runs",
    ),
    part("load", 3, Flags::NO_SCRIPT.with(Flags::STALE))
        .documented("2.6.0", Categories::SCRIPTING, "Keeps a script for EVALSHA")
        .syntax("script"),
];
