//! What many runs came to, over several calls of the command if it is kept in a file.

use std::collections::BTreeMap;
use std::path::Path;

use quorlock_tests::simulation::Report;
use serde_json::{Value, json};

/// The sums over all seeds so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) next_seed: u64,
    pub(crate) passed: u64,
    pub(crate) failed: Vec<u64>,
    simulated_ms: u64,
    acquired: u64,
    events: u64,
    connects: u64,
    faults: BTreeMap<String, u64>,
    turns_ms: Vec<u64>,
}

impl Ledger {
    /// What the file holds; nothing if there is none.
    pub(crate) fn read(path: &Path) -> Result<Ledger, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Ledger::default());
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let number = |field: &str| value[field].as_u64().unwrap_or(0);
        let failed = value["failed"].as_array().into_iter().flatten();
        let faults = value["faults"].as_object().into_iter().flatten();
        Ok(Ledger {
            next_seed: number("next_seed"),
            passed: number("passed"),
            failed: failed.filter_map(Value::as_u64).collect(),
            simulated_ms: number("simulated_ms"),
            acquired: number("acquired"),
            events: number("events"),
            connects: number("connects"),
            faults: faults
                .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)))
                .collect(),
            turns_ms: Vec::new(),
        })
    }

    /// Writes it; a file is replaced as a whole.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let value = json!({
            "next_seed": self.next_seed,
            "passed": self.passed,
            "failed": self.failed,
            "simulated_ms": self.simulated_ms,
            "acquired": self.acquired,
            "events": self.events,
            "connects": self.connects,
            "faults": self.faults,
        });
        let beside = path.with_extension("new");
        let written = std::fs::write(&beside, format!("{value:#}\n"));
        let replaced = written.and_then(|()| std::fs::rename(&beside, path));
        replaced.map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn add(&mut self, seed: u64, outcome: &Result<Report, String>) {
        self.next_seed = seed + 1;
        let report = match outcome {
            Ok(report) => report,
            Err(_) => return self.failed.push(seed),
        };
        self.passed += 1;
        self.simulated_ms += report.simulated_ms;
        self.acquired += report.acquired;
        self.events += report.events;
        self.connects += report.connects;
        self.turns_ms.extend(&report.turns_ms);
        for (fault, count) in &report.faults {
            *self.faults.entry(format!("{fault:?}")).or_insert(0) += count;
        }
    }

    /// What it comes to, in lines.
    pub(crate) fn lines(&mut self) -> String {
        let hours = self.simulated_ms / 3_600_000;
        let faults: Vec<String> = self
            .faults
            .iter()
            .map(|(fault, count)| format!("{fault} {count}"))
            .collect();
        self.turns_ms.sort_unstable();
        let at = |thousandths: usize| self.turns_ms.get(self.turns_ms.len() * thousandths / 1000);
        let turns = match (at(500), at(999)) {
            (Some(median), Some(most)) => format!(
                "{} turns of waiting callers: median {median} ms, p99.9 {most} ms",
                self.turns_ms.len()
            ),
            _ => "no turns of waiting callers".to_owned(),
        };
        format!(
            "{hours} hours simulated, {} events, {} acquisitions, {} connects\nfaults: {}\n{turns}",
            self.events,
            self.acquired,
            self.connects,
            faults.join(", ")
        )
    }
}
