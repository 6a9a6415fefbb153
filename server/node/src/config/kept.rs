//! Redis's directives that tools and test suites set while a server runs, and that change nothing here: their values are
//! checked as Redis checks them, and kept until the node stops.

use super::directive::Kind::{Clamped, Integer, Memory, YesOrNo};
use super::directive::{Directive, Kind};
use super::redis::{ENCODING, MEMORY};

const fn kept(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    summary: &'static str,
) -> Directive {
    Directive::kept([name, name], default, kind, summary)
}

/// Another name of the value of `holder`.
const fn alias(
    name: &'static str,
    holder: &'static str,
    default: &'static str,
    kind: Kind,
    summary: &'static str,
) -> Directive {
    Directive::kept([name, holder], default, kind, summary)
}

/// Name, Redis's default, what Redis takes, why it has no effect.
pub(super) const KEPT: &[Directive] = &[
    kept("activedefrag", "no", YesOrNo, MEMORY),
    kept("active-defrag-cycle-max", "25", Integer(1, 99), MEMORY),
    kept("active-defrag-cycle-min", "1", Integer(1, 99), MEMORY),
    kept("active-defrag-ignore-bytes", "104857600", Memory(1), MEMORY),
    kept(
        "active-defrag-max-scan-fields",
        "1000",
        Integer(1, i64::MAX),
        MEMORY,
    ),
    kept(
        "active-defrag-threshold-lower",
        "10",
        Integer(0, 1000),
        MEMORY,
    ),
    kept(
        "active-defrag-threshold-upper",
        "100",
        Integer(0, 1000),
        MEMORY,
    ),
    kept("active-expire-effort", "1", Integer(1, 10), EXPIRY),
    kept("activerehashing", "yes", YesOrNo, TABLE),
    kept("dynamic-hz", "yes", YesOrNo, EXPIRY),
    kept("hash-max-listpack-entries", "512", COUNT, ENCODING),
    alias(
        "hash-max-ziplist-entries",
        "hash-max-listpack-entries",
        "512",
        COUNT,
        ENCODING,
    ),
    kept("hash-max-listpack-value", "64", Memory(0), ENCODING),
    alias(
        "hash-max-ziplist-value",
        "hash-max-listpack-value",
        "64",
        Memory(0),
        ENCODING,
    ),
    kept("hll-sparse-max-bytes", "3000", Memory(0), ENCODING),
    kept("hz", "10", Clamped(1, 500), EXPIRY),
    kept("io-threads", "1", Integer(1, 128), WORKERS),
    kept("io-threads-do-reads", "no", YesOrNo, WORKERS),
    kept("lazyfree-lazy-eviction", "no", YesOrNo, FREED),
    kept("lazyfree-lazy-expire", "no", YesOrNo, FREED),
    kept("lazyfree-lazy-server-del", "no", YesOrNo, FREED),
    kept("lazyfree-lazy-user-del", "no", YesOrNo, FREED),
    kept("lazyfree-lazy-user-flush", "no", YesOrNo, FREED),
    kept(
        "list-compress-depth",
        "0",
        Integer(0, i32::MAX as i64),
        ENCODING,
    ),
    kept(
        "list-max-listpack-size",
        "-2",
        Integer(i32::MIN as i64, i32::MAX as i64),
        ENCODING,
    ),
    alias(
        "list-max-ziplist-size",
        "list-max-listpack-size",
        "-2",
        Integer(i32::MIN as i64, i32::MAX as i64),
        ENCODING,
    ),
    kept("lua-time-limit", "5000", COUNT, SCRIPTS),
    alias(
        "busy-reply-threshold",
        "lua-time-limit",
        "5000",
        COUNT,
        SCRIPTS,
    ),
    kept("set-max-intset-entries", "512", COUNT, ENCODING),
    kept("set-max-listpack-entries", "128", COUNT, ENCODING),
    kept("set-max-listpack-value", "64", Memory(0), ENCODING),
    kept("stream-node-max-bytes", "4096", Memory(0), ENCODING),
    kept("stream-node-max-entries", "100", COUNT, ENCODING),
    kept("zset-max-listpack-entries", "128", COUNT, ENCODING),
    alias(
        "zset-max-ziplist-entries",
        "zset-max-listpack-entries",
        "128",
        COUNT,
        ENCODING,
    ),
    kept("zset-max-listpack-value", "64", Memory(0), ENCODING),
    alias(
        "zset-max-ziplist-value",
        "zset-max-listpack-value",
        "64",
        Memory(0),
        ENCODING,
    ),
];

const COUNT: Kind = Integer(0, i64::MAX);
const EXPIRY: &str = "a key is gone at its deadline, and its memory is freed in small steps";
const SCRIPTS: &str = "see script-time-limit: a script that runs too long is ended and undone";
const FREED: &str = "memory is freed in small steps anyway";
const TABLE: &str = "the table of keys is of another kind";
const WORKERS: &str = "see workers";
