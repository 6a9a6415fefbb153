//! Redis's directives that tools and test suites set while a server runs, and that change nothing here: their values are
//! checked as Redis checks them, and kept until the node stops.

use super::directive::Kind::{Clamped, Integer, Memory, YesOrNo};
use super::directive::{Directive, Kind};
use super::redis::{ENCODING, MEMORY};

/// Name, Redis's default, what Redis takes, why it has no effect.
pub(super) const KEPT: &[Directive] = &[
    Directive::kept("activedefrag", "no", YesOrNo, MEMORY),
    Directive::kept("active-defrag-cycle-max", "25", Integer(1, 99), MEMORY),
    Directive::kept("active-defrag-cycle-min", "1", Integer(1, 99), MEMORY),
    Directive::kept("active-defrag-ignore-bytes", "104857600", Memory(1), MEMORY),
    Directive::kept(
        "active-defrag-max-scan-fields",
        "1000",
        Integer(1, i64::MAX),
        MEMORY,
    ),
    Directive::kept("active-defrag-threshold-lower", "10", THRESHOLD, MEMORY),
    Directive::kept("active-defrag-threshold-upper", "100", THRESHOLD, MEMORY),
    Directive::kept("active-expire-effort", "1", Integer(1, 10), EXPIRY),
    Directive::kept("activerehashing", "yes", YesOrNo, TABLE),
    Directive::kept("dynamic-hz", "yes", YesOrNo, EXPIRY),
    HASH_ENTRIES,
    HASH_ENTRIES.alias("hash-max-ziplist-entries"),
    HASH_VALUE,
    HASH_VALUE.alias("hash-max-ziplist-value"),
    Directive::kept("hll-sparse-max-bytes", "3000", Memory(0), ENCODING),
    Directive::kept("hz", "10", Clamped(1, 500), EXPIRY),
    Directive::kept("io-threads", "1", Integer(1, 128), WORKERS),
    Directive::kept("io-threads-do-reads", "no", YesOrNo, WORKERS),
    Directive::kept("lazyfree-lazy-eviction", "no", YesOrNo, FREED),
    Directive::kept("lazyfree-lazy-expire", "no", YesOrNo, FREED),
    Directive::kept("lazyfree-lazy-server-del", "no", YesOrNo, FREED),
    Directive::kept("lazyfree-lazy-user-del", "no", YesOrNo, FREED),
    Directive::kept("lazyfree-lazy-user-flush", "no", YesOrNo, FREED),
    Directive::kept(
        "list-compress-depth",
        "0",
        Integer(0, i32::MAX as i64),
        ENCODING,
    ),
    LIST_SIZE,
    LIST_SIZE.alias("list-max-ziplist-size"),
    TIME_LIMIT,
    TIME_LIMIT.alias("busy-reply-threshold"),
    Directive::kept("set-max-intset-entries", "512", COUNT, ENCODING),
    Directive::kept("set-max-listpack-entries", "128", COUNT, ENCODING),
    Directive::kept("set-max-listpack-value", "64", Memory(0), ENCODING),
    Directive::kept("stream-node-max-bytes", "4096", Memory(0), ENCODING),
    Directive::kept("stream-node-max-entries", "100", COUNT, ENCODING),
    SORTED_SET_ENTRIES,
    SORTED_SET_ENTRIES.alias("zset-max-ziplist-entries"),
    SORTED_SET_VALUE,
    SORTED_SET_VALUE.alias("zset-max-ziplist-value"),
];

const HASH_ENTRIES: Directive =
    Directive::kept("hash-max-listpack-entries", "512", COUNT, ENCODING);
const HASH_VALUE: Directive = Directive::kept("hash-max-listpack-value", "64", Memory(0), ENCODING);
const LIST_SIZE: Directive = Directive::kept(
    "list-max-listpack-size",
    "-2",
    Integer(i32::MIN as i64, i32::MAX as i64),
    ENCODING,
);
const TIME_LIMIT: Directive = Directive::kept("lua-time-limit", "5000", COUNT, SCRIPTS);
const SORTED_SET_ENTRIES: Directive =
    Directive::kept("zset-max-listpack-entries", "128", COUNT, ENCODING);
const SORTED_SET_VALUE: Directive =
    Directive::kept("zset-max-listpack-value", "64", Memory(0), ENCODING);
const THRESHOLD: Kind = Integer(0, 1000);
const COUNT: Kind = Integer(0, i64::MAX);
const EXPIRY: &str = "a key is gone at its deadline, and its memory is freed in small steps";
const SCRIPTS: &str = "see script-time-limit: a script that runs too long is ended and undone";
const FREED: &str = "memory is freed in small steps anyway";
const TABLE: &str = "the table of keys is of another kind";
const WORKERS: &str = "see workers";
