//! Holds the book's chapter to the run that is committed beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::text;
use crate::summary::Summary;

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book")
}

#[test]
fn the_chapter_shows_the_committed_run() {
    let summary =
        fs::read_to_string(book().join("experiments/summary.json")).expect("a run is committed");
    let summary: Summary = serde_json::from_str(&summary).expect("it is of this format");
    assert!(summary.is_complete);
    let path = book().join("experiments.md");
    let chapter = fs::read_to_string(&path).expect("the chapter is there");
    let (before, rest) = chapter.split_once("```text\n").expect("the figures begin");
    let (figures, after) = rest
        .split_once("```\n<!-- end -->")
        .expect("the figures end");
    let facts: Vec<String> = summary
        .environment
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    let expected = format!("{}\n{}", text(&summary), facts.concat());
    if std::env::var_os("WRITE_THE_BOOK").is_some() {
        let chapter = format!("{before}```text\n{expected}```\n<!-- end -->{after}");
        return fs::write(&path, chapter).expect("the chapter can be written");
    }
    assert_eq!(figures, expected, "write it anew with WRITE_THE_BOOK=1");
}
