//! Holds the book's page of figures to the run that is committed beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Figures, Row, VERSION, text};
use crate::environment::Environment;
use crate::workload;

const BEGIN: &str =
    "<!-- benchmarks/redis-server.json, by WRITE_THE_BOOK=1 cargo test -p quorlock-benches -->\n";
const END: &str = "<!-- end -->\n";
const REASONS: &str = "## Why rows miss their targets\n";

/// A committed run: what was measured, without what follows from it.
#[derive(Deserialize)]
struct Run {
    version: u32,
    environment: Environment,
    rows: Vec<Measured>,
}

#[derive(Deserialize)]
struct Measured {
    name: String,
    ours: Figures,
    peer: Figures,
}

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book")
}

fn chapter() -> String {
    fs::read_to_string(book().join("benchmarks.md")).expect("the chapter is there")
}

/// The committed run, judged by the targets of today.
fn committed() -> (Environment, Vec<Row>) {
    let path = book().join("benchmarks/redis-server.json");
    let json = fs::read_to_string(path).expect("the run is committed");
    let run: Run = serde_json::from_str(&json).expect("it is of this format");
    assert_eq!(run.version, VERSION);
    let mut measured = run.rows.into_iter();
    // The run has all rows but the long ones, in the order of the report.
    let workloads = workload::all().into_iter().filter(|row| !row.is_long);
    let rows = workloads.map(|workload| {
        let row = measured.next().expect("the run has every row");
        assert_eq!(row.name, workload.name);
        let rounds = row.ours.cpu_us_per_operation.len();
        assert!(rounds >= 5, "{}: {rounds} rounds", row.name);
        Row::new(&workload, row.ours, row.peer)
    });
    let rows = rows.collect();
    assert!(
        measured.next().is_none(),
        "the run has a row of no workload"
    );
    (run.environment, rows)
}

#[test]
fn the_page_shows_the_committed_run() {
    let (environment, rows) = committed();
    let expected = text(&environment, &rows);
    let chapter = chapter();
    let (before, rest) = chapter.split_once(BEGIN).expect("the figures begin");
    let (shown, after) = rest.split_once(END).expect("the figures end");
    if std::env::var_os("WRITE_THE_BOOK").is_some() {
        let written = format!("{before}{BEGIN}{expected}{END}{after}");
        fs::write(book().join("benchmarks.md"), written).expect("the chapter can be written");
        return;
    }
    assert!(
        shown == expected,
        "write it anew with WRITE_THE_BOOK=1:\n{expected}"
    );
}

/// A list whose items begin with the rows that they are about: `* P6 8, P7: ...`.
#[test]
fn the_page_gives_a_reason_for_each_row_that_misses_and_for_no_other() {
    let (_, rows) = committed();
    let missed = rows
        .iter()
        .filter(|row| [row.is_target_met, row.is_cpu_target_met].contains(&Some(false)));
    let missed: BTreeSet<&str> = missed.map(|row| row.name.as_str()).collect();
    let chapter = chapter();
    let (_, reasons) = chapter.split_once(REASONS).expect("the reasons begin");
    let reasons = reasons.split("\n## ").next().unwrap_or_default();
    let items = reasons.lines().filter_map(|line| line.strip_prefix("* "));
    let named = items.flat_map(|item| {
        let (names, _) = item.split_once(": ").expect("an item names its rows");
        names.split(", ")
    });
    assert_eq!(named.collect::<BTreeSet<_>>(), missed);
}
