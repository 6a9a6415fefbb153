//! Holds the book's chapter to the runs that are committed beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::text;
use crate::summary::Summary;

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book")
}

/// What the chapter shows of a run.
fn figures(name: &str) -> String {
    let path = book().join("experiments").join(name);
    let summary = fs::read_to_string(path).expect("the run is committed");
    let summary: Summary = serde_json::from_str(&summary).expect("it is of this format");
    assert!(summary.is_complete, "{name}");
    let facts: Vec<String> = summary
        .environment
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    format!("{}\n{}", text(&summary), facts.concat())
}

#[test]
fn the_chapter_shows_the_committed_runs() {
    let path = book().join("experiments.md");
    let mut chapter = fs::read_to_string(&path).expect("the chapter is there");
    for name in ["summary.json", "simulated.json", "redis-server.json"] {
        let begin = format!(
            "<!-- {name}, by WRITE_THE_BOOK=1 cargo test -p quorlock-experiment -->\n```text\n"
        );
        let (before, rest) = chapter.split_once(&begin).expect("the figures begin");
        let (shown, after) = rest
            .split_once("```\n<!-- end -->")
            .expect("the figures end");
        let expected = figures(name);
        if std::env::var_os("WRITE_THE_BOOK").is_none() {
            assert_eq!(
                shown, expected,
                "{name}: write it anew with WRITE_THE_BOOK=1"
            );
        }
        chapter = format!("{before}{begin}{expected}```\n<!-- end -->{after}");
    }
    if std::env::var_os("WRITE_THE_BOOK").is_some() {
        fs::write(&path, chapter).expect("the chapter can be written");
    }
}
