//! What a node, its machine and its disk have no room for.

use super::super::node_facts::NodeFacts;
use super::{Finding, Severity, found};

/// Which limits it has reached, or comes near to.
pub(super) fn of_limits(facts: &NodeFacts) -> Vec<Finding> {
    let log = facts.log_fails.then(|| {
        found(
            Severity::Problem,
            "log-fails",
            "it cannot write its log, and takes no locks until it can",
            "make room on its disk; its log file says what the disk answers",
        )
    });
    let all = [
        log,
        of_memory(facts),
        of_clients(facts),
        of_clock_source(facts),
    ];
    all.into_iter().flatten().collect()
}

fn of_memory(facts: &NodeFacts) -> Option<Finding> {
    let (used, limit) = (facts.memory?, facts.memory_max.filter(|limit| *limit > 0)?);
    let percent = used.saturating_mul(100) / limit;
    let severity = match percent {
        ..NEAR_PERCENT => return None,
        NEAR_PERCENT..100 => Severity::Warning,
        _ => Severity::Problem,
    };
    Some(found(
        severity,
        "memory-full",
        format!("its keys take {percent} % of maxmemory: beyond that it takes no further locks"),
        "raise maxmemory, or find out whose keys those are: quorlock locks",
    ))
}

fn of_clients(facts: &NodeFacts) -> Option<Finding> {
    let (clients, limit) = (
        facts.clients?,
        facts.clients_max.filter(|limit| *limit > 0)?,
    );
    let is_near = clients.saturating_mul(100) / limit >= NEAR_PERCENT;
    if !is_near && limit >= CLIENTS_FEW {
        return None;
    }
    let severity = match is_near {
        true => Severity::Warning,
        false => Severity::Note,
    };
    Some(found(
        severity,
        "few-clients",
        format!("it has {clients} clients and takes {limit}: more are refused, with their locks"),
        "raise maxclients, and the process's limit of open files: ulimit -n, or LimitNOFILE= of its unit",
    ))
}

/// Linux names what it reads the time from; these are read by a call into the kernel, and slowly.
fn of_clock_source(facts: &NodeFacts) -> Option<Finding> {
    let source = facts.clock_source.as_deref()?;
    let is_slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"].contains(&source);
    is_slow.then(|| {
        found(
            Severity::Warning,
            "slow-clock",
            format!("its machine reads the time from {source}, which takes as long as a request for a lock"),
            "see why the kernel does not use tsc or that of the hypervisor: dmesg | grep -i clocksource",
        )
    })
}

const NEAR_PERCENT: u64 = 90;
/// Fewer are not what anybody wants of a node that others use.
const CLIENTS_FEW: u64 = 1_000;
