//! Redis's directives that tools and test suites set while a server runs, and that change nothing here: their values are
//! checked as Redis checks them, and kept until the node stops.

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
    kept("activedefrag", "no", Kind::YesOrNo, MEMORY),
    kept(
        "active-defrag-cycle-max",
        "25",
        Kind::Integer(1, 99),
        MEMORY,
    ),
    kept("active-defrag-cycle-min", "1", Kind::Integer(1, 99), MEMORY),
    kept(
        "active-defrag-ignore-bytes",
        "104857600",
        Kind::Memory(1),
        MEMORY,
    ),
    kept(
        "active-defrag-max-scan-fields",
        "1000",
        Kind::Integer(1, i64::MAX),
        MEMORY,
    ),
    kept(
        "active-defrag-threshold-lower",
        "10",
        Kind::Integer(0, 1000),
        MEMORY,
    ),
    kept(
        "active-defrag-threshold-upper",
        "100",
        Kind::Integer(0, 1000),
        MEMORY,
    ),
    kept("active-expire-effort", "1", Kind::Integer(1, 10), EXPIRY),
    kept("activerehashing", "yes", Kind::YesOrNo, TABLE),
    kept("dynamic-hz", "yes", Kind::YesOrNo, EXPIRY),
    kept(
        "hash-max-listpack-entries",
        "512",
        Kind::Integer(0, i64::MAX),
        ENCODING,
    ),
    alias(
        "hash-max-ziplist-entries",
        "hash-max-listpack-entries",
        "512",
        Kind::Integer(0, i64::MAX),
        ENCODING,
    ),
    kept("hash-max-listpack-value", "64", Kind::Memory(0), ENCODING),
    alias(
        "hash-max-ziplist-value",
        "hash-max-listpack-value",
        "64",
        Kind::Memory(0),
        ENCODING,
    ),
    kept("hll-sparse-max-bytes", "3000", Kind::Memory(0), ENCODING),
    kept("hz", "10", Kind::Clamped(1, 500), EXPIRY),
    kept("io-threads", "1", Kind::Integer(1, 128), WORKERS),
    kept("io-threads-do-reads", "no", Kind::YesOrNo, WORKERS),
    kept("lazyfree-lazy-eviction", "no", Kind::YesOrNo, FREED),
    kept("lazyfree-lazy-expire", "no", Kind::YesOrNo, FREED),
    kept("lazyfree-lazy-server-del", "no", Kind::YesOrNo, FREED),
    kept("lazyfree-lazy-user-del", "no", Kind::YesOrNo, FREED),
    kept("lazyfree-lazy-user-flush", "no", Kind::YesOrNo, FREED),
    kept(
        "list-compress-depth",
        "0",
        Kind::Integer(0, i32::MAX as i64),
        ENCODING,
    ),
    kept(
        "list-max-listpack-size",
        "-2",
        Kind::Integer(i32::MIN as i64, i32::MAX as i64),
        ENCODING,
    ),
    alias(
        "list-max-ziplist-size",
        "list-max-listpack-size",
        "-2",
        Kind::Integer(i32::MIN as i64, i32::MAX as i64),
        ENCODING,
    ),
    kept(
        "lua-time-limit",
        "5000",
        Kind::Integer(0, i64::MAX),
        SCRIPTS,
    ),
    alias(
        "busy-reply-threshold",
        "lua-time-limit",
        "5000",
        Kind::Integer(0, i64::MAX),
        SCRIPTS,
    ),
    kept(
        "set-max-intset-entries",
        "512",
        Kind::Integer(0, i64::MAX),
        ENCODING,
    ),
    kept(
        "set-max-listpack-entries",
        "128",
        Kind::Integer(0, i64::MAX),
        ENCODING,
    ),
    kept("set-max-listpack-value", "64", Kind::Memory(0), ENCODING),
    kept("stream-node-max-bytes", "4096", Kind::Memory(0), ENCODING),
    kept(
        "stream-node-max-entries",
        "100",
        Kind::Integer(0, i64::MAX),
        ENCODING,
    ),
    kept(
        "zset-max-listpack-entries",
        "128",
        Kind::Integer(0, i64::MAX),
        ENCODING,
    ),
    alias(
        "zset-max-ziplist-entries",
        "zset-max-listpack-entries",
        "128",
        Kind::Integer(0, i64::MAX),
        ENCODING,
    ),
    kept("zset-max-listpack-value", "64", Kind::Memory(0), ENCODING),
    alias(
        "zset-max-ziplist-value",
        "zset-max-listpack-value",
        "64",
        Kind::Memory(0),
        ENCODING,
    ),
];

const EXPIRY: &str = "a key is gone at its deadline, and its memory is freed in small steps";
const SCRIPTS: &str = "see script-time-limit: a script that runs too long is ended and undone";
const FREED: &str = "memory is freed in small steps anyway";
const TABLE: &str = "the table of keys is of another kind";
const WORKERS: &str = "see workers";
