//! The tables of promises name checks that exist.
//!
//! Invariant: every row of a table of `docs/book/promises.md` or `SECURITY.md` that says what checks it names a check, and each name leads to a test, a program, a script, a
//! planted defect or a fault of an experiment. Whether a check shows what its row says is not seen here.

use std::collections::BTreeSet;

use crate::scan;
use crate::tree::Source;

const PAGES: [&str; 2] = ["docs/book/promises.md", "SECURITY.md"];

/// Reports rows without a check, and names of checks that are gone.
pub(crate) fn promises(sources: &[Source]) -> Vec<String> {
    let tests: BTreeSet<String> = sources
        .iter()
        .filter(|source| source.is_rust())
        .flat_map(|source| tests_of(&source.text))
        .collect();
    let problems_of = |path: &str| match sources.iter().find(|source| source.path == path) {
        None => vec![format!("{path}: the table of promises is gone")],
        Some(page) => problems_of(page, &tests, sources),
    };
    PAGES.into_iter().flat_map(problems_of).collect()
}

fn problems_of(page: &Source, tests: &BTreeSet<String>, sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_of_promises = false;
    for (number, line) in page.text.lines().enumerate() {
        let mut report = |what: String| {
            problems.push(format!("{}:{}: {what}", page.path, number + 1));
        };
        if line.ends_with("| what checks it |") {
            is_of_promises = true;
            continue;
        }
        is_of_promises &= line.starts_with('|');
        let Some(checks) = checks_of(line).filter(|_| is_of_promises) else {
            continue;
        };
        let names: Vec<&str> = checks.split('`').skip(1).step_by(2).collect();
        if !names.iter().any(|name| is_check(name)) {
            report("a promise without a check".to_owned());
        }
        for name in names.into_iter().filter(|name| is_check(name)) {
            if !exists(name, tests, sources) {
                report(format!("there is no check {name}"));
            }
        }
    }
    problems
}

/// The last cell of a row of a promise.
fn checks_of(line: &str) -> Option<&str> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    row.rsplit_once(" | ").map(|(_, checks)| checks)
}

fn is_check(name: &str) -> bool {
    name.contains('_') || name.contains(':')
}

fn exists(name: &str, tests: &BTreeSet<String>, sources: &[Source]) -> bool {
    let is_file = |path: &str| sources.iter().any(|source| source.path == path);
    let says = |path: &dyn Fn(&str) -> bool, text: &str| {
        let mut there = sources.iter().filter(|source| path(&source.path));
        there.any(|source| source.text.contains(text))
    };
    match name.split_once(':') {
        Some(("mutant", defect)) => is_file(&format!("tests/mutants/{defect}.patch")),
        Some(("file", path)) => is_file(path),
        Some(("bin", program)) => {
            let is_manifest = |path: &str| path.ends_with("Cargo.toml");
            says(&is_manifest, &format!("name = \"{program}\""))
        }
        Some(("cell", cell)) => {
            let fault = cell.split('/').nth(2).unwrap_or(cell);
            let is_list = |path: &str| path == "experiment/src/fault.rs";
            says(&is_list, &format!("= \"{fault}\""))
        }
        Some(_) => false,
        None => tests.contains(name),
    }
}

/// The functions with `#[test]` or another attribute that ends so.
fn tests_of(text: &str) -> Vec<String> {
    let code = scan::code_only(text);
    let lines: Vec<&str> = code.lines().map(str::trim_start).collect();
    let mut is_test = false;
    let mut found = Vec::new();
    for line in lines {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else if let Some((_, rest)) = line.split_once("fn ") {
            if std::mem::take(&mut is_test) {
                let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                found.push(rest[..end.unwrap_or(rest.len())].to_owned());
            }
        } else if !line.is_empty() && !line.starts_with(']') && !line.starts_with(')') {
            is_test &= line.starts_with("reason") || line.starts_with("clippy::");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_without_a_check_and_a_check_that_is_gone_are_reported() {
        let problems_of = |row: &str| {
            let file = |path: &str, text: &str| Source {
                path: path.into(),
                text: text.into(),
            };
            let code = "#[test]\n#[ignore = \"needs root\"]\nfn it_holds() {}\nfn it_helps() {}\n";
            promises(&[
                file("a.rs", code),
                file("tests/mutants/gone-wrong.patch", ""),
                file(PAGES[1], "| who | may |\n|---|---|\n| all | read |\n"),
                file(
                    PAGES[0],
                    &format!("| promise | what checks it |\n|---|---|\n{row}\n"),
                ),
            ])
        };
        assert!(problems_of("| it holds | `it_holds` |").is_empty());
        assert!(problems_of("| it holds | the mutant `mutant:gone-wrong` |").is_empty());
        for bad in [
            "`it_held`",
            "`it_helps`",
            "nothing",
            "`yes`",
            "`mutant:gone`",
            "`it_holds`, `cell:a/b/c/5`",
        ] {
            assert_eq!(
                problems_of(&format!("| it holds | {bad} |")).len(),
                1,
                "{bad}"
            );
        }
        assert_eq!(promises(&[]).len(), 2);
    }
}
