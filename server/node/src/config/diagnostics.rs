//! Directives about what is noted of commands: the slow log, and what ACL LOG keeps.

use super::directive::Directive;
use super::value::{integer, one};

/// Those that a node uses.
pub(super) const USED: &[Directive] = &[
    Directive::used(
        "slowlog-log-slower-than",
        "10000",
        "-1 to 9223372036854775807, in microseconds, -1 = none",
        "A command that takes as long is in SLOWLOG. 0: every command, each of which then costs two readings of the clock.",
        |c, v| integer(one(v)?, -1, i64::MAX).map(|us| c.slowlog_log_slower_than = us),
        |c| c.slowlog_log_slower_than.to_string(),
    )
    .live(),
    Directive::used(
        "slowlog-max-len",
        "128",
        "0 to 9223372036854775807",
        "How many entries SLOWLOG keeps. It keeps fewer where they take more than 16 MiB.",
        |c, v| integer(one(v)?, 0, usize::MAX >> 1).map(|entries| c.slowlog_max_len = entries),
        |c| c.slowlog_max_len.to_string(),
    )
    .live(),
    Directive::used(
        "acllog-max-len",
        "128",
        "0 to 100000",
        "How many entries ACL LOG keeps.",
        |c, v| integer(one(v)?, 0, 100_000).map(|entries| c.acllog_max_len = entries),
        |c| c.acllog_max_len.to_string(),
    )
    .live(),
];
