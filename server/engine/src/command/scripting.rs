//! The rows of EVAL and its variants, and of SCRIPT. What runs them is in `script`.

use crate::command::spec::{Family, Flags, Handler, KeyPositions, ScriptCommand, Spec};

pub(super) const FAMILY: Family = &[&EVAL, &EVALSHA, &EVAL_RO, &EVALSHA_RO, &SCRIPT];

const RUNS: Flags = Flags::SCRIPT
    .with(Flags::NO_SCRIPT)
    .with(Flags::TOUCHES_KEYS);

const EVAL: Spec = Spec {
    name: "eval",
    arity: -3,
    flags: RUNS.with(Flags::WRITE),
    keys: KeyPositions::NONE,
    summary: "Runs a Lua script",
    handler: Handler::Script(ScriptCommand::Eval {
        is_read_only: false,
    }),
};

const EVALSHA: Spec = Spec {
    name: "evalsha",
    summary: "Runs a Lua script that the node knows, named by its SHA-1",
    handler: Handler::Script(ScriptCommand::EvalSha {
        is_read_only: false,
    }),
    ..EVAL
};

const EVAL_RO: Spec = Spec {
    name: "eval_ro",
    flags: RUNS.with(Flags::READ),
    summary: "Runs a Lua script that may not write",
    handler: Handler::Script(ScriptCommand::Eval { is_read_only: true }),
    ..EVAL
};

const EVALSHA_RO: Spec = Spec {
    name: "evalsha_ro",
    flags: RUNS.with(Flags::READ),
    summary: "Runs a Lua script that the node knows and that may not write",
    handler: Handler::Script(ScriptCommand::EvalSha { is_read_only: true }),
    ..EVAL
};

const SCRIPT: Spec = Spec {
    name: "script",
    arity: -2,
    flags: Flags::NO_SCRIPT,
    keys: KeyPositions::NONE,
    summary: "Loads, finds and forgets Lua scripts",
    handler: Handler::Script(ScriptCommand::Manage),
};
