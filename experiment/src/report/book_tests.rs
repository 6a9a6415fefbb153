//! Holds the book's chapter to the runs that are committed beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compare::Comparison;
use crate::report::html::KEY;
use crate::report::{services_files, services_text, text};
use crate::summary::Summary;

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book")
}

fn committed(name: &str) -> String {
    let path = book().join("experiments").join(name);
    fs::read_to_string(path).expect("the run is committed")
}

fn with_facts(text: String, environment: &[(String, String)]) -> String {
    let facts = environment.iter();
    let facts: Vec<String> = facts
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    format!("{text}\n{}", facts.concat())
}

/// What the chapter shows of a run.
fn figures(name: &str) -> String {
    let summary: Summary = serde_json::from_str(&committed(name)).expect("it is of this format");
    assert!(summary.is_complete, "{name}");
    with_facts(text(&summary), &summary.environment)
}

/// What the chapter shows of a comparison.
fn comparison() -> Comparison {
    let comparison: Comparison =
        serde_json::from_str(&committed(COMPARISON)).expect("it is of this format");
    assert!(comparison.is_complete);
    comparison
}

/// Holds what a chapter shows to what is expected, or writes it anew where that is asked for.
fn hold(chapter: &str, runs: &[(&str, String)]) {
    let path = book().join(chapter);
    let mut chapter = fs::read_to_string(&path).expect("the chapter is there");
    for (name, expected) in runs {
        let begin = format!(
            "<!-- {name}, by WRITE_THE_BOOK=1 cargo test -p quorlock-experiment -->\n```text\n"
        );
        let (before, rest) = chapter.split_once(&begin).expect("the figures begin");
        let (shown, after) = rest
            .split_once("```\n<!-- end -->")
            .expect("the figures end");
        if !is_writing() {
            assert_eq!(
                shown, expected,
                "{name}: write it anew with WRITE_THE_BOOK=1"
            );
        }
        chapter = format!("{before}{begin}{expected}```\n<!-- end -->{after}");
    }
    if is_writing() {
        fs::write(&path, chapter).expect("the chapter can be written");
    }
}

fn is_writing() -> bool {
    std::env::var_os("WRITE_THE_BOOK").is_some()
}

#[test]
fn the_chapter_shows_the_committed_runs() {
    let names = ["summary.json", "simulated.json", "redis-server.json"];
    hold("experiments.md", &names.map(|name| (name, figures(name))));
}

/// Its pictures are those of the run. What they are read by is that of today.
#[test]
fn the_committed_report_looks_as_reports_do() {
    let report = committed("report.html");
    assert!(report.contains(include_str!("page.css")));
    assert!(report.contains(KEY));
}

#[test]
fn the_chapter_about_other_services_shows_the_committed_comparison() {
    let comparison = comparison();
    let text = with_facts(services_text(&comparison), &comparison.environment);
    hold("compare.md", &[(COMPARISON, text)]);
    for (name, bytes) in services_files(&comparison, None) {
        let shown = match name.as_str() {
            "report.html" => "compare.html",
            "svg/apart.svg" => "compare-apart.svg",
            _ => continue,
        };
        let path = book().join("experiments").join(shown);
        match is_writing() {
            true => fs::write(path, bytes).expect("it can be written"),
            false => assert!(
                fs::read(path).is_ok_and(|there| there == bytes),
                "{shown}: write it anew with WRITE_THE_BOOK=1"
            ),
        }
    }
}

const COMPARISON: &str = "compare.json";
