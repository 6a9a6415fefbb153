//! The ledger of long runs: what was covered so far, so that hours add up over runs.
//!
//! Invariant: it is replaced as a whole, so that an interrupted run leaves the one before.

use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::run::Outcome;
use super::statistics::Statistics;

/// The sum of all runs so far.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The seed the next run begins with.
    pub next_seed: u64,
    /// Failures found.
    pub failures: u64,
    /// Seconds spent.
    pub seconds: u64,
    /// Everything counted.
    pub statistics: Statistics,
}

impl Ledger {
    /// Reads a ledger; an empty one if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read or is not a ledger.
    pub fn read(path: &Path) -> io::Result<Ledger> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ledger::default()),
            Err(error) => return Err(error),
        };
        let value: Value = serde_json::from_str(&text).map_err(io::Error::other)?;
        let number =
            |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        if number(&value, "format") != FORMAT {
            return Err(io::Error::other("this is not a ledger of crash states"));
        }
        let mut ledger = Ledger {
            next_seed: number(&value, "next seed"),
            failures: number(&value, "failures"),
            seconds: number(&value, "seconds"),
            statistics: Statistics::default(),
        };
        for (name, count) in ledger.statistics.numbers_mut() {
            *count = number(&value["counts"], name);
        }
        for (kind, count) in value["faults"].as_object().into_iter().flatten() {
            let count = count.as_u64().unwrap_or(0);
            ledger.statistics.faults.insert(kind.clone(), count);
        }
        Ok(ledger)
    }

    /// Adds a run.
    pub fn add(&mut self, outcome: &Outcome, seconds: u64) {
        self.next_seed = outcome.next_seed;
        self.failures += outcome.failures.len() as u64;
        self.seconds += seconds;
        self.statistics.add(&outcome.statistics);
    }

    /// Writes the ledger.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let numbers = self.statistics.numbers().into_iter();
        let counts: Map<String, Value> = numbers
            .map(|(name, count)| (name.to_owned(), json!(count)))
            .collect();
        let value = json!({
            "format": FORMAT,
            "next seed": self.next_seed,
            "failures": self.failures,
            "seconds": self.seconds,
            "counts": counts,
            "faults": self.statistics.faults,
        });
        let new = path.with_extension("new");
        std::fs::write(&new, format!("{value:#}\n"))?;
        std::fs::rename(new, path)
    }
}

const FORMAT: u64 = 1;
