//! ARCHITECTURE.md names every crate and every top folder, CONTRIBUTING.md every folder of checks, and what
//! ARCHITECTURE.md names exists.
//!
//! A folder is named by a code span that ends with a slash, such as `server/engine/`, and a file by one with a slash and
//! an ending. What lies deeper says itself what it is: each source opens with a `//!` comment (`checks::opening`).

use std::collections::BTreeSet;

use crate::tree::Source;

const MAP: &str = "ARCHITECTURE.md";
const CHECKS: &str = "CONTRIBUTING.md";

/// Compares the crates and the top folders with those the map names, and what the map names with what exists.
pub(crate) fn folders(sources: &[Source]) -> Vec<String> {
    let Some(map) = sources.iter().find(|source| source.path == MAP) else {
        return vec![format!("{MAP} is missing")];
    };
    let named: BTreeSet<&str> = named_paths(&map.text).collect();
    let wanted = wanted_folders(sources);
    let unnamed = wanted
        .iter()
        .filter(|folder| !named.contains(folder.as_str()))
        .map(|folder| format!("{MAP} does not name {folder}"));
    let exists = |named: &str| {
        let is_here = |source: &Source| match named.ends_with('/') {
            true => source.path.starts_with(named),
            false => source.path == named,
        };
        sources.iter().any(is_here)
    };
    let missing = named
        .iter()
        .filter(|named| !exists(named))
        .map(|named| format!("{MAP} names {named}, which does not exist"));
    unnamed.chain(missing).collect()
}

/// Compares the folders of `tests/` with those that the table of checks names. What they share is no check.
pub(crate) fn checks(sources: &[Source]) -> Vec<String> {
    let table = sources.iter().find(|source| source.path == CHECKS);
    let text = table.map_or("", |source| &source.text);
    let named: BTreeSet<&str> = named_paths(text).collect();
    let folders: BTreeSet<String> = sources
        .iter()
        .filter_map(|source| source.path.strip_prefix("tests/")?.split_once('/'))
        .filter(|(folder, _)| *folder != "src")
        .map(|(folder, _)| format!("tests/{folder}/"))
        .collect();
    let unnamed = folders
        .iter()
        .filter(|folder| !named.contains(folder.as_str()));
    unnamed
        .map(|folder| format!("{CHECKS} does not say how {folder} is run"))
        .collect()
}

/// The top folders, and the folders of all packages but the one at the top.
fn wanted_folders(sources: &[Source]) -> BTreeSet<String> {
    let tops = sources
        .iter()
        .filter_map(|source| source.path.split_once('/'))
        .map(|(top, _)| format!("{top}/"));
    let packages = sources
        .iter()
        .filter_map(|source| source.path.strip_suffix("/Cargo.toml"))
        .map(|folder| format!("{folder}/"));
    tops.chain(packages).collect()
}

fn named_paths(map: &str) -> impl Iterator<Item = &str> {
    let spans = map.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        let is_file = |(_, name): (&str, &str)| name.is_empty() || name.contains('.');
        let is_path = span.rsplit_once('/').is_some_and(is_file);
        is_path && !span.starts_with('/') && !span.contains([' ', '\n', '<', '*'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    fn found(map: &str) -> Vec<String> {
        folders(&[
            file(MAP, map),
            file("client/Cargo.toml", ""),
            file("client/src/lib.rs", ""),
            file("server/engine/Cargo.toml", ""),
            file("README.md", ""),
        ])
    }

    #[test]
    fn the_map_must_name_every_crate_and_top_folder() {
        assert!(found("`client/`, `server/` and `server/engine/`, with a `//!` each").is_empty());
        let missing = found("`client/` and `server/`");
        assert_eq!(missing, ["ARCHITECTURE.md does not name server/engine/"]);
        let missing = found("`client/` and `server/engine/`");
        assert_eq!(missing, ["ARCHITECTURE.md does not name server/"]);
        assert_eq!(folders(&[]).len(), 1);
    }

    #[test]
    fn what_the_map_names_must_exist() {
        let all = "`client/` `server/` `server/engine/`";
        assert!(found(&format!("{all} `client/src/lib.rs` `client/src/`")).is_empty());
        for gone in ["gone/", "client/gone/", "client/src/gone.rs"] {
            assert_eq!(found(&format!("{all} `{gone}`")).len(), 1, "{gone}");
        }
    }

    #[test]
    fn the_table_must_name_every_folder_of_checks() {
        let found = |table: &str| {
            checks(&[
                file(CHECKS, table),
                file("tests/Cargo.toml", ""),
                file("tests/chaos/main.rs", ""),
                file("tests/src/lib.rs", ""),
            ])
        };
        assert!(found("| it breaks (`tests/chaos/`) |").is_empty());
        assert_eq!(found("| it breaks |").len(), 1);
    }
}
