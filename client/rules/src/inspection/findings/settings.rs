//! What a node's configuration and its clock cost in a fault.

use std::time::Duration;

use super::super::node_facts::NodeFacts;
use super::super::question::Dialect;
use super::{Finding, Severity, found};

/// What its configuration costs in a fault.
pub(super) fn of_settings(facts: &NodeFacts, settings: &[(String, String)]) -> Vec<Finding> {
    let setting = |name: &str| {
        let mut all = settings.iter();
        all.find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    };
    let fsync = facts.fsync.as_deref().or(setting("appendfsync"));
    match facts.dialect {
        Dialect::Quorlock => of_node(
            facts,
            fsync,
            setting("restart-delay"),
            setting("first-start"),
        ),
        Dialect::Redis => of_redis(facts, fsync),
    }
}

fn of_node(
    facts: &NodeFacts,
    fsync: Option<&str>,
    restart_delay: Option<&str>,
    first_start: Option<&str>,
) -> Vec<Finding> {
    use Severity::{Note, Problem, Warning};
    let is_fast = facts
        .sync_time
        .is_some_and(|time| time < SYNC_MIN && !time.is_zero());
    let syncs = fsync.is_some_and(|mode| mode == "always" || mode == "everysec");
    let all = [
        (restart_delay == Some("off")).then(|| found(
            Problem,
            "no-restart-delay",
            "it serves at once after a crash, also where it has forgotten locks: two may hold one",
            "set restart-delay auto",
        )),
        (facts.cluster_size.is_none() && !facts.is_other_system).then(|| found(
            Warning,
            "no-cluster-size",
            "it does not know how many nodes its cluster has: clients with different lists can hold the same lock",
            "create nodes with: quorlock node init DIR --cluster NAME --cluster-size N",
        )),
        (first_start == Some("serve")).then(|| found(
            Warning,
            "first-start-serves",
            "it takes an empty directory for a new node: if its disk is lost, it grants again what it has granted",
            "set first-start wait, and create nodes with: quorlock node init DIR",
        )),
        (syncs && is_fast).then(|| found(
            Warning,
            "fast-sync",
            "a sync takes less time than a disk needs: it is memory, or a disk that acknowledges before it has written",
            "put dir on a disk that keeps what it acknowledges",
        )),
        (fsync == Some("off")).then(|| found(
            Note,
            "delay-after-stop",
            "with appendonly no it forgets its locks in each stop, and serves none for its restart delay after it",
            "set appendonly yes and appendfsync always if that is too long",
        )),
        fsync.filter(|mode| !["always", "off"].contains(mode)).map(|mode| found(
            Note,
            "delay-after-crash",
            format!("with appendfsync {mode} it serves no locks for its restart delay after a crash"),
            "set appendfsync always if that is too long",
        )),
    ];
    all.into_iter().flatten().collect()
}

fn of_redis(facts: &NodeFacts, fsync: Option<&str>) -> Vec<Finding> {
    use Severity::{Problem, Warning};
    let eviction = facts
        .eviction
        .as_deref()
        .filter(|policy| *policy != "noeviction");
    let all = [
        match fsync {
            Some("none") => Some(found(
                Problem,
                "no-log",
                "it keeps no log: after a restart it grants again what it has granted, and two may hold one lock",
                "set appendonly yes and appendfsync always, or let it stay down for the longest ttl after each restart",
            )),
            Some("always") | None => None,
            Some(mode) => Some(found(
                Problem,
                "forgets-in-a-crash",
                format!(
                    "with appendfsync {mode} it may forget locks in a crash, and grants them again at once"
                ),
                "set appendfsync always, or let it stay down for the longest ttl after a crash",
            )),
        },
        eviction.map(|policy| {
            found(
                Problem,
                "evicts",
                format!(
                    "with maxmemory-policy {policy} it may drop locks where its memory is full"
                ),
                "set maxmemory-policy noeviction",
            )
        }),
        (facts.dialect == Dialect::Redis).then(|| {
            found(
                Warning,
                "wall-clock",
                "its locks end by its wall clock: where that is set, they end early or late",
                "let chrony or ntpd slew the clock and never step it",
            )
        }),
    ];
    all.into_iter().flatten().collect()
}

pub(super) fn of_clock(facts: &NodeFacts, ahead_ms: Option<i128>) -> Option<Finding> {
    let ahead = ahead_ms.filter(|ahead| ahead.unsigned_abs() >= CLOCK_MS_MAX)?;
    let severity = match facts.dialect {
        Dialect::Quorlock => Severity::Note,
        Dialect::Redis => Severity::Warning,
    };
    Some(found(
        severity,
        "clock",
        format!("its wall clock is {ahead} ms ahead of this machine's"),
        "run chrony or ntpd on both machines",
    ))
}

/// No disk has written in less. A disk with a cache that survives a loss of power takes longer as well.
const SYNC_MIN: Duration = Duration::from_micros(15);
/// Clocks that somebody looks after are nearer.
const CLOCK_MS_MAX: u128 = 1_000;
