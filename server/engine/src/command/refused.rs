//! The rows of Redis's commands that a node does not have: why, and what to do instead.
//!
//! They are refused in Redis's words for a command that does not exist, so that clients which try and fall back
//! do so; the reason stands behind them. Scripts are told that they may not call those that have to do with the server.

use crate::command::spec::{Flags, Handler, Spec};

/// All of them, those with one reason one after the other.
pub(super) const REFUSED: &[Spec] = &[
    unknown_to_scripts("xack", STREAMS),
    unknown_to_scripts("xadd", STREAMS),
    unknown_to_scripts("xautoclaim", STREAMS),
    unknown_to_scripts("xclaim", STREAMS),
    unknown_to_scripts("xdel", STREAMS),
    unknown_to_scripts("xgroup", STREAMS),
    unknown_to_scripts("xinfo", STREAMS),
    unknown_to_scripts("xlen", STREAMS),
    unknown_to_scripts("xpending", STREAMS),
    unknown_to_scripts("xrange", STREAMS),
    unknown_to_scripts("xread", STREAMS),
    unknown_to_scripts("xreadgroup", STREAMS),
    unknown_to_scripts("xrevrange", STREAMS),
    unknown_to_scripts("xsetid", STREAMS),
    unknown_to_scripts("xtrim", STREAMS),
    unknown_to_scripts("pfadd", HYPERLOGLOGS),
    unknown_to_scripts("pfcount", HYPERLOGLOGS),
    unknown_to_scripts("pfmerge", HYPERLOGLOGS),
    unknown_to_scripts("pfdebug", HYPERLOGLOGS),
    unknown_to_scripts("pfselftest", HYPERLOGLOGS),
    unknown_to_scripts("geoadd", POSITIONS),
    unknown_to_scripts("geodist", POSITIONS),
    unknown_to_scripts("geohash", POSITIONS),
    unknown_to_scripts("geopos", POSITIONS),
    unknown_to_scripts("georadius", POSITIONS),
    unknown_to_scripts("georadius_ro", POSITIONS),
    unknown_to_scripts("georadiusbymember", POSITIONS),
    unknown_to_scripts("georadiusbymember_ro", POSITIONS),
    unknown_to_scripts("geosearch", POSITIONS),
    unknown_to_scripts("geosearchstore", POSITIONS),
    refused("fcall", FUNCTIONS),
    refused("fcall_ro", FUNCTIONS),
    refused("function", FUNCTIONS),
    refused("replicaof", REPLICAS),
    refused("slaveof", REPLICAS),
    refused("psync", REPLICAS),
    refused("sync", REPLICAS),
    unknown_to_scripts("replconf", REPLICAS),
    refused("failover", REPLICAS),
    unknown_to_scripts("sentinel", SENTINEL),
    unknown_to_scripts("migrate", MIGRATION),
    unknown_to_scripts("restore-asking", MIGRATION),
    unknown_to_scripts("lolwut", DRAWINGS),
];

const fn refused(name: &'static str, why: &'static str) -> Spec {
    Spec::new(name, -1, Handler::Refused(why))
}

const fn unknown_to_scripts(name: &'static str, why: &'static str) -> Spec {
    refused(name, why).flags(Flags::UNKNOWN_TO_SCRIPTS)
}

const STREAMS: &str =
    "a lock server keeps no streams: no lock library uses them. Keep them in a Redis of their own";
const HYPERLOGLOGS: &str = "a lock server keeps no HyperLogLogs: no lock library uses them. Keep them in a Redis of their own";
const POSITIONS: &str = "a lock server keeps no positions: no lock library uses them. Keep them in a Redis of their own";
const FUNCTIONS: &str = "a node keeps no functions: a library that is loaded on some nodes only would make them decide \
     differently. Send the script with EVAL or EVALSHA";
const REPLICAS: &str = "the nodes of a Redlock cluster are independent: a replica that takes over could grant a lock that \
     is held. Run five nodes instead";
const SENTINEL: &str = "there is nothing to fail over: the nodes of a Redlock cluster are independent. Give clients the \
     addresses of all nodes";
const MIGRATION: &str =
    "a lock that is carried elsewhere could be held twice. Release it, and take it there";
const DRAWINGS: &str = "there is nothing to draw";
