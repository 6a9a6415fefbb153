//! Directives of Redis that a node knows of and does not carry out.
//!
//! A redis.conf that sets some of `INERT` starts, and the operator reads one line about all of them; a name that
//! ends with `*` stands for all that begin so. `FIXED` are those where a node does exactly one of the
//! possible things: anything else gets a notice, or is refused where accepting it would be unsafe (a
//! password that is not checked) or untrue (a replica). CONFIG GET shows for each single name what a node
//! really does. The lists cover Redis 7.2.

use super::directive::Directive;

/// Directives with one value that is true of a node.
pub(super) const FIXED: &[Directive] = &[
    Directive::fixed_with_notice(
        "save",
        "\"\"",
        "there are no RDB snapshots, what is kept is in the log",
    ),
    Directive::fixed_or_refused(
        "maxmemory-policy",
        "noeviction",
        "evicting a key would take a lock from its holder",
    ),
    Directive::fixed_with_notice(
        "daemonize",
        "no",
        "a node stays in the foreground, and this process is the node; let a supervisor run it, such as systemd (Type=notify, \
         with --supervised systemd) or a container, or put '&' behind the command",
    ),
    REPLICA_OF,
    REPLICA_OF.alias("slaveof"),
    Directive::fixed_or_refused(
        "cluster-enabled",
        "no",
        "Redis Cluster shards and fails over, Redlock needs independent nodes that hold all names",
    ),
    Directive::fixed_or_refused(
        "tls-key-file-pass",
        "\"\"",
        "a private key is read only where it is not encrypted: decrypt it with openssl pkey, into a file that others may not read",
    ),
    Directive::refused(
        "rename-command",
        "commands cannot be renamed in this release, so the command would stay reachable",
    ),
    Directive::refused("loadmodule", "a node loads no modules"),
    Directive::refused("sentinel", "a node is no Sentinel; Redlock needs none"),
];

const SNAPSHOTS: &str = "there are no RDB snapshots";
const LOG: &str = "the log has a format of its own and compacts itself";
const REPLICATION: &str = "a node has no replicas";
const TLS: &str = "TLS takes the ciphers that are safe, and each handshake checks all certificates";
pub(super) const ENCODING: &str = "data has one encoding";
pub(super) const MEMORY: &str = "nothing is evicted: beyond maxmemory new keys are refused";
const PROCESS: &str = "the process is left as the system started it";
const PROTECTED: &str = "the command does not exist";

/// Directives without effect: name, what CONFIG GET shows, why.
pub(super) const INERT: &[Directive] = &[
    Directive::inert(
        "acl-pubsub-default",
        "resetchannels",
        "a new user may use no channel until a rule says so",
    ),
    Directive::inert("always-show-logo", "no", "there is no logo"),
    Directive::inert_family("aof-*", LOG),
    Directive::inert(
        "aof-load-truncated",
        "yes",
        "a torn end is cut off and the delay covers it",
    ),
    Directive::inert("aof_rewrite_cpulist", "\"\"", PROCESS),
    Directive::inert(
        "appenddirname",
        "appendonlydir",
        "the log lies in dir itself",
    ),
    Directive::inert(
        "appendfilename",
        "appendonly.aof",
        "the log's files have numbers",
    ),
    Directive::inert("bgsave_cpulist", "\"\"", PROCESS),
    Directive::inert("bind-source-addr", "\"\"", REPLICATION),
    Directive::inert("bio_cpulist", "\"\"", PROCESS),
    Directive::inert_family("cluster-*", "a node is no part of a Redis Cluster"),
    Directive::inert_family("crash-*", PROCESS),
    Directive::inert("dbfilename", "dump.rdb", SNAPSHOTS),
    Directive::inert("disable-thp", "no", PROCESS),
    Directive::inert("enable-module-command", "no", PROTECTED),
    Directive::inert(
        "enable-protected-configs",
        "no",
        "CONFIG SET changes what is safe to change while the node runs, and nothing else",
    ),
    Directive::inert("gopher-enabled", "no", "there is no Gopher"),
    Directive::inert_family("hash-max-*", ENCODING),
    Directive::inert("ignore-warnings", "\"\"", PROCESS),
    Directive::inert("jemalloc-bg-thread", "no", MEMORY),
    Directive::inert_family("lfu-*", MEMORY),
    Directive::inert_family("list-*", ENCODING),
    Directive::inert("locale-collate", "\"\"", "nothing is sorted by locale"),
    Directive::inert("masterauth", "\"\"", REPLICATION),
    Directive::inert("masteruser", "\"\"", REPLICATION),
    Directive::inert(
        "max-new-connections-per-cycle",
        "10",
        "each connection is accepted as it comes",
    ),
    Directive::inert(
        "max-new-tls-connections-per-cycle",
        "1",
        "a worker takes in at most 4 handshakes between two looks at its other clients",
    ),
    Directive::inert("maxmemory-eviction-tenacity", "10", MEMORY),
    Directive::inert("maxmemory-samples", "5", MEMORY),
    Directive::inert_family("min-replicas-*", REPLICATION),
    Directive::inert_family("min-slaves-*", REPLICATION),
    Directive::inert("no-appendfsync-on-rewrite", "no", LOG),
    Directive::inert_family("oom-score-adj*", PROCESS),
    Directive::inert(
        "proc-title-template",
        "{title} {listen-addr} {server-mode}",
        PROCESS,
    ),
    Directive::inert("propagation-error-behavior", "ignore", REPLICATION),
    Directive::inert_family("rdb-*", SNAPSHOTS),
    Directive::inert("rdbchecksum", "yes", SNAPSHOTS),
    Directive::inert("rdbcompression", "yes", SNAPSHOTS),
    Directive::inert_family("repl-*", REPLICATION),
    Directive::inert_family("replica-*", REPLICATION),
    Directive::inert("sanitize-dump-payload", "no", SNAPSHOTS),
    Directive::inert("server_cpulist", "\"\"", PROCESS),
    Directive::inert("set-proc-title", "no", PROCESS),
    Directive::inert_family(
        "shutdown-on-*",
        "every stop completes the log, and keeps the locks that are logged",
    ),
    Directive::inert_family("slave-*", REPLICATION),
    Directive::inert("socket-mark-id", "0", PROCESS),
    Directive::inert("stop-writes-on-bgsave-error", "yes", SNAPSHOTS),
    Directive::inert_family("tls-*", TLS),
];

const REPLICA_OF: Directive = Directive::fixed_or_refused(
    "replicaof",
    "\"\"",
    "nodes of a Redlock cluster must be independent, a replica forgets locks on failover",
)
.also("no one");
