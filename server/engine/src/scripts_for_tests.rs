//! What comes of a script, as text to compare, and what random scripts are made of: for tests and for the fuzz target `scripts`. It
//! is compiled for them alone.

use crate::effects::Effects;
use crate::engine::Engine;

/// All that a command has done beside its reply.
pub fn shown(effects: &Effects, engine: &Engine) -> String {
    let statistics = engine.statistics();
    let deadlines = (effects.longest_deadline, effects.longest_covered);
    let waits = (effects.depends, effects.uncovered, effects.was_too_large);
    let counts = (&effects.script_counts, statistics.hits, statistics.misses);
    let (journal, published) = (&effects.journal, &effects.published);
    format!("{journal:?} {waits:?} {deadlines:?} {counts:?} {published:?}")
}

/// One key of each of four types.
pub const KEYS: [&str; 4] = ["text", "number", "hash", "list"];

/// Words of conditions and of arguments.
pub const LITERALS: &[&str] = &[
    "'a'",
    "\"token\"",
    "'1'",
    "'30000'",
    "'NX'",
    "'XX'",
    "'PX'",
    "'GET'",
    "''",
    "'it\"s'",
    "0",
    "1",
    "17",
    "-3",
    "60001",
    "9007199254740993",
    "nil",
    "true",
    "false",
    "ARGV[1]",
    "ARGV[2]",
    "ARGV[3]",
    "ARGV[9]",
    "KEYS[1]",
    "KEYS[ 2 ]",
    "KEYS[3]",
    "KEYS[4]",
    "KEYS[5]",
    "one",
    "two",
];
