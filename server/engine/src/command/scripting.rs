//! The rows of EVAL and its variants, and of SCRIPT. What runs them is in `script`.

use crate::command::about::{Categories, Description, Docs, KeyAccess, help, part};
use crate::command::spec::{Family, Flags, Handler, KeyPositions, ScriptCommand, Spec};

pub(super) const FAMILY: Family = &[&EVAL, &EVALSHA, &EVAL_RO, &EVALSHA_RO, &SCRIPT];

const RUNS: Flags = Flags::SCRIPT
    .with(Flags::NO_SCRIPT)
    .with(Flags::TOUCHES_KEYS)
    .with(Flags::STALE)
    .with(Flags::SKIP_MONITOR)
    .with(Flags::NO_MANDATORY_KEYS)
    .with(Flags::MOVABLE_KEYS);

const EVAL: Spec = Spec {
    name: "eval",
    about: Docs::new("2.6.0", Categories::SCRIPTING, &[KeyAccess::CHANGE]).counted_at(2),
    arity: -3,
    flags: RUNS.with(Flags::MAY_REPLICATE),
    keys: KeyPositions::NONE,
    summary: "Runs a Lua script",
    syntax: "script numkeys [key [key ...]] [arg [arg ...]]",
    handler: Handler::Script(ScriptCommand::Eval {
        is_read_only: false,
    }),
};

const EVALSHA: Spec = Spec {
    name: "evalsha",
    about: Docs::new("2.6.0", Categories::SCRIPTING, &[KeyAccess::CHANGE]).counted_at(2),
    summary: "Runs a Lua script that the node knows, named by its SHA-1",
    syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
    handler: Handler::Script(ScriptCommand::EvalSha {
        is_read_only: false,
    }),
    ..EVAL
};

const EVAL_RO: Spec = Spec {
    name: "eval_ro",
    about: Docs::new("7.0.0", Categories::SCRIPTING, &[KeyAccess::READ]).counted_at(2),
    flags: RUNS.with(Flags::READ),
    summary: "Runs a Lua script that may not write",
    handler: Handler::Script(ScriptCommand::Eval { is_read_only: true }),
    ..EVAL
};

const EVALSHA_RO: Spec = Spec {
    name: "evalsha_ro",
    about: Docs::new("7.0.0", Categories::SCRIPTING, &[KeyAccess::READ]).counted_at(2),
    flags: RUNS.with(Flags::READ),
    summary: "Runs a Lua script that the node knows and that may not write",
    syntax: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
    handler: Handler::Script(ScriptCommand::EvalSha { is_read_only: true }),
    ..EVAL
};

const SCRIPT: Spec = Spec {
    name: "script",
    about: Docs::new("2.6.0", Categories::NONE, &[]).with_subcommands(PARTS),
    arity: -2,
    flags: Flags::NO_SCRIPT,
    keys: KeyPositions::NONE,
    summary: "Loads, finds and forgets Lua scripts",
    syntax: "",
    handler: Handler::Script(ScriptCommand::Manage),
};

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
