//! What a node, its machine and its disk have no room for.

use super::super::node_facts::NodeFacts;
use super::{Finding, Severity, found};

/// Which limits it has reached, or comes near to.
pub(super) fn of_limits(facts: &NodeFacts) -> Vec<Finding> {
    let all = [
        of_memory(facts),
        of_clients(facts),
        of_files(facts),
        of_clock_source(facts),
    ];
    all.into_iter().flatten().collect()
}

fn of_memory(facts: &NodeFacts) -> Option<Finding> {
    let percent = facts.memory_percent()?;
    (NEAR_PERCENT..100).contains(&percent).then(|| {
        found(
            Severity::Warning,
            "memory-full",
            format!(
                "its keys take {percent} % of maxmemory: beyond that it takes no further locks"
            ),
            MORE_MEMORY,
        )
    })
}

fn of_clients(facts: &NodeFacts) -> Option<Finding> {
    let (clients, limit) = (
        facts.clients?,
        facts.clients_max.filter(|limit| *limit > 0)?,
    );
    let is_near = clients.saturating_mul(100) / limit >= NEAR_PERCENT
        || limit - clients.min(limit) < CLIENTS_LEFT;
    if !is_near && (limit >= CLIENTS_FEW || lacks_files(facts)) {
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
        MORE_CLIENTS,
    ))
}

fn lacks_files(facts: &NodeFacts) -> bool {
    facts.clients_wanted > facts.clients_max
}

/// A node takes fewer clients than it was to where its process may open too few files for them.
fn of_files(facts: &NodeFacts) -> Option<Finding> {
    let (wanted, limit) = (facts.clients_wanted?, facts.clients_max?);
    lacks_files(facts).then(|| {
        found(
            Severity::Warning,
            "few-files",
            format!(
                "it takes {limit} clients and not the {wanted} of its maxclients, because its process may open too few files: more are \
                 refused, with their locks"
            ),
            "raise the process's limit of open files and start the node again: ulimit -n, or LimitNOFILE= of its unit; or lower maxclients",
        )
    })
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

pub(super) const MORE_MEMORY: &str =
    "raise maxmemory, or find out whose keys those are: quorlock locks";
pub(super) const MORE_CLIENTS: &str = "raise maxclients, and the process's limit of open files: ulimit -n, or LimitNOFILE= of its unit";
const NEAR_PERCENT: u64 = 90;
/// Programs come with their next connection each.
const CLIENTS_LEFT: u64 = 5;
/// Fewer are not what anybody wants of a node that others use.
const CLIENTS_FEW: u64 = 1_000;
