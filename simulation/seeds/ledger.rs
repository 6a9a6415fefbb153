//! What many runs came to, over several calls of the command if it is kept in a file.
//!
//! Invariant: a file that does not say all of it, in numbers that fit together, is refused: sums that begin at zero
//! again would claim less than was found.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::world::SeedReport;

/// The sums over all seeds so far.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    pub(crate) next_seed: u64,
    pub(crate) passed: u64,
    pub(crate) failed: Vec<u64>,
    simulated_ms: u64,
    acquired: u64,
    events: u64,
    connects: u64,
    requests_kept_max: u64,
    faults: BTreeMap<String, u64>,
    /// How many turns of waiting callers took so many milliseconds.
    #[serde(rename = "turns_ms")]
    turns: BTreeMap<u64, u64>,
    /// How many draws of callers in step were over after so many ways.
    #[serde(rename = "draws_ways")]
    draws: BTreeMap<u64, u64>,
}

impl Ledger {
    /// What the file holds; nothing if there is none.
    ///
    /// # Errors
    /// Where the file cannot be read or is damaged, and what to do about it.
    pub(crate) fn read(path: &Path) -> Result<Ledger, String> {
        let refused = |problem: String| {
            format!(
                "{}: {problem}. Restore the file from a copy, or move it away to begin at seed 0",
                path.display()
            )
        };
        match std::fs::read_to_string(path) {
            Ok(text) => Ledger::parse(&text).map_err(refused),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ledger::default()),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    fn parse(text: &str) -> Result<Ledger, String> {
        let damaged = |error: serde_json::Error| error.to_string();
        let value: Value = serde_json::from_str(text).map_err(damaged)?;
        if value.get("format").and_then(Value::as_u64) != Some(FORMAT) {
            return Err(format!("\"format\" is not {FORMAT}"));
        }
        let ledger: Ledger = serde_json::from_str(text).map_err(damaged)?;
        let seeds = ledger.passed.checked_add(ledger.failed.len() as u64);
        if seeds != Some(ledger.next_seed) {
            return Err(format!(
                "\"next_seed\" is {}, but {} seeds passed and {} failed",
                ledger.next_seed,
                ledger.passed,
                ledger.failed.len()
            ));
        }
        Ok(ledger)
    }

    /// Writes it; a file is replaced as a whole.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let beside = path.with_extension("new");
        let written = std::fs::write(&beside, self.text());
        let replaced = written.and_then(|()| std::fs::rename(&beside, path));
        replaced.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn text(&self) -> String {
        let mut value = serde_json::to_value(self).expect("its keys are numbers and words");
        value["format"] = FORMAT.into();
        format!("{value:#}\n")
    }

    pub(crate) fn add(&mut self, seed: u64, outcome: &Result<SeedReport, String>) {
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
        self.requests_kept_max = self.requests_kept_max.max(report.requests_kept_max);
        for ms in &report.turns_ms {
            *self.turns.entry(*ms).or_insert(0) += 1;
        }
        for ways in &report.draws_ways {
            *self.draws.entry(*ways).or_insert(0) += 1;
        }
        for (fault, count) in &report.faults {
            *self.faults.entry(format!("{fault:?}")).or_insert(0) += count;
        }
    }

    /// What it comes to, in lines.
    pub(crate) fn lines(&self) -> String {
        let hours = self.simulated_ms / 3_600_000;
        let faults: Vec<String> = self
            .faults
            .iter()
            .map(|(fault, count)| format!("{fault} {count}"))
            .collect();
        let turns = spread(&self.turns, "turns of waiting callers", "ms");
        let draws = spread(&self.draws, "draws of callers in step", "ways");
        format!(
            "{hours} hours simulated, {} events, {} acquisitions, {} connects, {} requests kept by a client at most\nfaults: {}\n{draws}\n{turns}",
            self.events,
            self.acquired,
            self.connects,
            self.requests_kept_max,
            faults.join(", ")
        )
    }
}

/// How many there are, and how long they took.
fn spread(counts: &BTreeMap<u64, u64>, what: &str, unit: &str) -> String {
    match (quantile(counts, 500), quantile(counts, 999)) {
        (Some(median), Some(most)) => format!(
            "{} {what}: median {median} {unit}, p99.9 {most} {unit}",
            counts.values().sum::<u64>()
        ),
        _ => format!("no {what}"),
    }
}

/// What so many thousandths of them did not take longer than.
fn quantile(counts: &BTreeMap<u64, u64>, thousandths: u64) -> Option<u64> {
    let index = counts.values().sum::<u64>() * thousandths / 1000;
    let mut before = 0;
    let is_there = |(_, count): &(&u64, &u64)| {
        before += **count;
        before > index
    };
    counts.iter().find(is_there).map(|(took, _)| *took)
}

const FORMAT: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn report(turns_ms: Vec<u64>) -> Result<SeedReport, String> {
        Ok(SeedReport {
            acquired: 3,
            simulated_ms: 1_000,
            turns_ms,
            ..SeedReport::default()
        })
    }

    #[test]
    fn turns_add_up_over_calls() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("ledger");
        let mut whole = Ledger::default();
        for (seed, turns_ms) in [(0, vec![5; 998]), (1, vec![]), (2, vec![7, 9_000])] {
            let mut ledger = Ledger::read(&path).expect("it was written a moment ago");
            assert_eq!(ledger, whole);
            for ledger in [&mut ledger, &mut whole] {
                ledger.add(seed, &report(turns_ms.clone()));
            }
            ledger
                .write(&path)
                .expect("the directory can be written to");
        }
        assert!(
            whole
                .lines()
                .ends_with("1000 turns of waiting callers: median 5 ms, p99.9 9000 ms"),
            "{}",
            whole.lines()
        );
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_name_the_place_and_what_to_do() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("ledger");
        let mut ledger = Ledger::default();
        ledger.add(0, &report(vec![4]));
        ledger.add(1, &Err("it failed".to_owned()));
        let text = ledger.text();
        assert_eq!(Ledger::parse(&text), Ok(ledger));
        let half = text.len() / 2;
        for (damaged, place) in [
            (String::new(), "line 1"),
            (text[..half].to_owned(), "line "),
            ("{}\n".to_owned(), "\"format\""),
            (text.replace("\"format\": 3", "\"format\": 2"), "\"format\""),
            (text.replace("\"events\"", "\"event\""), "field `events`"),
            (
                text.replace("\"passed\": 1", "\"passed\": -1"),
                "`-1`, expected u64 at line",
            ),
            (
                text.replace("\"passed\": 1", "\"passed\": 7"),
                "7 seeds passed",
            ),
            (
                text.replace("\"next_seed\": 2", "\"next_seed\": 0"),
                "\"next_seed\" is 0",
            ),
            (
                text.replace("\"4\": 1", "\"4\": \"1\""),
                "expected u64 at line",
            ),
            (text.replace("\"4\": 1", "\"x\": 1"), "key to be a number"),
            (
                text.replace("\"turns_ms\": {", "\"turns\": {"),
                "field `turns_ms`",
            ),
        ] {
            assert_ne!(damaged, text, "{place} was not damaged");
            std::fs::write(&path, &damaged).expect("the directory can be written to");
            let error = Ledger::read(&path).expect_err(&damaged);
            for words in [&path.display().to_string(), place, "move it away"] {
                assert!(error.contains(words), "{error} does not name {words}");
            }
        }
    }
}
