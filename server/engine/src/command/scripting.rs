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
.about(Categories::SCRIPTING, &[KeyAccess::CHANGE])
.counted_at(2);

const EVALSHA: Spec = runs(
    "evalsha",
    ScriptCommand::EvalSha {
        is_read_only: false,
    },
)
.about(Categories::SCRIPTING, &[KeyAccess::CHANGE])
.counted_at(2);

const EVAL_RO: Spec = runs("eval_ro", ScriptCommand::Eval { is_read_only: true })
    .flags(RUNS.with(Flags::READ))
    .about(Categories::SCRIPTING, &[KeyAccess::READ])
    .counted_at(2);

const EVALSHA_RO: Spec = runs("evalsha_ro", ScriptCommand::EvalSha { is_read_only: true })
    .flags(RUNS.with(Flags::READ))
    .about(Categories::SCRIPTING, &[KeyAccess::READ])
    .counted_at(2);

const fn runs(name: &'static str, command: ScriptCommand) -> Spec {
    Spec::new(name, -3, Handler::Script(command)).flags(RUNS.with(Flags::MAY_REPLICATE))
}

const SCRIPT: Spec = Spec::new("script", -2, Handler::Script(ScriptCommand::Manage))
    .flags(Flags::NO_SCRIPT)
    .about(Categories::NONE, &[])
    .subcommands(PARTS);

const PARTS: &[Description] = &[
    part("exists", -3, Flags::NO_SCRIPT).of(Categories::SCRIPTING),
    part("flush", -2, Flags::NO_SCRIPT).of(Categories::SCRIPTING),
    help(Categories::SCRIPTING),
    part("kill", 2, Flags::NO_SCRIPT.with(Flags::ALLOW_BUSY)).of(Categories::SCRIPTING),
    part("load", 3, Flags::NO_SCRIPT.with(Flags::STALE)).of(Categories::SCRIPTING),
];
