//! MEMORY but for USAGE, which is the engine's: what keys, clients and scripts take, as far as a node measures it.
//!
//! A field of Redis whose value nobody measures here is left out, as in INFO.

use quorlock_engine::Reply;

use crate::core::commit::Failure;
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::info::Human;
use crate::session::info_facts::EngineFacts;
use crate::session::named_request::NamedRequest;

pub(super) fn memory(_: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let request = NamedRequest::of(arguments);
    request.check()?;
    Ok(Answer::Reply(match request.names().1 {
        "purge" => Reply::Ok,
        "malloc-stats" => text("Stats not supported for the current allocator"),
        "stats" => stats(&MemoryFigures::read(batch)?),
        _ => text(&report(&MemoryFigures::read(batch)?)),
    }))
}

fn text(text: &str) -> Reply {
    Reply::Verbatim(*b"txt", text.as_bytes().to_vec())
}

/// What is measured, in bytes where no other unit is said.
struct MemoryFigures {
    /// As `used_memory` of INFO.
    used: u64,
    peak: u64,
    /// What keys take.
    keys: u64,
    key_count: u64,
    clients: u64,
    client_count: u64,
    scripts: u64,
    script_count: u64,
    log_buffer: u64,
    resident: u64,
    machine: u64,
    /// 0 where there is no limit.
    maxmemory: u64,
}

impl MemoryFigures {
    fn read(batch: &mut Batch<'_>) -> Result<Self, Failure> {
        let (node, engine) = (batch.node, EngineFacts::read(batch)?);
        let resident = (node.process.resident_bytes)();
        let (used, peak) = match node.upstream {
            None => (engine.memory as u64, engine.memory_peak as u64),
            Some(_) => (resident, resident),
        };
        Ok(Self {
            used,
            peak,
            keys: engine.memory as u64,
            key_count: engine.counts.iter().map(|count| count.keys).sum(),
            clients: node.clients.memory() as u64,
            client_count: node.clients.count() as u64,
            scripts: engine.script_memory as u64,
            script_count: engine.script_count as u64,
            log_buffer: engine.log_buffer as u64,
            resident,
            machine: (node.process.machine_bytes)(),
            maxmemory: node.configured(|it| it.maxmemory),
        })
    }
}

/// Redis's fields in Redis's order.
fn stats(figures: &MemoryFigures) -> Reply {
    let count = |number: u64| {
        let number = i64::try_from(number);
        Reply::Integer(number.expect("no machine has as much memory"))
    };
    let part = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let fields = [
        ("peak.allocated", count(figures.peak)),
        ("total.allocated", count(figures.used)),
        ("replication.backlog", count(0)),
        ("clients.slaves", count(0)),
        ("clients.normal", count(figures.clients)),
        ("cluster.links", count(0)),
        ("aof.buffer", count(figures.log_buffer)),
        ("lua.caches", count(figures.scripts)),
        ("functions.caches", count(0)),
        ("keys.count", count(figures.key_count)),
        (
            "keys.bytes-per-key",
            count(figures.keys.checked_div(figures.key_count).unwrap_or(0)),
        ),
        ("dataset.bytes", count(figures.keys)),
        (
            "peak.percentage",
            Reply::Double(100.0 * part(figures.used, figures.peak)),
        ),
        (
            "fragmentation",
            Reply::Double(part(figures.resident, figures.used)),
        ),
        (
            "fragmentation.bytes",
            count(figures.resident.saturating_sub(figures.used)),
        ),
    ];
    let fields = fields.into_iter();
    Reply::Map(
        fields
            .map(|(name, value)| (Reply::bulk(name), value))
            .collect(),
    )
}

/// What MEMORY DOCTOR says.
fn report(figures: &MemoryFigures) -> String {
    let MemoryFigures {
        used,
        peak,
        keys,
        key_count,
        clients,
        client_count,
        scripts,
        script_count,
        resident,
        machine,
        maxmemory,
        ..
    } = *figures;
    let limit = match maxmemory {
        0 => "no limit (maxmemory 0)".to_owned(),
        limit => format!("a limit (maxmemory) of {}", Human(limit)),
    };
    let mut report = format!(
        "{key_count} keys take {}, with {limit}. {client_count} clients take {}, {script_count} scripts {}. The process takes {}.\n",
        Human(keys),
        Human(clients),
        Human(scripts),
        Human(resident)
    );
    let findings = [
        (
            maxmemory > 0 && is_most(used, maxmemory),
            "Keys take more than nine tenths of maxmemory. Beyond it new locks are refused with -OOM: look for keys \
             without a TTL (LOCK.INFO, MEMORY USAGE), or raise maxmemory.",
        ),
        (
            machine > 0 && is_most(resident, machine),
            "The process takes more than nine tenths of the machine's memory, and the system may end it. Set maxmemory \
             and maxmemory-clients to what the machine has.",
        ),
        (
            peak > LITTLE && peak / 3 * 2 > used,
            "Keys have taken half as much again as they take now. What they gave back may stay with the process, for \
             the next keys.",
        ),
        (
            clients / client_count.max(1) > CLIENT_BYTES_MAX,
            "Clients take more than 200 KiB each: some send long requests, or do not read their replies. CLIENT LIST \
             shows them (qbuf, omem, tot-mem).",
        ),
        (
            script_count > SCRIPTS_MAX,
            "There are more than 1000 scripts. A program that writes values into the text of a script makes a new one \
             each time: pass them as arguments.",
        ),
    ];
    let found: Vec<&str> = findings
        .into_iter()
        .filter_map(|(is_so, text)| is_so.then_some(text))
        .collect();
    if found.is_empty() {
        report.push_str("No memory problem was found.\n");
    }
    for text in found {
        report.push_str(&format!("- {text}\n"));
    }
    report
}

fn is_most(part: u64, whole: u64) -> bool {
    part > whole / 10 * 9
}

/// Less is not worth a word about what it was.
const LITTLE: u64 = 5 << 20;
const CLIENT_BYTES_MAX: u64 = 200 << 10;
const SCRIPTS_MAX: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: MemoryFigures = MemoryFigures {
        used: 10 << 20,
        peak: 10 << 20,
        keys: 10 << 20,
        key_count: 10,
        clients: 4 << 10,
        client_count: 2,
        scripts: 100,
        script_count: 1,
        log_buffer: 7,
        resident: 20 << 20,
        machine: 1 << 30,
        maxmemory: 0,
    };

    #[test]
    fn a_report_names_what_is_near_a_limit_and_nothing_else() {
        let fine = report(&FIGURES);
        let first = "10 keys take 10.00M, with no limit (maxmemory 0). 2 clients take 4.00K, 1 scripts 100B. The process takes 20.00M.\n";
        assert_eq!(fine, format!("{first}No memory problem was found.\n"));
        let wrong = MemoryFigures {
            used: 10 << 20,
            peak: 16 << 20,
            clients: 500 << 10,
            script_count: 1_001,
            machine: 21 << 20,
            maxmemory: 11 << 20,
            ..FIGURES
        };
        let findings = report(&wrong);
        assert_eq!(findings.lines().count(), 6, "{findings}");
        let at_the_bounds = MemoryFigures {
            peak: 15 << 20,
            clients: 400 << 10,
            script_count: 1_000,
            machine: 200 << 20,
            maxmemory: 100 << 20,
            ..FIGURES
        };
        assert!(report(&at_the_bounds).ends_with("No memory problem was found.\n"));
    }
}
