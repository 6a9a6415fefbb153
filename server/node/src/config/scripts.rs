//! The directives of scripts.

use std::time::Duration;

use super::directive::Directive;
use super::times::time;
use super::value::{memory, one, show_milliseconds, show_yes_or_no, yes_or_no};

/// How long one runs.
pub(super) const TIME_LIMIT: Directive = Directive::live(
    "script-time-limit",
    "500",
    "milliseconds (unit allowed), 1ms to 60s",
    "A script that runs longer is ended and undone.",
    |c, v| time(one(v)?, Duration::from_secs(60)).map(|time| c.script_time_limit = time),
    |c| show_milliseconds(c.script_time_limit),
);

/// How long its text is.
pub(super) const SIZE_LIMIT: Directive = Directive::live(
    "script-size-limit",
    "65536",
    "bytes, 1kb to 1mb",
    "Longest text of a script. Compiling a long one holds up everybody.",
    |c, v| memory(one(v)?, 1024, MEBIBYTE).map(|bytes| c.script_size_limit = bytes),
    |c| c.script_size_limit.to_string(),
);

/// How much the kept ones take.
pub(super) const LOAD_LIMIT: Directive = Directive::live(
    "script-load-limit",
    "16777216",
    "bytes, 64kb to 1gb",
    "Memory that the scripts kept by SCRIPT LOAD may take, each its text and 256 bytes.",
    |c, v| memory(one(v)?, 64 * 1024, 1024 * MEBIBYTE).map(|bytes| c.script_load_limit = bytes),
    |c| c.script_load_limit.to_string(),
);

/// How it is run.
pub(super) const NATIVE: Directive = Directive::live(
    "script-native",
    "yes",
    "`yes`, `no`",
    "Run scripts of conditions and calls alone without the interpreter, with the same replies and effects.",
    |c, v| yes_or_no(one(v)?).map(|yes| c.script_native = yes),
    |c| show_yes_or_no(c.script_native),
);

const MEBIBYTE: u64 = 1 << 20;
